"""The part of ZooKeeper's tree that Kafka's tools used, through kazoo."""

import base64
import contextlib
import json
import socket
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final
from urllib import parse

from minibroker.security.sasl.scram import ScramCredential
from minibroker_tools.output import compact_json

try:
    from kazoo.client import KazooClient  # type: ignore[import-untyped] # it has no types
except ModuleNotFoundError:
    KazooClient = None

_CONNECT_TIMEOUT_S: Final = 0.5
_START_TIMEOUT_S: Final = 30.0
_BROKERS: Final = "/brokers/ids"


class ZooKeeperTree:
    """The nodes of a ZooKeeper.

    Args:
        client: A client of kazoo, which is connected.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def children(self, path: str) -> list[str] | None:
        """Return the sorted names of a node's children, or None if there is no such node."""
        return sorted(self._client.get_children(path)) if self._client.exists(path) else None

    def text(self, path: str) -> str | None:
        """Return a node's data, or None if there is no such node."""
        if not self._client.exists(path):
            return None
        data: bytes = self._client.get(path)[0]
        return data.decode(errors="replace")

    def bootstrap_servers(self, protocol: str) -> list[str]:
        """Return HOST:PORT of each registered broker's listener with a security protocol."""
        servers: list[str] = []
        for node_id in self.children(_BROKERS) or ():
            broker = json.loads(self.text(f"{_BROKERS}/{node_id}") or "{}")
            protocols = broker.get("listener_security_protocol_map", {})
            for endpoint in broker.get("endpoints", ()):
                name, _, address = endpoint.partition("://")
                if protocols.get(name, name) == protocol:
                    servers.append(address)
        return servers

    def has_brokers(self) -> bool:
        """Return whether a broker is registered."""
        return bool(self.children(_BROKERS))

    def alter_user(self, user: str, added: Mapping[str, ScramCredential], deleted: Sequence[str]) -> None:
        """Set and delete SCRAM credentials, and notify brokers (`AdminZkClient.changeUserOrUserClientIdConfig`)."""
        entity = f"users/{parse.quote(user, safe='').replace('~', '%7E')}"
        path = f"/config/{entity}"
        configs: dict[str, str] = json.loads(self.text(path) or "{}").get("config", {})
        for mechanism, credential in added.items():
            salt, stored_key, server_key = (base64.b64encode(key).decode() for key in credential[:3])
            keys = f"salt={salt},stored_key={stored_key},server_key={server_key}"
            configs[mechanism] = f"{keys},iterations={credential.iterations}"
        for mechanism in deleted:
            configs.pop(mechanism, None)
        self._client.ensure_path(path)
        self._client.set(path, compact_json({"version": 1, "config": configs}).encode())
        change = compact_json({"version": 2, "entity_path": entity}).encode()
        self._client.create("/config/changes/config_change_", change, sequence=True, makepath=True)


@contextlib.contextmanager
def connect(servers: str) -> Generator[ZooKeeperTree | None]:
    """Connect to the ZooKeeper at HOST:PORT,...[/CHROOT]. Yield None if none answers or kazoo is not installed."""
    if KazooClient is None or not any(map(_is_open, servers.partition("/")[0].split(","))):
        yield None
        return
    client: Any = KazooClient(servers)
    client.start_async().wait(_START_TIMEOUT_S)
    try:
        yield ZooKeeperTree(client) if client.connected else None
    finally:
        client.stop()
        client.close()


def _is_open(address: str) -> bool:
    """Return whether a port accepts connections. Without a port, ZooKeeper's is tried."""
    host, _, port = address.strip().rpartition(":")
    target = (host, int(port)) if host and port.isdecimal() else (address.strip(), 2181)
    with contextlib.suppress(OSError), socket.create_connection(target, timeout=_CONNECT_TIMEOUT_S):
        return True
    return False
