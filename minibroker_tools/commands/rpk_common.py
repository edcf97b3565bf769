"""Code shared by rpk's commands: options for the cluster, and tables."""

import argparse
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.settings import Settings
from minibroker_tools.failures import ToolError
from minibroker_tools.output import write_line

PROFILES: Final = Path("~/.config/rpk/minibroker.json").expanduser()
_PORT: Final = 9092
_ADMIN_PORT: Final = 9644
_PATIENCE_S: Final = 5.0
_SUBJECTS: Final = {"/v1/security/users": "users", "/v1/cluster_config": "the configuration"}
_SETTINGS: Final = ("brokers", "user", "pass", "sasl.mechanism", "admin.hosts")
_JAAS: Final = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" password="{}";'


def add_command(
    commands: Any, name: str, work: Callable[[argparse.Namespace], int], *, has_login: bool = True
) -> argparse.ArgumentParser:
    """Add a command that contacts a broker or its admin API. The admin API has no login."""
    parser: argparse.ArgumentParser = commands.add_parser(name)
    parser.set_defaults(work=work)
    option = parser.add_argument
    option("--brokers", default="", metavar="HOST:PORT,...", help="the brokers to connect to")
    option("-X", "--config-opt", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="brokers ...")
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
        key, equals, value = str(pair).strip().partition("=")
        if not equals:
            raise ToolError(f"-X {pair}: it is not KEY=VALUE")
        settings[key] = value
    return settings


def find_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the settings of -X, which override variables, which override the current profile."""
    content = read_profiles()
    names = {key: f"RPK_{key.upper().replace('.', '_')}" for key in _SETTINGS}
    variables = {key: value for key, name in names.items() if (value := os.environ.get(name))}
    return {**content["profiles"].get(content["current"], {}), **variables, **parse_settings(arguments)}


def read_profiles() -> dict[str, Any]:
    """Return the profiles by name, and the name of the current one."""
    if not PROFILES.exists():
        return {"current": "", "profiles": {}}
    content: dict[str, Any] = json.loads(PROFILES.read_text(encoding="utf-8"))
    return content


def cluster_of(arguments: argparse.Namespace) -> Cluster:
    """Return the cluster given on the command line, in the environment or in a profile, or else 127.0.0.1:9092."""
    extra = find_settings(arguments)
    servers = arguments.brokers or extra.get("brokers") or os.environ.get("REDPANDA_BROKERS") or f"127.0.0.1:{_PORT}"
    properties = {"default.api.timeout.ms": "10000", "client.id": "rpk"}
    user = arguments.user or extra.get("user")
    if user:
        properties["security.protocol"] = "SASL_PLAINTEXT"
        secret = arguments.password or extra.get("pass", "")
        properties["sasl.mechanism"] = arguments.sasl_mechanism or extra.get("sasl.mechanism", "SCRAM-SHA-256")
        properties["sasl.jaas.config"] = _JAAS.format(user, secret)
    return Cluster(Settings(",".join(add_port(server, _PORT) for server in servers.split(",")), properties))


def request_admin_api(arguments: argparse.Namespace, path: str, method: str = "GET", content: object = None) -> Any:
    """Send a request to the admin API's hosts in turn until one succeeds, and return its response.

    Raises:
        ToolError: All hosts failed. The message names each host and its error.
    """
    extra = find_settings(arguments)
    hosts = arguments.api_urls or extra.get("admin.hosts") or "127.0.0.1"
    failures: list[str] = []
    for host in hosts.split(","):
        address = add_port(host.removeprefix("http://").rstrip("/"), _ADMIN_PORT)
        try:
            body = None if content is None else json.dumps(content).encode()
            request = Request(f"http://{address}{path}", body, method=method)
            with urlopen(request, timeout=_PATIENCE_S) as answer:  # noqa: S310 - the scheme is http
                return json.loads(answer.read() or b"null")
        except HTTPError as error:
            with error:
                failures.append(f"{address}: status {error.code} {error.read().decode(errors='replace')}".strip())
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            failures.append(f"{address}: {getattr(reason, 'strerror', None) or reason}")
    subject = next((text for prefix, text in _SUBJECTS.items() if path.startswith(prefix)), "cluster health")
    raise ToolError(f"unable to request {subject}: {'; '.join(failures)}")


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
