"""Produce: batches are checked, stamped with their offsets and appended.

Versions 0-9. A partition gets exactly one batch of format v2 (before version 3 also none, which does nothing);
formats v0 and v1 are refused with UNSUPPORTED_FOR_MESSAGE_FORMAT (INVALID_RECORD from version 3 on, as from Kafka).
zstd needs version 7 (KIP-110). Each partition has its own outcome: UNKNOWN_TOPIC_OR_PARTITION, MESSAGE_TOO_LARGE,
CORRUPT_MESSAGE, INVALID_RECORD and so on.

Idempotent producers (KIP-98, KIP-360): sequence numbers must follow one another; a batch that is among the last five
of its producer is answered with its first offset and not appended again. Transactional batches are refused with
INVALID_TXN_STATE: there is no transaction coordinator yet.

`acks`: 0 has no response, and an error then closes the connection, as Kafka's does; 1 and -1 are the same thing with
a single replica, whatever `min.insync.replicas` says. The answer leaves when the batch is in the log file; the
timeout has nothing to wait for.
"""

from typing import Final

from minibroker.call import Call, UnservedRequestError
from minibroker.error_mapping import MAPPED, error_code_of
from minibroker.topics import LEADER_EPOCH, Topic
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import InvalidRecordError, UnsupportedCodecError, UnsupportedMagicError
from minibroker_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minibroker_protocol.records import BatchHeader, CompressionCodec, check_produced_batch
from minibroker_storage.log import Log

_FIRST_WITH_ONE_BATCH: Final = 3
_FIRST_WITH_ZSTD: Final = 7
_NO_OFFSET: Final = -1


class _RefusedError(Exception):
    """A refusal that comes from the request's circumstances rather than from its bytes."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def handle(request: ProduceRequest, call: Call) -> ProduceResponse | None:
    """Append what the request carries; the write group writes it before the answer leaves."""
    acks_error = None
    if request.acks not in {-1, 0, 1}:
        acks_error = _RefusedError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks: {request.acks} is not -1, 0 or 1")
    responses: list[TopicProduceResponse] = []
    topics = call.state.topics
    for wanted in request.topic_data:
        topic = topics.get(wanted.name)
        outcomes = [_append(topic, data, call, acks_error) for data in wanted.partition_data]
        responses.append(TopicProduceResponse(name=wanted.name, partition_responses=outcomes))
    if request.acks == 0:
        call.state.writes.commit()
        failed = next((o for r in responses for o in r.partition_responses if o.error_code), None)
        if failed is not None:
            raise UnservedRequestError(f"produce with acks=0 failed: {failed.error_message}")
        return None
    return ProduceResponse(responses=responses)


def _append(
    topic: Topic | None, data: PartitionProduceData, call: Call, refusal: _RefusedError | None
) -> PartitionProduceResponse:
    """Append to one partition, or say why not."""
    partition = topic.partition(data.index) if topic is not None else None
    answer = PartitionProduceResponse(index=data.index, error_code=0, base_offset=_NO_OFFSET)
    if topic is None or partition is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer.error_message = "This server does not host this topic-partition."
        return answer
    records = data.records
    try:
        if refusal is not None:
            raise refusal
        log = partition.log
        if isinstance(records, memoryview) and records:
            _append_batch(log, topic, records, call, answer)
        elif call.api_version >= _FIRST_WITH_ONE_BATCH:
            raise InvalidRecordError("records: a produce request must carry exactly one record batch per partition")
        answer.log_start_offset = log.log_start_offset
    except UnsupportedMagicError as error:
        old = call.api_version < _FIRST_WITH_ONE_BATCH
        _refuse(answer, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT if old else ErrorCode.INVALID_RECORD, error)
    except _RefusedError as error:
        _refuse(answer, error.code, error)
    except MAPPED as error:
        _refuse(answer, error_code_of(error), error)
    return answer


def _refuse(answer: PartitionProduceResponse, code: ErrorCode, error: Exception) -> None:
    answer.error_code = code
    answer.base_offset = _NO_OFFSET
    answer.error_message = str(error)


def _append_batch(log: Log, topic: Topic, batch: memoryview, call: Call, answer: PartitionProduceResponse) -> None:
    """Append one batch. The path of nearly all the bytes that a broker ever sees."""
    state = call.state
    header = check_produced_batch(batch, opened_records=state.validated_records)
    if len(batch) > topic.max_message_bytes or header.attributes & _UNUSUAL:
        _check_circumstances(batch, header, topic, call)
    if header.producer_id >= 0:
        duplicate = log.producers.check(header)
        if duplicate is not None:
            answer.base_offset = duplicate.base_offset
            answer.log_append_time_ms = duplicate.timestamp
            state.writes.share(log, answer)
            return
    answer.base_offset = log.append(batch, header, LEADER_EPOCH, state.clock.now_ms())
    state.writes.stage(log, answer)


_UNUSUAL: Final = 0b10100
"""Attribute bits that need a second look: a codec of 4 and above, or a transactional batch."""


def _check_circumstances(batch: memoryview, header: BatchHeader, topic: Topic, call: Call) -> None:
    if len(batch) > topic.max_message_bytes:
        raise _RefusedError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch of {len(batch)} bytes exceeds max.message.bytes, {topic.max_message_bytes}.",
        )
    if header.codec is CompressionCodec.ZSTD and call.api_version < _FIRST_WITH_ZSTD:
        raise UnsupportedCodecError(f"Produce v{call.api_version} is not allowed to use zstd")
    if header.is_transactional:
        raise _RefusedError(ErrorCode.INVALID_TXN_STATE, f"no transaction is open for producer id {header.producer_id}")
