"""HOST:PORT: how people write an address, and how a program on this machine reaches it."""

from typing import Final

LAST_PORT: Final = 65_535
_LOOPBACKS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with
"""The host at which a program on this machine finds a server that listens on all interfaces."""


def parse_address(text: str, source: str) -> tuple[str, int]:
    """(host, port) of HOST:PORT or [IPV6]:PORT; an empty host means all interfaces. ValueError that names `source`."""
    scheme, is_url, rest = text.partition("://")
    if is_url and scheme:
        raise ValueError(f"{source}: {text!r} is not HOST:PORT; leave out {scheme + is_url!r}{_and_path(rest)}")
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > LAST_PORT:
        raise ValueError(f"{source}: {text!r} is not HOST:PORT, with a port of 0 to {LAST_PORT}")
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)  # noqa: S104 - ":9092" means all interfaces


def _and_path(rest: str) -> str:
    _, slash, path = rest.partition("/")
    return f" and {slash + path!r}" if slash else ""


def parse_advertised(text: str, source: str) -> tuple[str, int]:
    """(host, port) that can be advertised. ValueError for one that leads nowhere."""
    host, port = parse_address(text, source)
    if host in _LOOPBACKS or port == 0:
        raise ValueError(f"{source}: {text!r} leads clients nowhere: they need a host and a port that is not 0")
    return host, port


def with_room(address: tuple[str, int], brokers: int, source: str) -> tuple[str, int]:
    """The address of the first of several brokers. ValueError when too few ports lie behind it for the others."""
    host, port = address
    if port + brokers - 1 > LAST_PORT:
        raise ValueError(f"{source}: {brokers} brokers need the ports from {port} on, but the last one is {LAST_PORT}")
    return host, port


def reachable(address: tuple[str, int]) -> str:
    """HOST:PORT at which a program on this machine reaches a server that is bound to `address`."""
    host, port = address
    return written((_LOOPBACKS.get(host, host), port))


def written(address: tuple[str, int]) -> str:
    """The address as HOST:PORT, or [IPV6]:PORT."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Can only programs on this machine connect there?"""
    if host == "localhost":
        return True
    try:
        import ipaddress  # noqa: PLC0415 - few start with an address that is no name

        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def guarded_address(option: str, text: str, token: str | None, sources: str) -> tuple[str, int]:
    """The address of a port that wants a token of all who are not on this machine.

    ValueError for one that is none, for a token that is none, and for an address that others can reach without a token.
    `sources` are the options that take one.
    """
    address = parse_address(text, option)
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise ValueError("control_token: a token is one word of ASCII characters")
    if token is None and not is_loopback(address[0]):
        raise ValueError(
            f"{option}: {address[0]}:{address[1]} can be reached from other machines, so a token is needed: {sources}"
        )
    return address
