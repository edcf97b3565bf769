"""The health check: does the broker of this container answer?"""

import socket
import struct
from collections.abc import Sequence
from typing import Final

from minibroker.cluster import listeners
from minibroker_protocol.lazy_imports import lazy

with lazy:
    import ssl

_TIMEOUT_S: Final = 2.0
_API_VERSIONS: Final = 18
_CORRELATION_ID: Final = 0x68656C70


def check_all(addresses: Sequence[tuple[str, str]]) -> None:
    """Check (HOST:PORT, protocol) of what runs; "" is the protocol of a silent port. OSError if one does not answer."""
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
    """Send ApiVersions v0 to a broker that listens on HOST:PORT. Raises OSError if no answer to it comes in time."""
    address = reachable(listen)
    with socket.create_connection(address, timeout=_TIMEOUT_S) as connection:
        if has_tls:
            _check_tls(connection)
        else:
            _check_answer(connection, address)


def check_port(listen: str) -> None:
    """Connect to a port that stays silent. Raises OSError."""
    socket.create_connection(reachable(listen), timeout=_TIMEOUT_S).close()


def reachable(listen: str) -> tuple[str, int]:
    """(host, port) by which the container reaches what listens on HOST:PORT."""
    host, _, port = listen.rpartition(":")
    return "127.0.0.1" if host in listeners.WILDCARDS else host.strip("[]"), int(port)


def _check_tls(connection: socket.socket) -> None:
    """Shake hands. A client without a certificate may get no further; the alert that it gets is an answer, too."""
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
