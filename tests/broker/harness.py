"""A broker without sockets: requests go in as bytes and answers come out as bytes, on a clock that a test moves."""

import math
import os
import struct
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from minibroker.clock import ManualClock
from minibroker.cluster.core import Core
from minibroker.cluster.routing.outcomes import Answer, Outcome, Waiting
from minibroker.cluster.routing.routes import ROUTES
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
from minibroker_protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
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
    """A request with its header (v1 or v2), without the length in front."""
    name = type(request).__name__
    client = (client_id or "").encode()
    frame = bytearray(struct.pack(">hhi", _MODULES[name].key, version, correlation_id))
    frame += struct.pack(">h", -1 if client_id is None else len(client)) + client
    if version in schema_of(type(request)).flexible:
        frame.append(0)
    encode(request, version, frame, [])
    return bytes(frame)


def response_of(request: Any, version: int, data: bytes, correlation_id: int = 1) -> Any:
    """The response in one frame, length in front; asserts that header and length are right and nothing follows."""
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
    """A request that waits; `response` is None until it is answered."""

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
        """Has the answer come?"""
        return self.response is not None

    def cancel(self) -> None:
        """The client goes away."""
        self._delayed.cancel()

    def _park(self) -> None:
        if isinstance(self._delayed, SlicedRequest):
            self._delayed.finish = self._finish
        else:
            self._delayed.deliver = self._deliver

    def _finish(self, outcome_of: Callable[[], Outcome]) -> None:
        outcome = outcome_of()
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
        self.response = with_names(response_of(self._request, self._version, data), self._names)


def with_names(response: Any, names: Mapping[bytes, str]) -> Any:
    """The response with the names of topics where it has their ids."""
    for topic in getattr(response, "responses", ()):
        for field in ("name", "topic"):
            if getattr(topic, "topic_id", ZERO_UUID) != ZERO_UUID and hasattr(topic, field):
                setattr(topic, field, names.get(topic.topic_id, getattr(topic, field)))
    return response


def bytes_of(*answers: Answer) -> bytes:
    """The bytes that a connection would send for `answers`."""
    out, splices = encode_answers(list(answers))
    for position, splice in reversed(splices):
        data: bytes = splice.read()  # type: ignore[attr-defined]  # only log slices are spliced here
        assert len(data) == splice.size
        out[position:position] = data
    return bytes(out)


