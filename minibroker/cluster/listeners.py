"""Listener lists (`listeners`, `advertised.listeners`): protocols and addresses of a process's brokers.

A listener has a name, a security protocol and an address on each broker. A client of a listener gets its addresses
and no other's.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

WILDCARDS: Final = ("", "0.0.0.0", "[::]", "::")  # noqa: S104 - compared with
"""Hosts that stand for every interface: good to listen on, useless to tell a client."""

PLAINTEXT: Final = "PLAINTEXT"
PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_ALL_INTERFACES: Final = "0.0.0.0"  # noqa: S104 - what an empty host means in Kafka
_LISTENER: Final = re.compile(r"(?P<name>[\w.-]+)://(?P<host>\[[^\]]*\]|[^:/\[\]]*):(?P<port>\d+)", re.ASCII)
_LAST_PORT: Final = 65_535


class ListenerError(ValueError):
    """An invalid list of listeners. The message names it and the entry."""


class Listener(NamedTuple):
    """One entry of a listener list: NAME://HOST:PORT, where an empty host means every interface."""

    name: str
    host: str
    port: int


class ServedListener(NamedTuple):
    """A listener as the first broker has it; the others have the ports behind it.

    Attributes:
        protocol: one of `PROTOCOLS`.
        host: to bind; never empty.
        port: 0 for a free one.
        advertised: (host, port) that clients get; None for the address that they have connected to.
    """

    name: str
    protocol: str
    host: str
    port: int
    advertised: tuple[str, int] | None = None


def parse_listeners(source: str, text: str) -> list[Listener]:
    """Split a comma-separated list; `source` is what the user calls it. ListenerError for an entry of another form."""
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
    """The listeners of the list `text` that are for clients, PLAINTEXT first, with what `configs` says of them.

    Listeners of the KRaft controller count for nothing. ListenerError for a list without any other, two of one name,
    one without a security protocol, or an `inter.broker.listener.name` that is not among them.
    """
    controllers = {name.strip().upper() for name in configs.get("controller.listener.names", "CONTROLLER").split(",")}
    pairs = (pair.partition(":") for pair in configs.get("listener.security.protocol.map", "").upper().split(","))
    protocols = {name.strip(): protocol.strip() for name, _, protocol in pairs}
    offered = [entry for entry in parse_listeners(source, text) if entry.name not in controllers]
    if not offered:
        raise ListenerError(f"{source}: {text!r} has no listener for clients")
    names = [entry.name for entry in offered]
    for name in names:
        if names.count(name) > 1:
            raise ListenerError(f"{source}: each listener must have a different name, but there are two of {name}")
    between = configs.get("inter.broker.listener.name", "").upper()
    if between and between not in names:
        raise ListenerError(f"inter.broker.listener.name: there is no listener {between} in {source}")
    advertised = advertised_addresses(configs)
    offered.sort(key=lambda entry: entry.name != PLAINTEXT)
    return [
        ServedListener(
            entry.name,
            _protocol(entry.name, protocols, source),
            entry.host.strip("[]") or _ALL_INTERFACES,
            entry.port,
            advertised.get(entry.name),
        )
        for entry in offered
    ]


def advertised_addresses(configs: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """The addresses in `advertised.listeners`, by the listener's name; an empty host is no address.

    ListenerError for 0.0.0.0, as `KafkaConfig` refuses it.
    """
    entries = parse_listeners("advertised.listeners", configs.get("advertised.listeners", ""))
    for entry in entries:
        if entry.host == _ALL_INTERFACES:
            raise ListenerError(
                f"advertised.listeners: {entry.name}://{entry.host}:{entry.port} is an address that clients cannot "
                "connect to; name the host by which they reach the broker, such as localhost"
            )
    return {entry.name: (entry.host.strip("[]"), entry.port) for entry in entries if entry.host not in WILDCARDS}


def _protocol(name: str, protocols: Mapping[str, str], source: str) -> str:
    protocol = protocols.get(name, name)
    if protocol not in PROTOCOLS and name in protocols:
        raise ListenerError(
            f"listener.security.protocol.map: {name}:{protocol} has no known security protocol; it must be one of "
            f"{', '.join(PROTOCOLS)}"
        )
    if protocol not in PROTOCOLS:
        raise ListenerError(
            f"{source}: no security protocol is defined for the listener {name} in listener.security.protocol.map; "
            f"it must be one of {', '.join(PROTOCOLS)}"
        )
    return protocol


def port_step(ports: Iterable[int], brokers: int) -> int:
    """The distance between the ports of one broker and of the next: 1, or so much that none is given twice."""
    fixed = {port for port in ports if port}
    step = 1
    while len({port + step * number for port in fixed for number in range(brokers)}) < len(fixed) * brokers:
        step += 1
    return step


def check_room(listeners: Sequence[ServedListener], brokers: int) -> None:
    """ListenerError when the ports behind the first broker's are too few for the others."""
    step = port_step((each.port for each in listeners), brokers)
    for each in listeners:
        for port in (each.port, each.advertised[1] if each.advertised else 0):
            if port + step * (brokers - 1) > _LAST_PORT:
                raise ListenerError(
                    f"{each.name}: {brokers} brokers need the ports from {port} on, but the last one is {_LAST_PORT}"
                )
