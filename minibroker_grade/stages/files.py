"""Stage 8: log files, and brokers that are killed and restarted."""

import base64
import os
import struct
from collections.abc import Iterator
from typing import Final

from minibroker_grade.check import CheckFailedError, SkippedError, Stage
from minibroker_grade.groups import commit_offset, fetch_committed, new_group, wait_for_coordinator
from minibroker_grade.process import BrokerProcess
from minibroker_grade.records import (
    EARLIEST,
    OFFSET,
    TIME,
    check_end,
    check_produced,
    check_values,
    fetch,
    list_offsets,
    produce,
    topic_with,
    write,
)
from minibroker_grade.subject import Subject, first_difference
from minibroker_protocol.errors import ProtocolError
from minibroker_protocol.messages.metadata import MetadataRequest
from minibroker_protocol.records.batch import Batch, iter_batches

STAGE: Final = Stage(
    "files", "8 Files and restart", "DumpLogSegments can read segments and indexes, which survive a kill."
)
_SEGMENT: Final = "LogSegment, FileRecords, DumpLogSegments"
_RESTART_S: Final = 240.0
_INDEX_ENTRY: Final = struct.Struct(">ii")
_TIME_INDEX_ENTRY: Final = struct.Struct(">qi")
_FIRST_SEGMENT: Final = "0" * 20
_CRC_POSITION: Final = 17
"""The position of the checksum in a batch of format v2."""
_SEGMENT_BYTES: Final = 1 << 20
"""The smallest segment size that Kafka 4 allows (KIP-1030)."""


def _find_directory(b: Subject, topic: str) -> str:
    if b.data_dir is None:
        raise SkippedError("the grader does not know the log directory: --data-dir or --start")
    return os.path.join(b.data_dir, f"{topic}-0")


def _list_files(b: Subject, topic: str, suffix: str) -> list[str]:
    """Return the files of a partition with this suffix, sorted by offset."""
    directory = _find_directory(b, topic)
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(suffix))
    except OSError:
        raise CheckFailedError(f"a directory {directory}", "none") from None
    return [os.path.join(directory, name) for name in names]


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _read_batches(b: Subject, topic: str) -> list[Batch]:
    """Return the batches in all segment files."""
    try:
        return [batch for path in _list_files(b, topic, ".log") for batch in iter_batches(_read_file(path))]
    except ProtocolError as error:
        raise CheckFailedError("batches that can be read", str(error)) from None


def _create_large_topic(b: Subject) -> str:
    """Create a topic with several segments and index entries."""
    topic = b.topic(segment_bytes=str(_SEGMENT_BYTES), index_interval_bytes="1000")
    for index in range(40):
        write(b, topic, f"{index:04}" * 15000)
    return topic


def _read_entries(path: str, form: struct.Struct) -> Iterator[tuple[int, int]]:
    """Yield the entries of an index. The file of an active segment is preallocated and ends with zeros."""
    data = _read_file(path)
    for position in range(0, len(data) - form.size + 1, form.size):
        entry = form.unpack_from(data, position)
        if position and not any(entry):
            return
        yield entry


@STAGE.check("LocalLog.logDirName, LogFileUtils.filenamePrefixFromOffset", look="Name the directory TOPIC-PARTITION.")
def a_partition_has_a_directory_and_a_first_segment(b: Subject) -> None:
    """The log of partition 0 of topic t is in t-0, and its first segment is 00000000000000000000.log."""
    topic = topic_with(b, "a")
    names = [os.path.basename(path) for path in _list_files(b, topic, ".log")]
    b.equal(names, [f"{_FIRST_SEGMENT}.log"], "the names of the segments")


@STAGE.check(_SEGMENT, look="Write batches in their wire format, one after another.")
def a_segment_is_its_batches(b: Subject) -> None:
    """A segment contains the bytes of its batches, with their final offsets and checksums, and nothing else."""
    topic = topic_with(b, "a", "b")
    write(b, topic, "c")
    batches = _read_batches(b, topic)
    (path,) = _list_files(b, topic, ".log")
    position = 0
    for batch in batches:
        try:
            batch.check_crc()
        except ProtocolError as error:
            at = position + _CRC_POSITION
            raise CheckFailedError("a checksum that fits", str(error), path="in crc", file=path, at=at) from None
        position += len(batch.buffer)
    offsets = [record.offset for batch in batches for record in batch]
    if offsets != [0, 1, 2]:
        expected = "the offsets 0, 1 and 2, as Produce answered"
        raise CheckFailedError(expected, f"{offsets}", path="where the first batch has its base offset", file=path)
    if (size := os.path.getsize(path)) != position:
        actual = f"{size - position} more behind the last batch"
        raise CheckFailedError(f"a file of {position} bytes", actual, file=path, at=position)


