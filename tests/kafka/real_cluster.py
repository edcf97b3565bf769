"""Three brokers of Apache Kafka in one cluster, each in a process of its own; the first one is its controller, too.

So the quorum has one voter, which stays when one of the other brokers is stopped.
"""

import base64
import re
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.kafka.real_kafka import RealKafka

NODES: Final[tuple[int, ...]] = (1, 2, 3)
_HEAP: Final = "256m"
_PROPERTIES: Final = {
    "broker.session.timeout.ms": "60000",  # a busy machine must not cost a broker its place
    "replica.fetch.wait.max.ms": "100",  # or followers learn late how far all are
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
}


class _Controller(RealKafka):
    """The broker that is the controller, too."""

    def __init__(self, directory: Path, libs: Path, properties: Mapping[str, str]) -> None:
        super().__init__(directory, libs, properties, heap=_HEAP)
        self.controller_port = 0

    def _write_properties(self, port: int, controller: int) -> None:
        self.controller_port = controller
        super()._write_properties(port, controller)


class _Follower(RealKafka):
    """A broker that follows the controller of another one."""

    def __init__(self, directory: Path, libs: Path, properties: Mapping[str, str], controller: _Controller) -> None:
        self._node_id = properties["node.id"]
        self._controller = controller
        super().__init__(directory, libs, {"process.roles": "broker", **properties}, heap=_HEAP)

    def listeners(self, port: int, controller: int) -> dict[str, str]:
        """Clients' alone."""
        plain = super().listeners(port, controller)["advertised.listeners"]
        return {"listeners": plain, "advertised.listeners": plain}

    def _write_properties(self, port: int, controller: int) -> None:
        del controller
        super()._write_properties(port, self._controller.controller_port)

    def _format(self) -> None:
        """The file that StorageTool makes for a broker that is no controller: it names the directory's owner."""
        text = (self._controller.data_dir / "meta.properties").read_text()
        own_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        text = re.sub(r"(?m)^node\.id=.*$", f"node.id={self._node_id}", text)
        text = re.sub(r"(?m)^directory\.id=.*$", f"directory.id={own_id}", text)
        self.data_dir.mkdir()
        (self.data_dir / "meta.properties").write_text(text)


class RealCluster:
    """The three brokers, whose ids are 1 to 3."""

    def __init__(
        self, directory: Path, libs: Path, properties: Mapping[str, str] | None = None, racks: Sequence[str] = ()
    ) -> None:
        def own(node_id: int) -> dict[str, str]:
            rack = {"broker.rack": racks[node_id - 1]} if racks else {}
            return {**_PROPERTIES, **(properties or {}), **rack, "node.id": str(node_id)}

        first = _Controller(directory / "1", libs, own(1))
        self.nodes: dict[int, RealKafka] = {1: first}
        for node_id in NODES[1:]:
            self.nodes[node_id] = _Follower(directory / str(node_id), libs, own(node_id), first)

    def start(self) -> None:
        """Start all of them, the controller first, and wait until they are ready."""
        self.nodes[1].start()
        with ThreadPoolExecutor() as pool:
            for each in [pool.submit(self.nodes[node_id].start) for node_id in NODES[1:]]:
                each.result()

    def stop_node(self, node_id: int) -> None:
        """Stop one of the others in good order: it hands over what it leads."""
        self.nodes[node_id].stop()

    def start_node(self, node_id: int) -> None:
        """Start it again, at another port."""
        self.nodes[node_id].start()

    def address(self, node_id: int) -> tuple[str, int]:
        """Where one listens now."""
        host, _, port = self.nodes[node_id].bootstrap.rpartition(":")
        return host, int(port)

    def close(self) -> None:
        """End those that still run."""
        with ExitStack() as ends:
            for node in self.nodes.values():
                ends.callback(node.close)
