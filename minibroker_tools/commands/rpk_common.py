"""Code shared by rpk's commands: options for the cluster, and tables."""

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.settings import Settings
from minibroker_tools.failures import ToolError
from minibroker_tools.output import write_line

_PORT: Final = 9092
_JAAS: Final = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" password="{}";'


def add_command(
    commands: Any, name: str, work: Callable[[argparse.Namespace], int], *, has_login: bool = True
) -> argparse.ArgumentParser:
    """Add a command that contacts a broker or its admin API. The admin API has no login."""
    parser: argparse.ArgumentParser = commands.add_parser(name)
    parser.set_defaults(work=work)
    option = parser.add_argument
    option("--brokers", default="", metavar="HOST:PORT,...", help="the brokers to connect to")
    option("-X", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="brokers, user, pass, ...")
    option("--api-urls", "--hosts", dest="api_urls", default="", metavar="HOST:PORT,...", help="admin API addresses")
    if has_login:
        option("--user", default="", help="of SASL")
        option("--password", default="", help="of SASL")
    option("--sasl-mechanism", default="", help="SCRAM-SHA-256, SCRAM-SHA-512 or PLAIN")
    option("--config", default="", metavar="FILE", help="accepted")
    option("-v", "--verbose", action="store_true", help="accepted")
    return parser


def parse_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """Parse the -X settings, and return their values by key.

    Raises:
        ToolError: A setting has no value.
    """
    settings: dict[str, str] = {}
    for pair in arguments.settings:
        key, equals, value = str(pair).partition("=")
        if not equals:
            raise ToolError(f"-X {pair}: it is not KEY=VALUE")
        settings[key] = value
    return settings


def cluster_of(arguments: argparse.Namespace) -> Cluster:
    """Return the cluster given on the command line or in the environment, or else at 127.0.0.1:9092."""
    extra = parse_settings(arguments)
    servers = arguments.brokers or extra.get("brokers") or os.environ.get("RPK_BROKERS")
    servers = servers or os.environ.get("REDPANDA_BROKERS") or f"127.0.0.1:{_PORT}"
    properties = {"default.api.timeout.ms": "10000", "client.id": "rpk"}
    user = arguments.user or extra.get("user") or os.environ.get("RPK_USER", "")
    secret = arguments.password or extra.get("pass") or os.environ.get("RPK_PASS", "")
    mechanism = arguments.sasl_mechanism or extra.get("sasl.mechanism") or os.environ.get("RPK_SASL_MECHANISM", "")
    if user:
        properties["security.protocol"] = "SASL_PLAINTEXT"
        properties["sasl.mechanism"] = mechanism or "SCRAM-SHA-256"
        properties["sasl.jaas.config"] = _JAAS.format(user, secret)
    return Cluster(Settings(",".join(add_port(server, _PORT) for server in servers.split(",")), properties))


def add_port(address: str, port: int) -> str:
    """Add a port to an address that has none."""
    return address if ":" in address.rpartition("]")[2] else f"{address}:{port}"


def print_columns(rows: Sequence[Sequence[object]]) -> None:
    """Print rows in aligned columns, separated by two spaces."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        write_line("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_section(title: str) -> None:
    """Print an underlined title."""
    write_line(f"{title}\n{'=' * len(title)}")
