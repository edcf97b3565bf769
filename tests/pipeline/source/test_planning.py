"""The tasks of queries, verified by counts instead of times."""

import os
import shutil
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan

from minibroker_pipeline.decode import DamagedLogError
from minibroker_pipeline.filesystem import LocalFileSystem
from minibroker_pipeline.log_directories.partition_logs import LogNameError
from minibroker_pipeline.query_options import OptionError
from minibroker_storage.config import LogConfig
from minibroker_storage.layout import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, file_name
from tests.pipeline.source.directories import ROOMY, new_reader, offsets, option_names, orders, plan, read
from tests.storage.helpers import NOW, SMALL, Home, a_batch

BIG = LogConfig(index_interval_bytes=4096)


@pytest.fixture
def big(tmp_path: Path) -> Home:
    """Write one segment of about 1 MB: 1,000 batches of 3 records with ascending timestamps."""
    home = orders(tmp_path / "data", 0, config=BIG)
    for first in range(0, 3000, 3):
        home.append(a_batch(3, value=b"x" * 333, timestamps=[NOW + first, NOW + first + 1, NOW + first + 2]))
    return home


def record_paths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that receives the path of each local file that is read or opened from now on."""
    paths: list[str] = []
    for name, method in [(name, getattr(LocalFileSystem, name)) for name in ("read", "open")]:

        def record(filesystem: LocalFileSystem, path: str, method: Any = method) -> Any:
            paths.append(path)
            return method(filesystem, path)

        monkeypatch.setattr(LocalFileSystem, name, record)
    return paths


def test_a_segment_is_split_where_its_index_knows_batches(big: Home) -> None:
    tasks = plan(big.path.parent, splitBytes=100_000)
    ranges = [log_range for task in tasks for log_range in task]
    size = big.log.segments[0].size
    assert len(tasks) == len(ranges) == -(-size // 100_000)
    assert (ranges[0].position, ranges[-1].end_position) == (0, size)
    assert all(before.end_position == after.position for before, after in pairwise(ranges))
    assert max(log_range.end_position - log_range.position for log_range in ranges) < 110_000
    assert offsets(big.path.parent, splitBytes=100_000) == list(range(3000))


def test_of_a_segment_only_the_batches_around_the_offsets_are_read(big: Home) -> None:
    options = {"startingOffsets": '{"orders": {"0": 1501}}', "endingOffsets": '{"orders": {"0": 1600}}'}
    ((log_range,),) = plan(big.path.parent, **options)
    assert log_range.end_position - log_range.position < 100 * 400 + 3 * 4096
    assert offsets(big.path.parent, **options) == list(range(1501, 1600))


def test_an_index_that_does_not_fit_its_log_is_not_believed(big: Home, caplog: pytest.LogCaptureFixture) -> None:
    big.log.close()
    index = big.file("00000000000000000000.index")
    data = bytearray(index.read_bytes())
    for position in range(7, len(data), 8):
        data[position] ^= 1
    index.write_bytes(data)
    assert len(plan(big.path.parent, splitBytes=100_000)) == 1
    assert "does not fit the log" in caplog.text
    assert offsets(big.path.parent, splitBytes=100_000) == list(range(3000))


def test_without_its_indexes_a_log_is_read_as_before(tmp_path: Path) -> None:
    home = orders(tmp_path)
    home.log.close()
    for name in home.names("index"):
        home.file(name).unlink()
    assert offsets(tmp_path) == list(range(180))
    assert offsets(tmp_path, startingTimestamp=NOW + 100) == list(range(100, 180))


def test_ten_thousand_segments_cost_a_listing_and_no_task_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = orders(tmp_path, 1)
    home.log.close()
    for number in range(1, 10_000):
        home.file(file_name(number * 3, LOG_SUFFIX)).write_bytes(a_batch(3, base_offset=number * 3).view)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            os.link(home.file(file_name(0, suffix)), home.file(file_name(number * 3, suffix)))
    paths = record_paths(monkeypatch)
    tasks = plan(tmp_path)
    assert sum(len(task) for task in tasks) == 10_000
    assert len(tasks) < 40
    assert len(paths) < 10  # These are the checkpoints, and the last segment for the end of the log.


def test_small_partitions_share_a_task(tmp_path: Path) -> None:
    for number in range(50):
        orders(tmp_path, 1, name=f"orders-{number}", config=ROOMY)
    ((*ranges,),) = plan(tmp_path)
    assert len(ranges) == 50
    rows = read(tmp_path, ("partition", "offset"))
    assert [(row["partition"], row["offset"]) for row in rows] == [(p, o) for p in range(50) for o in range(3)]


def at(offset: int) -> datetime:
    return datetime.fromtimestamp((NOW + offset) / 1000, UTC)


def left(data_dir: Path, *filters: Filter) -> list[Filter]:
    """Return the filters that Spark must still apply."""
    reader = new_reader(data_dir, filterPushdown="true")
    return list(reader.pushFilters(list(filters)))


def test_filters_choose_logs_and_offsets(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-1", "orders-2", "others-1"):
        orders(tmp_path, name=name)
    filters = (
        EqualTo(("topic",), "orders"),
        In(("partition",), (1, 2, 7)),
        LessThan(("partition",), 2),
        GreaterThan(("offset",), 100),
        LessThan(("offset",), 110),
        IsNotNull(("offset",)),
    )
    assert left(tmp_path, *filters) == []
    rows = read(tmp_path, ("topic", "partition", "offset"), filters, filterPushdown="true")
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [
        ("orders", 1, offset) for offset in range(101, 110)
    ]


def test_filters_on_time_pass_over_segments_and_stay_with_spark(tmp_path: Path) -> None:
    home = orders(tmp_path)
    filters = [GreaterThanOrEqual(("timestamp",), at(100))]
    assert left(tmp_path, *filters) == filters
    result = [row["offset"] for row in read(tmp_path, ("offset",), filters, filterPushdown="true")]
    assert result == list(range(result[0], 180))
    assert 60 < result[0] <= 100
    assert len(home.log.segments) > len(plan(tmp_path, filters, filterPushdown="true")[0])


def test_rows_of_damage_meet_no_filter_by_themselves(tmp_path: Path) -> None:
    orders(tmp_path, 1)
    reader = new_reader(tmp_path, filterPushdown="true", includeDamage="true", mode="permissive")
    filters = [GreaterThan(("offset",), 1)]
    assert list(reader.pushFilters(filters)) == filters  # type: ignore[arg-type]  # a list of one kind


def test_the_time_of_a_start_is_found_in_the_order_of_the_log(tmp_path: Path) -> None:
    home = orders(tmp_path, 20)
    home.append(a_batch(3, timestamps=[NOW + 1000, NOW + 5, NOW + 2000]))
    orders(tmp_path, 1, name="others-0")
    times = {"topics": "orders", "startingTimestamp": NOW + 31, "endingTimestamp": NOW + 1001}
    assert offsets(tmp_path, **times) == list(range(31, 62))
    assert offsets(tmp_path, topics="orders", startingTimestamp=NOW + 2000) == [62]
    assert offsets(tmp_path, topics="orders", endingTimestamp=NOW + 2001) == list(range(63))
    by_partition = f'{{"orders": {{"0": {NOW + 60}}}, "others": {{"0": {NOW + 2}}}}}'
    assert offsets(tmp_path, startingOffsetsByTimestamp=by_partition) == [60, 61, 62, 2]


def test_a_time_that_no_record_has_is_an_error_or_the_end(tmp_path: Path) -> None:
    orders(tmp_path, 1)
    with pytest.raises(OptionError, match=r"orders-0 has no record of .*startingOffsetsByTimestampStrategy=latest"):
        plan(tmp_path, startingTimestamp=NOW + 10)
    late = {"startingTimestamp": NOW + 10, "startingOffsetsByTimestampStrategy": "latest"}
    assert plan(tmp_path, **late) == []


def test_topics_are_chosen_by_name_pattern_and_partition(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-1", "other-orders-0", "__consumer_offsets-0"):
        orders(tmp_path, 1, name=name)
    (tmp_path / "orders-2.0123456789abcdef-delete").mkdir()

    def chosen(**options: str) -> set[str]:
        return {f"{row['topic']}-{row['partition']}" for row in read(tmp_path, ("topic", "partition"), **options)}

    assert chosen() == {"orders-0", "orders-1", "other-orders-0"}
    assert chosen(topics="orders, __consumer_offsets") == {"orders-0", "orders-1", "__consumer_offsets-0"}
    assert chosen(subscribePattern=".*orders") == {"orders-0", "orders-1", "other-orders-0"}
    assert chosen(topic_partitions='{"orders": [1]}') == {"orders-1"}
    assert {row["partition"] for row in read(tmp_path / "orders-1", ("partition",))} == {1}
    with pytest.raises(LogNameError, match=r"no topic 'order' in the directory; topics: .*orders"):
        chosen(topics="order")
    with pytest.raises(LogNameError, match="no partition 5 of topic 'orders'"):
        chosen(topic_partitions='{"orders": [5]}')


def test_a_partition_in_two_directories_is_refused(tmp_path: Path) -> None:
    orders(tmp_path / "a", 1)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    orders(tmp_path / "b", 1, name="orders-1")
    with pytest.raises(LogNameError, match="same partition; name one directory only"):
        plan(f"{tmp_path}/a,{tmp_path}/b")
    assert len(read(f"{tmp_path}/a/orders-0,{tmp_path}/b/orders-1")) == 6


def test_a_log_file_whose_name_is_no_offset_is_told(tmp_path: Path) -> None:
    home = orders(tmp_path, 1)
    shutil.copy(home.file(file_name(0, LOG_SUFFIX)), home.file("copy.log"))
    with pytest.raises(LogNameError, match=r"copy\.log: a log file is named by 20 digits"):
        plan(tmp_path)
    assert offsets(tmp_path, mode="permissive") == [0, 1, 2]


@pytest.mark.parametrize("slot", [1, -1])
def test_a_log_file_that_is_named_by_an_offset_behind_its_records_is_told(tmp_path: Path, slot: int) -> None:
    home = orders(tmp_path, 60)
    home.log.close()
    bases = [segment.base_offset for segment in home.log.segments]
    home.file(file_name(bases[slot], LOG_SUFFIX)).rename(home.file(file_name(bases[slot] + 1000, LOG_SUFFIX)))
    with pytest.raises(DamagedLogError, match=rf"named by offset {bases[slot] + 1000}"):
        offsets(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"failOnDataloss": "perhaps"}, "failOnDataLoss: 'perhaps': expected true or false"),
        ({"startingOffset": "earliest"}, "no option 'startingoffset'; is startingOffsets meant"),
        ({"startingOffsets": '{"orders": 3}'}, r"startingOffsets: .* expected JSON such as"),
        ({"startingOffsets": '{"orders": {"1": 3}}'}, "every partition that is read needs a number: orders-0 has none"),
        ({"endingOffsets": "earliest"}, "endingOffsets: earliest, or -2, is not an end"),
        ({"isolation": "serializable"}, "expected one of read_uncommitted, read_committed"),
        ({"splitBytes": "0"}, "expected a number above 0"),
        ({"topicsPattern": "("}, "no regular expression"),
        ({"topics": "orders", "topicsPattern": "o.*"}, "only one of topics, topicsPattern and topic.partitions"),
        ({"path": ""}, "path: a data directory has to be named"),
    ],
)
def test_options_that_cannot_be_are_named(tmp_path: Path, options: dict[str, str], message: str) -> None:
    orders(tmp_path, 1)
    with pytest.raises(OptionError, match=message):
        plan(options.pop("path", tmp_path), **option_names(options))


def test_columns_that_there_are_not_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no 'color'"):
        new_reader(tmp_path, ("offset", "color"))


def test_small_segments_are_read_in_their_order(tmp_path: Path) -> None:
    home = orders(tmp_path, 200, config=SMALL)
    assert len(home.log.segments) > 10
    assert offsets(tmp_path, splitBytes=4000) == list(range(600))
