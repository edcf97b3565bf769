"""Parses HOST:PORT addresses that users write, and formats addresses for programs on this machine."""

import contextlib
import socket
from typing import Final

LAST_PORT: Final = 65_535
_LOOPBACKS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - only compared
"""Maps a host that means all interfaces to the host at which local programs reach the server."""


def parse_address(text: str, source: str) -> tuple[str, int]:
    """Parse HOST:PORT or [IPV6]:PORT into (host, port). An empty host means all interfaces.

    Raises:
        ValueError: The address is invalid. The message names `source`.
    """
    scheme, is_url, after_scheme = text.partition("://")
    if is_url and scheme:
        _, slash, path = after_scheme.partition("/")
        and_path = f" and {slash + path!r}" if slash else ""
        raise ValueError(f"{source}: {text!r} is not HOST:PORT; leave out {scheme + is_url!r}{and_path}")
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > LAST_PORT:
        raise ValueError(f"{source}: {text!r} is not HOST:PORT, with a port of 0 to {LAST_PORT}")
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)  # noqa: S104 - ":9092" means all interfaces


def parse_advertised(text: str, source: str) -> tuple[str, int]:
    """Parse an address that can be advertised to clients.

    Raises:
        ValueError: The address is invalid, or no client can connect to it. The message names `source`.
    """
    host, port = parse_address(text, source)
    if host in _LOOPBACKS or port == 0:
        raise ValueError(
            f"{source}: {text!r} leads clients nowhere: they need a host other than 0.0.0.0, and a port other than 0"
        )
    return host, port


def check_port_range(address: tuple[str, int], brokers: int, source: str) -> tuple[str, int]:
    """Return the address of the first broker, after checking that enough ports follow for the other brokers.

    Raises:
        ValueError: Too few ports follow. The message names `source`.
    """
    host, port = address
    if port + brokers - 1 > LAST_PORT:
        raise ValueError(f"{source}: {brokers} brokers need the ports from {port} on, but the last one is {LAST_PORT}")
    return host, port


def format_reachable(address: tuple[str, int]) -> str:
    """Return the HOST:PORT at which programs on this machine reach a server bound to `address`."""
    host, port = address
    return format_address((_LOOPBACKS.get(host, host), port))


def format_address(address: tuple[str, int]) -> str:
    """Format an address as HOST:PORT or [IPV6]:PORT."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine can connect to a host."""
    if host == "localhost":
        return True
    try:
        import ipaddress  # noqa: PLC0415 - few brokers start with a numeric address

        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_guarded_address(option: str, text: str, token: str | None, sources: str) -> tuple[str, int]:
    """Parse the address of a port that requires a token from remote clients.

    Args:
        option: The option that sets the address, for messages.
        text: The address.
        token: The token, or None.
        sources: The options that set a token, for messages.

    Raises:
        ValueError: The address or the token is invalid, or remote clients can reach the address without a token.
    """
    address = parse_address(text, option)
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise ValueError("control_token: a token is one word of ASCII characters")
    if token is None and not is_loopback(address[0]):
        raise ValueError(
            f"{option}: {address[0]}:{address[1]} can be reached from other machines, so a token is needed: {sources}"
        )
    return address


def is_local(address: tuple[str, int]) -> bool:
    """Return whether a host is this machine, which can then bind a socket to it."""
    try:
        for family, kind, protocol, _, (host, *_) in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
                probe.bind((host, 0))
                return True
    except OSError:
        pass
    return False
