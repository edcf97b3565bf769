"""Stage 5: Produce, in each message format."""

from typing import Final

from crc32c import crc32c

from minibroker_grade.check import SkippedError, Stage
from minibroker_grade.records import (
    LATEST,
    PRODUCE_ERROR,
    PRODUCED,
    TIME,
    check_end,
    check_produced,
    fetch,
    list_offsets,
    new_records,
    produce,
    produce_request,
    records_in,
    send,
    topic_with,
    values_of,
    write,
)
from minibroker_grade.subject import Subject
from minibroker_grade.wire import encode_request
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord

STAGE: Final = Stage("produce", "5 Produce", "Batches get offsets. Corrupt and too large batches are rejected.")
_CRC_POSITION: Final = 17


@STAGE.check(
    "LogValidator.validateMessagesAndAssignOffsets", look="Assign offset 0 to the first record of an empty partition."
)
def offsets_begin_at_0(b: Subject) -> None:
    """The first batch of a partition gets base offset 0."""
    check_produced(b, produce(b, b.topic(), "a"), 0)


@STAGE.check("LogValidator.validateMessagesAndAssignOffsets", look="Count records, not batches.")
def the_next_batch_follows_the_last_record(b: Subject) -> None:
    """After a batch of three records, the next base offset is 3."""
    check_produced(b, produce(b, topic_with(b, "a", "b", "c"), "d"), 3)


@STAGE.check("UnifiedLog.append", look="Keep a next offset for each partition.")
def partitions_count_for_themselves(b: Subject) -> None:
    """Each partition has its own offsets."""
    topic = b.topic(2)
    write(b, topic, "a", "b")
    check_produced(b, send(b, topic, build_batch(new_records("c")), partition=1), 0)


