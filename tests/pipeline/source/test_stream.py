"""Following logs without a JVM: the ends of micro-batches, and files that are added or removed between them."""

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from minibroker_pipeline.filesystem import LocalFileSystem, _LocalFile
from minibroker_pipeline.query_options import OptionError
from minibroker_pipeline.source.data_source import JsonOffsets, LogStreamReader
from minibroker_pipeline.source.options import parse_options
from minibroker_pipeline.source.reading import DataLossError, output_schema
from minibroker_protocol.primitives import uuid_text
from minibroker_storage.config import LogConfig
from minibroker_storage.layout import LOG_SUFFIX, PARTITION_METADATA, file_name
from tests.pipeline.source.directories import ROOMY, add, option_names, orders
from tests.storage.helpers import TOPIC_ID, Home, a_batch, marker, sequenced

ALL = ReadAllAvailable()


def stream(data_dir: Path, **options: Any) -> LogStreamReader:
    """Return a reader as Spark creates it. By default it begins with the first offsets."""
    given = {"path": data_dir, "startingOffsets": "earliest", **options}
    return LogStreamReader(
        parse_options(option_names(given)), from_arrow_schema(output_schema(("partition", "offset")))
    )


def rows(reader: LogStreamReader, start: JsonOffsets, end: JsonOffsets) -> list[int]:
    """Return the offsets of a micro-batch, read by the pickled reader that workers get."""
    worker = pickle.loads(pickle.dumps(reader))
    return [
        row["offset"]
        for task in reader.partitions(start, end)
        for batch in worker.read(task)
        for row in batch.to_pylist()
    ]


ID = uuid_text(TOPIC_ID)


def at(*offsets: int) -> JsonOffsets:
    """Return the checkpoint of a stream that has read the partitions of "orders" up to these offsets."""
    return {"orders": {**{str(partition): offset for partition, offset in enumerate(offsets)}, "id": ID}}


def test_a_stream_goes_from_offset_to_offset(tmp_path: Path) -> None:
    home = orders(tmp_path, 20)
    reader = stream(tmp_path)
    assert reader.initialOffset() == at(0)
    assert reader.latestOffset(at(0), ALL) == at(60)
    assert rows(reader, at(0), at(60)) == list(range(60))
    assert reader.latestOffset(at(60), ALL) == at(60)
    add(home, 20)
    assert reader.latestOffset(at(60), ALL) == at(120)
    assert rows(reader, at(60), at(120)) == list(range(60, 120))
    assert reader.reportLatestOffset() == {"orders": {"0": 120}}
    # Spark repeats the micro-batch after a restart.
    assert rows(stream(tmp_path), at(60), at(120)) == list(range(60, 120))


def test_a_new_stream_begins_at_the_end_unless_told_otherwise(tmp_path: Path) -> None:
    orders(tmp_path, 2)
    assert stream(tmp_path, startingOffsets="latest").initialOffset() == at(6)
    assert stream(tmp_path, startingOffsets='{"orders": {"0": 4}}').initialOffset() == at(4)
    options = parse_options({"path": str(tmp_path)})
    assert LogStreamReader(options, from_arrow_schema(output_schema(options.columns))).initialOffset() == at(6)
    with pytest.raises(OptionError, match="a stream has no end"):
        stream(tmp_path, endingOffsets="latest")


def test_a_limit_is_shared_out_by_what_partitions_have(tmp_path: Path) -> None:
    orders(tmp_path, 90)
    orders(tmp_path, 10, name="orders-1")
    reader = stream(tmp_path, maxOffsetsPerTrigger=100)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(100)
    start = reader.initialOffset()
    batches: list[int] = []
    while (end := reader.latestOffset(start, limit)) != start:
        batches.append(len(rows(reader, start, end)))
        start = end
    assert start == at(270, 30)
    assert sum(batches) == 300
    assert batches[:2] == [100, 100]


def test_a_gap_is_passed_at_once(tmp_path: Path) -> None:
    home = orders(tmp_path, 2)
    home.log.close()
    for base in (100_000, 2_000_000):
        home.file(file_name(base, LOG_SUFFIX)).write_bytes(a_batch(50, base_offset=base).view)
    reader = stream(tmp_path)
    ends, start, sizes = [], at(0), []
    while (end := reader.latestOffset(start, ReadMaxRows(40))) != start:
        sizes.append(len(rows(reader, start, end)))
        ends.append(end["orders"]["0"])
        start = end
    assert sum(sizes) == 106
    assert all(sizes)
    assert ends[-1] == 2_000_050
    assert len(ends) <= 6


