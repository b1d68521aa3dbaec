"""Entry point: `stoker` and `python -m stoker`."""

import sys

from stoker.commands import main

if __name__ == "__main__":
    sys.exit(main())
