"""Listener lists (`listeners`, `advertised.listeners`): protocols and addresses of the brokers in one process.

A listener has a name, a security protocol and an address on each broker. Clients of a listener only get the addresses
of that listener.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

WILDCARDS: Final = ("", "0.0.0.0", "[::]", "::")  # noqa: S104 - only compared with
"""Hosts that stand for all interfaces. A broker can listen on them, but clients cannot connect to them."""

PLAINTEXT: Final = "PLAINTEXT"
PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_ALL_INTERFACES: Final = "0.0.0.0"  # noqa: S104 - Kafka's meaning of an empty host
_LISTENER: Final = re.compile(r"(?P<name>[\w.-]+)://(?P<host>\[[^\]]*\]|[^:/\[\]]*):(?P<port>\d+)", re.ASCII)
_LAST_PORT: Final = 65_535


class ListenerError(ValueError):
    """An invalid listener list. The message names the list and the entry."""


class Listener(NamedTuple):
    """An entry of a listener list, NAME://HOST:PORT. An empty host stands for all interfaces."""

    name: str
    host: str
    port: int


class ServedListener(NamedTuple):
    """A listener as configured for the first broker. The other brokers use the following ports.

    Attributes:
        name: The listener name.
        protocol: One of `PROTOCOLS`.
        host: The host to bind, never empty.
        port: The port to bind, or 0 for a free one.
        advertised: The (host, port) that clients get, or None for the address that they connected to.
    """

    name: str
    protocol: str
    host: str
    port: int
    advertised: tuple[str, int] | None = None


def parse_listeners(source: str, text: str) -> list[Listener]:
    """Parse a comma-separated listener list.

    Args:
        source: The name of the list in error messages.
        text: The list.

    Raises:
        ListenerError: An entry is malformed.
    """
    listeners: list[Listener] = []
    for entry in filter(None, map(str.strip, text.split(","))):
        match = _LISTENER.fullmatch(entry)
        if match is None:
            raise ListenerError(f"{source}: {entry!r} is not NAME://HOST:PORT")
        if int(match["port"]) > _LAST_PORT:
            raise ListenerError(f"{source}: {entry!r} has no port of 0 to {_LAST_PORT}")
        listeners.append(Listener(match["name"].upper(), match["host"], int(match["port"])))
    return listeners


def served_listeners(configs: Mapping[str, str], text: str, source: str) -> list[ServedListener]:
    """Return the client listeners of a list with their protocols and addresses, PLAINTEXT first.

    Listeners of the KRaft controller are ignored.

    Args:
        configs: The configuration, which sets protocols and advertised addresses.
        text: The list.
        source: The name of the list in error messages.

    Raises:
        ListenerError: There is no client listener, two listeners have the same name, a listener has no security
            protocol, or `inter.broker.listener.name` is not in the list.
    """
    controllers = {name.strip().upper() for name in configs.get("controller.listener.names", "CONTROLLER").split(",")}
    pairs = (pair.partition(":") for pair in configs.get("listener.security.protocol.map", "").upper().split(","))
    protocols = {name.strip(): protocol.strip() for name, _, protocol in pairs}
    client_listeners = [entry for entry in parse_listeners(source, text) if entry.name not in controllers]
    if not client_listeners:
        raise ListenerError(f"{source}: {text!r} has no listener for clients")
    names = [entry.name for entry in client_listeners]
    for name in names:
        if names.count(name) > 1:
            raise ListenerError(f"{source}: each listener must have a different name, but there are two of {name}")
    inter_broker = configs.get("inter.broker.listener.name", "").upper()
    if inter_broker and inter_broker not in names:
        raise ListenerError(f"inter.broker.listener.name: there is no listener {inter_broker} in {source}")
    advertised = advertised_addresses(configs)
    client_listeners.sort(key=lambda entry: entry.name != PLAINTEXT)
    return [
        ServedListener(
            entry.name,
            _find_protocol(entry.name, protocols, source),
            entry.host.strip("[]") or _ALL_INTERFACES,
            entry.port,
            advertised.get(entry.name),
        )
        for entry in client_listeners
    ]


def advertised_addresses(configs: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """Return the addresses in `advertised.listeners` by listener name. Entries with an empty host are omitted.

    Raises:
        ListenerError: An entry names 0.0.0.0, which `KafkaConfig` rejects, too.
    """
    entries = parse_listeners("advertised.listeners", configs.get("advertised.listeners", ""))
    for entry in entries:
        if entry.host == _ALL_INTERFACES:
            raise ListenerError(
                f"advertised.listeners: {entry.name}://{entry.host}:{entry.port} is an address that clients cannot "
                "connect to; name the host by which they reach the broker, such as localhost"
            )
    return {entry.name: (entry.host.strip("[]"), entry.port) for entry in entries if entry.host not in WILDCARDS}


def _find_protocol(name: str, protocols: Mapping[str, str], source: str) -> str:
    protocol = protocols.get(name, name)
    if protocol in PROTOCOLS:
        return protocol
    problem = f"{source}: no security protocol is defined for the listener {name} in listener.security.protocol.map"
    if name in protocols:
        problem = f"listener.security.protocol.map: {name}:{protocol} has no known security protocol"
    raise ListenerError(f"{problem}; it must be one of {', '.join(PROTOCOLS)}")


def port_step(ports: Iterable[int], brokers: int) -> int:
    """Return the distance between the ports of consecutive brokers: 1, or more if that would assign a port twice."""
    fixed = {port for port in ports if port}
    step = 1
    while len({port + step * number for port in fixed for number in range(brokers)}) < len(fixed) * brokers:
        step += 1
    return step


def check_room(listeners: Sequence[ServedListener], brokers: int) -> None:
    """Check that the ports after those of the first broker suffice for the other brokers.

    Raises:
        ListenerError: A broker would need a port above 65535.
    """
    step = port_step((entry.port for entry in listeners), brokers)
    for entry in listeners:
        for port in (entry.port, entry.advertised[1] if entry.advertised else 0):
            last = port + step * (brokers - 1)
            if last > _LAST_PORT:
                raise ListenerError(
                    f"{entry.name}: {brokers} brokers need the ports from {port} to {last}, but the last one is "
                    f"{_LAST_PORT}"
                )