def test_aborted_records_and_markers_make_no_micro_batch_of_their_own(tmp_path: Path) -> None:
    home = orders(tmp_path, 1)
    for number in range(20):
        home.append(sequenced(number * 10, 10, is_transactional=True))
    home.append(marker(commit=False), a_batch(4))
    reader = stream(tmp_path, isolation="read_committed")
    assert reader.latestOffset(at(0), ReadMaxRows(3)) == at(3)
    end = reader.latestOffset(at(3), ReadMaxRows(3))
    assert rows(reader, at(3), end) == [204, 205, 206]


def test_a_stream_of_committed_records_waits_for_decisions(tmp_path: Path) -> None:
    home = orders(tmp_path, 1)
    home.append(sequenced(0, 2, is_transactional=True), a_batch(1))
    reader = stream(tmp_path, isolation="read_committed")
    assert reader.latestOffset(at(0), ALL) == at(3)
    home.append(marker(commit=False))
    assert reader.latestOffset(at(3), ALL) == at(7)
    assert rows(reader, at(3), at(7)) == [5]


def test_a_torn_tail_is_read_when_it_is_whole(tmp_path: Path) -> None:
    home = orders(tmp_path, 4, config=ROOMY)
    path = home.file(file_name(0, LOG_SUFFIX))
    data = path.read_bytes()
    path.write_bytes(data[:-10])
    reader = stream(tmp_path)
    assert reader.latestOffset(at(0), ALL) == at(9)
    with path.open("ab") as file:
        file.write(data[-10:])
    assert reader.latestOffset(at(9), ALL) == at(12)
    assert rows(reader, at(9), at(12)) == [9, 10, 11]


def test_following_a_log_reads_what_it_has_grown_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = orders(tmp_path, 500, config=ROOMY)
    reader = stream(tmp_path, isolation="read_committed")
    assert reader.latestOffset(at(0), ALL) == at(1500)
    add(home, 1)
    read: list[int] = []
    file = type(LocalFileSystem().open(str(home.file(file_name(0, LOG_SUFFIX)))))
    read_at = file.read_at

    def noted(self: Any, position: int, size: int) -> bytes:
        read.append(size)
        return read_at(self, position, size)

    monkeypatch.setattr(file, "read_at", noted)
    assert reader.latestOffset(at(1500), ALL) == at(1503)
    assert sum(read) < 200


def test_available_now_stops_where_logs_ended_at_its_start(tmp_path: Path) -> None:
    home = orders(tmp_path, 10)
    reader = stream(tmp_path)
    reader.prepareForTriggerAvailableNow()
    add(home, 10)
    orders(tmp_path, 1, name="orders-1")
    assert reader.latestOffset(at(0), ReadMaxRows(20)) == at(20, 0)
    assert reader.latestOffset(at(20), ReadMaxRows(20)) == at(30, 0)
    assert reader.latestOffset(at(30), ReadMaxRows(20)) == at(30, 0)


def test_new_partitions_are_read_from_their_beginning(tmp_path: Path) -> None:
    orders(tmp_path, 2)
    reader = stream(tmp_path)
    reader.latestOffset(at(0), ALL)
    orders(tmp_path, 1, name="orders-1")
    assert reader.latestOffset(at(6), ALL) == at(6, 3)
    assert rows(reader, at(6), at(6, 3)) == [0, 1, 2]


def without_first_segment(home: Home) -> int:
    """Remove the first segment, like retention, and return the new first offset of the log."""
    for suffix in (".log", ".index", ".timeindex"):
        home.file(file_name(0, suffix)).unlink()
    return home.log.segments[1].base_offset


def test_records_that_retention_took_are_missed_or_passed_over(tmp_path: Path) -> None:
    home = orders(tmp_path)
    start = without_first_segment(home)
    reader = stream(tmp_path)
    message = rf"orders-0: offsets 3 to {start - 1} were deleted by retention .*failOnDataLoss=false"
    with pytest.raises(DataLossError, match=message):
        reader.latestOffset(at(3), ALL)
    with pytest.raises(DataLossError, match=message):
        reader.partitions(at(3), at(180))
    lenient = stream(tmp_path, failOnDataLoss="false")
    assert lenient.latestOffset(at(3), ALL) == at(180)
    assert rows(lenient, at(3), at(180)) == list(range(start, 180))
    limited = lenient.latestOffset(at(3), ReadMaxRows(9))
    assert rows(lenient, at(3), limited) == list(range(start, start + 9))


