"""Run ``python -m reproduction``."""

import sys

from reproduction.commands import main

if __name__ == "__main__":
    sys.exit(main())
