"""Fetch: ranges of the log, sent from file to socket without being looked at.

Versions 0-18. A fetch reads from the start of the batch that holds the asked offset, at most `partition_max_bytes` of
each partition and `max_bytes` (and `fetch.max.bytes`) in all, but always at least one whole batch (KIP-74). A later
partition whose first batch does not fit gets no records: clients fail over a set without a whole batch
(`ReplicaManager.readFromLog`). Before version 3 the limits are hard and cut the first batch, too. Where the index knows
a batch's start, a range ends there; elsewhere it may end within a batch, which clients pass over. Fewer than
`min_bytes` wait for appends, at most `max_wait_ms`, and cost nothing meanwhile; what lies behind the range counts, too,
since waiting would not bring more (Kafka's `DelayedFetch`). Clients of versions 0 to 3 get message format v0 or v1,
converted if need be (UNSUPPORTED_VERSION with `message.downconversion.enable=false`).

Fetch sessions (KIP-227) from version 7 on. Version 13 names topics by their ids (KIP-516): one that nobody has is
UNKNOWN_TOPIC_ID, one that a session has known and whose name another topic has now INCONSISTENT_TOPIC_ID, and a
session that began with names, or with ids, goes on with them (FETCH_SESSION_TOPIC_ID_ERROR). The leader epoch is
checked from version 9 on (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH). Readers of committed data see what lies below
the last stable offset, with the aborted transactions in it (KIP-98). A topic whose `compression.type` is zstd needs
version 10 (KIP-110, UNSUPPORTED_COMPRESSION_TYPE below); batches that producers have compressed so are sent from
version 4 on. From version 11 on a replica that does not lead serves consumers, too (KIP-392); which one they should
ask is not told. Any other broker answers NOT_LEADER_OR_FOLLOWER, from version 16 on with the leader and where it is
(KIP-951), which a client hears with FENCED_LEADER_EPOCH, too. Ignored: the rack, what replicas say of themselves, the
last fetched epoch (replicas that share a log never diverge).
"""

from collections.abc import Callable, Collection
from typing import Final

from minibroker.api.delayed import DelayedResponse
from minibroker.clock import Timer
from minibroker.cluster.fetch_sessions import NO_SESSION, FetchContext, FetchKey, FetchSessionError
from minibroker.cluster.topics import Topic
from minibroker.requests.call import Call
from minibroker.requests.declarations import Refusal, Target, topics_at
from minibroker.requests.leader_hints import hint_of
from minibroker.requests.requirements import asked_by_handler
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker.support.error_mapping import MAPPED, error_code_of
from minibroker.support.slices import Steps, Work, drain
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.current_leader import NodeEndpoint
from minibroker_protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from minibroker_protocol.records.header import NO_OFFSET
from minibroker_protocol.schema import first_version
from minibroker_storage.log import Log
from minibroker_storage.log_slice import LogSlice

FIRST_WITH_V2: Final = 4
"""The first version whose clients read message format v2, and so all formats."""
_FIRST_WITH_A_WHOLE_BATCH: Final = first_version(FetchRequest, "max_bytes")
_FIRST_WITH_ZSTD: Final = 10
_FIRST_FROM_FOLLOWERS: Final = first_version(FetchRequest, "rack_id")
_FIRST_WITH_IDS: Final = first_version(FetchTopic, "topic_id")
_FIRST_WITH_LEADERS: Final = first_version(FetchResponse, "node_endpoints")
_FEW: Final = 256
"""A fetch of more partitions is served in slices."""
_READ_AT_ONCE: Final = 8
"""So many partitions are read in a step: each may have a log to be opened, which takes half a millisecond."""
_OF_A_STEP: Final = 64
"""Partitions that are read in one step: some take 10 us."""
_LED_BY_ANOTHER: Final = frozenset({int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.FENCED_LEADER_EPOCH)})
_ZSTD: Final = "zstd"
_READ_COMMITTED: Final = 1
_NOTHING: Final = b""
_NO_FAILURE: Final = frozenset(
    {
        int(ErrorCode.NONE),
        int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        int(ErrorCode.UNKNOWN_TOPIC_ID),
        int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    }
)


def _held_by_session(request: FetchRequest, call: Call) -> tuple[Target, ...]:
    """An incremental fetch is about all partitions of its session."""
    session = call.node.fetch_sessions.get(request.session_id)
    if session is None or request.session_epoch <= 0:
        return ()
    by_id = session.names is not None
    gone = {
        (each.topic_id if by_id else each.topic, index)
        for each in request.forgotten_topics_data
        for index in each.partitions
    }
    return tuple(
        Target(_name_of(named, call), index) for named, index in session.partitions if (named, index) not in gone
    )


def _name_of(named: str | bytes, call: Call) -> str | None:
    if isinstance(named, str):
        return named
    topic = call.core.topics.with_id(named)
    return None if topic is None else topic.name


