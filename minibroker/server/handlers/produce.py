"""The Produce handler."""

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, Final, cast

from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.outcomes import ChangedResponse, DelayedResponse
from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.cluster.routing.slices import ForEach, Served, Steps, drain, steps_of, then
from minibroker.cluster.topics import Topic
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import PlainShape, Refusal, handles, topics_at
from minibroker.server.requests.produce import (
    FIRST_WITH_IDS,
    FIRST_WITH_ONE_BATCH,
    DelayedProduce,
    RefusedError,
    append,
    append_validated,
    is_appended_unchanged,
    is_transactional,
    takes_long_to_validate,
)
from minibroker.server.requests.requirements import on_each, on_request
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.current_leader import NodeEndpoint
from minibroker_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.schema import first_version

_FIRST_WITH_LEADERS: Final = first_version(ProduceResponse, "node_endpoints")
_ACKS: Final = frozenset({-1, 0, 1})
_ALL: Final = -1
_ANSWERED_ACKS: Final = frozenset({-1, 1})
_MAX_BATCHES_PER_SLICE: Final = 4
"""Each batch can require decompression, validation record by record, and opening its log."""
_NOT_LEADER: Final = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _transaction_error(request: ProduceRequest, call: Call) -> ErrorCode:
    """Return an error if a request has transactional records and the client may not write to their transaction.

    See `RequestUtils.hasTransactionalRecords`.
    """
    if not any(is_transactional(data.records) for topic in request.topic_data for data in topic.partition_data):
        return ErrorCode.NONE
    transactional_id = request.transactional_id
    if transactional_id is not None and call.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return ErrorCode.NONE
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _handle_plain(values: tuple[Any, ...], call: Call) -> tuple[str, bytes, PartitionProduceResponse] | None:
    transactional_id, acks, _, name, topic_id, index, records = values
    core = call.core
    topic = core.topics.with_id(topic_id) if call.api_version >= FIRST_WITH_IDS else core.topics.get(name)
    if topic is None or topic.flushes_on_append or acks not in _ANSWERED_ACKS or not core.cluster.is_single:
        return None
    outcome = append(topic, index, records, call, None, acks, transactional_id)
    return None if outcome is None else (topic.name, topic_id, outcome)


def _build_plain_values(plain: tuple[str, bytes, PartitionProduceResponse]) -> tuple[Any, ...] | ProduceResponse:
    name, topic_id, outcome = plain
    if outcome.error_code:  # The append succeeded, but the write can still have failed.
        topic = TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[outcome])
        return ProduceResponse(responses=[topic])
    offset, time_ms, start = outcome.base_offset, outcome.log_append_time_ms, outcome.log_start_offset
    return name, topic_id, outcome.index, 0, offset, time_ms, start, 0


@handles(
    ApiKey.PRODUCE,
    needs=on_request(_transaction_error, "WRITE on the transactional id, for transactional records")
    & on_each(Operation.WRITE, ResourceType.TOPIC),
    names=topics_at("topic_data.name", "partition_data.index"),
    refusal=Refusal({"base_offset": -1}),
    plain=PlainShape(_handle_plain, _build_plain_values),
)
def produce(request: ProduceRequest, call: Call) -> Served[ProduceResponse | DelayedResponse | None]:
    """Produce: validate batches, assign their offsets and append them.

    Versions 0-13 are served. A partition gets exactly one batch of format v2. Before version 3 it can also get a
    message set of format v0 or v1, or nothing. Since version 3 the older formats get INVALID_RECORD. If the topic's
    configuration makes no demands on codec, timestamps, message format or keys, v2 batches are appended unchanged. All
    other records go through the log validator, which converts, recompresses and stamps them. zstd requires version 7
    (KIP-110).

    Version 13 names topics by id (KIP-516), and an unknown one gets UNKNOWN_TOPIC_ID. If a partition is named
    twice, its last records are used and there is one result, as in Kafka. Each partition has its own result:
    UNKNOWN_TOPIC_OR_PARTITION, MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP and others.
    The topics of the coordinators get INVALID_TOPIC_EXCEPTION.

    Idempotent producers (KIP-98, KIP-360): sequence numbers must be consecutive. A batch that repeats one of the
    producer's last five is not appended again, and the response has its original offset.

    Transactional batches (KIP-98): the first batch of a transaction in a log is verified with the coordinator
    (KIP-890). If its partition was not added, the error is TRANSACTION_ABORTABLE, or INVALID_TXN_STATE below
    version 11. Retriable errors become NOT_ENOUGH_REPLICAS, as in Kafka. Since version 12 the batch itself adds its
    partition, and CONCURRENT_TRANSACTIONS is returned unchanged. A transactional batch in a request without a
    transactional id gets TRANSACTIONAL_ID_AUTHORIZATION_FAILED.

    A broker that does not lead a partition returns NOT_LEADER_OR_FOLLOWER, since version 10 with the leader and its
    address (KIP-951).

    `acks`: For 0 there is no response, and an error closes the connection, as in Kafka. For -1 at least
    `min.insync.replicas` replicas must be in sync (NOT_ENOUGH_REPLICAS). Replicas share the log, so -1 waits no
    longer than 1. The response is sent when the batch is in the log file. Once `flush.messages` records have
    accumulated, it is sent when the batch is on disk. If another broker leads the partition by then, the error is
    NOT_LEADER_OR_FOLLOWER. While a simulated lag holds the high watermark back (`Log.hold`), -1 waits for it, at most
    for the timeout: REQUEST_TIMED_OUT, and the records stay.
    """
    if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
        request.topic_data = _merge_topics(request.topic_data, by_id=call.api_version >= FIRST_WITH_IDS)
    # A long request is copied, because it is served in slices, and its buffer is reused between slices.
    if _is_long(request, call):
        return _append(_copy_records(request), call, call.core.slices.large)
    response: ProduceResponse | DelayedResponse | None = drain(steps_of(_append(request, call, drain)))
    return response


