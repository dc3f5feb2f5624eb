"""`python -m isamap` is `isamap`."""

from __future__ import annotations

import sys

from isamap.cli import main

if __name__ == "__main__":
    sys.exit(main())
