"""`python -m mfec` is the command `mfec`."""

import sys

from mfec.cli import main
from mfec.cli.stopping import tell_status

if __name__ == "__main__":
    status = main()
    tell_status(status)
    sys.exit(status)
