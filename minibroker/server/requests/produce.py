"""The appends of a Produce request to one partition, and responses that wait for replicas.

Most topics accept batches unchanged. For all others the log validator checks each record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from minibroker.clock import Timer
from minibroker.cluster.advice import LARGE_BATCHES, explain_batch_size
from minibroker.cluster.core import Core
from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.node import Node
from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.routing.slices import catch_errors, then
from minibroker.cluster.topics import Topic
from minibroker.server.requests.call import Call
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import (
    InvalidRecordError,
    RecordValidationError,
    UnsupportedCodecError,
    UnsupportedMagicError,
)
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from minibroker_protocol.records.header import (
    ATTRIBUTES,
    CODEC_MASK,
    CRC_COVERS_FROM,
    MAGIC_AT,
    MAGIC_V2,
    NO_OFFSET,
    PRODUCER_ID,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    CompressionCodec,
    TimestampType,
    entry_bounds,
    make_header,
)
from minibroker_protocol.records.produced_batch import check_produced_batch, check_produced_fields
from minibroker_protocol.schema import Records, first_version
from minibroker_storage.log import Log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

with lazy:
    from minibroker.coordinators.transactions import verification
    from minibroker.server.requests import schema_check
    from minibroker_protocol.records import log_validator


FIRST_WITH_ONE_BATCH: Final = 3
"""The first version of Produce with exactly one batch of format v2 per partition."""
FIRST_WITH_IDS: Final = first_version(TopicProduceData, "topic_id")
"""The first version of Produce that identifies topics by id."""
_ATTRIBUTES_AT: Final = CRC_COVERS_FROM + 1
"""The position of the lower attribute byte of a batch, which contains the codec."""
_MAX_RECORDS: Final = 1000
_MAX_BYTES: Final = 1 << 20
_MAX_COMPRESSED_BYTES: Final = 256
"""zstd can expand this to at most 8 MiB."""
_MAX_LEGACY_BYTES: Final = 16_384
_RECORD_COUNT: Final = slice(RECORD_BATCH_OVERHEAD - 4, RECORD_BATCH_OVERHEAD)
_LEGACY_ATTRIBUTES_AT: Final = MAGIC_AT + 1


def is_appended_unchanged(topic: Topic, records: memoryview, call: Call) -> bool:
    """Return whether a valid batch is appended without checking its records."""
    return topic.keeps_batches and (call.api_version >= FIRST_WITH_ONE_BATCH or is_v2(records))


def is_v2(records: memoryview) -> bool:
    """Return whether the records begin with a batch of format v2."""
    return len(records) > MAGIC_AT and records[MAGIC_AT] >= MAGIC_V2


def is_transactional(records: Any) -> bool:
    """Return whether the first batch is transactional. Requests with several batches are not served."""
    return bool(
        records
        and len(records) > _ATTRIBUTES_AT
        and records[MAGIC_AT] == MAGIC_V2
        and records[_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG
    )


def takes_long_to_validate(records: memoryview, max_message_bytes: int) -> bool:
    """Return whether validation may have to process more than a thousand records, or more than a megabyte."""
    if is_v2(records):
        if len(records) > max_message_bytes:  # The batch will be rejected without reading its records.
            return False
        count = int.from_bytes(records[_RECORD_COUNT], "big")
        # A few compressed kilobytes can expand to 100 MiB, so the size limit for compressed records is smaller.
        is_compressed = records[_ATTRIBUTES_AT] & CODEC_MASK
        return count > _MAX_RECORDS or len(records) > (_MAX_COMPRESSED_BYTES if is_compressed else _MAX_BYTES)
    # The number of messages inside a compressed message is unknown.
    is_compressed = len(records) > _LEGACY_ATTRIBUTES_AT and records[_LEGACY_ATTRIBUTES_AT] & CODEC_MASK
    return bool(is_compressed) or len(records) > _MAX_LEGACY_BYTES


def refuse_partition(response: PartitionProduceResponse, code: ErrorCode, reason: object) -> None:
    """Set an error in a partition's response that explains why nothing was appended.

    This function is not named `refuse`, because handlers have a function of that name for whole requests.
    """
    response.error_code = code
    response.base_offset = NO_OFFSET
    response.error_message = str(reason)


class DelayedProduce(DelayedResponse):
    """A response that waits until its records are on disk and, for acks=all, below the high watermark."""

    deliver: Callable[[ProduceResponse], None]

    def __init__(self, response: ProduceResponse, call: Call, flushing: Iterable[Log]) -> None:
        self._response = response
        self._call = call
        self._unflushed = set(flushing)
        self._unreplicated: list[tuple[Partition, PartitionProduceResponse]] = []
        self._timer: Timer | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether anything is still awaited."""
        return bool(self._unflushed or self._unreplicated)

    def on_flushed(
        self, partition: Partition, node: Node, outcomes: list[PartitionProduceResponse], error: OSError | None
    ) -> None:
        """Handle a completed or failed flush of a partition's log. `node` was the leader at the append."""
        self._unflushed.discard(partition.log)
        for outcome in outcomes:
            if error is not None:
                refuse_partition(outcome, ErrorCode.KAFKA_STORAGE_ERROR, error)
            elif partition.leader is not node:
                refuse_partition(outcome, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER.meaning)
        self._deliver_if_complete()

    def wait_for_replicas(
        self, unreplicated: list[tuple[Partition, PartitionProduceResponse]], timeout_ms: int
    ) -> None:
        """Wait for the high watermark to pass these appends, at most for a time, after which their records stay."""
        self._unreplicated = unreplicated
        for partition, _ in unreplicated:
            partition.log.add_append_listener(self._on_append)
        self._timer = self._call.core.clock.call_later(max(timeout_ms, 0), self._expire)

    def _on_append(self, log: Log) -> None:  # noqa: ARG002 - the listener's signature
        """Complete what is replicated, or has another leader (`Partition.checkEnoughReplicasReachOffset`)."""
        remaining: list[tuple[Partition, PartitionProduceResponse]] = []
        for partition, outcome in self._unreplicated:
            if partition.leader is not self._call.node or partition.topic.is_gone:
                outcome.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif outcome.base_offset >= partition.log.high_watermark:
                remaining.append((partition, outcome))
        self._end_wait(remaining)

    def _expire(self) -> None:
        for _, outcome in self._unreplicated:
            outcome.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._end_wait([])

    def _end_wait(self, remaining: list[tuple[Partition, PartitionProduceResponse]]) -> None:
        waited, self._unreplicated = self._unreplicated, remaining
        for partition in {partition for partition, _ in waited}.difference(partition for partition, _ in remaining):
            partition.log.remove_append_listener(self._on_append)
        if waited and not remaining:
            if self._timer is not None:
                self._timer.cancel()
            # Another request may be in the middle of its work, and the delivery serves the next one of the connection.
            self._call.core.call_soon(self._deliver_if_complete)

    def _deliver_if_complete(self) -> None:
        if not self.is_waiting and hasattr(self, "deliver"):
            self.deliver(self._response)
            del self.deliver

    def waits_for(self) -> str:
        """Return what the request waits for, see `DelayedResponse`."""
        if self._unreplicated:
            return f"the replicas of {len(self._unreplicated)} partitions"
        return f"its records to be on disk, in {len(self._unflushed)} partitions"

    def cancel(self) -> None:
        """Drop the response because the client disconnected. The records stay."""
        if hasattr(self, "deliver"):
            del self.deliver
        self._end_wait([])


