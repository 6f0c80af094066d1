"""`python -m mfec` is the command `mfec`."""

import sys

from mfec.cli import main

if __name__ == "__main__":
    sys.exit(main())
