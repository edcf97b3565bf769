"""Stage 7: ListOffsets, which returns offsets for timestamps."""

from typing import Any, Final

from minibroker_grade.check import Stage
from minibroker_grade.records import (
    EARLIEST,
    LATEST,
    OFFSET,
    PRODUCE_ERROR,
    TIME,
    check_end,
    list_offsets,
    new_records,
    send,
    topic_with,
)
from minibroker_grade.subject import Subject
from minibroker_protocol.messages.log_offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minibroker_protocol.records.builder import build_batch

STAGE: Final = Stage("list-offsets", "7 ListOffsets", "Clients find the start, the end, and offsets by timestamp.")
_SOURCE: Final = "UnifiedLog.fetchOffsetByTimestamp"
_TIME: Final = "topics[0].partitions[0].timestamp"
_ERROR: Final = "topics[0].partitions[0].error_code"


def _delete_records(b: Subject, topic: str, offset: int) -> Any:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=30000)
    return b.ask(request)


def _produce_at(b: Subject, topic: str, *times: int) -> None:
    for time in times:
        b.same(send(b, topic, build_batch(new_records("x", start=time))), PRODUCE_ERROR, 0)


def _check_found(b: Subject, answer: Any, offset: int, timestamp: int) -> None:
    b.same(answer, OFFSET, offset)
    b.same(answer, _TIME, timestamp)


@STAGE.check(_SOURCE, look="Return 0 for both start and end before the first record.")
def an_empty_partition_begins_and_ends_at_0(b: Subject) -> None:
    """The special timestamps -2 and -1 request the start and the end."""
    topic = b.topic()
    b.same(list_offsets(b, topic, EARLIEST), OFFSET, 0)
    check_end(b, topic, 0)


@STAGE.check(_SOURCE, look="Return the offset of the next record as the end.")
def the_end_is_behind_the_last_record(b: Subject) -> None:
    """After three records, the end is 3 and the start is still 0."""
    topic = topic_with(b, "a", "b", "c")
    check_end(b, topic, 3)
    b.same(list_offsets(b, topic, EARLIEST), OFFSET, 0)


@STAGE.check(_SOURCE, look="Return timestamp -1 for start and end.")
def start_and_end_have_no_time(b: Subject) -> None:
    """For -1 and -2, the response has no record timestamp."""
    topic = topic_with(b, "a")
    b.same(list_offsets(b, topic, LATEST), _TIME, -1)
    b.same(list_offsets(b, topic, EARLIEST), _TIME, -1)


@STAGE.check("KIP-79", look="Find the first record at or after the timestamp.")
def a_time_finds_the_first_record_at_or_after_it(b: Subject) -> None:
    """The response has the offset and the timestamp of the first record at or after the requested timestamp."""
    topic = b.topic()
    _produce_at(b, topic, TIME, TIME + 100, TIME + 200)
    answer = list_offsets(b, topic, TIME + 100)
    _check_found(b, answer, 1, TIME + 100)
    answer = list_offsets(b, topic, TIME + 101)
    _check_found(b, answer, 2, TIME + 200)


@STAGE.check("KIP-79, FileRecords.searchForTimestamp", look="Search the records within the batch.")
def a_time_finds_a_record_within_a_batch(b: Subject) -> None:
    """The offset is that of the record, not the base offset of its batch."""
    answer = list_offsets(b, topic_with(b, "a", "b", "c", "d"), TIME + 2)
    _check_found(b, answer, 2, TIME + 2)


@STAGE.check("KIP-79", look="Return offset -1 and no error if no record is late enough.")
def a_time_after_all_records_finds_nothing(b: Subject) -> None:
    """If no record is late enough, offset and timestamp are -1 and the error is 0."""
    answer = list_offsets(b, topic_with(b, "a"), TIME + 10**9)
    b.same(answer, _ERROR, 0)
    _check_found(b, answer, -1, -1)


@STAGE.check(_SOURCE, look="Timestamps can decrease: search from the start for the first one that is late enough.")
def times_may_go_back(b: Subject) -> None:
    """Producers choose the timestamps, so a later record can have an earlier timestamp."""
    topic = b.topic()
    _produce_at(b, topic, TIME + 500, TIME, TIME + 900)
    b.same(list_offsets(b, topic, TIME + 100), OFFSET, 0)
    b.same(list_offsets(b, topic, TIME + 600), OFFSET, 2)


@STAGE.check("KIP-734", look="Keep the largest timestamp of each segment with its offset.")
def minus_3_finds_the_largest_time(b: Subject) -> None:
    """From version 7 on, -3 requests the record with the largest timestamp."""
    topic = b.topic()
    _produce_at(b, topic, TIME, TIME + 900, TIME + 100)
    answer = list_offsets(b, topic, -3, 7)
    _check_found(b, answer, 1, TIME + 900)


@STAGE.check("KafkaApis.handleListOffsetRequest", look="Return UNKNOWN_TOPIC_OR_PARTITION for each partition.")
def an_unknown_topic_has_error_3(b: Subject) -> None:
    """Each partition has its own error."""
    b.same(list_offsets(b, b.name(), LATEST), _ERROR, 3)


@STAGE.check("KIP-107, ReplicaManager.deleteRecords", look="Advance the log start offset, and return it.")
def deleterecords_moves_the_start(b: Subject) -> None:
    """DeleteRecords deletes the records before an offset, which becomes the log start offset."""
    topic = topic_with(b, "a", "b", "c")
    answer = _delete_records(b, topic, 2)
    b.same(answer, _ERROR, 0)
    b.same(answer, "topics[0].partitions[0].low_watermark", 2)
    b.same(list_offsets(b, topic, EARLIEST), OFFSET, 2)
    check_end(b, topic, 3)


@STAGE.check("KIP-107, UnifiedLog.maybeIncrementLogStartOffset", look="Reject an offset above the high watermark.")
def deleterecords_behind_the_end_has_error_1(b: Subject) -> None:
    """Deleting records that do not exist yet fails with OFFSET_OUT_OF_RANGE."""
    b.same(_delete_records(b, topic_with(b, "a"), 5), _ERROR, 1)


@STAGE.check("KIP-320, LeaderEpochFileCache.endOffsetFor", look="Return the log end offset for the current epoch.")
def the_current_epoch_ends_at_the_end(b: Subject) -> None:
    """OffsetForLeaderEpoch returns the end offset of an epoch. Clients use it to detect a truncated log."""
    topic = topic_with(b, "a", "b")
    partition = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[partition])]
    )
    answer = b.ask(request)
    b.same(answer, _ERROR, 0)
    b.same(answer, "topics[0].partitions[0].end_offset", 2)
