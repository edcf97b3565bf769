"""Produce: batches are checked, stamped with their offsets and appended.

Versions 0-13. A partition gets exactly one batch of format v2 (before version 3 also none, which does nothing). Below
version 3 it may also be a message set of format v0 or v1; from there on those are INVALID_RECORD. A topic whose
configuration asks for nothing special (codec, timestamps, message format, keys) takes v2 batches as they come; all
else goes through the log validator, which converts, recompresses and re-stamps. zstd needs version 7 (KIP-110).
Version 13 names topics by their ids (KIP-516): one that nobody has is UNKNOWN_TOPIC_ID.
Each partition has its own outcome: UNKNOWN_TOPIC_OR_PARTITION, MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD,
INVALID_TIMESTAMP and so on. The topics of the coordinators are INVALID_TOPIC_EXCEPTION.

Idempotent producers (KIP-98, KIP-360): sequence numbers must follow one another; a batch that is among the last five
of its producer is answered with its first offset and not appended again.

Transactional batches (KIP-98): one that begins a transaction in the log is verified with the coordinator (KIP-890).
When its partition was not added, TRANSACTION_ABORTABLE, or INVALID_TXN_STATE below version 11; what another try may
mend is NOT_ENOUGH_REPLICAS, as in Kafka. From version 12 on the batch itself adds its partition, and
CONCURRENT_TRANSACTIONS is told as it is. A request without transactional id is TRANSACTIONAL_ID_AUTHORIZATION_FAILED.

A broker that does not lead a partition answers NOT_LEADER_OR_FOLLOWER, from version 10 on with the leader and where
it is (KIP-951).

`acks`: 0 has no response, and an error then closes the connection, as Kafka's does. -1 wants `min.insync.replicas` of
the replicas in sync (NOT_ENOUGH_REPLICAS); they share the log, so that it has nothing more to wait for than 1 has. The
answer leaves when the batch is in the log file, or, once `flush.messages` records have come together, when it is on
disk; NOT_LEADER_OR_FOLLOWER if another broker leads the partition by then. The timeout has nothing to wait for.
"""

from functools import partial
from typing import Any, Final

from minibroker.api.delayed import DelayedResponse, UnservedRequestError
from minibroker.cluster.node import Node
from minibroker.cluster.partition import Partition
from minibroker.cluster.topics import Topic
from minibroker.core import Core
from minibroker.requests.call import Call
from minibroker.requests.declarations import Refusal, topics_at
from minibroker.requests.delayed_produce import DelayedProduce, refuse_partition
from minibroker.requests.leader_hints import hint_of
from minibroker.requests.long_produce import FIRST_WITH_ONE_BATCH, has_many_records, is_v2, kept, takes_as_it_comes
from minibroker.requests.produce_memo import has_many_batches
from minibroker.requests.requirements import checked, on_each
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.support.error_mapping import MAPPED, error_code_of
from minibroker.support.slices import Steps, drain
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import (
    InvalidRecordError,
    RecordValidationError,
    UnsupportedCodecError,
    UnsupportedMagicError,
)
from minibroker_protocol.messages.current_leader import NodeEndpoint
from minibroker_protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from minibroker_protocol.records import BatchHeader, CompressionCodec, TimestampType, check_produced_batch
from minibroker_protocol.records.header import (
    CRC_COVERS_FROM,
    MAGIC_AT,
    MAGIC_V2,
    NO_OFFSET,
    TRANSACTIONAL_FLAG,
    entry_bounds,
)
from minibroker_protocol.schema import Records, first_version
from minibroker_storage.log import Log

_FIRST_WITH_ZSTD: Final = 7
_FIRST_WITH_LEADERS: Final = first_version(ProduceResponse, "node_endpoints")
_FIRST_WITH_ABORTABLE: Final = 11
_FIRST_THAT_ADDS: Final = 12
_FIRST_WITH_IDS: Final = first_version(TopicProduceData, "topic_id")
_NOT_LEADER: Final = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_ALL: Final = -1
"""The acks that want all replicas in sync to have the records."""
_TRIED_AGAIN: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Producers that know no such answers take NOT_ENOUGH_REPLICAS for a reason to try again."""
_ATTRIBUTES_AT: Final = CRC_COVERS_FROM + 1
"""The lower byte of a batch's attributes."""
_ADMIN_CLIENT: Final = "__admin_client"
"""The client id with which Kafka's tools may write to its internal topics (`AdminUtils.ADMIN_CLIENT_ID`)."""


