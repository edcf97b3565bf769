"""`minibroker trace`: the command line of the proxy that shows what passes between clients and brokers."""

import argparse
from typing import Any, Final

_DEFAULT_LISTEN: Final = "127.0.0.1:9095"

_DESCRIPTION: Final = """\
Stand between Kafka's clients and a broker of any make, and show each request with its response. Bytes pass as they
are, but for the addresses of brokers, so that clients stay on the proxy.
"""


def add_parser(subparsers: Any) -> None:
    """Add the sub-command to an argparse parser; its options carry `run`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "trace", help="show the requests and responses between clients and brokers", description=_DESCRIPTION
    )
    option = parser.add_argument
    option("--to", required=True, metavar="HOST:PORT", help="a broker of the cluster")
    option(
        "--listen",
        default=_DEFAULT_LISTEN,
        metavar="HOST:PORT",
        help=f"default {_DEFAULT_LISTEN}; further brokers get the next ports, or free ports if it is 0",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", metavar="FILE", help="write JSON lines there instead of the list; - is stdout")
    shown.add_argument("--quiet", action="store_true", help="show nothing in the terminal")
    option("--page", metavar="HOST:PORT", help="show the requests in a web page there, too; port 0 takes a free port")
    option(
        "--page-token",
        metavar="TOKEN",
        help="token for the page; needed if others can reach its address (default MINIBROKER_CONTROL_TOKEN)",
    )
    option("--to-tls", action="store_true", help="connect to brokers with TLS")
    option("--to-config", metavar="FILE", help="client properties with Kafka's own names, for TLS towards brokers")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Run the proxy until SIGINT or SIGTERM. ValueError for bad options, OSError for a file that cannot be written."""
    from minibroker.cli.run_trace import trace  # noqa: PLC0415 - other commands need none of it

    return trace(options)
