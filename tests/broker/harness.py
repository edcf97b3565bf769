"""A broker without sockets: requests and responses are bytes, and tests control the clock."""

import math
import os
import struct
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from minibroker.clock import ManualClock
from minibroker.cluster.core import Core
from minibroker.cluster.routing.outcomes import Answer, Outcome, Waiting
from minibroker.cluster.routing.routes import ROUTES
from minibroker.cluster.topics import Topic
from minibroker.config import BrokerConfig
from minibroker.operations import snapshots
from minibroker.security.principals import USER, Principal
from minibroker.server.requests.dispatch import SlicedRequest, accept, accept_plain, encode_answers
from minibroker.server.requests.session import Session
from minibroker.server.services import Services, open_services
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.messages import messages_of
from minibroker_protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from minibroker_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from minibroker_protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from minibroker_protocol.primitives import ZERO_UUID, skip_tagged_fields
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from minibroker_protocol.schema import schema_of
from minibroker_storage.cleaner import CleaningAbortedError, CleaningPlan, CleaningResult
from minibroker_storage.cleaner.clean import clean
from minibroker_storage.errors import StorageError

ADVERTISED: Final = ("broker.test", 9092)
_NAMED_BY_ID: Final = {"ProduceRequest": ("topic_data",), "FetchRequest": ("topics", "forgotten_topics_data")}
_FIRST_NAMED_BY_ID: Final = 13
_MODULES: Final = {f"{route.message}Request": route for route in ROUTES}


def frame_of(request: Any, version: int, correlation_id: int = 1, client_id: str | None = "test") -> bytes:
    """Encode a request with its header (v1 or v2), without the length prefix."""
    name = type(request).__name__
    client = (client_id or "").encode()
    frame = bytearray(struct.pack(">hhi", _MODULES[name].key, version, correlation_id))
    frame += struct.pack(">h", -1 if client_id is None else len(client)) + client
    if version in schema_of(type(request)).flexible:
        frame.append(0)
    encode(request, version, frame, [])
    return bytes(frame)


def response_of(request: Any, version: int, data: bytes, correlation_id: int = 1) -> Any:
    """Decode the response in a frame with a length prefix, and assert that header and length are correct."""
    route = _MODULES[type(request).__name__]
    length, answered = struct.unpack_from(">ii", data)
    assert length == len(data) - 4
    assert answered == correlation_id
    position = 8
    if version in schema_of(type(request)).flexible and route.message != "ApiVersions":
        position = skip_tagged_fields(memoryview(data), position)
    response, end = decode(messages_of(route.key).response, memoryview(data), version, position)
    assert end == len(data)
    return response


class Pending:
    """A delayed request. `response` is None until it is answered."""

    def __init__(self, request: Any, version: int, waiting: Waiting, names: Mapping[bytes, str] | None = None) -> None:
        self.response: Any = None
        self._names = names or {}
        self._request = request
        self._version = version
        self._answer = waiting.answer
        self._delayed = waiting.delayed
        self._park()

    @property
    def is_answered(self) -> bool:
        """Whether the response has arrived."""
        return self.response is not None

    def cancel(self) -> None:
        """Cancel the request because its client disconnects."""
        self._delayed.cancel()

    def _park(self) -> None:
        if isinstance(self._delayed, SlicedRequest):
            self._delayed.finish, self._delayed.fail = self._finish, _fail
        else:
            self._delayed.deliver = self._deliver

    def _finish(self, outcome: Outcome) -> None:
        if isinstance(outcome, Waiting):
            self._answer, self._delayed = outcome.answer, outcome.delayed
            self._park()
        elif outcome is not None:
            self._read(outcome)

    def _deliver(self, response: Any) -> None:
        self._read(self._answer._replace(response=response))

    def _read(self, answer: Answer) -> None:
        assert self.response is None, "answered twice"
        data = bytes_of(answer)
        self.response = resolve_topic_ids(response_of(self._request, self._version, data), self._names)


def _fail(error: Exception) -> None:
    raise error


def resolve_topic_ids(response: Any, names: Mapping[bytes, str]) -> Any:
    """Replace topic ids in a response with topic names."""
    for topic in getattr(response, "responses", ()):
        for field in ("name", "topic"):
            if getattr(topic, "topic_id", ZERO_UUID) != ZERO_UUID and hasattr(topic, field):
                setattr(topic, field, names.get(topic.topic_id, getattr(topic, field)))
    return response


def bytes_of(*answers: Answer) -> bytes:
    """Return the bytes that a connection would send for `answers`."""
    out, splices = encode_answers(list(answers))
    for position, splice in reversed(splices):
        data: bytes = splice.read()  # type: ignore[attr-defined]  # only log slices are spliced here
        assert len(data) == splice.size
        out[position:position] = data
    return bytes(out)