class _RefusedError(Exception):
    """A refusal that comes from the request's circumstances rather than from its bytes."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def _transaction_error(request: ProduceRequest, call: Call) -> ErrorCode:
    """Transactional records need the right to their transaction (`RequestUtils.hasTransactionalRecords`)."""
    if not any(_is_transactional(data.records) for topic in request.topic_data for data in topic.partition_data):
        return ErrorCode.NONE
    transactional_id = request.transactional_id
    if transactional_id is not None and call.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return ErrorCode.NONE
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _is_transactional(records: Any) -> bool:
    """Whether the first batch is; there are never two in a request that is served."""
    return bool(
        records
        and len(records) > _ATTRIBUTES_AT
        and records[MAGIC_AT] == MAGIC_V2
        and records[_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG
    )


NAMES: Final = topics_at("topic_data.name", "partition_data.index")
NEEDS: Final = checked(_transaction_error, "WRITE on the transactional id, for transactional records") & on_each(
    Operation.WRITE, ResourceType.TOPIC
)
REFUSAL: Final = Refusal({"base_offset": -1})
_REFUSALS: Final[tuple[type[Exception], ...]] = (_RefusedError, *MAPPED)


def handle(request: ProduceRequest, call: Call) -> ProduceResponse | DelayedResponse | Steps[Any] | None:
    """Append what the request carries; the write group writes it before the answer leaves."""
    acks_error = None
    if request.acks not in {-1, 0, 1}:
        acks_error = _RefusedError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks: {request.acks} is not -1, 0 or 1")
    asked_topics = request.topic_data
    if len(asked_topics) == 1 and len(asked_topics[0].partition_data) == 1:
        return _append_one(asked_topics[0], request, call, acks_error)
    is_kept = has_many_batches(request)  # dispatch has copied those
    if is_kept or has_many_records(request, call):
        return _append_many(request if is_kept else kept(request), call, acks_error)
    responses: list[TopicProduceResponse] = []
    flushed: list[tuple[Topic, PartitionProduceResponse]] = []
    topics, by_id = call.core.topics, call.api_version >= _FIRST_WITH_IDS
    for asked in asked_topics:
        topic = topics.with_id(asked.topic_id) if by_id else topics.get(asked.name)
        name = asked.name if topic is None else topic.name
        outcomes = [_append(topic, data, call, acks_error, request) for data in asked.partition_data]
        responses.append(TopicProduceResponse(name=name, topic_id=asked.topic_id, partition_responses=outcomes))
        if topic is not None and topic.flushes_on_append:
            flushed += [(topic, outcome) for outcome in outcomes]
    return _outcome_of(request, ProduceResponse(responses=responses), flushed, call)


def _append_one(
    asked: TopicProduceData, request: ProduceRequest, call: Call, refusal: _RefusedError | None
) -> ProduceResponse | DelayedResponse | Steps[Any] | None:
    """`handle` for a single partition, as most requests have it."""
    topics, by_id = call.core.topics, call.api_version >= _FIRST_WITH_IDS
    topic = topics.with_id(asked.topic_id) if by_id else topics.get(asked.name)
    is_plain = topic is not None and topic.keeps_batches and call.api_version >= FIRST_WITH_ONE_BATCH
    if not is_plain and has_many_records(request, call):
        return _append_many(kept(request), call, refusal)
    outcome = _append(topic, asked.partition_data[0], call, refusal, request)
    name = asked.name if topic is None else topic.name
    answer = TopicProduceResponse(name=name, topic_id=asked.topic_id, partition_responses=[outcome])
    flushed = [(topic, outcome)] if topic is not None and topic.flushes_on_append else []
    return _outcome_of(request, ProduceResponse(responses=[answer]), flushed, call)


def _append_many(request: ProduceRequest, call: Call, refusal: _RefusedError | None) -> Steps[Any]:
    """`handle` in slices; topics may come and go in between."""
    topics, by_id = call.core.topics, call.api_version >= _FIRST_WITH_IDS
    responses: list[TopicProduceResponse] = []
    flushed: list[tuple[Topic, PartitionProduceResponse]] = []
    for asked in request.topic_data:
        response = TopicProduceResponse(name=asked.name, topic_id=asked.topic_id, partition_responses=[])
        responses.append(response)
        for data in asked.partition_data:
            topic = topics.with_id(asked.topic_id) if by_id else topics.get(asked.name)
            outcome = yield from _append_in_steps(topic, data, call, refusal, request)
            response.partition_responses.append(outcome)
            if topic is not None:
                response.name = topic.name
                if topic.flushes_on_append:
                    flushed.append((topic, outcome))
            yield
    return _outcome_of(request, ProduceResponse(responses=responses), flushed, call)


def _outcome_of(
    request: ProduceRequest,
    response: ProduceResponse,
    flushed: list[tuple[Topic, PartitionProduceResponse]],
    call: Call,
) -> ProduceResponse | DelayedResponse | None:
    """The response, once all is appended: perhaps after a flush, and none for acks=0."""
    core = call.core
    if request.acks and not flushed and core.cluster.is_single:
        return response
    if not core.cluster.is_single:
        _hint(response, call)
    waiting = _flush(flushed, response, call) if flushed else None
    if request.acks == 0:
        core.writes.commit()
        failed = next((o for r in response.responses for o in r.partition_responses if o.error_code), None)
        if failed is not None:
            raise UnservedRequestError(f"produce with acks=0 failed: {failed.error_message}")
        return None
    return waiting or response


def _flush(
    appended: list[tuple[Topic, PartitionProduceResponse]], response: ProduceResponse, call: Call
) -> DelayedResponse | None:
    """Have the logs brought to disk that hold `flush.messages` records which are not; None when nothing is due."""
    core = call.core
    core.writes.commit()
    due: dict[Partition, list[PartitionProduceResponse]] = {}
    for topic, outcome in appended:
        partition = topic.partition(outcome.index)
        if outcome.error_code or partition is None:
            continue
        if partition.log.unflushed_records >= topic.log_config.flush_messages:
            due.setdefault(partition, []).append(outcome)
    delayed = DelayedProduce(response, (partition.log for partition in due))
    for partition, outcomes in due.items():
        core.logs.flusher.request(partition.log, partial(delayed.on_flushed, partition, call.node, outcomes))
    return delayed if delayed.is_waiting else None


def _append(
    topic: Topic | None,
    data: PartitionProduceData,
    call: Call,
    refusal: _RefusedError | None,
    request: ProduceRequest,
) -> PartitionProduceResponse:
    """Append to one partition, or say why not."""
    partition = topic.partition(data.index) if topic is not None else None
    answer = PartitionProduceResponse(index=data.index, error_code=0, base_offset=NO_OFFSET)
    if topic is None or partition is None:
        by_id = topic is None and call.api_version >= _FIRST_WITH_IDS
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer.error_message = "This server does not host this topic-partition."
        return answer
    records = data.records
    try:
        if refusal is not None:
            raise refusal
        if partition.leader is not call.node or partition.is_under_min_isr:
            _check_replicas(partition, answer, call.node, request.acks)
        log = partition.log
        if isinstance(records, memoryview) and records:
            if takes_as_it_comes(topic, records, call):
                _append_batch(log, partition, records, call, answer, request)
            else:
                drain(_append_validated(log, partition, records, call, answer, request))
        elif call.api_version >= FIRST_WITH_ONE_BATCH:
            raise InvalidRecordError("records: a produce request must carry exactly one record batch per partition")
        answer.log_start_offset = log.log_start_offset
    except _REFUSALS as error:
        _explain(answer, error, topic, records, call)
    return answer


def _append_in_steps(
    topic: Topic | None,
    data: PartitionProduceData,
    call: Call,
    refusal: _RefusedError | None,
    request: ProduceRequest,
) -> Steps[PartitionProduceResponse]:
    """`_append` in steps, where the records have to be looked at one by one."""
    partition = topic.partition(data.index) if topic is not None else None
    records = data.records
    if (
        topic is None
        or partition is None
        or not isinstance(records, memoryview)
        or not records
        or takes_as_it_comes(topic, records, call)
    ):
        return _append(topic, data, call, refusal, request)
    answer = PartitionProduceResponse(index=data.index, error_code=0, base_offset=NO_OFFSET)
    try:
        if refusal is not None:
            raise refusal
        _check_replicas(partition, answer, call.node, request.acks)
        log = partition.log
        yield from _append_validated(log, partition, records, call, answer, request)
        answer.log_start_offset = log.log_start_offset
    except _REFUSALS as error:
        _explain(answer, error, topic, records, call)
    return answer


def _explain(answer: PartitionProduceResponse, error: Exception, topic: Topic, records: Records, call: Call) -> None:
    """Say why nothing was appended."""
    given = records if isinstance(records, memoryview) else memoryview(b"")
    if isinstance(error, UnsupportedMagicError):
        new = call.api_version >= FIRST_WITH_ONE_BATCH and given and not is_v2(given)
        refuse_partition(answer, ErrorCode.INVALID_RECORD if new else ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, error)
    elif isinstance(error, _RefusedError):
        refuse_partition(answer, error.code, error)
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            from minibroker.support.advice import LARGE_BATCHES, about_size  # noqa: PLC0415 - most batches fit

            about = about_size(topic.name, len(given), topic.max_message_bytes)
            call.core.advised.advise(LARGE_BATCHES, topic.name, about)
    else:
        refuse_partition(answer, error_code_of(error), error)
        if isinstance(error, RecordValidationError):
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=record.batch_index, batch_index_error_message=record.message)
                for record in error.record_errors
            ]


def _not_leader() -> _RefusedError:
    return _RefusedError(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER.meaning)


def _check_replicas(partition: Partition, answer: PartitionProduceResponse, node: Node, acks: int) -> None:
    """Refuse what another node leads, and records for all replicas in sync when there are too few of them."""
    if partition.leader is not node:
        raise _not_leader()
    if acks == _ALL and partition.is_under_min_isr:
        answer.log_start_offset = partition.log.log_start_offset
        required = min(partition.topic.min_insync_replicas, len(partition.replicas))
        raise _RefusedError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{partition.topic.name}-{partition.index} needs {required} replicas in sync for acks=all; there are "
            f"{len(partition.isr)}.",
        )


def _hint(response: ProduceResponse, call: Call) -> None:
    """Tell producers that have asked the wrong broker which one is right."""
    if call.api_version < _FIRST_WITH_LEADERS:
        return
    nodes: dict[int, NodeEndpoint] = {}
    for topic_response in response.responses:
        topic = call.core.topics.get(topic_response.name)
        for outcome in topic_response.partition_responses:
            partition = topic.partition(outcome.index) if topic is not None else None
            if partition is None or outcome.error_code != _NOT_LEADER:
                continue
            outcome.current_leader = hint_of(partition, call, nodes)
    response.node_endpoints = list(nodes.values())


def _append_batch(
    log: Log,
    partition: Partition,
    batch: memoryview,
    call: Call,
    answer: PartitionProduceResponse,
    request: ProduceRequest,
) -> None:
    """Append one batch as it is. The path of nearly all the bytes that a broker ever sees."""
    core = call.core
    topic = partition.topic
    now_ms = core.clock.now_ms()
    header = check_produced_batch(batch, opened_records=call.services.validated_records, now_ms=now_ms)
    if len(batch) > topic.max_message_bytes or header.attributes & _UNUSUAL:
        _check_circumstances(header, topic, call)
        if header.is_transactional:
            _check_transaction(header, log, topic, call, answer, request.transactional_id)
        if header.timestamp_type is not TimestampType.CREATE_TIME:  # only brokers may say so; Kafka takes the bit away
            drain(_append_validated(log, partition, batch, call, answer, request))
            return
    if header.producer_id >= 0 and _is_duplicate(log, header, answer, core):
        return
    answer.base_offset = log.append(batch, header, partition.leader_epoch, now_ms)
    core.writes.stage(log, answer)


def _append_validated(
    log: Log,
    partition: Partition,
    records: memoryview,
    call: Call,
    answer: PartitionProduceResponse,
    request: ProduceRequest,
) -> Steps[None]:
    """Append what the log validator makes of one batch or of a message set of format v0 or v1."""
    from minibroker_protocol.records.log_validator import prepare_in_steps  # noqa: PLC0415 - most brokers never need it

    core = call.core
    topic = partition.topic
    if topic.is_internal and call.client_id != _ADMIN_CLIENT:
        raise _RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
    now_ms = core.clock.now_ms()
    policy = topic.append_policy
    if is_v2(records) or call.api_version >= FIRST_WITH_ONE_BATCH:
        produced = check_produced_batch(records, opened_records=0)
        _check_circumstances(produced, topic, call)
        if produced.is_transactional:
            _check_transaction(produced, log, topic, call, answer, request.transactional_id)
    else:
        _check_sizes(records, topic)
    prepared = yield from prepare_in_steps(
        records,
        policy,
        next_offset=lambda: log.next_offset,
        now_ms=now_ms,
        topic_partition=f"{topic.name}-{answer.index}",
    )
    if core.topics.get(topic.name) is not topic:
        raise _RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic was deleted meanwhile.")
    _check_replicas(partition, answer, call.node, request.acks)
    _check_sizes(memoryview(prepared.data), topic)
    header = prepared.header
    if header.magic == MAGIC_V2:
        if header.producer_id >= 0 and _is_duplicate(log, header, answer, core):
            return
        answer.base_offset = log.append(memoryview(prepared.data), header, partition.leader_epoch, now_ms)
    else:
        answer.base_offset = log.append_message_set(
            memoryview(prepared.data),
            last_offset=prepared.last_offset,
            max_timestamp=prepared.max_timestamp,
            offset_of_max_timestamp=prepared.offset_of_max_timestamp,
            now_ms=now_ms,
        )
    if policy.timestamp_type is TimestampType.LOG_APPEND_TIME:
        answer.log_append_time_ms = now_ms
    core.writes.stage(log, answer)


def _is_duplicate(log: Log, header: BatchHeader, answer: PartitionProduceResponse, core: Core) -> bool:
    """Whether the log has the batch already; then `answer` tells of that one."""
    duplicate = log.producers.check(header)
    if duplicate is None:
        return False
    answer.base_offset = duplicate.base_offset
    answer.log_append_time_ms = duplicate.timestamp
    core.writes.share(log, answer)
    return True


_UNUSUAL: Final = 0b11100
"""Attribute bits that need a second look: a codec of 4 and above, LogAppendTime, or a transactional batch."""


def _check_circumstances(header: BatchHeader, topic: Topic, call: Call) -> None:
    _check_size(header.size_in_bytes, topic)
    if header.codec is CompressionCodec.ZSTD and call.api_version < _FIRST_WITH_ZSTD:
        raise UnsupportedCodecError(f"Produce v{call.api_version} is not allowed to use zstd")


def _check_transaction(
    header: BatchHeader,
    log: Log,
    topic: Topic,
    call: Call,
    answer: PartitionProduceResponse,
    transactional_id: str | None,
) -> None:
    """Refuse a transactional batch whose transaction does not write here."""
    from minibroker.coordinators.transactions.verification import as_writers_know_it  # noqa: PLC0415 - rarely needed

    if transactional_id is None:
        raise _RefusedError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "A transactional batch needs the id of its transaction."
        )
    adds = call.api_version >= _FIRST_THAT_ADDS
    transactions = call.services.transactions
    if not (adds or transactions.verifies):
        return
    found = transactions.verifier.error_of(transactional_id, log, header, (topic.name, answer.index), adds=adds)
    error = as_writers_know_it(found, knows_abortable=call.api_version >= _FIRST_WITH_ABORTABLE)
    if error in _TRIED_AGAIN and not (adds and error is ErrorCode.CONCURRENT_TRANSACTIONS):
        raise _RefusedError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}",
        )
    if error is ErrorCode.INVALID_TXN_STATE:
        raise _RefusedError(error, "Partition was not added to the transaction")
    if error:
        raise _RefusedError(error, error.meaning)


def _check_size(size: int, topic: Topic) -> None:
    if size > topic.max_message_bytes:
        raise _RefusedError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch of {size} bytes exceeds max.message.bytes, {topic.max_message_bytes}.",
        )


def _check_sizes(records: memoryview, topic: Topic) -> None:
    """`max.message.bytes` counts for each batch, and for each message of format v0 or v1."""
    for position, size in entry_bounds(records):
        if position + size <= len(records):  # else the validator says what is wrong with it
            _check_size(size, topic)
