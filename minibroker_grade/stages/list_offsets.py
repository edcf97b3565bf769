"""Stage 7: ListOffsets, from times to offsets."""

from typing import Any, Final

from minibroker_grade.check import Stage
from minibroker_grade.records import (
    EARLIEST,
    LATEST,
    OFFSET,
    PRODUCE_ERROR,
    TIME,
    ends_at,
    new_records,
    offset_of,
    send,
    write,
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

STAGE: Final = Stage("list-offsets", "7 ListOffsets", "Clients find the start, the end, and the offset of a time.")
_SOURCE: Final = "UnifiedLog.fetchOffsetByTimestamp"
_TIME: Final = "topics[0].partitions[0].timestamp"
_ERROR: Final = "topics[0].partitions[0].error_code"


def _delete(b: Subject, topic: str, offset: int) -> Any:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=30000)
    return b.ask(request)


def _write_at(b: Subject, topic: str, *times: int) -> None:
    for time in times:
        b.same(
            send(b, topic, build_batch(new_records("x", start=time))),
            PRODUCE_ERROR,
            0,
        )


@STAGE.check(_SOURCE, look="Start and end are both 0 before the first record.")
def an_empty_partition_begins_and_ends_at_0(b: Subject) -> None:
    """The special times -2 and -1 ask for start and end."""
    topic = b.topic()
    b.same(offset_of(b, topic, EARLIEST), OFFSET, 0)
    ends_at(b, topic, 0)


@STAGE.check(_SOURCE, look="The end is the offset that the next record gets.")
def the_end_is_behind_the_last_record(b: Subject) -> None:
    """After three records the end is 3, and the start stays 0."""
    topic = b.topic()
    write(b, topic, "a", "b", "c")
    ends_at(b, topic, 3)
    b.same(offset_of(b, topic, EARLIEST), OFFSET, 0)


@STAGE.check(_SOURCE, look="Answer timestamp -1 for start and end.")
def start_and_end_have_no_time(b: Subject) -> None:
    """For -1 and -2 the answer has no time of a record."""
    topic = b.topic()
    write(b, topic, "a")
    b.same(offset_of(b, topic, LATEST), _TIME, -1)
    b.same(offset_of(b, topic, EARLIEST), _TIME, -1)


@STAGE.check("KIP-79", look="Look for the first record at or after the time.")
def a_time_finds_the_first_record_at_or_after_it(b: Subject) -> None:
    """The answer is the first record with this time or a later one, with its own time."""
    topic = b.topic()
    _write_at(b, topic, TIME, TIME + 100, TIME + 200)
    answer = offset_of(b, topic, TIME + 100)
    b.same(answer, OFFSET, 1)
    b.same(answer, _TIME, TIME + 100)
    answer = offset_of(b, topic, TIME + 101)
    b.same(answer, OFFSET, 2)
    b.same(answer, _TIME, TIME + 200)


@STAGE.check("KIP-79, FileRecords.searchForTimestamp", look="Open the batch and look at its records.")
def a_time_finds_a_record_within_a_batch(b: Subject) -> None:
    """The offset is that of the record, not the base offset of its batch."""
    topic = b.topic()
    write(b, topic, "a", "b", "c", "d")
    answer = offset_of(b, topic, TIME + 2)
    b.same(answer, OFFSET, 2)
    b.same(answer, _TIME, TIME + 2)


@STAGE.check("KIP-79", look="Answer offset -1 and no error when no record is that late.")
def a_time_after_all_records_finds_nothing(b: Subject) -> None:
    """Nothing that late: offset and time are -1, the error is 0."""
    topic = b.topic()
    write(b, topic, "a")
    answer = offset_of(b, topic, TIME + 10**9)
    b.same(answer, _ERROR, 0)
    b.same(answer, OFFSET, -1)
    b.same(answer, _TIME, -1)


@STAGE.check(_SOURCE, look="Times need not rise: search from the start for the first one that is late enough.")
def times_may_go_back(b: Subject) -> None:
    """Producers choose the times: a later record may have an earlier one."""
    topic = b.topic()
    _write_at(b, topic, TIME + 500, TIME, TIME + 900)
    b.same(offset_of(b, topic, TIME + 100), OFFSET, 0)
    b.same(offset_of(b, topic, TIME + 600), OFFSET, 2)


@STAGE.check("KIP-734", look="Keep the largest time of each segment with its offset.")
def minus_3_finds_the_largest_time(b: Subject) -> None:
    """From version 7 on -3 asks for the record with the largest timestamp."""
    topic = b.topic()
    _write_at(b, topic, TIME, TIME + 900, TIME + 100)
    answer = offset_of(b, topic, -3, 7)
    b.same(answer, OFFSET, 1)
    b.same(answer, _TIME, TIME + 900)


@STAGE.check("KafkaApis.handleListOffsetRequest", look="Answer UNKNOWN_TOPIC_OR_PARTITION for each partition asked.")
def an_unknown_topic_has_error_3(b: Subject) -> None:
    """Each partition has its own error."""
    b.same(offset_of(b, b.name(), LATEST), _ERROR, 3)


@STAGE.check("KIP-107, ReplicaManager.deleteRecords", look="Move the log's start, and answer with the new one.")
def deleterecords_moves_the_start(b: Subject) -> None:
    """DeleteRecords takes away what is before an offset: that is the start afterwards."""
    topic = b.topic()
    write(b, topic, "a", "b", "c")
    answer = _delete(b, topic, 2)
    b.same(answer, _ERROR, 0)
    b.same(answer, "topics[0].partitions[0].low_watermark", 2)
    b.same(offset_of(b, topic, EARLIEST), OFFSET, 2)
    ends_at(b, topic, 3)


@STAGE.check("KIP-107, UnifiedLog.maybeIncrementLogStartOffset", look="Refuse an offset above the high watermark.")
def deleterecords_behind_the_end_has_error_1(b: Subject) -> None:
    """Records that are not there yet cannot be deleted: OFFSET_OUT_OF_RANGE."""
    topic = b.topic()
    write(b, topic, "a")
    b.same(_delete(b, topic, 5), _ERROR, 1)


@STAGE.check(
    "KIP-320, LeaderEpochFileCache.endOffsetFor", look="Tell the end offset of the current epoch: the log's end."
)
def the_current_epoch_ends_at_the_end(b: Subject) -> None:
    """OffsetForLeaderEpoch says where an epoch ends, which is how a client finds out that a log was truncated."""
    topic = b.topic()
    write(b, topic, "a", "b")
    partition = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[partition])]
    )
    answer = b.ask(request)
    b.same(answer, _ERROR, 0)
    b.same(answer, "topics[0].partitions[0].end_offset", 2)
