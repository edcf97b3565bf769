"""`python -m minibroker` is the `minibroker` command."""

import sys

from minibroker.cli import main

sys.exit(main())