_FIRST_WITH_ZSTD: Final = 7
_FIRST_WITH_ABORTABLE: Final = 11
_FIRST_ADDING_PARTITIONS: Final = 12
_ALL: Final = -1
"""The value of acks that requires all in-sync replicas to have the records."""
_RETRIABLE_ERRORS: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors reported as NOT_ENOUGH_REPLICAS to producers that would not retry them."""
_UNUSUAL_ATTRIBUTES: Final = 0b11100
"""Attribute bits that require further checks: codecs from 4 on, LogAppendTime, and transactional batches."""
_ADMIN_CLIENT: Final = "__admin_client"
"""The client id with which Kafka's tools may write to its internal topics (`AdminUtils.ADMIN_CLIENT_ID`)."""


class RefusedError(Exception):
    """A refusal caused by the circumstances of the request, not by its bytes."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


_WITHOUT_LOG_START: Final = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR})
"""Log errors whose responses have no log start offset (`ReplicaManager.appendToLocalLog`)."""
_REFUSALS: Final[tuple[type[Exception], ...]] = (RefusedError, *MAPPED)


def append(
    topic: Topic | None,
    index: int,
    records: Records,
    call: Call,
    refusal: RefusedError | None,
    acks: int,
    transactional_id: str | None,
) -> PartitionProduceResponse | None:
    """Append the batch of one partition unchanged. The response contains the first offset or an error.

    Nearly all data that a broker receives takes this path. `refusal` is the error of the whole request, if any.

    Returns:
        None if nothing was done, because the records must be validated (`append_validated`).
    """
    response = PartitionProduceResponse(index=index, error_code=0, base_offset=NO_OFFSET)
    partition = topic.partition(index) if topic is not None else None
    if topic is None or partition is None:
        # If the id is unknown, the topic may have been created again: the client must refresh its metadata (KIP-516).
        by_id = topic is None and call.api_version >= FIRST_WITH_IDS
        response.error_code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        response.error_message = "This server does not host this topic-partition."
        return response
    try:
        if refusal is not None:
            raise refusal
        # Checking these two attributes usually suffices. The detailed checks are made only if one of them fails.
        if partition.leader is not call.session.node or partition.is_under_min_isr:
            _check_replicas(partition, response, call.node, acks)
        log = partition.opened_log or partition.log
        if not isinstance(records, memoryview) or not records:
            if call.api_version >= FIRST_WITH_ONE_BATCH:
                raise InvalidRecordError("records: a produce request must carry exactly one record batch per partition")
        elif not is_appended_unchanged(topic, records, call):
            return None
        else:
            core = call.core
            now_ms = core.clock.now_ms()
            fields = check_produced_fields(records, opened_records=call.services.validated_records, now_ms=now_ms)
            # One mask covers three rare cases, so that ordinary batches need neither the checks nor a header object.
            if len(records) > topic.max_message_bytes or fields[ATTRIBUTES] & _UNUSUAL_ATTRIBUTES:
                _check_circumstances(make_header(fields), log, topic, call, response, transactional_id)
                if fields[ATTRIBUTES] & TIMESTAMP_TYPE_FLAG:  # Only brokers may set this bit. Kafka clears it.
                    return None
            header = None if fields[PRODUCER_ID] < 0 else make_header(fields)
            if header is None or not _is_duplicate(log, header, response, core):
                response.base_offset = log.append(records, header or fields, partition.leader_epoch, now_ms)
                # The response claims success. If the write fails, the write group replaces it with an error.
                core.writes.stage(log, response)
        # Set the log start offset for a duplicate too, so that producers can detect deleted records (KIP-107).
        response.log_start_offset = log.log_start_offset
    except _REFUSALS as error:
        _set_error(response, error, topic, records, call)
    return response


def append_validated(topic: Topic, data: PartitionProduceData, call: Call, request: ProduceRequest) -> Any:
    """Return steps that validate the records of one partition, which must exist, and append them."""
    response = PartitionProduceResponse(index=data.index, error_code=0, base_offset=NO_OFFSET)
    records = cast("memoryview", data.records)
    append = _ValidatedAppend(cast("Partition", topic.partition(data.index)), call, response, request)
    return catch_errors(
        lambda: append.begin(records), _REFUSALS, lambda error: _set_error(response, error, topic, records, call)
    )


def _set_error(
    response: PartitionProduceResponse, error: Exception, topic: Topic, records: Records, call: Call
) -> PartitionProduceResponse:
    """Set the error that explains why nothing was appended, and return the response."""
    record_bytes = records if isinstance(records, memoryview) else memoryview(b"")
    if isinstance(error, UnsupportedMagicError):
        has_old_format = call.api_version >= FIRST_WITH_ONE_BATCH and record_bytes and not is_v2(record_bytes)
        refuse_partition(
            response, ErrorCode.INVALID_RECORD if has_old_format else ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, error
        )
    elif isinstance(error, RefusedError):
        refuse_partition(response, error.code, error)
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            advice = explain_batch_size(topic.name, len(record_bytes), topic.max_message_bytes)
            call.core.advice.advise(LARGE_BATCHES, topic.name, advice)
    else:
        code = error_code_of(error)
        refuse_partition(response, code, error)
        partition = topic.partition(response.index)
        if partition is not None and code not in _WITHOUT_LOG_START:
            response.log_start_offset = partition.log.log_start_offset
        if isinstance(error, RecordValidationError):
            response.record_errors = [
                BatchIndexAndErrorMessage(batch_index=record.batch_index, batch_index_error_message=record.message)
                for record in error.record_errors
            ]
    return response


def _check_replicas(partition: Partition, response: PartitionProduceResponse, node: Node, acks: int) -> None:
    """Check the leader, and the number of in-sync replicas for acks=all.

    Raises:
        RefusedError: NOT_LEADER_OR_FOLLOWER or NOT_ENOUGH_REPLICAS.
    """
    if partition.leader is not node:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        raise RefusedError(error, error.meaning)
    if acks == _ALL and partition.is_under_min_isr:
        response.log_start_offset = partition.log.log_start_offset
        required = min(partition.topic.min_insync_replicas, len(partition.replicas))
        raise RefusedError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{partition.topic.name}-{partition.index} needs {required} replicas in sync for acks=all; there are "
            f"{len(partition.isr)}.",
        )


class _ValidatedAppend(NamedTuple):
    """An append of records that the log validator prepares: one batch, or a message set of format v0 or v1."""

    partition: Partition
    call: Call
    response: PartitionProduceResponse
    request: ProduceRequest

    def begin(self, records: memoryview) -> Any:
        """Check the records, and return work that validates and appends them."""
        topic, log, call = self.partition.topic, self.partition.log, self.call
        # As in Kafka, only the admin client id may write to internal topics, whatever rights the user has. This keeps
        # `kafka-console-producer` from writing group records by mistake.
        if topic.is_internal and call.client_id != _ADMIN_CLIENT:
            raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
        now_ms = call.core.clock.now_ms()
        policy = topic.append_policy
        if is_v2(records) or call.api_version >= FIRST_WITH_ONE_BATCH:
            produced = check_produced_batch(records, opened_records=0)
            _check_circumstances(produced, log, topic, call, self.response, self.request.transactional_id)
        else:
            _check_sizes(records, topic)
        validation = log_validator.prepare_in_steps(
            records,
            policy,
            next_offset=lambda: log.next_offset,
            now_ms=now_ms,
            topic_partition=f"{topic.name}-{self.response.index}",
            check=schema_check.SchemaCheck(topic, call.services).check if topic.checks_schemas else None,
        )
        return then(validation, lambda prepared: self.append(prepared, now_ms))

    def append(self, prepared: log_validator.PreparedRecords, now_ms: int) -> PartitionProduceResponse:
        """Append validated records. Other requests may have been served during the validation."""
        partition, call, response = self.partition, self.call, self.response
        topic, log = partition.topic, partition.log
        # The topic may have been deleted during the validation, and a new topic may have the same name.
        if call.core.topics.get(topic.name) is not topic:
            raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic was deleted meanwhile.")
        _check_replicas(partition, response, call.node, self.request.acks)
        # The check is repeated, because another format or codec can make the batch larger than `max.message.bytes`.
        _check_sizes(memoryview(prepared.data), topic)
        header = prepared.header
        # Check for duplicates only now, because other batches of the producer may have been appended during the
        # validation.
        is_v2_of_producer = header.magic == MAGIC_V2 and header.producer_id >= 0
        if not (is_v2_of_producer and _is_duplicate(log, header, response, call.core)):
            if header.magic == MAGIC_V2:
                response.base_offset = log.append(memoryview(prepared.data), header, partition.leader_epoch, now_ms)
            else:
                response.base_offset = log.append_message_set(
                    memoryview(prepared.data),
                    last_offset=prepared.last_offset,
                    max_timestamp=prepared.max_timestamp,
                    offset_of_max_timestamp=prepared.offset_of_max_timestamp,
                    now_ms=now_ms,
                )
            if topic.append_policy.timestamp_type is TimestampType.LOG_APPEND_TIME:
                response.log_append_time_ms = now_ms
            call.core.writes.stage(log, response)
        response.log_start_offset = log.log_start_offset
        return response


def _is_duplicate(log: Log, header: BatchHeader, response: PartitionProduceResponse, core: Core) -> bool:
    """Return whether the log already contains the batch. `response` then gets its original offset and timestamp."""
    duplicate = log.producers.check(header)
    if duplicate is None:
        return False
    response.base_offset = duplicate.base_offset
    response.log_append_time_ms = duplicate.timestamp
    # The first copy of the batch may still be staged. If writing it fails, both responses must become errors.
    core.writes.share(log, response)
    return True


def _check_circumstances(
    header: BatchHeader,
    log: Log,
    topic: Topic,
    call: Call,
    response: PartitionProduceResponse,
    transactional_id: str | None,
) -> None:
    """Check the size, the codec and the transaction of a batch.

    Raises:
        RefusedError: The batch is too large, or does not belong to an open transaction.
        UnsupportedCodecError: The request version does not support the codec.
    """
    _check_size(header.size_in_bytes, topic)
    if header.codec is CompressionCodec.ZSTD and call.api_version < _FIRST_WITH_ZSTD:
        raise UnsupportedCodecError(f"Produce v{call.api_version} is not allowed to use zstd")
    if header.is_transactional:
        _check_transaction(header, log, topic, call, response, transactional_id)


def _check_transaction(
    header: BatchHeader,
    log: Log,
    topic: Topic,
    call: Call,
    response: PartitionProduceResponse,
    transactional_id: str | None,
) -> None:
    """Check that the transaction of a batch includes this partition.

    Raises:
        RefusedError: The transaction does not include the partition, or could not be verified.
    """
    if transactional_id is None:
        raise RefusedError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "A transactional batch needs the id of its transaction."
        )
    adds = call.api_version >= _FIRST_ADDING_PARTITIONS
    transactions = call.services.transactions
    if not (adds or transactions.verifies):
        return
    verified = transactions.verifier.find_error(transactional_id, log, header, (topic.name, response.index), adds=adds)
    error = verification.writer_error(verified, supports_abortable=call.api_version >= _FIRST_WITH_ABORTABLE)
    # Clients retry after CONCURRENT_TRANSACTIONS from Produce v12 on (KIP-890). Older clients would fail, so they get
    # another retriable error.
    if error in _RETRIABLE_ERRORS and not (adds and error is ErrorCode.CONCURRENT_TRANSACTIONS):
        raise RefusedError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}",
        )
    if error is ErrorCode.INVALID_TXN_STATE:
        raise RefusedError(error, "Partition was not added to the transaction")
    if error:
        raise RefusedError(error, error.meaning)


def _check_size(size: int, topic: Topic) -> None:
    if size > topic.max_message_bytes:
        raise RefusedError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch of {size} bytes exceeds max.message.bytes, {topic.max_message_bytes}.",
        )


def _check_sizes(records: memoryview, topic: Topic) -> None:
    """Check the size of each batch, or of each message of format v0 or v1, against `max.message.bytes`.

    Raises:
        RefusedError: A batch or message is too large.
    """
    for position, size in entry_bounds(records):
        if position + size <= len(records):  # An incomplete entry is left to the validator, which rejects it.
            _check_size(size, topic)