NAMES: Final = topics_at("topics.topic", "partitions.partition", implied=_held_by_session)
NEEDS: Final = asked_by_handler("READ on each topic; CLUSTER_ACTION on the cluster, for replicas")
REFUSAL: Final = Refusal({"high_watermark": -1, "records": b""})


def handle(
    request: FetchRequest, call: Call
) -> FetchResponse | DelayedResponse | Steps[FetchResponse | DelayedResponse]:
    """Answer at once when there is enough to tell, or park until there is."""
    if call.api_version < FIRST_WITH_V2 or _has_many_partitions(request, call):
        return _serve(request, call, in_slices=True)
    return drain(_serve(request, call, in_slices=False))


def refuse(request: FetchRequest, version: int, code: ErrorCode) -> FetchResponse:
    """From version 13 on clients look at the error of the whole alone."""
    topics = [] if version >= _FIRST_WITH_IDS else request.topics
    return FetchResponse(
        error_code=code,
        session_id=request.session_id,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic, partitions=[_refused(each.partition, code) for each in topic.partitions]
            )
            for topic in topics
        ],
    )


def _serve(request: FetchRequest, call: Call, *, in_slices: bool) -> Steps[FetchResponse | DelayedResponse]:
    core = call.core
    ids = core.topics if call.api_version >= _FIRST_WITH_IDS else None
    try:
        context = yield from call.node.fetch_sessions.context(request, core.clock.now_ms(), ids)
    except FetchSessionError as error:
        return FetchResponse(error_code=error.code, session_id=NO_SESSION, responses=[])
    reader = _Reader(request, call, context)
    results = yield from reader.read()
    if request.max_wait_ms <= 0 or not reader.logs or reader.has_enough():
        return (yield from reader.answer(results))
    parked = _ParkedFetch(request, call, reader)
    if in_slices and len(context.partitions) > _READ_AT_ONCE:
        parked.look_soon()  # others may have appended between the steps, to what was read before
    return parked


def _has_many_partitions(request: FetchRequest, call: Call) -> bool:
    """Whether the request names many partitions, or its session has them."""
    if len(request.topics) > _FEW or sum(len(topic.partitions) for topic in request.topics) > _FEW:
        return True
    session = call.node.fetch_sessions.get(request.session_id) if request.session_id else None
    return session is not None and len(session.partitions) > _FEW


