"""`minibroker trace`: the command line of the proxy that shows what passes between clients and brokers."""

import argparse
from typing import Any, Final

from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.cli import run_trace

_DEFAULT_LISTEN: Final = "127.0.0.1:9095"

_DESCRIPTION: Final = """\
A proxy between Kafka's clients and any broker. It shows each request with its response. It changes nothing but the
addresses of brokers in responses, so that clients stay on the proxy.
"""


def add_parser(subparsers: Any) -> None:
    """Add the sub-command to an argparse parser; its options carry `run`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "trace", help="show the requests and responses between clients and brokers", description=_DESCRIPTION
    )
    option = parser.add_argument
    option("--to", required=True, metavar="HOST:PORT", help="address of a broker of the cluster")
    option(
        "--listen",
        default=_DEFAULT_LISTEN,
        metavar="HOST:PORT",
        help=f"address for clients (default {_DEFAULT_LISTEN}); other brokers get the next ports; 0 takes free ones",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", metavar="FILE", help="write JSON lines to FILE, and no list; - is stdout")
    shown.add_argument("--quiet", action="store_true", help="show nothing in the terminal")
    option("--page", metavar="HOST:PORT", help="address of a web page with the requests; port 0 takes a free port")
    option(
        "--page-token",
        metavar="TOKEN",
        help="token for the page; needed if others can reach its address (default MINIBROKER_CONTROL_TOKEN)",
    )
    option("--to-tls", action="store_true", help="connect to brokers with TLS")
    option("--to-config", metavar="FILE", help="a file with Kafka's client properties, for TLS to the brokers")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Run the proxy until SIGINT or SIGTERM. ValueError for bad options, OSError for a file that cannot be written."""
    return run_trace.trace(options)
