"""`minibroker dump`: what is in the files of a log, as Kafka's DumpLogSegments shows it, as JSON, or explained."""

import argparse
from typing import Any, Final

from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.cli import run_dump

_DESCRIPTION: Final = """\
Show what is in the files of a log, as Kafka's DumpLogSegments does: .log, .index, .timeindex, .txnindex, .snapshot,
and the checkpoints beside them. A directory stands for all such files in it, - for a log on standard input.
The files may be in use: they are only read.
"""
_EPILOG: Final = (
    "Exit status: 0 when everything was read and is sound, 1 when something is wrong; the output says what."
)


def add_parser(subparsers: Any) -> None:
    """Add the sub-command to an argparse parser; its options carry `run`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "dump", help="print the content of log files", description=_DESCRIPTION, epilog=_EPILOG
    )
    option = parser.add_argument
    option("files", nargs="*", metavar="FILE", help="a file, a partition's or a data directory, or -")
    option("--files", dest="listed", default="", metavar="FILE,...", help="the files, as Kafka's tool takes them")
    option("--print-data-log", action="store_true", help="print records with their keys and values")
    option("--deep-iteration", action="store_true", help="print records, also those in compressed batches")
    option("--skip-record-metadata", action="store_true", help="print only keys and values of records")
    option("--max-bytes", type=size, metavar="N", help="read no more than the first N bytes of each log")
    option("--index-sanity-check", action="store_true", help="check whether a starting broker would keep the indexes")
    option("--verify-index-only", action="store_true", help="check the indexes against the log; print mismatches only")
    option("--format", choices=["auto", "0.7"], default="auto", help="0.7: the log is from before Kafka 0.8")
    topic = parser.add_mutually_exclusive_group()
    topic.add_argument(
        "--offsets-decoder", action="store_true", help="the log is of __consumer_offsets: print its records"
    )
    topic.add_argument(
        "--transaction-log-decoder", action="store_true", help="the log is of __transaction_state: print its records"
    )
    topic.add_argument(
        "--share-group-state-decoder", action="store_true", help="the log is of __share_group_state: print its records"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="one JSON object a line")
    how.add_argument(
        "--explain", action="store_true", help="each field with its position, its bytes, its value and its meaning"
    )
    parser.set_defaults(run=run, parser=parser)


def size(text: str) -> int:
    """A number of bytes; argparse prints the function's name in its errors."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not above 0")
    return number


def run(options: argparse.Namespace) -> int:
    """Dump the files; returns the exit status. `OSError` when the output cannot be written."""
    options.files += filter(None, map(str.strip, options.listed.split(",")))
    if not options.files:
        options.parser.error("the following arguments are required: FILE")
    return run_dump.dump(options)
