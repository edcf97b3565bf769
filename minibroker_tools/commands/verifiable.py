"""The lines of JSON of the verifiable clients."""

import json
import time

from minibroker_tools.failures import UsageError
from minibroker_tools.options import Values
from minibroker_tools.output import flush, out


def print_event(name: str, **fields: object) -> None:
    """Print an event as a line."""
    event = {"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}
    out(json.dumps(event, separators=(",", ":"), ensure_ascii=False))
    flush()


def connection_of(values: Values, config: str) -> tuple[str, str | None]:
    """Return the bootstrap servers and the file of properties, for which Kafka has two names each. UsageError."""
    servers = values.text("bootstrap-server") or values.text("broker-list")
    if servers is None:
        raise UsageError('Missing required argument "[bootstrap-server]"')
    return servers, values.text("command-config") or values.text(config)
