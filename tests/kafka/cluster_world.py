"""Three brokers as a script sees them: a connection to each, and all that they have answered.

The same script runs against Kafka and against this broker; what must be alike is the transcript. A Kafka's brokers hear
some time after each other what has changed, and it is we who know at once. So the script is run here first, and Kafka
is asked again until it says the same, or has had time enough to.
"""

import dataclasses
import re
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol, cast

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.cluster import Listener, PartitionState
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.socket_client import SocketClient
from tests.kafka.newer_keys import NEWER_OF_TOPICS
from tests.kafka.real_cluster import NODES
from tests.patience import PATIENCE_S

_NOT_COMPARED: Final = {
    "throttle_time_ms",
    "client_host",
    "replica_directory_id",  # nobody has one here, since there is no metadata log
}
_VARIABLE: Final = {
    "controller_id": -1,  # any broker that is up, in Kafka
    "cluster_id": "",
    "log_dir": "",
    "total_bytes": -1,
    "usable_bytes": -1,
    "log_end_offset": -1,
    "last_fetch_timestamp": -1,
    "last_caught_up_timestamp": -1,
}
"""Fields that differ between any two clusters, and what stands for "none" in them, which is not left out."""
_OF_THE_QUORUM: Final[dict[type, tuple[str, ...]]] = {PartitionState: ("high_watermark",), Listener: ("port",)}
"""Offsets of the metadata log, and the port of the controller, which is the broker's here."""
_OWN_WORDS: Final = {3, 6, 15, 16, 19, 20, 69, 80, 83, 84}
"""Codes whose sentence is the error's own, or none, where Kafka has nothing to say of the request."""
_INVALID_REQUEST: Final = re.compile(f"{re.escape(ErrorCode.INVALID_REQUEST.meaning)}|This most likely occurs .*")
"""The sentence of the error itself, ours and Kafka's."""
_UNEXPECTED: Final = re.compile(r"Unexpected (broker id, e|node id. E)xpected \d+, but received -?\d+")
"""Of a broker with loggers Kafka says twice what it has expected."""
_ORDERED: Final = {"replicas", "replica_nodes", "broker_ids"}
"""Lists whose first item is the preferred leader; nobody promises an order of others."""
_ZERO_ID: Final = bytes(16)


class Brokers(Protocol):
    """The changes that scripts make to a cluster beside the protocol."""

    def address(self, node_id: int) -> tuple[str, int]:
        """Where clients find a broker."""
        ...

    def stop_node(self, node_id: int) -> None:
        """Stop one in good order; this returns when it is down."""
        ...

    def start_node(self, node_id: int) -> None:
        """Start it again; this returns when it is up."""
        ...


class Line(NamedTuple):
    """A request and its outcome."""

    asked: str
    answer: Any


