"""Mutants for the topics and produce stages."""

from typing import Any, Final

from minibroker_protocol.api_keys import ApiKey
from tests.broker.grade.changes import (
    Change,
    codec_of,
    first_batch,
    flipped,
    mapped,
    of_codec,
    put,
    removed,
    shift,
    signed,
    swap,
    when,
)
from tests.broker.grade.relay import Mutant, caught

_C: Final = ApiKey.CREATE_TOPICS
_P: Final = ApiKey.PRODUCE
_F: Final = ApiKey.FETCH
_PRODUCED: Final = "responses.partition_responses"
_FETCHED: Final = "responses.partitions"
_DATA: Final = "topic_data.partition_data"


def _refused(codec: int) -> Change:
    """Return a change that rejects batches with this codec with UNSUPPORTED_COMPRESSION_TYPE."""
    refuse = put(f"{_PRODUCED}.error_code", 76)

    def change(message: Any, request: Any) -> None:
        if codec_of(request.topic_data[0].partition_data[0].records) == codec:
            refuse(message, request)

    return change


TOPICS: Final = caught(
    {
        "topics/a-topic-is-created-with-its-partitions": [
            Mutant("one partition, whatever is asked", _C, request=swap("topics.num_partitions", 3, 1)),
            Mutant("CreateTopics answers and does nothing", _C, request=put("validate_only", True)),
        ],
        "topics/the-answer-names-the-topic": [
            Mutant("a result less", _C, when(lambda m, _: len(m.topics) > 1, removed("topics")))
        ],
        "topics/a-topic-that-exists-has-error-36": [
            Mutant("a topic may be created twice", _C, swap("topics.error_code", 36, 0))
        ],
        "topics/an-impossible-name-has-error-17": [
            Mutant("any name for a topic", _C, swap("topics.error_code", 17, 0))
        ],
        "topics/a-name-that-is-too-long-has-error-17": [
            Mutant("long names refused with 42", _C, swap("topics.error_code", 17, 42))
        ],
        "topics/no-partitions-has-error-37": [
            Mutant("topics without partitions", _C, swap("topics.error_code", 37, 0))
        ],
        "topics/minus-one-asks-for-the-defaults": [
            Mutant(
                "-1 taken for a number",
                _C,
                when(lambda _, r: r.topics[0].num_partitions == -1, put("topics.error_code", 37)),
            )
        ],
        "topics/validate-only-creates-nothing": [
            Mutant("validate_only ignored", _C, request=put("validate_only", False))
        ],
        "topics/one-bad-topic-spoils-no-other": [
            Mutant("all topics fail with one", _C, when(lambda m, _: len(m.topics) > 1, put("topics.error_code", 36)))
        ],
        "topics/a-given-assignment-is-used": [
            Mutant("assignments refused", _C, when(lambda _, r: r.topics[0].assignments, put("topics.error_code", 39)))
        ],
        "topics/a-bad-configuration-has-error-40": [Mutant("any configuration", _C, request=put("topics.configs", []))],
        "topics/describeconfigs-tells-what-was-set": [
            Mutant("configurations forgotten", _C, request=put("topics.configs", [])),
            Mutant(
                "DescribeConfigs with the wrong source",
                ApiKey.DESCRIBE_CONFIGS,
                put("results.configs.config_source", 5),
            ),
        ],
        "topics/incrementalalterconfigs-changes-one-key": [
            Mutant(
                "incremental changes do nothing", ApiKey.INCREMENTAL_ALTER_CONFIGS, request=put("validate_only", True)
            )
        ],
        "topics/partitions-can-be-added": [
            Mutant("added partitions are not made", ApiKey.CREATE_PARTITIONS, request=put("validate_only", True))
        ],
        "topics/fewer-partitions-has-error-37": [
            Mutant("fewer partitions accepted", ApiKey.CREATE_PARTITIONS, swap("results.error_code", 37, 0))
        ],
        "topics/a-deleted-topic-is-gone": [
            Mutant("deleted topics stay", ApiKey.METADATA, swap("topics.error_code", 3, 0))
        ],
        "topics/deleting-what-is-not-there-has-error-3": [
            Mutant("error 0 for deleting nothing", ApiKey.DELETE_TOPICS, swap("responses.error_code", 3, 0))
        ],
    }
)
PRODUCE: Final = caught(
    {
        "produce/offsets-begin-at-0": [Mutant("base offsets from 1 on", _P, shift(f"{_PRODUCED}.base_offset", 1))],
        "produce/the-next-batch-follows-the-last-record": [
            Mutant("always base offset 0", _P, put(f"{_PRODUCED}.base_offset", 0))
        ],
        "produce/partitions-count-for-themselves": [
            Mutant("all records in partition 0", _P, request=put(f"{_DATA}.index", 0))
        ],
        "produce/several-partitions-of-a-request-are-answered": [
            Mutant(
                "the last partition unanswered",
                _P,
                when(lambda _, r: len(r.topic_data[0].partition_data) > 1, removed("responses.partition_responses")),
            )
        ],
        "produce/an-unknown-topic-has-error-3": [
            Mutant("error 0 for a topic that is not there", _P, swap(f"{_PRODUCED}.error_code", 3, 0))
        ],
        "produce/acks-0-has-no-answer": [
            Mutant(
                "acks=0 loses the records",
                raw=lambda frame: None if frame[4:6] == b"\0\0" and b"\0\0\0\0\x75\x30" in frame[8:40] else frame,
            )
        ],
        "produce/acks-2-has-error-21": [Mutant("any acks", _P, request=swap("acks", 2, 1))],
        "produce/acks-1-is-answered": [
            Mutant("acks=1 refused", _P, when(lambda _, r: r.acks == 1, put(f"{_PRODUCED}.error_code", 21)))
        ],
        "produce/a-wrong-checksum-has-error-2": [
            Mutant("checksums not looked at", _P, request=mapped(f"{_DATA}.records", signed(lambda data: None))),
            Mutant("damage refused as INVALID_RECORD", _P, swap(f"{_PRODUCED}.error_code", 2, 87)),
        ],
        "produce/a-wrong-record-count-has-error-87": [
            Mutant("record counts not looked at", _P, swap(f"{_PRODUCED}.error_code", 87, 0))
        ],
        "produce/two-batches-for-a-partition-are-refused": [
            Mutant("the second batch ignored", _P, request=mapped(f"{_DATA}.records", first_batch))
        ],
        "produce/a-batch-that-is-too-large-has-error-10": [
            Mutant("batches of any size", _P, swap(f"{_PRODUCED}.error_code", 10, 0))
        ],
        "produce/a-compacted-topic-wants-keys": [
            Mutant("records without keys in compacted topics", _P, swap(f"{_PRODUCED}.error_code", 87, 0)),
            Mutant("no record errors", _P, put(f"{_PRODUCED}.record_errors", [])),
        ],
        "produce/log-append-time-is-told": [
            Mutant("no log append time", _P, put(f"{_PRODUCED}.log_append_time_ms", -1)),
            Mutant("a log append time under CreateTime", _P, put(f"{_PRODUCED}.log_append_time_ms", 1_800_000_000_000)),
        ],
        "produce/the-log-start-offset-is-told": [
            Mutant("no log start offset in Produce", _P, put(f"{_PRODUCED}.log_start_offset", -1))
        ],
        "produce/all-versions-with-format-2-are-served": [
            Mutant(
                "only the first version of Produce works",
                _P,
                raw=lambda frame: None if frame[4:8] == b"\0\0\0\x0b" else frame,
            )
        ],
        "produce/format-0-is-accepted": [
            Mutant("no format 0", _P, raw=lambda frame: None if frame[4:6] == b"\0\0" and frame[7] < 2 else frame)
        ],
        "produce/format-1-is-accepted": [
            Mutant("no format 1", _P, raw=lambda frame: None if frame[4:8] == b"\0\0\0\x02" else frame)
        ],
        "produce/format-1-may-be-compressed": [
            Mutant("the last offset of a wrapper as the base", _P, swap(f"{_PRODUCED}.base_offset", 1, 3))
        ],
        "produce/gzip-is-accepted": [Mutant("gzip refused", _P, _refused(1))],
        "produce/snappy-is-accepted": [
            Mutant("snappy called none", _F, mapped(f"{_FETCHED}.records", of_codec(2, flipped(22, 2))))
        ],
        "produce/lz4-is-accepted": [Mutant("lz4 damaged", _F, mapped(f"{_FETCHED}.records", of_codec(3, flipped(65))))],
        "produce/zstd-is-accepted": [Mutant("zstd refused", _P, _refused(4))],
        "produce/keys-nulls-and-headers-come-back": [
            Mutant("a bit of a key flipped", _F, mapped(f"{_FETCHED}.records", flipped(66)))
        ],
    }
)
