"""`python -m minibroker` is the `minibroker` command."""

import sys

from minibroker.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
