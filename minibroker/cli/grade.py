"""`minibroker grade`: the command line of the checks of any broker."""

import argparse
from typing import Any

from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.cli import run_grade

_DESCRIPTION = """\
Check any broker, stage by stage, for everything that Kafka's clients need. Each failure shows the request, the
response, the expected response and the reason. The exit status is 0 if no check fails.
"""


def add_parser(subparsers: Any) -> None:
    """Add the sub-command to an argparse parser; its options carry `run`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "grade", help="check any broker, stage by stage", description=_DESCRIPTION
    )
    option = parser.add_argument
    option("address", nargs="?", metavar="HOST:PORT", help="address of the broker; a free port with --start")
    option("--data-dir", metavar="DIR", help="the broker's log directory, for checks of its files; replaces {dir}")
    option("--start", metavar="COMMAND", help="command that starts the broker; {port} and {dir} in it are replaced")
    option("--upto", metavar="STAGE", help="stop after this stage")
    option("--only", metavar="CHECK", help="run only this check or stage")
    option("--list", action="store_true", help="list stages and checks, and run none")
    option("--json", metavar="FILE", help="write each result to FILE as JSON; - is stdout, at the end")
    option("--junit", metavar="FILE", help="write each result to FILE as JUnit XML")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Grade the broker; returns 0 when no check fails. ValueError for bad options, OSError for an unreachable one."""
    return run_grade.grade(options)
