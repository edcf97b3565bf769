"""Writing rows as logs: their partitions, their order, appending and replacing, and commits that are all or nothing."""

from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from minibroker_pipeline.jobs.verify import VerifySettings, verify
from minibroker_pipeline.log_directories.directory_commit import (
    DirectoryInUseError,
    DirectoryStateError,
    lock_directory,
)
from minibroker_pipeline.log_directories.segment_writer import LogOrderError
from minibroker_pipeline.query_options import OptionError
from minibroker_pipeline.sink import task_writer
from minibroker_pipeline.sink import writer as writer_module
from minibroker_pipeline.sink.options import WriteOptions, check_columns
from minibroker_pipeline.sink.writer import find_known_topics
from minibroker_protocol.errors import EncodeError
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.data_directory.offset_checkpoints import read_offset_checkpoint
from minibroker_storage.data_directory.staged_write import UNFINISHED, finish
from tests.pipeline.sink.writing import Row, new_writer, run_tasks, values, write
from tests.pipeline.source.directories import close, read
from tests.storage.helpers import TOPIC_ID, Home, Moments, a_batch, marker, sequenced

AT = datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=UTC)


def rows(first: int, end: int, **fields: Any) -> list[Row]:
    return [{"value": b"%d" % number, **fields} for number in range(first, end)]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def left(directory: Path) -> list[str]:
    """Return the names of files that should not remain."""
    return [path.name for path in directory.iterdir() if "minibroker-write" in path.name or path.name == UNFINISHED]


def check(target: Path, *gaps_in: str) -> None:
    report = verify([str(target)], VerifySettings(compacted=gaps_in), processes=1)
    assert list(report.findings) == []


def test_every_field_of_a_record_comes_back(tmp_path: Path) -> None:
    written: list[Row] = [
        {
            "key": b"k",
            "value": b"v",
            "timestamp": AT,
            "headers": [{"key": "h", "value": b"x"}, {"key": "", "value": None}],
        },
        {"key": None, "value": b"", "timestamp": AT, "headers": []},
        {"key": b"", "value": None, "timestamp": AT, "headers": None},
    ]
    write(tmp_path / "data", written, topic="orders", codec="zstd", compressionLevel=5)
    result = read(tmp_path / "data", ("key", "value", "timestamp", "headers", "offset", "timestampType"))
    assert result == [
        {**row, "headers": row["headers"] or None, "offset": offset, "timestampType": 0}
        for offset, row in enumerate(written)
    ]
    check(tmp_path / "data")


def test_records_of_a_key_keep_their_order_over_tasks(tmp_path: Path) -> None:
    tasks = [[{"key": b"%d" % (number % 5), "value": b"%d" % number} for number in range(100 * task, 100 * task + 100)]
             for task in range(4)]  # fmt: skip
    write(tmp_path / "data", *tasks, topic="orders", partitions=3, batchBytes=200)
    result = values(tmp_path / "data")
    assert sorted(result) == [("orders", number) for number in range(3)]
    assert sorted(value for some in result.values() for value in some if value) == sorted(numbers(0, 400))
    for some in result.values():
        for digit in {int(value or b"") % 5 for value in some}:
            own_values = [int(value or b"") for value in some if int(value or b"") % 5 == digit]
            assert own_values == sorted(own_values)
            assert len(own_values) == 80  # Each key is in only one partition.
    check(tmp_path / "data")


def test_topics_and_partitions_are_columns(tmp_path: Path) -> None:
    written = [*rows(0, 3, topic="a", partition=2), *rows(3, 5, topic="b", partition=0)]
    write(tmp_path / "data", [*written, *rows(5, 6, topic="a", partition=None)])
    assert values(tmp_path / "data") == {("a", 0): [b"5"], ("a", 2): numbers(0, 3), ("b", 0): numbers(3, 5)}
    assert {path.name for path in (tmp_path / "data").glob("?-?")} == {"a-0", "a-1", "a-2", "b-0"}
    check(tmp_path / "data")


def test_a_query_without_rows_makes_the_topic_that_it_names(tmp_path: Path) -> None:
    write(tmp_path / "data", [], [], topic="orders", partitions=2)
    assert {path.name for path in (tmp_path / "data").glob("orders-*")} == {"orders-0", "orders-1"}
    check(tmp_path / "data")


def test_time_of_appending_takes_the_place_of_timestamps(tmp_path: Path) -> None:
    write(tmp_path / "data", rows(0, 2, timestamp=AT), topic="orders", timestampType="logappendtime")
    for row in read(tmp_path / "data", ("timestamp", "timestampType")):
        assert row["timestampType"] == 1
        assert row["timestamp"] > AT


