"""The topic `_schemas` of a Kafka cluster in other processes, for a registry beside any Kafka."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.internal_topics import SCHEMAS_TOPIC
from minibroker_protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minibroker_registry.errors import RegistryError, refusal
from minibroker_registry.records import Record
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import EARLIEST, LATEST, list_offsets_at
from minibroker_tools.client.producer import Outgoing, Producer
from minibroker_tools.client.reader import Reader
from minibroker_tools.client.settings import Settings
from minibroker_tools.failures import ApiError, ToolError, UnreachableError, error_code

T = TypeVar("T")

_PATIENCE_S: Final = 30.0
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class ClientLog:
    """A `SchemaLog` on a Kafka cluster.

    Args:
        bootstrap: The addresses of brokers, separated by commas.
        properties: Client properties with Kafka's names, such as `security.protocol`.
        topic: The name of the topic.
        replication_factor: The replication factor of the topic if it is created.

    Raises:
        ToolError: an address or a property is not valid.
    """

    def __init__(
        self, bootstrap: str, properties: Mapping[str, str], topic: str = SCHEMAS_TOPIC, replication_factor: int = 1
    ) -> None:
        self._settings = Settings(bootstrap, properties)
        self._topic = topic
        self._replication_factor = replication_factor
        self._cluster: Cluster | None = None
        self._reader: Reader | None = None
        self._topic_id = b""

    @property
    def cluster_id(self) -> str:
        """The id of the Kafka cluster, or an empty string before the first `read`."""
        return "" if self._cluster is None else self._cluster.cluster_id or ""

    def read(self) -> tuple[bool, Sequence[Record]]:
        """Read to the end of the topic."""
        return self._with_cluster(self._read)

    def append(self, new: Sequence[Record]) -> None:
        """Write records in one go. The topic is created if it does not exist."""
        self._with_cluster(lambda cluster: self._append(cluster, new))

    def _with_cluster(self, work: Callable[[Cluster], T]) -> T:
        """Run a function on the connected cluster, a second time if a connection turns out to be broken.

        Raises:
            RegistryError: no broker answers, or a broker refuses the request.
        """
        for is_last in (False, True):
            if self._cluster is None:
                self._cluster = Cluster(self._settings, timeout=_PATIENCE_S)
            try:
                self._cluster.restart_timeout()
                return work(self._cluster)
            except UnreachableError as error:
                with contextlib.suppress(OSError):
                    self._cluster.__exit__()
                self._cluster, self._reader = None, None
                if is_last:
                    raise RegistryError(50002, error.message) from None
            except ToolError as error:
                raise RegistryError(50001, error.message) from None
        raise AssertionError

    def _read(self, cluster: Cluster) -> tuple[bool, Sequence[Record]]:
        partition = (self._topic, 0)
        (topic,) = cluster.metadata([self._topic]).topics
        if error_code(topic.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            had_topic, self._reader, self._topic_id = self._topic_id != b"", None, b""
            return had_topic, []
        if topic.error_code:
            raise ApiError(topic.error_code)
        (end,) = list_offsets_at(cluster, [partition], LATEST, isolation=1).values()
        is_new = topic.topic_id != self._topic_id or self._reader is None or end < self._reader.positions[partition]
        if self._reader is None or is_new:
            self._reader, self._topic_id = Reader(cluster, reset="earliest", read_committed=True), topic.topic_id
            self._reader.assign({partition: EARLIEST})
        read: list[Record] = []
        deadline = time.monotonic() + _PATIENCE_S
        while self._reader.positions[partition] < end:
            if time.monotonic() > deadline:
                raise RegistryError(50002, f"{self._topic} cannot be read to offset {end}")
            for received in self._reader.poll():
                record = received.record
                if record.key is not None:
                    read.append(Record(bytes(record.key), record.value, record.timestamp))
        return is_new, read

    def _append(self, cluster: Cluster, new: Sequence[Record]) -> None:
        if not self._topic_id:
            self._create_topic(cluster)
        records = [Outgoing(record.key, record.value, partition=0) for record in new]
        sent = list(Producer(cluster, self._topic).send(records))
        for error in (batch.error for batch in sent if batch.error is not None):
            if error.code in _TOO_LARGE:
                raise refusal(42209)
            raise error

    def _create_topic(self, cluster: Cluster) -> None:
        topic = CreatableTopic(
            name=self._topic,
            num_partitions=1,
            replication_factor=self._replication_factor,
            configs=[CreatableTopicConfig(name="cleanup.policy", value="compact")],
        )
        response: CreateTopicsResponse = cluster.ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        (created,) = response.topics
        if error_code(created.error_code) is not ErrorCode.TOPIC_ALREADY_EXISTS and created.error_code:
            raise ApiError(created.error_code, created.error_message)
