"""Entry point for `python -m minibroker_tools kafka-topics --list ...`."""

import sys

from minibroker_tools.dispatch import main

sys.exit(main())
