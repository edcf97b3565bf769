"""`minibroker grade`: the command line of the checks of any broker."""

import argparse
from typing import Any

_DESCRIPTION = """\
Check a broker of any make, stage by stage, against what Kafka's clients rely on. Each failure shows what was sent, what
came, what was expected and why. The exit status is 0 when no check fails.
"""


def add_parser(subparsers: Any) -> None:
    """Add the sub-command to an argparse parser; its options carry `run`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "grade", help="check a broker of any make, stage by stage", description=_DESCRIPTION
    )
    option = parser.add_argument
    option("address", nargs="?", metavar="HOST:PORT", help="the broker; with --start a free port if it is left out")
    option("--data-dir", metavar="DIR", help="the broker's log directory, for checks of its files and for {dir}")
    option("--start", metavar="COMMAND", help="command that starts the broker; {port} and {dir} in it are replaced")
    option("--upto", metavar="STAGE", help="end with this stage")
    option("--only", metavar="CHECK", help="run this check alone, or this stage")
    option("--list", action="store_true", help="list stages and checks, and end")
    option("--json", metavar="FILE", help="write the results there as JSON, as they come; - is stdout, at the end")
    option("--junit", metavar="FILE", help="write the results there as JUnit XML, as they come")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Grade the broker; returns 0 when no check fails. ValueError for bad options, OSError for an unreachable one."""
    from minibroker.cli.run_grade import grade  # noqa: PLC0415 - other commands need none of it

    return grade(options)