class _Reader:
    """One pass over the partitions of a fetch.

    Attributes:
        logs: of the partitions that could be read.
    """

    __slots__ = ("_call", "_context", "_failed", "_found", "_least", "_request", "_size", "logs")

    def __init__(self, request: FetchRequest, call: Call, context: FetchContext) -> None:
        self._request = request
        self._call = call
        self._context = context
        self._failed = False
        self._size = 0
        self._least = 0
        self._found: list[tuple[LogSlice, FetchPartition]] = []
        self.logs: list[Log] = []

    def read(self) -> Steps[dict[FetchKey, PartitionData]]:
        """Read every partition; afterwards the attributes tell what came of it."""
        self._size = 0
        self._failed = False
        self._found.clear()
        self.logs.clear()
        left = min(self._request.max_bytes, self._call.services.fetch_max_bytes)
        quotas = self._call.services.quotas
        if quotas is not None and (allowed := quotas.fetch_bytes(self._call.session, self._call.client_id)) is not None:
            left = min(left, allowed)
        self._least = min(self._request.min_bytes, left)
        results: dict[FetchKey, PartitionData] = {}
        by_name, by_id = self._call.core.topics.get, self._call.core.topics.with_id
        guarded = self._call.services.authorizer is not None
        for key, wanted in self._context.partitions.items():
            named = key[0]
            topic = by_name(named) if isinstance(named, str) else by_id(named)
            if guarded and not self._may_read(named if topic is None else topic.name):
                data = _error(key[1], ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            else:
                data = self._unknown(key) if topic is None else self._read_partition(topic, wanted, left)
            results[key] = data
            records = data.records
            if isinstance(records, LogSlice):
                self._size += records.size
                left = max(0, left - records.size)
            if data.error_code not in _NO_FAILURE:
                self._failed = True
            if not len(results) % _READ_AT_ONCE:
                yield
        return results

    @property
    def asked(self) -> Collection[FetchKey]:
        """The partitions of the fetch."""
        return self._context.partitions

    def has_enough(self) -> bool:
        """Whether what was read is to be told at once.

        So it is with `min_bytes`, or with all that the limits let through; where some of it lies in an older segment
        than the log's end, since a range is of one segment; and when a partition could not be read. As in Kafka, one
        that is not here does not end the wait, nor does one that the client may not read.
        """
        if self._failed or self._size >= self._least:
            return True
        committed = self._request.isolation_level == _READ_COMMITTED
        readable = 0
        for log, (found, wanted) in zip(self.logs, self._found, strict=True):
            if found.size:
                size = log.readable_size(found, end_offset=log.last_stable_offset if committed else None)
                if size is None:
                    return True
                readable += min(size, wanted.partition_max_bytes)
        return readable >= self._least

    def _may_read(self, named: str | bytes) -> bool:
        """Whether the client may read a topic; an id that nobody has is no secret."""
        request, call = self._request, self._call
        if max(request.replica_id, request.replica_state.replica_id) >= 0:
            return call.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        return isinstance(named, bytes) or call.allows(Operation.READ, ResourceType.TOPIC, named)

    def _topic(self, named: str | bytes) -> Topic | None:
        topics = self._call.core.topics
        return topics.get(named) if isinstance(named, str) else topics.with_id(named)

    def _unknown(self, key: FetchKey) -> PartitionData:
        """What is said of a partition whose topic there is not, or not any more."""
        named, index = key
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not isinstance(named, str):
            session = self._context.session
            name = None if session is None or session.names is None else session.names.get(named)
            if name is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID
            elif self._call.core.topics.get(name) is not None:
                code = ErrorCode.INCONSISTENT_TOPIC_ID
        return _error(index, code)

    def answer(self, results: dict[FetchKey, PartitionData]) -> Steps[FetchResponse]:
        """The response, or an empty one for a client that is over its quota."""
        call = self._call
        if call.api_version < FIRST_WITH_V2:  # such clients have no sessions: all that is read is sent
            for key, data in results.items():
                if isinstance(data.records, LogSlice):
                    results[key] = yield from self._converted(key, data, data.records)
        response = yield from self.response(results)
        quotas = call.services.quotas
        if quotas is None:
            return response
        return quotas.fetched(response, self._request, call.session, call.client_id, call.api_version)

    def response(self, results: dict[FetchKey, PartitionData]) -> Steps[FetchResponse]:
        """The response of what was read, as the session's consumer needs it told."""
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        leaders: dict[int, NodeEndpoint] = {}
        selected = yield from self._context.select(results)
        for number, (key, data) in enumerate(selected.items(), 1):
            topic = key[0]
            if data.error_code and data.error_code in _LED_BY_ANOTHER and self._call.api_version >= _FIRST_WITH_LEADERS:
                self._hint(topic, data, leaders)
            known = topics.get(topic)
            if known is not None:
                known.partitions.append(data)
            elif isinstance(topic, str):
                topics[topic] = FetchableTopicResponse(topic=topic, partitions=[data])
            else:
                name = found.name if (found := self._topic(topic)) is not None else ""
                topics[topic] = FetchableTopicResponse(topic=name, topic_id=topic, partitions=[data])
            if not number % _OF_A_STEP:
                yield
        response = FetchResponse(session_id=self._context.session_id, responses=list(topics.values()))
        if leaders:
            response.node_endpoints = list(leaders.values())
        return response

    def _hint(self, named: str | bytes, data: PartitionData, leaders: dict[int, NodeEndpoint]) -> None:
        """Tell a client that has asked the wrong broker, or believes in an old leader, which one is right."""
        topic = self._topic(named)
        partition = None if topic is None else topic.partition(data.partition_index)
        if partition is not None:
            data.current_leader = hint_of(partition, self._call, leaders)

    def _converted(self, key: FetchKey, data: PartitionData, found: LogSlice) -> Steps[PartitionData]:
        """The data of one partition for a client that reads no v2."""
        from minibroker.logs.down_conversion import converted  # noqa: PLC0415 - most brokers never need it

        wanted = self._context.partitions[key]
        topic = self._topic(key[0])
        partition = topic.partition(wanted.partition) if topic is not None else None
        if topic is None or partition is None:
            return _error(wanted.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            records = yield from converted(
                partition.log,
                found,
                wanted.fetch_offset,
                wanted.partition_max_bytes,
                self._call.api_version,
                allowed=topic.config.boolean("message.downconversion.enable"),
            )
        except MAPPED as error:
            return _error(wanted.partition, error_code_of(error))
        if records is None:
            return _error(wanted.partition, ErrorCode.UNSUPPORTED_VERSION)
        data.records = records
        return data

    def _read_partition(self, topic: Topic, wanted: FetchPartition, left: int) -> PartitionData:
        partition = topic.partition(wanted.partition)
        if partition is None:
            return _error(wanted.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        node, epoch = self._call.node, wanted.current_leader_epoch
        if partition.leader is not node or epoch != partition.leader_epoch:
            leader_only = self._call.api_version < _FIRST_FROM_FOLLOWERS
            mistaken = partition.access_error(node, epoch, leader_only=leader_only)
            if mistaken:
                return _error(wanted.partition, mistaken)
        try:
            log = partition.log
            version = self._call.api_version
            committed = self._request.isolation_level == _READ_COMMITTED
            limit = min(wanted.partition_max_bytes, left)
            whole = version >= _FIRST_WITH_A_WHOLE_BATCH
            found = log.read(
                wanted.fetch_offset,
                limit,
                min_one_batch=whole and self._size == 0,
                end_offset=log.last_stable_offset if committed else None,
            )
            records: LogSlice | bytes = found if found.size else _NOTHING
            aborted = _aborted(log, wanted.fetch_offset, found) if committed else None
            if whole and self._size and 0 < found.size == limit and not found.begins_with_a_whole_batch():
                records, aborted = _NOTHING, None
        except MAPPED as error:
            return _error(wanted.partition, error_code_of(error))
        if version < _FIRST_WITH_ZSTD and topic.config.text("compression.type") == _ZSTD:
            return _error(wanted.partition, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        self.logs.append(log)
        self._found.append((found, wanted))
        return PartitionData(
            partition_index=wanted.partition,
            error_code=0,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=aborted,
            records=records,
        )


def _aborted(log: Log, offset: int, found: LogSlice) -> list[AbortedTransaction]:
    """The aborted transactions that reach into what is sent; some behind it do no harm."""
    if not found.size:
        return []
    return [
        AbortedTransaction(producer_id=known.producer_id, first_offset=known.first_offset)
        for known in log.aborted_transactions(offset, log.upper_bound_of(found))
    ]


def _error(index: int, code: ErrorCode) -> PartitionData:
    data = _refused(index, code)
    if code not in _NO_FAILURE:  # Kafka has not looked at a log otherwise
        data.aborted_transactions = None
    return data


def _refused(index: int, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=NO_OFFSET,
        aborted_transactions=[],
        records=_NOTHING,
    )


class _ParkedFetch(DelayedResponse):
    """A fetch that waits for appends to its partitions, or for its time to be up."""

    __slots__ = ("_call", "_is_gone", "_is_over", "_is_reading", "_logs", "_reader", "_timer", "_woken", "deliver")

    deliver: Callable[[FetchResponse], None]

    def __init__(self, request: FetchRequest, call: Call, reader: _Reader) -> None:
        self._call = call
        self._reader = reader
        self._woken = False
        self._is_gone = False
        self._is_over = False  # its time is up
        self._is_reading = False
        self._logs = tuple(reader.logs)
        for log in self._logs:
            log.add_append_listener(self._on_append)
        self._timer: Timer | None = call.core.clock.call_later(request.max_wait_ms, self._on_timeout)

    def cancel(self) -> None:
        """The client has gone."""
        self._is_gone = True
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            for log in self._logs:
                log.remove_append_listener(self._on_append)

    def _on_append(self, log: Log) -> None:  # noqa: ARG002 - the listener's signature
        # Not at once: the wake-up that appended has its own answer to send first, and may append more.
        self.look_soon()

    def look_soon(self) -> None:
        """Read again in the event loop's next turn."""
        if not self._woken:
            self._woken = True
            self._call.core.call_soon(self._look)

    def _look(self) -> None:
        if not self._is_reading:
            self._woken = False
            self._read()

    def _on_timeout(self) -> None:
        self._is_over = True
        self._read()

    def _read(self) -> None:
        if self._timer is None or self._is_reading:
            return
        self._is_reading = True
        core = self._call.core
        core.writes.commit()  # as before any request but Produce: what is staged can be read
        results = core.slices.begin(self._reader.read())
        if isinstance(results, Work):
            results.then(self._on_read, self._fail)
        else:
            self._on_read(results)

    def _on_read(self, results: dict[FetchKey, PartitionData]) -> None:
        self._is_reading = False
        reader = self._reader
        if self._timer is None:
            return
        if self._is_over or reader.has_enough() or len(reader.logs) != len(self._logs):
            self._answer(results)
        elif self._woken:  # by an append between the steps
            self._call.core.call_soon(self._look)

    def _answer(self, results: dict[FetchKey, PartitionData]) -> None:
        self._stop_waiting()
        answer = self._call.core.slices.begin(self._reader.answer(results))
        if isinstance(answer, Work):
            answer.then(self._deliver_unless_gone, self._fail)
        else:
            self.deliver(answer)

    def _deliver_unless_gone(self, response: FetchResponse) -> None:
        if not self._is_gone:
            self.deliver(response)

    def _fail(self, error: Exception) -> None:
        """Answer what a client takes for a reason to try again, and have the event loop log the error."""
        failed = {key: _error(key[1], ErrorCode.UNKNOWN_SERVER_ERROR) for key in self._reader.asked}
        self._stop_waiting()
        self._deliver_unless_gone(drain(self._reader.answer(failed)))
        raise error
