"""How pictures look: one set of colours for light and dark, which follow the reader's mode."""

from __future__ import annotations

COLOURS = 6
"""`c0` to `c5` tell lines apart."""
STYLE = """
  svg { font: 12px sans-serif; --ink: #1c2430; --soft: #5b6675; --page: #ffffff; --edge: #b7c0cc;
        --grid: #e6eaf0; --memory: #eef3fa; --unit: #fdf6e7; --c0: #2f6fbf; --c1: #b3541e; --c2: #2a7f4f;
        --c3: #8a4fb0; --c4: #a8812a; --c5: #b03060; }
  @media (prefers-color-scheme: dark) {
    svg { --ink: #e6eaf0; --soft: #a0acbb; --page: #14181f; --edge: #46515f; --grid: #262e39;
          --memory: #1e2733; --unit: #2b2618; --c0: #7db1f0; --c1: #eb9a66; --c2: #6cc894; --c3: #c79ae6;
          --c4: #dcb964; --c5: #ee85ab; }
  }
  text { fill: var(--ink); } .soft { fill: var(--soft); } .name { font-weight: 600; font-size: 13px; }
  .title { font-size: 17px; font-weight: 600; } .page { fill: var(--page); }
  .halo { stroke: var(--page); stroke-width: 4; paint-order: stroke; }
"""