def test_a_file_that_is_set_aside_after_planning_is_read_nevertheless(tmp_path: Path) -> None:
    home = orders(tmp_path)
    reader = stream(tmp_path)
    tasks = reader.partitions(at(0), at(180))
    log = home.file(file_name(0, LOG_SUFFIX))
    log.rename(f"{log}.deleted")
    log.write_bytes(a_batch(1, base_offset=2).view)  # Compaction replaced the file.
    assert [row["offset"] for task in tasks for batch in reader.read(task) for row in batch.to_pylist()] == list(
        range(180)
    )


def test_a_file_that_is_deleted_after_planning_is_missed_or_passed_over(tmp_path: Path) -> None:
    home = orders(tmp_path)
    readers = stream(tmp_path), stream(tmp_path, failOnDataLoss="false")
    tasks = [reader.partitions(at(0), at(180)) for reader in readers]
    start = without_first_segment(home)
    with pytest.raises(DataLossError, match=rf"was deleted before it was read: offsets 0 to {start - 1} of orders-0"):
        list(readers[0].read(tasks[0][0]))
    result = [row["offset"] for batch in readers[1].read(tasks[1][0]) for row in batch.to_pylist()]
    assert result == list(range(start, 180))


def test_of_a_compacted_file_the_rest_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = orders(tmp_path, 0, config=LogConfig(index_interval_bytes=4096))
    batches = [a_batch(3, value=b"x" * 1000, base_offset=3 * number) for number in range(90)]
    home.append(*batches)
    reader, lenient = (stream(tmp_path, splitBytes=100_000, failOnDataLoss=value) for value in ("true", "false"))
    tasks = reader.partitions(at(0), at(270))
    assert len(tasks) == 3
    path = home.file(file_name(0, LOG_SUFFIX))
    path.with_suffix(".cleaned").write_bytes(b"".join(batch.view for batch in batches[::3]))
    path.with_suffix(".cleaned").rename(path)
    result = [row["offset"] for task in tasks for batch in lenient.read(task) for row in batch.to_pylist()]
    assert result == [offset for offset in range(270) if offset // 3 % 3 == 0]
    with pytest.raises(DataLossError, match="was deleted before it was read"):
        list(reader.read(tasks[0]))
    assert "records are left" in caplog.text


def test_a_file_that_vanishes_between_two_reads_is_read_on_where_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object in a store can: nothing keeps it open."""
    home = orders(tmp_path, 0, config=LogConfig())
    batches = [a_batch(3, value=b"x" * 1000, base_offset=3 * number) for number in range(90)]
    home.append(*batches)
    reader = stream(tmp_path, failOnDataLoss="false")
    (task,) = reader.partitions(at(0), at(270))
    path = home.file(file_name(0, LOG_SUFFIX))
    identity = path.stat().st_ino
    read = _LocalFile.read_at

    def vanish(file: _LocalFile, position: int, size: int) -> bytes:
        if position and path.stat().st_ino == identity:
            path.with_suffix(".cleaned").write_bytes(b"".join(batch.view for batch in batches[::3]))
            path.with_suffix(".cleaned").rename(path)
            raise FileNotFoundError(path)
        return read(file, position, size)

    monkeypatch.setattr(_LocalFile, "read_at", vanish)
    monkeypatch.setattr("minibroker_pipeline.filesystem._LocalFile.read_size", 100_000)
    offsets = [row["offset"] for batch in reader.read(task) for row in batch.to_pylist()]
    assert offsets[:90] == list(range(90))
    assert offsets == sorted({*range(90), *offsets, *(offset for offset in range(270) if offset // 3 % 3 == 0)})


def test_a_file_that_is_compacted_while_a_later_one_is_read_is_read_from_its_beginning(tmp_path: Path) -> None:
    home = orders(tmp_path, 0, config=LogConfig())
    batches = [a_batch(1, value=b"x" * 1000, base_offset=number) for number in range(9)]
    home.append(*batches[:6])
    reader = stream(tmp_path)
    assert reader.latestOffset(at(0), ReadMaxRows(6)) == at(6)
    home.append(*batches[6:])
    home.log.roll(0)
    home.append(a_batch(1))
    assert reader.latestOffset(at(6), ReadMaxRows(1)) == at(7)
    path = home.file(file_name(0, LOG_SUFFIX))
    path.with_suffix(".cleaned").write_bytes(b"".join(batch.view for batch in batches[6:]))
    path.with_suffix(".cleaned").rename(path)
    assert reader.latestOffset(at(7), ALL) == at(10)
    assert rows(reader, at(7), at(10)) == [7, 8, 9]


def test_a_topic_that_was_made_anew_is_told_from_one_that_has_grown(tmp_path: Path) -> None:
    orders(tmp_path, 1)
    with pytest.raises(DataLossError, match="orders-0 ends at offset 3, but the query has read to 100"):
        stream(tmp_path).latestOffset(at(100), ALL)
    lenient = stream(tmp_path, failOnDataLoss="false")
    assert lenient.latestOffset(at(100), ALL) == at(3)
    assert rows(lenient, at(100), at(3)) == [0, 1, 2]


def create_again(home: Home, count: int) -> str:
    """Delete the topic and create another one of its name with records. Return its id."""
    shutil.rmtree(home.path)
    orders(home.path.parent, count)
    new_id = uuid_text(bytes(reversed(TOPIC_ID)))
    (home.path / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {new_id}")
    return new_id


def test_a_topic_that_was_created_again_fails_even_if_it_has_more_records(tmp_path: Path) -> None:
    home = orders(tmp_path, 2)
    reader = stream(tmp_path)
    assert reader.latestOffset(at(0), ALL) == at(6)
    new_id = create_again(home, 10)
    message = (
        rf"orders was deleted and created again: its id is {new_id}, and the query was at .*'0': 6.*failOnDataLoss"
    )
    for again in (reader, stream(tmp_path)):
        with pytest.raises(DataLossError, match=message):
            again.latestOffset(at(6), ALL)
        with pytest.raises(DataLossError, match=message):
            again.partitions(at(0), at(6))


def test_a_topic_that_was_created_again_is_read_from_its_beginning(tmp_path: Path) -> None:
    home = orders(tmp_path, 2)
    reader = stream(tmp_path, failOnDataLoss="false")
    assert reader.latestOffset(at(0), ALL) == at(6)
    new_id = create_again(home, 10)
    # The micro-batch that was planned for the old topic has no records any more, also after a restart.
    assert rows(stream(tmp_path, failOnDataLoss="false"), at(0), at(6)) == []
    end = reader.latestOffset(at(6), ALL)
    assert end == {"orders": {"0": 30, "id": new_id}}
    assert rows(reader, at(6), end) == list(range(30))
    assert reader.latestOffset(end, ALL) == end


def test_an_old_checkpoint_takes_the_id_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    orders(tmp_path, 2)
    reader = stream(tmp_path)
    assert reader.latestOffset({"orders": {"0": 3}}, ALL) == at(6)
    assert rows(reader, {"orders": {"0": 3}}, at(6)) == [3, 4, 5]
    assert reader.latestOffset(at(6), ALL) == at(6)
    assert [record.message for record in caplog.records] == [
        "the checkpoint has no id of topic orders; from now on, it has that of today"
    ]


def test_topics_of_an_old_kafka_have_no_id(tmp_path: Path) -> None:
    (orders(tmp_path, 2).path / PARTITION_METADATA).unlink()
    assert stream(tmp_path).latestOffset({"orders": {"0": 3}}, ALL) == {"orders": {"0": 6}}


def test_a_topic_that_was_deleted_is_missed_or_forgotten(tmp_path: Path) -> None:
    orders(tmp_path, 1)
    orders(tmp_path, 1, name="others-0")
    start = {**at(3), "others": {"0": 3, "id": ID}}
    readers = stream(tmp_path), stream(tmp_path, failOnDataLoss="false")
    for reader in readers:
        assert reader.latestOffset(start, ALL) == start
    shutil.rmtree(tmp_path / "others-0")
    with pytest.raises(DataLossError, match="others-0 has been deleted; the query was at 3"):
        readers[0].latestOffset(start, ALL)
    assert readers[1].latestOffset(start, ALL) == at(3)


def test_a_stream_of_committed_records_forgets_aborts_that_it_has_passed(tmp_path: Path) -> None:
    home = orders(tmp_path, 0)
    reader = stream(tmp_path, isolation="read_committed")
    offset = 0
    for number in range(20):
        home.append(sequenced(number, is_transactional=True), marker(commit=False), a_batch())
        end = reader.latestOffset(at(offset), ALL)
        assert rows(reader, at(offset), end) == [offset + 2]
        reader.commit(end)
        offset += 3
    (log,) = reader._logs.values()  # Only its memory shows this.
    assert log.tail.transactions is not None
    assert log.tail.transactions.aborted == []
    assert rows(stream(tmp_path, isolation="read_committed"), at(0), at(offset)) == list(range(2, offset, 3))
