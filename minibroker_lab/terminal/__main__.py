"""`python -m minibroker_lab.terminal URL`: the lab of the page at URL. MINIBROKER_CONTROL_TOKEN has the token."""

import os
import sys

from minibroker_storage.installation_hints import missing


def main() -> int:
    """Run the program until the user quits, and return its exit code."""
    if len(sys.argv) != 2:  # noqa: PLR2004 - a program and a URL
        print(__doc__, file=sys.stderr)  # noqa: T201 - the user's message
        return 1
    try:
        from minibroker_lab.terminal.app import LabApp  # noqa: PLC0415 - it needs the extra
        from minibroker_lab.terminal.view import PageClient  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        print(f"minibroker_lab.terminal: {missing(error.name, 'lab')}", file=sys.stderr)  # noqa: T201 - the user's message
        return 1
    LabApp(PageClient(sys.argv[1], os.environ.get("MINIBROKER_CONTROL_TOKEN") or None)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
