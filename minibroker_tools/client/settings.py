"""Connection settings: Kafka's client properties."""

import os
from collections.abc import Mapping
from typing import Final

from minibroker.config.properties import PropertiesError, parse_properties
from minibroker_protocol.java_text import to_long, trim
from minibroker_tools.failures import ToolError

_SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_VALID_PORTS: Final = range(1, 0x10000)
_DEFAULTS_MS: Final = {
    "default.api.timeout.ms": 60_000,
    "transaction.timeout.ms": 60_000,
    "max.block.ms": 60_000,
    "request.timeout.ms": 30_000,
    "socket.connection.setup.timeout.ms": 10_000,
}


def load_properties(path: str | None) -> dict[str, str]:
    """Load a properties file. Without a path there are no properties.

    Raises:
        ToolError: The file cannot be read or parsed. The message names the file.
    """
    if path is None:
        return {}
    try:
        with open(path, encoding="iso-8859-1") as file:
            return parse_properties(file.read())
    except (OSError, PropertiesError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ToolError(f"{path}: {reason}") from None


class Settings:
    """Client properties, and the addresses of the bootstrap servers."""

    def __init__(self, bootstrap: str, properties: Mapping[str, str] | None = None) -> None:
        self.properties = {key: _expand_variable(value) for key, value in (properties or {}).items()}
        self.addresses = parse_addresses(bootstrap)
        self.protocol = self.get("security.protocol", "PLAINTEXT").upper()
        if self.protocol not in _SECURITY_PROTOCOLS:
            allowed = ", ".join(_SECURITY_PROTOCOLS)
            raise ToolError(f"security.protocol: {self.protocol} is not one of {allowed}")
        self.client_id = self.get("client.id", "minibroker-tools")

    def get(self, key: str, default: str = "") -> str:
        """Return the value of a property, or `default` if it is not set."""
        return self.properties.get(key, default)

    def milliseconds(self, key: str) -> float:
        """Return the value of a property in milliseconds, converted to seconds.

        Raises:
            ToolError: The value is not a number.
        """
        value = self.get(key) or str(_DEFAULTS_MS[key])
        try:
            return to_long(trim(value)) / 1000
        except ValueError:
            raise ToolError(f"Invalid value {value} for configuration {key}: Not a number of type INT") from None


def add_ports(servers: str, port: int) -> str:
    """Add a port to the addresses that have none."""
    entries = (entry.strip() for entry in servers.split(",") if entry.strip())
    return ",".join(entry if ":" in entry.rpartition("]")[2] else f"{entry}:{port}" for entry in entries)


def parse_addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Parse the addresses in `bootstrap.servers`. Schemes are ignored, and a missing host means localhost.

    Raises:
        ToolError: An address is invalid, or there is none.
    """
    parsed: list[tuple[str, int]] = []
    for entry in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, colon, port = entry.rpartition("://")[2].rpartition(":")
        if not colon or not port.isdecimal() or int(port) not in _VALID_PORTS:
            raise ToolError(f"Invalid url in bootstrap.servers: {entry}")
        parsed.append((host.strip("[]") or "localhost", int(port)))
    if not parsed:
        raise ToolError("No resolvable bootstrap urls given in bootstrap.servers")
    return parsed


def _expand_variable(value: str) -> str:
    """Replace `${env:NAME}` by the environment variable's value, like Kafka's EnvVarConfigProvider."""
    if value.startswith("${env:") and value.endswith("}"):
        return os.environ.get(value[len("${env:") : -1], "")
    return value