class Harness:
    """A broker's state with a clock that stands still, and the verbs that tests need most."""

    def __init__(
        self,
        data_dir: str,
        config: Mapping[str, str] | None = None,
        *,
        brokers: int = 1,
        racks: Sequence[str] = (),
    ) -> None:
        self.data_dir = data_dir
        self.racks = racks
        self.brokers = brokers
        #: The node id that requests go to; None for the first one's.
        self.asks: int | None = None
        #: The name of the user whom requests come from; None for nobody that is known.
        self.user: str | None = None
        self.clock = ManualClock()
        self._config = BrokerConfig.from_properties(dict(config or {}))
        self._soon: list[Callable[[], None]] = []
        #: The version of fetches that do not say one.
        self.fetch_version = 12
        #: The names of all ids that a request has named.
        self._names: dict[bytes, str] = {}
        #: The length of a slice in seconds: a request ends within its first one, unless a test asks for less.
        self.slice_s = math.inf
        self.services = self._open()

    @property
    def core(self) -> Core:
        """The ground of the broker."""
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
        """Start again on the same data directory as after kill -9: the kernel takes the lock, nothing is closed."""
        self.core.logs.stop_chores()
        self.services.close_coordinators()  # they write nothing when they close, but they have timers
        self._soon.clear()
        for handle in tuple(self.core.files._open):  # the kernel closes what a process has open
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
        """A real cleaning, in this process and after this wake-up."""
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
        """The work of the event loop after a wake-up: the calls that were put off."""
        while self._soon:
            self._soon.pop(0)()

    def accept(self, request: Any, version: int, session: Session | None = None) -> Answer | Waiting | None:
        """Hand in a request, without the end of the wake-up: nothing is written yet."""
        take = accept if self.services.checks_messages else accept_plain
        return take(memoryview(bytearray(frame_of(request, version))), session or self.session())

    def session(self, **given: Any) -> Session:
        """A connection that has just been made; `given` as `Session` takes it."""
        node = None if self.asks is None else self.core.cluster.node(self.asks)
        if self.user is not None:
            given.setdefault("principal", Principal(USER, self.user))
        return Session(self.services, node, advertised=ADVERTISED, **given)

    def send(self, request: Any, version: int, session: Session | None = None) -> Any:
        """One request in a wake-up of its own: the response, a `Pending`, or None when there is no response."""
        self._name_by_id(request, version)
        outcome = self.accept(request, version, session)
        pending = Pending(request, version, outcome, self._names) if isinstance(outcome, Waiting) else None
        self.core.writes.commit()
        answer = response_of(request, version, bytes_of(outcome)) if isinstance(outcome, Answer) else pending
        self.run_soon()
        return with_names(answer, self._names) if isinstance(outcome, Answer) else answer

    def _name_by_id(self, request: Any, version: int) -> None:
        """Put ids into Produce and Fetch requests that have no names; one that nobody has for an unknown topic."""
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
        """One request that must be answered at once."""
        response = self.send(request, version)
        assert response is not None
        assert not isinstance(response, Pending)
        return response

    def create(self, name: str = "t", partitions: int = 1, /, **configs: str) -> None:
        """Create a topic; `max_message_bytes="100"` stands for max.message.bytes=100."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )
        (result,) = self.ask(CreateTopicsRequest(topics=[topic]), 7).topics
        assert result.error_code == 0, result.error_message

    def produce(
        self,
        records: bytes | bytearray | None,
        topic: str = "t",
        partition: int = 0,
        *,
        version: int = 9,
        acks: int = -1,
    ) -> PartitionProduceResponse:
        """Produce to one partition and return its outcome."""
        response = self.ask(produce_request(records, topic, partition, acks=acks), version)
        (answered,) = response.responses
        assert answered.name == topic
        outcome: PartitionProduceResponse = answered.partition_responses[0]
        assert (len(answered.partition_responses), outcome.index) == (1, partition)
        return outcome

    def fetch(self, *partitions: tuple[str, int, int], version: int | None = None, **fields: Any) -> FetchResponse:
        """Fetch from (topic, partition, offset)s without waiting."""
        asked = self.fetch_version if version is None else version
        response = self.ask(fetch_request(*partitions, **{"max_wait_ms": 0, **fields}), asked)
        assert isinstance(response, FetchResponse)
        return response

    def fetch_one(self, offset: int = 0, topic: str = "t", partition: int = 0, **fields: Any) -> PartitionData:
        """Fetch from one partition and return its outcome."""
        return only_partition(self.fetch((topic, partition, offset), **fields))


def produce_request(
    records: bytes | bytearray | None, topic: str = "t", partition: int = 0, *, acks: int = -1
) -> ProduceRequest:
    """A produce request for one partition."""
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
    """A fetch request for (topic, partition, offset)s."""
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
        topics=[FetchTopic(topic=topic, partitions=each) for topic, each in topics.items()],
        forgotten_topics_data=[ForgottenTopic(topic=name, partitions=left) for name, left in (forgotten or {}).items()],
        **fields,
    )


def only_partition(response: FetchResponse) -> PartitionData:
    """The outcome for the one partition that a response tells of."""
    assert response.error_code == 0
    (topic,) = response.responses
    (data,) = topic.partitions
    return data


def bytes_in(data: PartitionData) -> bytes:
    """The record bytes of a partition; never null, since some clients take null for an error."""
    assert isinstance(data.records, memoryview)
    return bytes(data.records)


def partitions_of(responses: list[FetchableTopicResponse]) -> list[tuple[str, int]]:
    """(topic, partition) of everything a fetch response tells, in its order."""
    return [(topic.topic, data.partition_index) for topic in responses for data in topic.partitions]


def batch(*values: bytes, timestamp: int = 1_700_000_000_000, **fields: Any) -> bytearray:
    """A batch of records without keys, a millisecond apart."""
    return build_batch([NewRecord(None, value, timestamp + index) for index, value in enumerate(values)], **fields)


def values_in(records: Any) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record in fetched bytes; every batch has a right checksum."""
    found: list[tuple[int, bytes | None]] = []
    for each in iter_batches(memoryview(records or b"")):
        each.check_crc()
        found += [(record.offset, record.value) for record in each]
    return found


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
    """Restore a snapshot without an event loop and threads; `meanwhile` as above."""
    _done(snapshots.restore_snapshot(services, snapshot, _at_once(meanwhile)))


def _at_once(meanwhile: Callable[[], object] | None) -> snapshots.Aside:
    async def run(work: Callable[[], Any]) -> Any:
        if meanwhile is not None:
            meanwhile()
        return work()

    return run


def _done(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")
