"""Kafka's listener lists (`listeners`, `advertised.listeners`), of which this broker serves those in plaintext."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

WILDCARDS: Final = ("", "0.0.0.0", "[::]", "::")  # noqa: S104 - compared with
"""Hosts that stand for every interface: good to listen on, useless to tell a client."""

_ALL_INTERFACES: Final = "0.0.0.0"  # noqa: S104 - what an empty host means in Kafka
_LISTENER: Final = re.compile(r"(?P<name>[\w.-]+)://(?P<host>\[[^\]]*\]|[^:/\[\]]*):(?P<port>\d+)", re.ASCII)


class ListenerError(ValueError):
    """A listener list that cannot be honoured. The message names it and the entry."""


class Listener(NamedTuple):
    """One entry of a listener list: NAME://HOST:PORT, where an empty host means every interface."""

    name: str
    host: str
    port: int

    @property
    def bind_address(self) -> str:
        """What the broker listens on, as HOST:PORT."""
        return f"{self.host or _ALL_INTERFACES}:{self.port}"


def parse_listeners(source: str, text: str) -> list[Listener]:
    """Split a comma-separated list; `source` is what the user calls it. ListenerError for an entry of another form."""
    listeners: list[Listener] = []
    for entry in filter(None, map(str.strip, text.split(","))):
        match = _LISTENER.fullmatch(entry)
        if match is None:
            raise ListenerError(f"{source}: {entry!r} is not NAME://HOST:PORT")
        listeners.append(Listener(match["name"].upper(), match["host"], int(match["port"])))
    return listeners


def client_listeners(configs: Mapping[str, str], text: str, source: str) -> tuple[list[Listener], list[Listener]]:
    """Choose from the list `text` the listeners that are served: those that speak plaintext, PLAINTEXT first.

    Also returns the other ones meant for clients, which are not served. Listeners of the KRaft controller count for
    nothing. ListenerError if no listener for clients speaks plaintext.
    """
    controllers = [name.strip().upper() for name in configs.get("controller.listener.names", "CONTROLLER").split(",")]
    pairs = (pair.partition(":") for pair in configs.get("listener.security.protocol.map", "").upper().split(","))
    protocols = {name.strip(): protocol.strip() for name, _, protocol in pairs}
    offered = [entry for entry in parse_listeners(source, text) if entry.name not in controllers]
    plain = [entry for entry in offered if protocols.get(entry.name, entry.name) == "PLAINTEXT"]
    if not plain:
        raise ListenerError(f"{source}: {text!r} has no listener for clients that speaks PLAINTEXT")
    plain.sort(key=lambda entry: entry.name != "PLAINTEXT")
    return plain, [entry for entry in offered if entry not in plain]


def advertised_address(text: str, source: str, listener: Listener) -> str | None:
    """Find in the list `text` the HOST:PORT that clients of `listener` are told; None: what they dialled."""
    for advertised in parse_listeners(source, text):
        if advertised.name == listener.name and advertised.host not in WILDCARDS:
            return f"{advertised.host}:{advertised.port}"
    return None


def further_listener(listener: Listener, advertised: str | None) -> str:
    """A listener as `--also-listen` takes it."""
    return f"{listener.bind_address}={advertised}" if advertised else listener.bind_address