class ClusterWorld:
    """One cluster, and the transcript.

    Args:
        brokers: of the cluster, all of them up.
        name: what names of topics and groups begin with.
        expected: the transcript of the other cluster, if it is known.
    """

    def __init__(self, brokers: Brokers, name: str, expected: list[Line] | None = None) -> None:
        self._brokers = brokers
        self.name = name
        self.transcript: list[Line] = []
        self._expected = expected
        self._clients: dict[int, SocketClient] = {}
        self._topic_ids: dict[str, bytes] = {}
        self.up = list(NODES)

    @classmethod
    def transcript_of(
        cls, brokers: Brokers, script: Callable[["ClusterWorld"], None], name: str, expected: list[Line] | None = None
    ) -> list[Line]:
        """The responses of a cluster to a script. It ends with the first unexpected one."""
        world = cls(brokers, name, expected)
        try:
            script(world)
        except _OtherAnswerError:
            pass
        finally:
            world.close()
        return world.transcript

    def close(self) -> None:
        """Close all connections, and leave the brokers up."""
        for client in self._clients.values():
            client.socket.close()
        for node_id in set(NODES).difference(self.up):
            self.start(node_id)

    # Asking

    def ask(self, node_id: int, request: Any, version: int) -> Any:
        """Ask a broker, again and again until the answer is as expected, and note it."""
        return self._ask(node_id, request, version, PATIENCE_S)

    def do(self, node_id: int, request: Any, version: int) -> Any:
        """Ask a broker for what it does only once, and note the answer."""
        return self._ask(node_id, request, version, 0)

    def ask_all(self, request: Any, *versions: int) -> None:
        """Ask each broker that is up in each of these versions."""
        for version in versions:
            for node_id in self.up:
                self.ask(node_id, request, version)

    def look(self, node_id: int, request: Any, version: int) -> Any:
        """Ask a broker without noting the answer."""
        return self._client(node_id).ask(request, version)

    def note(self, subject: str, answer: Any) -> None:
        """Note something that a script has made of answers."""
        self.transcript.append(Line(f"{len(self.transcript)}. {subject}", answer))

    def _ask(self, node_id: int, request: Any, version: int, patience_s: float) -> Any:
        asked = f"{len(self.transcript)}. node {node_id} v{version}: {request!r}"
        expected = self._next_expected()
        end = time.monotonic() + patience_s
        response = self._client(node_id).ask(request, version)
        answer = self._plain(response, "")
        while expected is not None and answer != expected.answer and time.monotonic() < end:
            again = self._client(node_id).ask(request, version)
            if again != response:
                response, answer = again, self._plain(again, "")
        self.transcript.append(Line(asked, answer))
        if expected is not None and answer != expected.answer and patience_s:
            raise _OtherAnswerError
        return response

    def _next_expected(self) -> Line | None:
        return None if self._expected is None else self._expected[len(self.transcript)]

    def _client(self, node_id: int) -> SocketClient:
        if node_id not in self._clients:
            self._clients[node_id] = SocketClient(self._brokers.address(node_id))
        return self._clients[node_id]

    # What is done beside the protocol

    def stop(self, node_id: int) -> None:
        """Stop a broker."""
        self._brokers.stop_node(node_id)
        self.up.remove(node_id)
        if node_id in self._clients:
            self._clients.pop(node_id).socket.close()

    def start(self, node_id: int) -> None:
        """Start it again."""
        self._brokers.start_node(node_id)
        self.up = sorted([*self.up, node_id])

    # Names

    def topic(self, letter: str) -> str:
        """The name of a topic of this script."""
        return f"{self.name}-{letter}"

    def topic_id(self, letter: str) -> bytes:
        """The id of a topic that every broker knows by now."""
        if letter not in self._topic_ids:
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=self.topic(letter))], allow_auto_topic_creation=False
            )
            (topic,) = self._client(self.up[0]).ask(request, 12).topics
            self._topic_ids[letter] = bytes(topic.topic_id)
        return self._topic_ids[letter]

    # Answers without what differs from cluster to cluster

    def _plain(self, value: Any, name: str) -> Any:
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            if fields.get("error_code") in _OWN_WORDS and not (fields.get("error_message") or "").startswith("No such"):
                fields.pop("error_message", None)
            if fields.get("error_code") == ErrorCode.NOT_COORDINATOR:
                fields.pop("member_id", None)  # Kafka's coordinator of version 4 leaves it out
            dropped = {*_NOT_COMPARED, *_OF_THE_QUORUM.get(type(value), ())}
            return {each: self._field(each, content) for each, content in fields.items() if each not in dropped}
        if isinstance(value, list | tuple):
            items = [
                self._plain(each, name)
                for each in cast("Iterable[Any]", value)
                if getattr(each, "name", None) not in NEWER_OF_TOPICS
            ]
            return items if name in _ORDERED else sorted(items, key=repr)
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(cast("memoryview", value))
        if isinstance(value, str):
            return _UNEXPECTED.sub("another broker", _INVALID_REQUEST.sub("what was asked is wrong", value))
        return value

    def _field(self, name: str, value: Any) -> Any:
        if name in _VARIABLE:
            return value if value == _VARIABLE[name] else "some"
        if name == "port":
            return next((f"of node {each}" for each in self.up if self._brokers.address(each)[1] == value), value)
        if name == "topic_id" and bytes(value) != _ZERO_ID:
            return "some"
        return self._plain(value, name)


class _OtherAnswerError(Exception):
    """Kafka says something else, and all that follows might, too."""
