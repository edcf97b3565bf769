"""One broker of a cluster, with its listeners and its fetch sessions, and the file that lists the brokers."""

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any, Final, Protocol

from minibroker.cluster.fetch_sessions import FetchSessionCache
from minibroker_storage.data_directory.names import NODES_FILE
from minibroker_storage.files import read_file, write_atomically

NO_NODE: Final = -1
"""The id used if there is no leader or controller."""


class Listener(Protocol):
    """The sockets and connections of a node."""

    def close(self) -> None:
        """Stop accepting connections, and abort the existing ones."""

    def open(self) -> None:
        """Listen again at the same address."""

    async def wait_until_settled(self) -> None:
        """Wait until all pending changes are complete."""

    def reconfigure(self) -> None:
        """Apply a changed configuration."""


class ListenerEndpoint:
    """A listener of a broker as its clients see it.

    Attributes:
        advertised: The (host, port) that clients get, or None for `port` at the host that they connected to.
        given: The value of `advertised` at the start, before any change at run time.
        port: The listening port, or 0 before the listener is open.
    """

    def __init__(self, advertised: tuple[str, int] | None = None, port: int = 0) -> None:
        self.port = port
        self.advertised = self.given = self.with_port(advertised)

    def with_port(self, address: tuple[str, int] | None) -> tuple[str, int] | None:
        """Replace port 0 with the port on which the listener is open (`ListenerInfo.withEphemeralPortsCorrected`)."""
        return address and (address[0], address[1] or self.port)


class Node:
    """One broker.

    Attributes:
        starts: The number of times that the broker was started again.
        endpoints: The listeners by name.
        listener: The sockets, or None if there are none, as in tests.
        fetch_sessions: The fetch sessions of this broker's clients.
    """

    def __init__(self, node_id: int, rack: str | None = None, session_slots: int = 0) -> None:
        self.id = node_id
        self.rack = rack
        self.is_up = True
        self.starts = 0
        self.endpoints: dict[str, ListenerEndpoint] = {}
        self.listener: Listener | None = None
        self.fetch_sessions = FetchSessionCache(session_slots)

    def address(self, listener: str, dialed: tuple[str, int]) -> tuple[str, int]:
        """Return this node's (host, port) for a client that reached another node at `dialed`, on the same listener."""
        endpoint = self.endpoints.get(listener)
        return (dialed[0], 0) if endpoint is None else endpoint.advertised or (dialed[0], endpoint.port)

    def advertise(self, addresses: Mapping[str, tuple[str, int]]) -> None:
        """Set the advertised addresses, by listener name. Other listeners return to their original addresses."""
        for name, endpoint in self.endpoints.items():
            endpoint.advertised = endpoint.with_port(addresses.get(name, endpoint.given))


class NodesFile:
    """The content of the file.

    Args:
        data_dir: The data directory, or None for a temporary one: nothing is written then.

    Attributes:
        holder_id: The node id of the holder, or None if the broker has not been part of such a cluster yet.
        node_id: The node id of this broker, or None in the same case.
        racks: The rack of each node of another process, or None, by node id.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is damaged. The message names it.
    """

    def __init__(self, data_dir: str | None) -> None:
        self._path = "" if data_dir is None else os.path.join(data_dir, NODES_FILE)
        self.holder_id: int | None = None
        self.node_id: int | None = None
        self.racks: dict[int, str | None] = {}
        with contextlib.suppress(FileNotFoundError):
            data = read_file(self._path)
            try:
                content: dict[str, Any] = json.loads(data)
                self.holder_id, self.node_id = content["holder"], content["node"]
                self.racks = {int(node_id): rack for node_id, rack in content["racks"].items()}
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"{self._path} cannot be understood: {error!r}") from None

    @property
    def is_holder(self) -> bool:
        """Whether this broker holds the logs."""
        return self.holder_id is not None and self.holder_id == self.node_id

    def keep_holder(self, holder_id: int, node_id: int | None) -> None:
        """Write the holder and the id of this broker.

        Raises:
            OSError: The file cannot be written.
        """
        if (holder_id, node_id) != (self.holder_id, self.node_id):
            self.holder_id, self.node_id = holder_id, node_id
            self._write()

    def keep_node(self, node_id: int, rack: str | None) -> None:
        """Write a node of another process.

        Raises:
            OSError: The file cannot be written.
        """
        if node_id not in self.racks or self.racks[node_id] != rack:
            self.racks[node_id] = rack
            self._write()

    def _write(self) -> None:
        content = {"holder": self.holder_id, "node": self.node_id, "racks": self.racks}
        if self._path:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            write_atomically(self._path, json.dumps(content).encode())
