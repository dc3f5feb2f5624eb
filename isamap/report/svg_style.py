"""How pictures look: one set of colours for light and dark, which follow the reader's mode."""

from __future__ import annotations

COLOURS = 6
"""`c0` to `c5` tell lines apart, also for readers without red or green vision (after Okabe and Ito, 2008)."""
STYLE = """
  svg { font: 12px sans-serif; --ink: #1c2430; --soft: #5b6675; --page: #ffffff; --edge: #b7c0cc;
        --grid: #e6eaf0; --memory: #eef3fa; --unit: #fdf6e7; --c0: #0072b2; --c1: #d55e00; --c2: #009e73;
        --c3: #a8478c; --c4: #b58900; --c5: #48a9e0; }
  @media (prefers-color-scheme: dark) {
    svg { --ink: #e6eaf0; --soft: #a0acbb; --page: #14181f; --edge: #46515f; --grid: #262e39;
          --memory: #1e2733; --unit: #2b2618; --c0: #4aa3e0; --c1: #ff8a3d; --c2: #2fc79a; --c3: #d98cc0;
          --c4: #e6b422; --c5: #a6dcff; }
  }
  text { fill: var(--ink); } .soft { fill: var(--soft); } .name { font-weight: 600; font-size: 13px; }
  .title { font-size: 17px; font-weight: 600; } .page { fill: var(--page); }
  .halo { stroke: var(--page); stroke-width: 4; paint-order: stroke; }
"""
