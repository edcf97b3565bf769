"""The lines of JSON of the verifiable clients, and how a signal ends them."""

import json
import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

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


@contextmanager
def ending_with_sigterm() -> Generator[None]:
    """Have SIGTERM raise KeyboardInterrupt, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
