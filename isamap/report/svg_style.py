"""The style of pictures: one set of colours for light and dark mode, which follow the reader's mode."""

from __future__ import annotations

COLOURS = 6
"""`c0` to `c5` tell lines apart, also for readers without red, green or blue vision: a test measures that."""
STYLE = """
  svg { font: 12px sans-serif; --ink: #1c2430; --soft: #5b6675; --page: #ffffff; --edge: #b7c0cc;
        --grid: #e6eaf0; --memory: #eef3fa; --unit: #fdf6e7; --c0: #1450cc; --c1: #b8260e; --c2: #149057;
        --c3: #964175; --c4: #d9a400; --c5: #2bbcf2; }
  @media (prefers-color-scheme: dark) {
    svg { --ink: #e6eaf0; --soft: #a0acbb; --page: #14181f; --edge: #46515f; --grid: #262e39;
          --memory: #1e2733; --unit: #2b2618; --c0: #5a8ae8; --c1: #f0594a; --c2: #3fe0a0; --c3: #cf6f98;
          --c4: #e6cf2a; --c5: #c4e9ff; }
  }
  text { fill: var(--ink); } .soft { fill: var(--soft); } .name { font-weight: 600; font-size: 13px; }
  .title { font-size: 17px; font-weight: 600; } .page { fill: var(--page); }
  .halo { stroke: var(--page); stroke-width: 4; paint-order: stroke; }
"""
