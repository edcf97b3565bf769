"""`python -m minibroker` is the `minibroker` command."""

import sys

from minibroker.cli.main import main

sys.exit(main())