def test_records_without_a_timestamp_have_that_of_the_query(tmp_path: Path) -> None:
    write(tmp_path / "data", [{"value": b"a", "timestamp": None}, {"value": b"b", "timestamp": AT}], topic="orders")
    first, second = read(tmp_path / "data", ("timestamp",))
    assert second["timestamp"] == AT
    assert first["timestamp"] > AT


def test_pieces_of_tasks_follow_each_other_whether_copied_or_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [rows(0, 10), rows(10, 300), [], rows(300, 301), rows(301, 700)]
    for name, small in (("copied", 1 << 30), ("renamed", 0), ("mixed", 1000)):
        monkeypatch.setattr("minibroker_pipeline.sink.writer.MAX_COPIED_BYTES", small)
        write(tmp_path / name, *tasks, topic="orders", batchBytes=100, segmentBytes=2000, indexIntervalBytes=300)
        assert values(tmp_path / name) == {("orders", 0): numbers(0, 700)}
        check(tmp_path / name)
    copied, mixed, renamed = (
        len(list((tmp_path / name / "orders-0").glob("*.log"))) for name in ("copied", "mixed", "renamed")
    )
    assert copied < mixed <= renamed


def test_chunks_become_full_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_writer, "CHUNK_BYTES", 1)
    write(tmp_path / "data", rows(0, 1000), topic="orders", batchBytes=200)
    sizes = {row["batchSize"] for row in read(tmp_path / "data", ("batchSize",))}
    assert max(sizes) > 200
    assert values(tmp_path / "data") == {("orders", 0): numbers(0, 1000)}


# Tests of appending.


def test_more_is_written_behind_the_end(tmp_path: Path) -> None:
    target = tmp_path / "data"
    for first in (0, 10, 20):
        write(target, rows(first, first + 5), rows(first + 5, first + 10), topic="orders")
    assert [row["offset"] for row in read(target, ("offset",))] == list(range(30))
    assert values(target) == {("orders", 0): numbers(0, 30)}
    assert read_offset_checkpoint(str(target / "recovery-point-offset-checkpoint")) == {("orders", 0): 30}
    check(target)


def a_log(tmp_path: Path) -> Home:
    """Write a log with the storage package, with leader epoch 4, an open transaction and an idempotent producer."""
    (tmp_path / "data").mkdir()
    home = Home(tmp_path / "data" / "orders-0")
    home.append(a_batch(3, value=b"old"), leader_epoch=2)
    home.append(
        sequenced(0, 2, producer_id=7, is_transactional=True),
        marker(producer_id=7, commit=False),
        sequenced(0, 1, producer_id=8, is_transactional=True),
        sequenced(0, 1, producer_id=9),
        leader_epoch=4,
    )
    close(home)
    return home


def test_a_log_that_a_broker_has_closed_is_gone_on_with(tmp_path: Path) -> None:
    home = a_log(tmp_path)
    write(tmp_path / "data", rows(0, 4), rows(4, 8), topic="orders")
    check(tmp_path / "data")
    log = home.open(last_stop=LastStop.CLEAN, recovery_point=16)
    assert log.log_end_offset == 16
    assert log.last_stable_offset == 6
    assert log.producers.active[9].last_sequence == 0
    assert log.epochs.entries == ((2, 0), (4, 3))
    assert home.append(sequenced(1, 1, producer_id=9)) == [16]
    result = read(tmp_path / "data", ("leaderEpoch", "value"), batchFields=True)
    assert [row["leaderEpoch"] for row in result if row["value"] in numbers(0, 8)] == [4] * 8
    assert find_known_topics(str(tmp_path / "data"))["orders"].topic_id == TOPIC_ID


def test_a_topic_keeps_its_partitions(tmp_path: Path) -> None:
    write(tmp_path / "data", rows(0, 4), topic="orders", partitions=3)
    write(tmp_path / "data", [{"key": b"%d" % number, "value": b"x"} for number in range(50)], topic="orders")
    assert len(values(tmp_path / "data")) == 3
    with pytest.raises(OptionError, match="partitions: topic 'orders' has 3"):
        write(tmp_path / "data", rows(0, 4), topic="orders", partitions=4)
    with pytest.raises(OptionError, match="partition: 3 of topic 'orders', which has 3"):
        write(tmp_path / "data", rows(0, 4, partition=3), topic="orders")
    assert left(tmp_path / "data") == []


def test_a_topic_that_has_come_meanwhile_stops_the_query(tmp_path: Path) -> None:
    write(tmp_path / "data", rows(0, 1), topic="other")
    late = new_writer(tmp_path / "data", ["value"], topic="orders", partitions=1)
    messages = run_tasks(late, [rows(0, 4)])
    write(tmp_path / "data", rows(0, 1), topic="orders", partitions=2)
    with pytest.raises(DirectoryStateError, match="run it again"):
        late.commit(messages)


