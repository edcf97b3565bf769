"""A partition that never held a record has no directory in the data directory of a running broker, and is empty."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker import Broker
from minibroker_pipeline.jobs.compact import compact
from minibroker_pipeline.jobs.convert.job import convert
from minibroker_pipeline.jobs.convert.settings import ConvertSettings
from minibroker_pipeline.jobs.diff import diff
from minibroker_pipeline.jobs.stats import stats
from minibroker_pipeline.jobs.verify.findings import Kind
from minibroker_pipeline.jobs.verify.job import VerifySettings, verify
from minibroker_pipeline.log_directories.partition_logs import LogNameError, find_partitions, open_partition
from minibroker_pipeline.source.options import parse_options
from minibroker_pipeline.source.planning import QueryLogs
from minibroker_storage.data_directory.offset_checkpoints import write_offset_checkpoint
from tests.pipeline.sink.writing import write

TOPICS_FILE = "minibroker-topics.json"


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A running broker with one record in partition 1 of "orders", and no record in "idle"."""
    with Broker(topics=["orders:3", "idle:2"]) as broker:
        broker.produce("orders", "a record", partition=1)
        yield broker


def logs(directory: str, **options: str) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the first offset and the end offset of each log in a query."""
    result = QueryLogs(parse_options({"path": directory, **options})).update()
    return {key: (log.start_offset, log.end_offset) for key, log in result.items()}


def test_they_are_found_and_empty(broker: Broker) -> None:
    result = find_partitions([broker.data_dir])
    assert {key for key, partition in result.items() if partition.is_made} == {("orders", 1)}
    assert list(result) == [("idle", 0), ("idle", 1), ("orders", 0), ("orders", 1), ("orders", 2)]
    assert open_partition(result["orders", 0]).segments == ()
    empty = dict.fromkeys(result, (0, 0))
    assert logs(broker.data_dir) == {**empty, ("orders", 1): (0, 1)}
    assert logs(broker.data_dir, topics="idle") == dict.fromkeys([("idle", 0), ("idle", 1)], (0, 0))


def test_one_may_be_named_and_one_that_there_is_not_may_not(broker: Broker) -> None:
    assert logs(broker.data_dir, assign='{"orders": [0]}') == {("orders", 0): (0, 0)}
    with pytest.raises(LogNameError, match="there is no partition 3 of topic 'orders'"):
        logs(broker.data_dir, assign='{"orders": [3]}')


def test_a_query_follows_one_that_gets_its_first_record(broker: Broker) -> None:
    query = QueryLogs(parse_options({"path": broker.data_dir, "topics": "idle"}))
    assert {log.end_offset for log in query.update().values()} == {0}
    broker.produce("idle", "the first", partition=1)
    assert {key: log.end_offset for key, log in query.update().items()} == {("idle", 0): 0, ("idle", 1): 1}


def test_one_that_gets_its_directory_between_two_looks_is_read(broker: Broker) -> None:
    result = find_partitions([broker.data_dir])["idle", 0]
    broker.produce("idle", "the first", partition=0)
    assert [segment.base_offset for segment in open_partition(result).segments] == [0]


def test_a_directory_that_was_deleted_is_not_taken_for_one(broker: Broker) -> None:
    result = find_partitions([broker.data_dir])["orders", 1]
    broker.delete_topic("orders")
    broker.create_topic("other")
    with pytest.raises(FileNotFoundError):
        open_partition(result)


@pytest.mark.parametrize("content", ["", "{", '{"version": 1, "topics": {"orders": 7}}', '{"version": 2}'])
def test_a_topics_file_that_cannot_be_read_tells_of_none(broker: Broker, tmp_path: Path, content: str) -> None:
    (tmp_path / TOPICS_FILE).write_text(content)
    assert find_partitions([str(tmp_path)]) == {}


def test_jobs_take_them_for_empty(broker: Broker, tmp_path: Path) -> None:
    directory = broker.data_dir
    report = verify([directory])
    assert (report.findings, report.partitions) == ([], 1)
    assert verify([directory], processes=1).is_sound
    assert verify([directory], VerifySettings(topics=("idle",))).is_sound
    assert {key[:2] for key in stats([directory]).groups} == {("orders", 1)}
    assert stats([directory], topics=["idle"]).groups == {}
    converted, compacted = str(tmp_path / "converted"), str(tmp_path / "compacted")
    convert([directory], converted, ConvertSettings(codec="gzip"))
    compact([directory], compacted)
    assert diff(directory, converted).is_equal
    assert diff(directory, compacted).is_equal
    with Broker(data_dir=converted) as copy:
        assert [record.text() for record in copy.records("orders")] == ["a record"]
        assert copy.topics()["idle"].partitions == 2


def test_a_stopped_brokers_directory_has_them_all(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path), topics=["idle:2"]):
        pass
    assert all(partition.is_made for partition in find_partitions([str(tmp_path)]).values())
    report = verify([str(tmp_path)])
    assert (report.findings, report.partitions) == ([], 2)
    partition = f"{tmp_path}/idle-1"
    assert (os.listdir(partition), logs(partition)) == (["partition.metadata"], {("idle", 1): (0, 0)})
    report = verify([partition])
    assert (report.findings, report.partitions) == ([], 1)


def test_one_that_held_records_by_a_checkpoint_has_lost_its_log(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path), topics=["idle:2"]):
        pass
    write_offset_checkpoint(str(tmp_path / "recovery-point-offset-checkpoint"), {("idle", 1): 1})
    (finding,) = verify([str(tmp_path)]).findings
    assert (finding.path, finding.what) == (f"{tmp_path}/idle-1", Kind.MISSING)


def test_rows_are_written_behind_what_a_stopped_broker_has_never_used(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path), topics=["idle:2"]):
        pass
    write(tmp_path, [{"topic": "idle", "partition": 1, "key": b"k", "value": b"a row"}])
    assert verify([str(tmp_path)]).findings == []
    with Broker(data_dir=str(tmp_path)) as broker:
        broker.produce("idle", "a record", partition=1)
        assert [(record.offset, record.text()) for record in broker.records("idle")] == [(0, "a row"), (1, "a record")]
