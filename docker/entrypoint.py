"""The container's entry point, as its scripts and health checks call it: see `minibroker_container.entrypoint`."""

import sys

from minibroker_container.entrypoint import main

main(sys.argv[1:])
