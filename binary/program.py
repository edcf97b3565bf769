"""The program of the self-contained release: `minibroker`, its tools by their names, and Python's `-m` for children.

Children are started as `sys.executable [-P] -m MODULE`, and here sys.executable is this program.
"""

import os
import runpy
import sys

from minibroker.cli import main as broker
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_tools import dispatch


def main() -> int:
    """Run what the name of the program or its first arguments ask for, and return the exit status."""
    name = os.path.basename(sys.argv[0]).removesuffix(".exe")
    # People give a downloaded program names such as minibroker-1.1.
    if name == "minibroker-tools" or not name.startswith("minibroker"):
        return dispatch.main()
    if sys.argv[1:2] == ["-P"]:
        del sys.argv[1]
    if sys.argv[1:2] == ["-m"]:
        module, sys.argv[1:] = sys.argv[2], sys.argv[3:]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return 0
    return broker.main()


if __name__ == "__main__":
    sys.exit(main())