class Harness:
    """A broker's state with a manual clock, and the operations that tests need most."""

    def __init__(
        self, data_dir: str, config: Mapping[str, str] | None = None, *, brokers: int = 1, racks: Sequence[str] = ()
    ) -> None:
        self.data_dir = data_dir
        self.racks = racks
        self.brokers = brokers
        #: The node id that receives requests; None for the first node.
        self.asks: int | None = None
        #: The name of the user who sends requests; None for an anonymous client.
        self.user: str | None = None
        self.clock = ManualClock()
        self._config = BrokerConfig.from_properties(dict(config or {}))
        self._soon: list[Callable[[], None]] = []
        #: The default version of fetches.
        self.fetch_version = 12
        #: Topic names by the ids that requests have used.
        self._names: dict[bytes, str] = {}
        #: The length of a slice in seconds. By default, a request ends within its first slice.
        self.slice_s = math.inf
        self.services = self._open()

    @property
    def core(self) -> Core:
        """The broker's core."""
        return self.services.core

    def _open(self) -> Services:
        services = self._new_services()
        services.core.slices.slice_s = self.slice_s
        return services

    def _new_services(self) -> Services:
        return open_services(
            self._config,
            self.data_dir,
            self.clock,
            call_soon=self._soon.append,
            background=self._background,
            run_cleaning=self._run_cleaning,
            max_open_files=64,
            brokers=self.brokers,
            racks=self.racks,
        )

    def restart(self) -> None:
        """Stop cleanly and start again on the same data directory."""
        self.services.close()
        self.services = self._open()

    def crash(self) -> None:
        """Restart on the same data directory as after kill -9: the kernel releases the lock, and nothing is closed."""
        self.core.logs.stop_chores()
        self.services.close_coordinators()  # Closing coordinators writes nothing, but cancels their timers.
        self._soon.clear()
        for handle in tuple(self.core.files._open):  # The kernel closes a process's open files.
            handle.close()
        self.core._data_dir.release()
        self.services = self._open()

    def _background(self, work: Callable[[], None], then: Callable[[], None] | None = None) -> None:
        work()
        if then is not None:
            self._soon.append(then)

    def _run_cleaning(
        self, plan: CleaningPlan, done: Callable[[CleaningResult | BaseException], None]
    ) -> Callable[[], None]:
        """Run a real cleaning in this process, after the current wake-up."""
        is_current = True

        def end() -> None:
            nonlocal is_current
            is_current = False

        def run() -> None:
            outcome: CleaningResult | BaseException
            try:
                outcome = clean(plan) if is_current else CleaningAbortedError("ended")
            except (OSError, StorageError) as error:
                outcome = error
            done(outcome)

        self._soon.append(run)
        return end

    def close(self) -> None:
        """Stop cleanly."""
        self.services.close()

    def start(self) -> None:
        """Start again after `close`."""
        self.services = self._open()

    def run_soon(self) -> None:
        """Run the calls that the event loop would run after a wake-up."""
        while self._soon:
            self._soon.pop(0)()

    def accept(self, request: Any, version: int, session: Session | None = None) -> Answer | Waiting | None:
        """Pass a request to the broker without ending the wake-up, so nothing is written yet."""
        take = accept if self.services.checks_messages else accept_plain
        return take(memoryview(bytearray(frame_of(request, version))), session or self.session())

    def session(self, **given: Any) -> Session:
        """Return a new connection's session; `given` is passed to `Session`."""
        node = None if self.asks is None else self.core.cluster.node(self.asks)
        if self.user is not None:
            given.setdefault("principal", Principal(USER, self.user))
        return Session(self.services, node, advertised=ADVERTISED, **given)

    def send(self, request: Any, version: int, session: Session | None = None) -> Any:
        """Send a request in its own wake-up, and return the response, a `Pending`, or None without a response."""
        self._name_by_id(request, version)
        outcome = self.accept(request, version, session)
        pending = Pending(request, version, outcome, self._names) if isinstance(outcome, Waiting) else None
        self.core.writes.commit()
        answer = response_of(request, version, bytes_of(outcome)) if isinstance(outcome, Answer) else pending
        self.run_soon()
        return resolve_topic_ids(answer, self._names) if isinstance(outcome, Answer) else answer

    def _name_by_id(self, request: Any, version: int) -> None:
        """Put topic ids into Produce and Fetch requests that have no names. An unknown topic gets an unused id."""
        if version < _FIRST_NAMED_BY_ID:
            return
        for topic in (
            each for field in _NAMED_BY_ID.get(type(request).__name__, ()) for each in getattr(request, field)
        ):
            name: str = topic.name if hasattr(topic, "name") else topic.topic
            if topic.topic_id == ZERO_UUID:
                known = self.core.topics.get(name)
                topic.topic_id = name.encode().ljust(16, b"?")[:16] if known is None else known.id
            self._names[topic.topic_id] = name

    def ask(self, request: Any, version: int) -> Any:
        """Send a request that must be answered immediately, and return the response."""
        response = self.send(request, version)
        assert response is not None
        assert not isinstance(response, Pending)
        return response

    def create(self, name: str = "t", partitions: int = 1, /, **configs: str) -> None:
        """Create a topic. Configuration keys have underscores, such as `max_message_bytes="100"`."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )
        (result,) = self.ask(CreateTopicsRequest(topics=[topic]), 7).topics
        assert result.error_code == 0, result.error_message

    def delete(self, name: str = "t") -> None:
        """Delete a topic."""
        (result,) = self.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=20_000), 5).responses
        assert result.error_code == 0

    def topic(self, name: str = "t") -> Topic:
        """Return an existing topic."""
        topic = self.core.topics.get(name)
        assert topic is not None
        return topic

    def produce(
        self,
        records: bytes | bytearray | None,
        topic: str = "t",
        partition: int = 0,
        *,
        version: int = 9,
        acks: int = -1,
    ) -> PartitionProduceResponse:
        """Produce to one partition, and return its result."""
        response = self.ask(produce_request(records, topic, partition, acks=acks), version)
        (answered,) = response.responses
        assert answered.name == topic
        outcome: PartitionProduceResponse = answered.partition_responses[0]
        assert (len(answered.partition_responses), outcome.index) == (1, partition)
        return outcome

    def fetch(self, *partitions: tuple[str, int, int], version: int | None = None, **fields: Any) -> FetchResponse:
        """Fetch from (topic, partition, offset)s without waiting."""
        chosen_version = self.fetch_version if version is None else version
        response = self.ask(fetch_request(*partitions, **{"max_wait_ms": 0, **fields}), chosen_version)
        assert isinstance(response, FetchResponse)
        return response

    def fetch_one(self, offset: int = 0, topic: str = "t", partition: int = 0, **fields: Any) -> PartitionData:
        """Fetch from one partition, and return its result."""
        return only_partition(self.fetch((topic, partition, offset), **fields))


Configured = Callable[[dict[str, str]], Harness]
"""The fixture `configured`: creates a broker from a configuration."""


def create_request(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    """Return a request to create topics."""
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics)


def produce_request(
    records: bytes | bytearray | None, topic: str = "t", partition: int = 0, *, acks: int = -1
) -> ProduceRequest:
    """Return a Produce request for one partition."""
    data = PartitionProduceData(index=partition, records=records)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def fetch_request(
    *partitions: tuple[str, int, int],
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    forgotten: Mapping[str, list[int]] | None = None,
    partition_max_bytes: int = 1 << 20,
    current_leader_epoch: int = -1,
    **fields: Any,
) -> FetchRequest:
    """Return a Fetch request for (topic, partition, offset)s."""
    topics: dict[str, list[FetchPartition]] = {}
    for topic, partition, offset in partitions:
        requested_partition = FetchPartition(
            partition=partition,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=current_leader_epoch,
        )
        topics.setdefault(topic, []).append(requested_partition)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[
            FetchTopic(topic=topic, partitions=partitions_of_topic) for topic, partitions_of_topic in topics.items()
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic=name, partitions=indexes) for name, indexes in (forgotten or {}).items()
        ],
        **fields,
    )


def only_partition(response: FetchResponse) -> PartitionData:
    """Return the result of the only partition in a response."""
    assert response.error_code == 0
    (topic,) = response.responses
    (data,) = topic.partitions
    return data


def bytes_in(data: PartitionData) -> bytes:
    """Return the record bytes of a partition, which must not be null because some clients treat null as an error."""
    assert isinstance(data.records, memoryview)
    return bytes(data.records)


def partitions_of(responses: list[FetchableTopicResponse]) -> list[tuple[str, int]]:
    """Return the (topic, partition) of every result in a fetch response, in order."""
    return [(topic.topic, data.partition_index) for topic in responses for data in topic.partitions]


def batch(*values: bytes, timestamp: int = 1_700_000_000_000, **fields: Any) -> bytearray:
    """Return a batch of records without keys, with timestamps a millisecond apart."""
    return build_batch([NewRecord(None, value, timestamp + index) for index, value in enumerate(values)], **fields)


def values_in(records: Any) -> list[tuple[int, bytes | None]]:
    """Return the (offset, value) of every record in fetched bytes, after checking all checksums."""
    values: list[tuple[int, bytes | None]] = []
    for batch in iter_batches(memoryview(records or b"")):
        batch.check_crc()
        values += [(record.offset, record.value) for record in batch]
    return values


def take_snapshot(
    services: Services, directory: str | os.PathLike[str] | None = None, meanwhile: Callable[[], object] | None = None
) -> snapshots.Snapshot:
    """Take a snapshot without an event loop and threads. `meanwhile` is called just before the files are copied."""
    snapshot: snapshots.Snapshot = _done(snapshots.take_snapshot(services, directory, _at_once(meanwhile)))
    return snapshot


def restore_snapshot(
    services: Services,
    snapshot: snapshots.Snapshot | str | os.PathLike[str],
    meanwhile: Callable[[], object] | None = None,
) -> None:
    """Restore a snapshot without an event loop and threads. `meanwhile` is called just before the files are copied."""
    _done(snapshots.restore_snapshot(services, snapshot, _at_once(meanwhile)))


def _at_once(meanwhile: Callable[[], object] | None) -> snapshots.Aside:
    async def run(work: Callable[[], Any]) -> Any:
        if meanwhile is not None:
            meanwhile()
        return work()

    return run


def _done(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")
