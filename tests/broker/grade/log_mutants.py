"""The mutants of the stages about topics and Produce."""

from typing import Any, Final

from minibroker_protocol.api_keys import ApiKey
from tests.broker.grade.changes import (
    Change,
    asked,
    codec_of,
    first_batch,
    flipped,
    lose,
    made,
    of_codec,
    put,
    shift,
    signed,
    swap,
)
from tests.broker.grade.relay import Mutant

_C: Final = ApiKey.CREATE_TOPICS
_P: Final = ApiKey.PRODUCE
_F: Final = ApiKey.FETCH
_PRODUCED: Final = "responses.partition_responses"
_FETCHED: Final = "responses.partitions"
_DATA: Final = "topic_data.partition_data"


def _refused(codec: int) -> Change:
    """UNSUPPORTED_COMPRESSION_TYPE for batches with this codec."""
    refuse = put(f"{_PRODUCED}.error_code", 76)

    def change(message: Any, request: Any) -> None:
        if codec_of(request.topic_data[0].partition_data[0].records) == codec:
            refuse(message, request)

    return change


TOPICS: Final = (
    Mutant(
        "one partition, whatever is asked",
        "topics/a-topic-is-created-with-its-partitions",
        _C,
        request=asked(swap("topics.num_partitions", 3, 1)),
    ),
    Mutant(
        "CreateTopics answers and does nothing",
        "topics/a-topic-is-created-with-its-partitions",
        _C,
        request=asked(put("validate_only", True)),
    ),
    Mutant(
        "a result less",
        "topics/the-answer-names-the-topic",
        _C,
        response=lambda m, r: lose("topics")(m, r) if len(m.topics) > 1 else None,
    ),
    Mutant(
        "a topic may be created twice",
        "topics/a-topic-that-exists-has-error-36",
        _C,
        response=swap("topics.error_code", 36, 0),
    ),
    Mutant(
        "any name for a topic", "topics/an-impossible-name-has-error-17", _C, response=swap("topics.error_code", 17, 0)
    ),
    Mutant(
        "long names refused with 42",
        "topics/a-name-that-is-too-long-has-error-17",
        _C,
        response=swap("topics.error_code", 17, 42),
    ),
    Mutant(
        "topics without partitions", "topics/no-partitions-has-error-37", _C, response=swap("topics.error_code", 37, 0)
    ),
    Mutant(
        "-1 taken for a number",
        "topics/minus-one-asks-for-the-defaults",
        _C,
        response=lambda m, r: put("topics.error_code", 37)(m, r) if r.topics[0].num_partitions == -1 else None,
    ),
    Mutant(
        "validate_only ignored", "topics/validate-only-creates-nothing", _C, request=asked(put("validate_only", False))
    ),
    Mutant(
        "all topics fail with one",
        "topics/one-bad-topic-spoils-no-other",
        _C,
        response=lambda m, r: put("topics.error_code", 36)(m, r) if len(m.topics) > 1 else None,
    ),
    Mutant(
        "assignments refused",
        "topics/a-given-assignment-is-used",
        _C,
        response=lambda m, r: put("topics.error_code", 39)(m, r) if r.topics[0].assignments else None,
    ),
    Mutant(
        "any configuration", "topics/a-bad-configuration-has-error-40", _C, request=asked(put("topics.configs", []))
    ),
    Mutant(
        "configurations forgotten",
        "topics/describeconfigs-tells-what-was-set",
        _C,
        request=asked(put("topics.configs", [])),
    ),
    Mutant(
        "DescribeConfigs with the wrong source",
        "topics/describeconfigs-tells-what-was-set",
        ApiKey.DESCRIBE_CONFIGS,
        response=put("results.configs.config_source", 5),
    ),
    Mutant(
        "incremental changes do nothing",
        "topics/incrementalalterconfigs-changes-one-key",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        request=asked(put("validate_only", True)),
    ),
    Mutant(
        "added partitions are not made",
        "topics/partitions-can-be-added",
        ApiKey.CREATE_PARTITIONS,
        request=asked(put("validate_only", True)),
    ),
    Mutant(
        "fewer partitions accepted",
        "topics/fewer-partitions-has-error-37",
        ApiKey.CREATE_PARTITIONS,
        response=swap("results.error_code", 37, 0),
    ),
    Mutant(
        "deleted topics stay",
        "topics/a-deleted-topic-is-gone",
        ApiKey.METADATA,
        response=swap("topics.error_code", 3, 0),
    ),
    Mutant(
        "error 0 for deleting nothing",
        "topics/deleting-what-is-not-there-has-error-3",
        ApiKey.DELETE_TOPICS,
        response=swap("responses.error_code", 3, 0),
    ),
)
PRODUCE: Final = (
    Mutant("base offsets from 1 on", "produce/offsets-begin-at-0", _P, response=shift(f"{_PRODUCED}.base_offset", 1)),
    Mutant(
        "always base offset 0",
        "produce/the-next-batch-follows-the-last-record",
        _P,
        response=put(f"{_PRODUCED}.base_offset", 0),
    ),
    Mutant(
        "all records in partition 0",
        "produce/partitions-count-for-themselves",
        _P,
        request=asked(put(f"{_DATA}.index", 0)),
    ),
    Mutant(
        "the last partition unanswered",
        "produce/several-partitions-of-a-request-are-answered",
        _P,
        response=lambda m, r: (
            lose("responses.partition_responses")(m, r) if len(r.topic_data[0].partition_data) > 1 else None
        ),
    ),
    Mutant(
        "error 0 for a topic that is not there",
        "produce/an-unknown-topic-has-error-3",
        _P,
        response=swap(f"{_PRODUCED}.error_code", 3, 0),
    ),
    Mutant(
        "acks=0 loses the records",
        "produce/acks-0-has-no-answer",
        raw=lambda frame: None if frame[4:6] == b"\0\0" and b"\0\0\0\0\x75\x30" in frame[8:40] else frame,
    ),
    Mutant("any acks", "produce/acks-2-has-error-21", _P, request=asked(swap("acks", 2, 1))),
    Mutant(
        "acks=1 refused",
        "produce/acks-1-is-answered",
        _P,
        response=lambda m, r: put(f"{_PRODUCED}.error_code", 21)(m, r) if r.acks == 1 else None,
    ),
    Mutant(
        "checksums not looked at",
        "produce/a-wrong-checksum-has-error-2",
        _P,
        request=asked(made(f"{_DATA}.records", signed(lambda data: None))),
    ),
    Mutant(
        "damage refused as INVALID_RECORD",
        "produce/a-wrong-checksum-has-error-2",
        _P,
        response=swap(f"{_PRODUCED}.error_code", 2, 87),
    ),
    Mutant(
        "record counts not looked at",
        "produce/a-wrong-record-count-has-error-87",
        _P,
        response=swap(f"{_PRODUCED}.error_code", 87, 0),
    ),
    Mutant(
        "the second batch ignored",
        "produce/two-batches-for-a-partition-are-refused",
        _P,
        request=asked(made(f"{_DATA}.records", first_batch)),
    ),
    Mutant(
        "batches of any size",
        "produce/a-batch-that-is-too-large-has-error-10",
        _P,
        response=swap(f"{_PRODUCED}.error_code", 10, 0),
    ),
    Mutant(
        "records without keys in compacted topics",
        "produce/a-compacted-topic-wants-keys",
        _P,
        response=swap(f"{_PRODUCED}.error_code", 87, 0),
    ),
    Mutant(
        "no record errors", "produce/a-compacted-topic-wants-keys", _P, response=put(f"{_PRODUCED}.record_errors", [])
    ),
    Mutant(
        "no log append time", "produce/log-append-time-is-told", _P, response=put(f"{_PRODUCED}.log_append_time_ms", -1)
    ),
    Mutant(
        "a log append time under CreateTime",
        "produce/log-append-time-is-told",
        _P,
        response=put(f"{_PRODUCED}.log_append_time_ms", 1_800_000_000_000),
    ),
    Mutant(
        "no log start offset in Produce",
        "produce/the-log-start-offset-is-told",
        _P,
        response=put(f"{_PRODUCED}.log_start_offset", -1),
    ),
    Mutant(
        "only the first version of Produce works",
        "produce/all-versions-with-format-2-are-served",
        _P,
        raw=lambda frame: None if frame[4:8] == b"\0\0\0\x0b" else frame,
    ),
    Mutant(
        "no format 0",
        "produce/format-0-is-accepted",
        _P,
        raw=lambda frame: None if frame[4:6] == b"\0\0" and frame[7] < 2 else frame,
    ),
    Mutant(
        "no format 1",
        "produce/format-1-is-accepted",
        _P,
        raw=lambda frame: None if frame[4:8] == b"\0\0\0\x02" else frame,
    ),
    Mutant(
        "the last offset of a wrapper as the base",
        "produce/format-1-may-be-compressed",
        _P,
        response=swap(f"{_PRODUCED}.base_offset", 1, 3),
    ),
    Mutant("gzip refused", "produce/gzip-is-accepted", _P, response=_refused(1)),
    Mutant(
        "snappy called none",
        "produce/snappy-is-accepted",
        _F,
        response=made(f"{_FETCHED}.records", of_codec(2, flipped(22, 2))),
    ),
    Mutant(
        "lz4 damaged", "produce/lz4-is-accepted", _F, response=made(f"{_FETCHED}.records", of_codec(3, flipped(65)))
    ),
    Mutant("zstd refused", "produce/zstd-is-accepted", _P, response=_refused(4)),
    Mutant(
        "a bit of a key flipped",
        "produce/keys-nulls-and-headers-come-back",
        _F,
        response=made(f"{_FETCHED}.records", flipped(66)),
    ),
)