def _append(
    request: ProduceRequest, call: Call, validate: Callable[[Steps[Any]], Any]
) -> ForEach[ProduceResponse | DelayedResponse | None]:
    """Append the records of all partitions. `validate` runs the validation, which is a generator of steps."""
    refusal = None
    if request.acks not in _ACKS:
        refusal = RefusedError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks: {request.acks} is not -1, 0 or 1")
    topics, by_id = call.core.topics, call.api_version >= FIRST_WITH_IDS

    def append_one(part: tuple[TopicProduceData, PartitionProduceData]) -> Any:
        requested, data = part
        topic = topics.with_id(requested.topic_id) if by_id else topics.get(requested.name)
        outcome = append(topic, data.index, data.records, call, refusal, request.acks, request.transactional_id)
        if outcome is None:
            steps = append_validated(cast("Topic", topic), data, call, request)
            return then(validate(steps), lambda outcome: (topic, outcome))
        return topic, outcome

    def conclude(appended: list[tuple[Topic | None, PartitionProduceResponse]]) -> Any:
        remaining = iter(appended)
        responses: list[TopicProduceResponse] = []
        for requested in request.topic_data:
            results = list(islice(remaining, len(requested.partition_data)))
            name = next((topic.name for topic, _ in reversed(results) if topic is not None), requested.name)
            outcomes = [outcome for _, outcome in results]
            responses.append(TopicProduceResponse(name=name, topic_id=requested.topic_id, partition_responses=outcomes))
        flushed = [(topic, outcome) for topic, outcome in appended if topic is not None and topic.flushes_on_append]
        return _respond(request, ProduceResponse(responses=responses), appended, flushed, call)

    return ForEach(
        [(requested, data) for requested in request.topic_data for data in requested.partition_data],
        append_one,
        conclude,
    )


def _is_long(request: ProduceRequest, call: Call) -> bool:
    """Return whether a request has many batches, or many records to validate."""
    topics, by_id = call.core.topics, call.api_version >= FIRST_WITH_IDS
    count = 0
    for requested in request.topic_data:
        topic = topics.with_id(requested.topic_id) if by_id else topics.get(requested.name)
        count += len(requested.partition_data)
        if topic is None or (topic.keeps_batches and call.api_version >= FIRST_WITH_ONE_BATCH):
            continue
        for data in requested.partition_data:
            records = data.records
            if (
                isinstance(records, memoryview)
                and not is_appended_unchanged(topic, records, call)
                and (topic.checks_schemas or takes_long_to_validate(records, topic.max_message_bytes))
            ):
                return True
    return count > _MAX_BATCHES_PER_SLICE


