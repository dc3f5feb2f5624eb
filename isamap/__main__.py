"""`python -m isamap` is the command line."""

from isamap.cli import main

if __name__ == "__main__":
    main()
