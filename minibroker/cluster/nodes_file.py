"""The file of a data directory about the other processes of its cluster.

It names the broker that holds the logs and, in the holder's own directory, the nodes of other processes that have ever
registered. They keep their replicas while they are away. Neither resets nor snapshots change the file.
"""

import contextlib
import json
import os
from typing import Any

from minibroker_storage.data_directory.names import NODES_FILE
from minibroker_storage.files import read_file, write_atomically


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