@STAGE.check("FileRecords.writeTo", look="Send the bytes of the file: Kafka copies them from the file to the socket.")
def fetch_returns_the_bytes_of_the_file(b: Subject) -> None:
    """The batches in a response are byte for byte those in the segment."""
    topic = topic_with(b, "a", "b")
    answer = fetch(b, topic)
    (path,) = _list_files(b, topic, ".log")
    actual, stored = bytes(answer.responses[0].partitions[0].records), _read_file(path)
    if (position := first_difference(stored, actual)) is not None:
        expected = f"the {len(stored)} bytes of {os.path.basename(path)}"
        difference = f"{len(actual)} bytes, of which byte {position} is the first other one"
        raise CheckFailedError(expected, difference, answer, "responses[0].partitions[0].records")


@STAGE.check(
    "LogSegment.shouldRoll, segment.bytes", look="Start a new segment before a batch that would exceed segment.bytes."
)
def segments_are_named_by_their_first_offset(b: Subject) -> None:
    """A segment is no larger than segment.bytes, and its name is its first offset."""
    paths = _list_files(b, _create_large_topic(b), ".log")
    b.holds(len(paths) > 1, f"several segments of {_SEGMENT_BYTES} bytes", actual=f"{len(paths)}")
    for path in paths:
        first = next(iter(iter_batches(_read_file(path))), None)
        if first is None:
            raise CheckFailedError("a batch in each segment", f"none in {os.path.basename(path)}")
        offset = next(iter(first)).offset
        b.equal(os.path.basename(path), f"{offset:020}.log", "the name of the segment")
        size = os.path.getsize(path)
        b.holds(size <= _SEGMENT_BYTES, f"at most {_SEGMENT_BYTES} bytes", actual=f"{size} in {os.path.basename(path)}")


@STAGE.check("OffsetIndex", look="Write 8-byte entries: the offset relative to the segment, and the batch's position.")
def index_entries_lead_to_batches(b: Subject) -> None:
    """An entry has the last offset of a batch and the position where that batch starts."""
    topic = _create_large_topic(b)
    entry_count = 0
    names = _list_files(b, topic, ".log")
    for path in names:
        base = int(os.path.basename(path)[:20])
        data = _read_file(path)
        starts: dict[int, int] = {}
        batch_position = 0
        for batch in iter_batches(data):
            for record in batch:
                starts[record.offset - base] = batch_position
            batch_position += len(batch.buffer)
        index = path[: -len(".log")] + ".index"
        for entry, (offset, at) in enumerate(_read_entries(index, _INDEX_ENTRY)):
            entry_count += 1
            if at == starts.get(offset):
                continue
            actual = f"offset {base} + {offset} at position {at} of {os.path.basename(path)}"
            if offset in starts:
                expected, field_offset, field = f"offset {base} + {offset} at position {starts[offset]}", 4, "position"
            else:
                expected = f"an offset of the segment, {base} to {base + max(starts, default=0)}"
                field_offset, field = 0, "offset"
            wrong_at = _INDEX_ENTRY.size * entry + field_offset
            raise CheckFailedError(expected, actual, path=f"in the {field} of entry {entry}", file=index, at=wrong_at)
    actual = f"{entry_count} in {len(names)} segments"
    b.holds(entry_count > 1, "an index entry each index.interval.bytes, which are 1000 here", actual=actual)


@STAGE.check("TimeIndex", look="Write 12-byte entries: a timestamp and a relative offset, both increasing.")
def time_index_entries_rise_and_are_true(b: Subject) -> None:
    """An entry has the largest timestamp so far and the offset of the record with that timestamp."""
    topic = _create_large_topic(b)
    times = {record.offset: record.timestamp for batch in _read_batches(b, topic) for record in batch}
    for path in _list_files(b, topic, ".timeindex"):
        base = int(os.path.basename(path)[:20])
        last = -1
        for entry, (timestamp, offset) in enumerate(_read_entries(path, _TIME_INDEX_ENTRY)):
            expected_time = times.get(base + offset)
            if timestamp < last or timestamp != expected_time:
                expected = f"times that rise, and {expected_time} for offset {base} + {offset}"
                remark = f"in the time of entry {entry}"
                position = _TIME_INDEX_ENTRY.size * entry
                raise CheckFailedError(expected, f"{timestamp} behind {last}", path=remark, file=path, at=position)
            last = timestamp