@pytest.mark.parametrize("topic", ["t", "u"])
def test_a_directory_may_come_at_the_very_end_of_a_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    """Only the other topic can be written: this one has got other records."""
    target = tmp_path / "data"
    assemble = writer_module._assemble

    def assemble_late(*given: Any) -> Any:
        monkeypatch.undo()
        write(target, rows(0, 1), topic="t")
        return assemble(*given)

    monkeypatch.setattr(writer_module, "_assemble", assemble_late)
    with pytest.raises(DirectoryStateError, match="run it again") if topic == "t" else nullcontext():
        write(target, rows(0, 4), topic=topic)
    assert values(target) == {("t", 0): [b"0"], **({} if topic == "t" else {("u", 0): numbers(0, 4)})}


def test_two_queries_at_once_append_one_after_the_other(tmp_path: Path) -> None:
    write(tmp_path / "data", rows(0, 2), topic="orders")
    first, second = (new_writer(tmp_path / "data", ["value"], topic="orders") for _ in range(2))
    completed = [run_tasks(first, [rows(2, 4)]), run_tasks(second, [rows(4, 6)])]
    second.commit(completed[1])
    first.commit(completed[0])
    assert values(tmp_path / "data") == {("orders", 0): [b"0", b"1", b"4", b"5", b"2", b"3"]}
    check(tmp_path / "data")


def test_an_attempt_that_does_not_count_leaves_nothing(tmp_path: Path) -> None:
    writer = new_writer(tmp_path / "data", ["value"], topic="orders")
    run_tasks(writer, [rows(0, 4)])  # The report of this attempt is lost.
    writer.commit(run_tasks(writer, [rows(0, 4)]))
    assert values(tmp_path / "data") == {("orders", 0): numbers(0, 4)}
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


# Tests of overwriting.


def test_overwriting_replaces_the_topics_that_are_written(tmp_path: Path) -> None:
    target = tmp_path / "data"
    write(target, [*rows(0, 10, topic="a", partition=1), *rows(0, 3, topic="b", partition=0)])
    ids = {topic: result.topic_id for topic, result in find_known_topics(str(target)).items()}
    write(target, rows(5, 7, partition=0), topic="a", overwrite=True)
    assert values(target) == {("a", 0): numbers(5, 7), ("b", 0): numbers(0, 3)}
    assert read_offset_checkpoint(str(target / "replication-offset-checkpoint")) == {
        ("a", 0): 2,
        ("a", 1): 0,
        ("b", 0): 3,
    }
    assert {topic: result.topic_id for topic, result in find_known_topics(str(target)).items()} == ids
    assert left(target) == []
    check(target)


# Tests of kept offsets.


def test_offsets_are_kept_with_their_gaps(tmp_path: Path) -> None:
    offsets = [7, 8, 20, 21, 5_000_000_000]
    first, second = (
        [{"value": b"%d" % o, "offset": o, "partition": 0} for o in some] for some in (offsets[2:], offsets[:2])
    )
    write(tmp_path / "data", first, second, topic="orders", keepOffsets=True)
    assert [row["offset"] for row in read(tmp_path / "data", ("offset",))] == offsets
    assert min(path.name for path in (tmp_path / "data" / "orders-0").glob("*.log")) == f"{7:020d}.log"
    check(tmp_path / "data", "orders")
    more = [{"value": b"x", "offset": 5_000_000_003, "partition": 0}]
    write(tmp_path / "data", more, topic="orders", keepOffsets=True)
    with pytest.raises(LogOrderError, match="orders-0: offset 5000000003 in a log that ends before offset 5000000004"):
        write(tmp_path / "data", more, topic="orders", keepOffsets=True)
    assert len(read(tmp_path / "data")) == 6
    assert left(tmp_path / "data") == []


def test_offsets_that_do_not_rise_are_an_error(tmp_path: Path) -> None:
    falling = [{"value": b"x", "offset": 9 - number, "partition": 0} for number in range(3)]
    with pytest.raises(EncodeError, match="offset: the column must rise"):
        write(tmp_path / "data", falling, topic="orders", keepOffsets=True)
    overlapping = [{"value": b"x", "offset": number, "partition": 0} for number in range(3)]
    with pytest.raises(LogOrderError, match="orders-0: offset 0 in a log that ends before offset 3"):
        write(tmp_path / "data", overlapping, overlapping, topic="orders", keepOffsets=True)
    with pytest.raises(OptionError, match="a row has no partition"):
        write(tmp_path / "data", [{"value": b"x", "offset": 0, "partition": None}], topic="orders", keepOffsets=True)
    assert list(tmp_path.iterdir()) == []


