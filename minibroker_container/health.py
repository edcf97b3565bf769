"""The health check: tests whether the broker of this container answers.

It finds the broker by the command line of its process. The environment of the health check is not sufficient:
start scripts export variables, `redpanda start` has options and files, and the container can run `minibroker serve`
directly.
"""

import argparse
import contextlib
import os
import socket
import ssl
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from minibroker.cli.options import DEFAULT_LISTEN, add_options
from minibroker.cluster import listeners
from minibroker.config.properties import parse_properties
from minibroker_container.lists import HOLD_PORTS

_TIMEOUT_S: Final = 2.0
_API_VERSIONS: Final = 18
_CORRELATION_ID: Final = 0x68656C70
_PROC: Final = Path("/proc")


def check_all(addresses: Sequence[tuple[str, str]]) -> None:
    """Check that all listeners answer.

    Args:
        addresses: HOST:PORT and protocol of each listener. The protocol is "" for a silent port.

    Raises:
        OSError: there is no listener, or one does not answer.
    """
    if not addresses:
        raise OSError("no broker runs in this container")
    for listen, protocol in addresses:
        try:
            if protocol:
                check_broker(listen, has_tls=protocol.endswith("SSL"))
            else:
                check_port(listen)
        except OSError as error:
            raise OSError(f"{listen}: {error}") from None


def check_broker(listen: str, *, has_tls: bool) -> None:
    """Send an ApiVersions v0 request to a broker that listens on HOST:PORT.

    Raises:
        OSError: no valid response arrives in time.
    """
    address = reachable_address(listen)
    with socket.create_connection(address, timeout=_TIMEOUT_S) as connection:
        if has_tls:
            _check_tls(connection)
        else:
            _check_answer(connection, address)


def check_port(listen: str) -> None:
    """Check that a silent port accepts a connection.

    Raises:
        OSError: the port refuses the connection.
    """
    socket.create_connection(reachable_address(listen), timeout=_TIMEOUT_S).close()


def reachable_address(listen: str) -> tuple[str, int]:
    """Return host and port by which this container can reach a listener on HOST:PORT."""
    host, _, port = listen.rpartition(":")
    return "127.0.0.1" if host in listeners.WILDCARDS else host.strip("[]"), int(port)


def _check_tls(connection: socket.socket) -> None:
    """Perform a TLS handshake.

    A broker may refuse a client without a certificate. The alert that it sends then also counts as an answer.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        context.wrap_socket(connection).close()
    except ssl.SSLError as error:
        if "CERTIFICATE" not in (error.reason or ""):
            raise


def _check_answer(connection: socket.socket, address: tuple[str, int]) -> None:
    header = struct.pack(">hhih", _API_VERSIONS, 0, _CORRELATION_ID, -1)
    connection.sendall(struct.pack(">i", len(header)) + header)
    with connection.makefile("rb") as response:
        received = response.read(10)
    expected = struct.pack(">ih", _CORRELATION_ID, 0)
    if received[4:] != expected:
        raise OSError(f"{address[0]}:{address[1]} did not answer ApiVersions: {received!r}")


def addresses(proc: Path = _PROC) -> list[tuple[str, str]]:
    """Return HOST:PORT and protocol of each listener in this container.

    The protocol is "" for a silent port. The list is empty while no process listens. Listeners on port 0 are omitted.

    Raises:
        ListenerError: a list of listeners is invalid.
    """
    listener_addresses: list[tuple[str, str]] = []
    for process in sorted(proc.glob("[0-9]*")):
        with contextlib.suppress(OSError):  # The process may have ended since /proc was listed.
            words = (process / "cmdline").read_bytes().decode("utf-8", "surrogateescape").split("\0")
            listener_addresses += _iterate_listeners(words, process)
    return [address for address in listener_addresses if not address[0].endswith(":0")]


def _iterate_listeners(words: Sequence[str], process: Path) -> Iterator[tuple[str, str]]:
    for index, word in enumerate(words[1:], 1):
        if word == "serve" and os.path.basename(words[index - 1]) == "minibroker":
            yield from _parse_served_options(words[index + 1 :], process)
        elif word == HOLD_PORTS and os.path.basename(words[index - 1]) == "entrypoint.py":
            yield from ((address, "") for address in words[index + 2 :] if address)


def _parse_served_options(arguments: Sequence[str], process: Path) -> Iterator[tuple[str, str]]:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_options(parser)
    options, _ = parser.parse_known_args([argument for argument in arguments if argument])
    configs: dict[str, str] = {}
    for path in options.config:
        with contextlib.suppress(OSError):  # Skip unreadable files, which contain secrets but no listeners.
            file = Path(path.replace("/proc/self/", f"{process}/"))
            configs |= parse_properties(file.read_text(encoding="utf-8"))
    for setting in options.settings:
        key, _, value = setting.partition("=")
        configs[key.strip()] = value.strip()
    if options.listen is None and configs.get("listeners"):
        for listener in listeners.served_listeners(configs, configs["listeners"], "listeners"):
            yield f"{listener.host}:{listener.port}", listener.protocol
    else:
        yield options.listen or DEFAULT_LISTEN, listeners.PLAINTEXT
    for text in options.also_listen:
        yield text.partition("=")[0], listeners.PLAINTEXT
    for text in (*options.silent_port, *filter(None, [options.link])):
        yield text, ""