def _copy_records(request: ProduceRequest) -> ProduceRequest:
    """Copy the records of a request, because the receive buffer is reused."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if isinstance(data.records, memoryview):
                data.records = memoryview(bytearray(data.records))
    return request


def _merge_topics(topics: list[TopicProduceData], *, by_id: bool) -> list[TopicProduceData]:
    """Merge repeated topics and drop empty ones. The last records of a repeated partition count."""
    merged: dict[str | bytes, dict[int, PartitionProduceData]] = {}
    for topic in topics:
        if topic.partition_data:
            partitions = merged.setdefault(topic.topic_id if by_id else topic.name, {})
            partitions.update((data.index, data) for data in topic.partition_data)
    return [
        TopicProduceData(
            name=key if isinstance(key, str) else "",
            topic_id=key if isinstance(key, bytes) else ZERO_UUID,
            partition_data=list(partitions.values()),
        )
        for key, partitions in merged.items()
    ]


def _respond(
    request: ProduceRequest,
    response: ProduceResponse,
    appended: list[tuple[Topic | None, PartitionProduceResponse]],
    flushed: list[tuple[Topic, PartitionProduceResponse]],
    call: Call,
) -> ProduceResponse | DelayedResponse | None:
    """Return the response after all appends, delayed for a flush or for replicas. With acks=0 there is no response."""
    core = call.core
    if request.acks and not flushed and core.cluster.is_single:
        return response
    unreplicated: list[tuple[Partition, PartitionProduceResponse]] = []
    if not core.cluster.is_single:
        _add_leader_hints(response, call)
        if request.acks == _ALL:
            unreplicated = _find_unreplicated(appended)
    waiting = _delay(request, response, flushed, unreplicated, call) if flushed or unreplicated else None
    if request.acks == 0:
        core.writes.commit()
        failed = next((o for r in response.responses for o in r.partition_responses if o.error_code), None)
        if failed is not None:
            raise UnservedRequestError(f"produce with acks=0 failed: {failed.error_message}")
        return None
    return waiting or response


def _find_unreplicated(
    appended: list[tuple[Topic | None, PartitionProduceResponse]],
) -> list[tuple[Partition, PartitionProduceResponse]]:
    """Return the appends, and the repeated batches, that the high watermark will not pass at once."""
    found: list[tuple[Partition, PartitionProduceResponse]] = []
    for topic, outcome in appended:
        partition = None if topic is None else topic.partition(outcome.index)
        if partition is not None and not outcome.error_code:
            log = partition.log
            if log.is_held and outcome.base_offset >= log.high_watermark:
                found.append((partition, outcome))
    return found


def _delay(
    request: ProduceRequest,
    response: ProduceResponse,
    flushed: list[tuple[Topic, PartitionProduceResponse]],
    unreplicated: list[tuple[Partition, PartitionProduceResponse]],
    call: Call,
) -> DelayedResponse | None:
    """Return the response delayed for replicas and for the logs that have reached `flush.messages`, if any, or None."""
    core = call.core
    core.writes.commit()
    due: dict[Partition, list[PartitionProduceResponse]] = {}
    for topic, outcome in flushed:
        partition = topic.partition(outcome.index)
        if outcome.error_code or partition is None:
            continue
        if partition.log.unflushed_records >= topic.log_config.flush_messages:
            due.setdefault(partition, []).append(outcome)
    delayed = DelayedProduce(response, call, (partition.log for partition in due))
    unreplicated = [(partition, outcome) for partition, outcome in unreplicated if not outcome.error_code]
    if unreplicated:
        delayed.wait_for_replicas(unreplicated, request.timeout_ms)
    for partition, outcomes in due.items():
        core.logs.flusher.request(partition.log, partial(delayed.on_flushed, partition, call.node, outcomes))
    if not delayed.is_waiting:
        return None
    return ChangedResponse(delayed, partial(_add_leader_hints, call=call)) if unreplicated else delayed


def _add_leader_hints(response: ProduceResponse, call: Call) -> ProduceResponse:
    """Add the leader to the results of partitions that another broker leads (KIP-951), and return the response."""
    if call.api_version < _FIRST_WITH_LEADERS:
        return response
    topics, by_id = call.core.topics, call.api_version >= FIRST_WITH_IDS
    nodes: dict[int, NodeEndpoint] = {}
    for topic_response in response.responses:
        topic = topics.with_id(topic_response.topic_id) if by_id else topics.get(topic_response.name)
        for outcome in topic_response.partition_responses:
            partition = topic.partition(outcome.index) if topic is not None else None
            if partition is not None and outcome.error_code == _NOT_LEADER:
                outcome.current_leader = call.hint_of(partition, nodes)
    response.node_endpoints = list(nodes.values())
    return response