# Tests of refused rows and options.


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ({}, {}, "topic: name one"),
        ({"topic": None}, {}, "a row has none"),
        ({"topic": "a/b"}, {}, "'a/b' is none"),
        ({"topic": "__consumer_offsets"}, {}, "kept by brokers"),
        ({}, {"topic": ".."}, "'..' is none"),
        ({"partition": -1}, {"topic": "a"}, "partition: -1 of topic 'a' cannot be"),
        ({"partition": 2}, {"topic": "a", "partitions": 2}, "partition: 2 of topic 'a', which has 2"),
        ({"partition": 2**31 - 1}, {"topic": "a"}, "at most 99999"),
        ({}, {"topic": "a", "partition": 2}, "is partitions meant"),
        ({}, {"topic": "a", "codec": "lzma"}, "expected one of none, gzip, snappy, lz4, zstd"),
        ({}, {"topic": "a", "codec": "gzip", "compressionLevel": 77}, "compressionLevel: 77 is not a level of gzip"),
        ({}, {"topic": "a", "segmentBytes": 2}, "segmentBytes"),
        ({}, {"topic": "a", "keepOffsets": "true"}, "column partition is missing"),
    ],
)
def test_what_cannot_be_written_is_told_and_leaves_nothing(
    tmp_path: Path, given: Row, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        write(tmp_path / "data", [{"value": b"x", **given}], **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": pa.int64()}, "column 'id': known are key, value, headers, timestamp, topic, partition, offset"),
        ({"offset": pa.int64()}, "neither key nor value"),
        ({"value": pa.list_(pa.int8())}, "value: list<item: int8> is not bytes or text"),
        ({"value": pa.binary(), "timestamp": pa.string()}, "timestamp: string is not a timestamp"),
        ({"value": pa.binary(), "partition": pa.string()}, "partition: string is not a whole number"),
        ({"value": pa.binary(), "topic": pa.binary()}, "topic: binary is not text"),
        ({"value": pa.binary(), "headers": pa.string()}, "headers: string is not array<struct"),
        ({"value": pa.binary(), "headers": pa.list_(pa.struct([("key", pa.string())]))}, "headers: list"),
    ],
)
def test_columns_that_mean_nothing_are_told(columns: dict[str, pa.DataType], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        check_columns(pa.schema(list(columns.items())), WriteOptions(target="", topic="orders"))


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.large_binary()])
def test_text_and_long_columns_are_taken(tmp_path: Path, text: pa.DataType) -> None:
    schema = pa.schema([("key", text), ("value", text), ("timestamp", pa.int64())])
    batch = pa.RecordBatch.from_pylist([{"key": "k", "value": "v", "timestamp": 5}], schema)
    check_columns(schema, WriteOptions(target="", topic="orders"))
    writer = new_writer(tmp_path / "data", ["value"], topic="orders", partitions=2)
    writer.commit([writer.write(iter([batch]))])
    (result,) = read(tmp_path / "data", ("key", "value", "timestamp"))
    assert (result["key"], result["value"]) == (b"k", b"v")
    assert result["timestamp"] == datetime.fromtimestamp(0.005, UTC)


def test_a_directory_that_is_in_use_or_not_closed_is_told_before_any_task_runs(tmp_path: Path) -> None:
    write(tmp_path, rows(0, 3), topic="orders")
    with lock_directory(str(tmp_path)), pytest.raises(DirectoryInUseError, match="stop the broker"):
        new_writer(tmp_path, ["value"], topic="orders")
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with pytest.raises(DirectoryStateError, match="not closed cleanly"):
        new_writer(tmp_path, ["value"], topic="orders")


def test_a_log_whose_end_is_torn_in_spite_of_a_clean_stop_is_refused(tmp_path: Path) -> None:
    write(tmp_path, rows(0, 3), topic="orders")
    log = tmp_path / "orders-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-1])
    with pytest.raises(DirectoryStateError, match="does not end with a whole entry"):
        write(tmp_path, rows(0, 3), topic="orders")
    assert left(tmp_path) == []


# Tests of killed writers.


def test_a_driver_that_is_killed_while_it_puts_things_in_place_has_done_all_or_nothing(tmp_path: Path) -> None:
    target = tmp_path / "data"
    write(target, [*rows(0, 9, topic="a", partition=1), *rows(0, 3, topic="b", partition=0)])
    before = values(target)
    tasks = [
        [*rows(9, 12, topic="a", partition=1), *rows(0, 4, topic="c", partition=0)],
        rows(12, 15, topic="a", partition=0),
    ]
    with Moments(target, tmp_path / "copies") as moments:
        write(target, *tasks)
    after = values(target)
    assert after != before
    states: list[dict[tuple[str, int], list[bytes | None]]] = []
    for moment in moments:
        finish(str(moment))
        states.append(values(moment))
        assert states[-1] in (before, after)
        check(moment)
        write(moment, *tasks)  # The remains do not block the next writer.
    assert before in states
    assert after in states