@STAGE.check("KafkaApis.handleProduceRequest", look="Return a separate result for each partition.")
def several_partitions_of_a_request_are_answered(b: Subject) -> None:
    """A request can have batches for many partitions. A partition that does not exist does not affect the others."""
    topic = b.topic(2)
    data = [PartitionProduceData(index=index, records=build_batch(new_records("x"))) for index in (0, 1, 7)]
    request = ProduceRequest(acks=-1, timeout_ms=30000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    answer = b.ask(request)
    errors = {partition.index: partition.error_code for partition in answer.responses[0].partition_responses}
    b.equal(errors, {0: 0, 1: 0, 7: 3}, "the errors by partition", answer, "responses[0].partition_responses")


@STAGE.check("KafkaApis.handleProduceRequest", look="Return UNKNOWN_TOPIC_OR_PARTITION, and do not create the topic.")
def an_unknown_topic_has_error_3(b: Subject) -> None:
    """Produce does not create topics. Only Metadata and CreateTopics do."""
    b.same(produce(b, b.name(), "a"), PRODUCE_ERROR, 3)


@STAGE.check("KafkaApis.handleProduceRequest", look="Do not send a response for acks=0.")
def acks_0_has_no_answer(b: Subject) -> None:
    """With acks=0, the broker sends no response, and the next response belongs to the next request."""
    topic = b.topic()
    version = b.newest(ProduceRequest)
    b.wire.send_bytes(encode_request(produce_request(topic, build_batch(new_records("a")), acks=0), version, 0))
    b.until(
        lambda: list_offsets(b, topic, LATEST),
        lambda answer: answer.topics[0].partitions[0].offset == 1,
        "offset 1 as the end",
    )


@STAGE.check("ReplicaManager.isValidRequiredAcks", look="Accept only -1, 0 and 1.")
def acks_2_has_error_21(b: Subject) -> None:
    """All values except -1, 0 and 1 are rejected with INVALID_REQUIRED_ACKS."""
    b.same(send(b, b.topic(), build_batch(new_records("a")), acks=2), PRODUCE_ERROR, 21)


@STAGE.check("ReplicaManager.appendRecords", look="Respond to acks=1 as soon as the leader has written the records.")
def acks_1_is_answered(b: Subject) -> None:
    """With acks=1, the leader's own write is sufficient."""
    check_produced(b, send(b, b.topic(), build_batch(new_records("a")), acks=1), 0)


@STAGE.check("DefaultRecordBatch.ensureValid", look="Compute the CRC-32C from the attributes to the end of the batch.")
def a_wrong_checksum_has_error_2(b: Subject) -> None:
    """A batch with a wrong CRC-32C is rejected with CORRUPT_MESSAGE, and nothing is appended to the log."""
    topic = b.topic()
    batch = build_batch(new_records("a"))
    batch[_CRC_POSITION] ^= 1
    b.same(send(b, topic, batch), PRODUCE_ERROR, 2)
    check_end(b, topic, 0)


@STAGE.check(
    "LogValidator.validateBatch", look="Compare the record count with the last offset delta and with the records."
)
def a_wrong_record_count_has_error_87(b: Subject) -> None:
    """A batch whose record count does not match its last offset delta is rejected with INVALID_RECORD."""
    batch = build_batch(new_records("a", "b"))
    batch[57:61] = (3).to_bytes(4, "big")
    batch[_CRC_POSITION : _CRC_POSITION + 4] = crc32c(bytes(batch[_CRC_POSITION + 4 :])).to_bytes(4, "big")
    b.same(send(b, b.topic(), batch), PRODUCE_ERROR, 87)


@STAGE.check("ProduceRequest.validateRecords", look="From version 3 on, reject a second batch and old message formats.")
def two_batches_for_a_partition_are_refused(b: Subject) -> None:
    """From version 3 on, a partition has exactly one batch. Two or more are rejected with INVALID_RECORD."""
    batches = build_batch(new_records("a")) + build_batch(new_records("b"))
    b.same(send(b, b.topic(), batches), PRODUCE_ERROR, 87)


@STAGE.check("UnifiedLog.analyzeAndValidateRecords", look="Check the size of each batch against max.message.bytes.")
def a_batch_that_is_too_large_has_error_10(b: Subject) -> None:
    """A batch larger than the topic's max.message.bytes is rejected with MESSAGE_TOO_LARGE."""
    b.same(produce(b, b.topic(max_message_bytes="1000"), "x" * 2000), PRODUCE_ERROR, 10)


@STAGE.check("KIP-467, LogValidator.validateKey", look="Reject records without keys if cleanup.policy has compact.")
def a_compacted_topic_wants_keys(b: Subject) -> None:
    """A record without a key cannot be compacted and is rejected with INVALID_RECORD.

    From version 8 on, the response also has the index of the record.
    """
    answer = produce(b, b.topic(cleanup_policy="compact"), "a")
    b.same(answer, PRODUCE_ERROR, 87)
    if b.exchanges[-1].version >= 8:  # noqa: PLR2004 - the first version with record errors
        b.same(answer, f"{PRODUCED}.record_errors[0].batch_index", 0)


@STAGE.check(
    "LogValidator.validateMessagesAndAssignOffsets, message.timestamp.type",
    look="Write the broker's timestamp into the batch, and return it.",
)
def log_append_time_is_told(b: Subject) -> None:
    """With LogAppendTime, the response has the broker's timestamp. With CreateTime, the timestamp is -1."""
    answer = produce(b, b.topic(), "a")
    b.same(answer, f"{PRODUCED}.log_append_time_ms", -1)
    answer = produce(b, b.topic(message_timestamp_type="LogAppendTime"), "a")
    time = answer.responses[0].partition_responses[0].log_append_time_ms
    b.holds(time > TIME, "the broker's time", answer, f"{PRODUCED}.log_append_time_ms")


@STAGE.check("ProduceResponse.logStartOffset", look="Return the log start offset from version 5 on.")
def the_log_start_offset_is_told(b: Subject) -> None:
    """The response has the log start offset, which is 0 in a new log."""
    b.same(produce(b, b.topic(), "a"), f"{PRODUCED}.log_start_offset", 0)


def _served_versions(b: Subject, first: int, last: int) -> list[int]:
    served = b.versions.get(ApiKey.PRODUCE, (0, -1))
    if b.versions.get(ApiKey.FETCH, (0, 0))[0] >= 4:  # noqa: PLR2004 - KIP-896
        # Kafka 4 lists Produce versions 0 to 2 only for librdkafka, and does not serve them (KAFKA-18659).
        served = (max(served[0], 3), served[1])
    versions = list(range(max(first, served[0]), min(last, served[1]) + 1))
    if not versions:
        raise SkippedError(f"the broker serves Produce {served[0]} to {served[1]}")
    return versions


@STAGE.check(
    "ProduceRequest.validateRecords", look="Implement each version of Produce: each adds fields to the response."
)
def all_versions_with_format_2_are_served(b: Subject) -> None:
    """Versions 3 to 12 identify topics by name and carry batches of format v2."""
    topic = b.topic()
    for offset, version in enumerate(_served_versions(b, 3, 12)):
        check_produced(b, produce(b, topic, "a", version=version), offset)


@STAGE.check("LogValidator, AbstractLegacyRecordBatch", look="Read message sets of magic 0, and convert them.")
def format_0_is_accepted(b: Subject) -> None:
    """Produce 0 and 1 carry messages without timestamps, each with its own CRC-32."""
    versions = _served_versions(b, 0, 1)
    topic = b.topic()
    message_set = build_message_set(new_records("a", "b"), magic=0)
    answer = send(b, topic, message_set, version=versions[-1])
    b.same(answer, PRODUCE_ERROR, 0)
    b.equal(values_of(records_in(fetch(b, topic))), ["a", "b"], "the values", b.exchanges[-1].response)


@STAGE.check("KIP-32, LogValidator", look="Read message sets of magic 1, and keep their timestamps.")
def format_1_is_accepted(b: Subject) -> None:
    """Produce 2 carries messages with timestamps."""
    versions = _served_versions(b, 2, 2)
    topic = b.topic()
    message_set = build_message_set(new_records("a", "b"), magic=1)
    b.same(send(b, topic, message_set, version=versions[-1]), PRODUCE_ERROR, 0)
    records = records_in(fetch(b, topic))
    b.equal([record.timestamp for record in records], [TIME, TIME + 1], "the timestamps", b.exchanges[-1].response)


@STAGE.check("KIP-31, LogValidator", look="Decompress the wrapper message, and assign offsets to its messages.")
def format_1_may_be_compressed(b: Subject) -> None:
    """A compressed message set is one message whose value is a message set with relative offsets."""
    versions = _served_versions(b, 2, 2)
    topic = topic_with(b, "before")
    message_set = build_message_set(new_records("a", "b", "c"), magic=1, codec=CompressionCodec.GZIP)
    check_produced(b, send(b, topic, message_set, version=versions[-1]), 1)
    records = records_in(fetch(b, topic, 1))
    b.equal([record.offset for record in records], [1, 2, 3], "the offsets", b.exchanges[-1].response)


def _check_codec(b: Subject, codec: CompressionCodec) -> None:
    topic = b.topic()
    values = [f"value {index}" for index in range(50)]
    b.same(produce(b, topic, *values, codec=codec), PRODUCE_ERROR, 0)
    answer = fetch(b, topic)
    b.equal(values_of(records_in(answer)), values, "the values", answer)


@STAGE.check("Compression", look="The records after the header are one gzip stream.")
def gzip_is_accepted(b: Subject) -> None:
    """Codec 1: the records are returned unchanged."""
    _check_codec(b, CompressionCodec.GZIP)


@STAGE.check("Compression", look="Kafka uses the snappy framing of snappy-java.")
def snappy_is_accepted(b: Subject) -> None:
    """Codec 2: the records are returned unchanged."""
    _check_codec(b, CompressionCodec.SNAPPY)


@STAGE.check("Compression, KAFKA-3160", look="The records are one LZ4 frame.")
def lz4_is_accepted(b: Subject) -> None:
    """Codec 3: the records are returned unchanged."""
    _check_codec(b, CompressionCodec.LZ4)


@STAGE.check("KIP-110", look="Accept zstd from Produce 7 on.")
def zstd_is_accepted(b: Subject) -> None:
    """Codec 4: the records are returned unchanged."""
    _check_codec(b, CompressionCodec.ZSTD)


@STAGE.check("KIP-82, DefaultRecord", look="Store keys, values and headers unchanged, including nulls.")
def keys_nulls_and_headers_come_back(b: Subject) -> None:
    """Keys, values and header values can be null or empty. All are returned unchanged."""
    topic = b.topic()
    sent = [
        NewRecord(b"key", b"value", TIME, (("h", b"1"), ("h", None), ("", b""))),
        NewRecord(None, None, TIME),
        NewRecord(b"", b"", TIME),
    ]
    b.same(send(b, topic, build_batch(sent)), PRODUCE_ERROR, 0)
    answer = fetch(b, topic)
    returned = [(record.key, record.value, tuple(record.headers)) for record in records_in(answer)]
    path = "responses[0].partitions[0].records"
    b.equal(returned, [(new.key, new.value, tuple(new.headers)) for new in sent], "the records", answer, path)