@STAGE.check("KIP-516, PartitionMetadataFile", look="Write partition.metadata with a version and the topic id.")
def the_directory_knows_the_topics_id(b: Subject) -> None:
    """The file partition.metadata has the topic id, so a directory is not mistaken for that of a newer topic."""
    topic = topic_with(b, "a")
    path = os.path.join(_find_directory(b, topic), "partition.metadata")
    answer = b.metadata(topic, version=12)
    try:
        lines = _read_file(path).decode().splitlines()
    except (OSError, UnicodeDecodeError):
        raise CheckFailedError(f"a file {path}", "none that can be read") from None
    properties = dict(line.split(": ", 1) for line in lines if ": " in line)
    topic_id = _decode_id(properties.get("topic_id", ""))
    b.equal(topic_id, bytes(answer.topics[0].topic_id), "topic_id in partition.metadata")


def _decode_id(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "==")
    except ValueError:
        return b""


def _require_process(b: Subject) -> BrokerProcess:
    if b.process is None:
        raise SkippedError("the grader cannot restart the broker: --start")
    return b.process


def _restart_broker(b: Subject, topic: str, *, kill: bool = True) -> None:
    process = _require_process(b)
    if kill:
        process.kill()
    else:
        process.stop()
    b.close()
    _start_broker(b, topic)


def _start_broker(b: Subject, topic: str, partitions: int = 1) -> None:
    try:
        _require_process(b).start()
    except ValueError as error:
        raise CheckFailedError("a broker that starts again", str(error)) from None
    b.wait_for_leaders(topic, partitions)


@STAGE.check(
    "LogManager, LogLoader",
    look="Write each batch to the file before responding, and load it at the next start.",
    limit=_RESTART_S,
)
def acknowledged_records_outlive_a_kill(b: Subject) -> None:
    """After SIGKILL and a restart, all acknowledged records are still there."""
    _require_process(b)
    topic = topic_with(b, "a", "b")
    write(b, topic, "c")
    _restart_broker(b, topic)
    check_values(b, fetch(b, topic), ["a", "b", "c"])
    check_produced(b, produce(b, topic, "d"), 3)


@STAGE.check(
    "LogManager.shutdown", look="Flush logs, write checkpoints, and record the clean shutdown.", limit=_RESTART_S
)
def records_outlive_a_stop(b: Subject) -> None:
    """After SIGTERM and a restart, offsets, timestamps and the log end offset are unchanged."""
    _require_process(b)
    topic = topic_with(b, "a", "b")
    _restart_broker(b, topic, kill=False)
    check_end(b, topic, 2)
    b.same(list_offsets(b, topic, EARLIEST), OFFSET, 0)
    b.same(list_offsets(b, topic, TIME + 1), OFFSET, 1)


@STAGE.check("KIP-516, MetadataImage", look="Persist topic ids, partitions and configurations.", limit=_RESTART_S)
def topics_outlive_a_kill(b: Subject) -> None:
    """Topic ids, partitions and the cluster id are unchanged after a kill."""
    _require_process(b)
    topic = b.topic(3)
    version = b.newest(MetadataRequest, 12)
    before = b.metadata(topic, version=version)
    _require_process(b).kill()
    b.close()
    _start_broker(b, topic, 3)
    after = b.metadata(topic, version=version)
    b.same(after, "cluster_id", before.cluster_id)
    b.equal(
        bytes(after.topics[0].topic_id), bytes(before.topics[0].topic_id), "the topic's id", after, "topics[0].topic_id"
    )
    b.equal(len(after.topics[0].partitions), 3, "the number of partitions", after, "topics[0].partitions")


@STAGE.check(
    "OffsetMetadataManager.replay, __consumer_offsets",
    look="Write commits to a log before responding.",
    limit=_RESTART_S,
)
def committed_offsets_outlive_a_kill(b: Subject) -> None:
    """Committed offsets survive a kill."""
    _require_process(b)
    topic, group = b.topic(), new_group(b)
    b.same(commit_offset(b, group, topic, 42), "topics[0].partitions[0].error_code", 0)
    _restart_broker(b, topic)
    wait_for_coordinator(b, group)
    answer = b.until(
        lambda: fetch_committed(b, group, topic),
        lambda answer: not answer.topics[0].partitions[0].error_code and not answer.error_code,
        "an answer of the coordinator",
    )
    b.same(answer, "topics[0].partitions[0].committed_offset", 42)


@STAGE.check(
    "LogLoader, LogSegment.recover",
    look="Check the last segment at start-up, and truncate an incomplete batch.",
    limit=_RESTART_S,
)
def half_a_batch_is_cut_off(b: Subject) -> None:
    """A kill can leave half a batch at the end of the file. The next start removes it and appends new batches there."""
    process = _require_process(b)
    topic = topic_with(b, "a")
    (path,) = _list_files(b, topic, ".log")
    whole = _read_file(path)
    process.kill()
    b.close()
    with open(path, "ab") as file:
        file.write((1).to_bytes(8, "big") + whole[8 : len(whole) // 2])
    _start_broker(b, topic)
    check_produced(b, produce(b, topic, "b"), 1)
    check_values(b, fetch(b, topic), ["a", "b"])
