"""AlterReplicaLogDirs and DescribeLogDirs, compared with Kafka 3.9.1."""

import os
from pathlib import Path
from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from tests.broker.cluster.nodes import create
from tests.broker.harness import Harness, batch


def move(harness: Harness, path: str, *partitions: tuple[str, int], version: int = 2) -> list[int]:
    topics = [AlterReplicaLogDirTopic(name=name, partitions=[index]) for name, index in partitions]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
    results = harness.ask(request, version).results
    codes = {
        (topic.topic_name, partition.partition_index): partition.error_code
        for topic in results
        for partition in topic.partitions
    }
    return [codes[partition] for partition in partitions]


@pytest.mark.parametrize("version", range(3))
def test_a_replica_is_moved_to_where_it_is(harness: Harness, version: int) -> None:
    assert move(harness, os.path.abspath(harness.data_dir), ("t", 0), version=version) == [0]


def test_partitions_that_there_are_not_are_unknown(harness: Harness) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(harness, os.path.abspath(harness.data_dir), ("t", 9), ("none", 0)) == [unknown, unknown]


def test_a_broker_moves_its_own_replicas_only(tmp_path: Path) -> None:
    cluster = Harness(str(tmp_path / "data"), brokers=3)
    create(cluster, partitions=3, factor=1)
    path = os.path.abspath(cluster.data_dir)
    assert move(cluster, path, ("t", 0), ("t", 1)) == [0, ErrorCode.REPLICA_NOT_AVAILABLE]
    cluster.close()


def ask(harness: Harness, version: int = 5, requested: dict[str, list[int]] | None = None) -> Any:
    topics = None
    if requested is not None:
        topics = [DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in requested.items()]
    response = harness.ask(DescribeLogDirsRequest(topics=topics), version)
    assert response.error_code == 0
    (result,) = response.results
    return result


def sizes(result: Any) -> dict[tuple[str, int], int]:
    return {
        (t.name, partition.partition_index): partition.partition_size
        for t in result.topics
        for partition in t.partitions
    }


@pytest.mark.parametrize("version", range(6))
def test_a_replica_takes_as_many_bytes_as_its_segments(harness: Harness, version: int) -> None:
    records = batch(b"one", b"two")
    harness.produce(records)
    result = ask(harness, version)
    assert (result.error_code, result.log_dir) == (0, os.path.abspath(harness.data_dir))
    assert sizes(result) == {("t", 0): len(records)}
    (partition,) = result.topics[0].partitions
    assert (partition.offset_lag, partition.is_future_key, result.is_cordoned) == (0, False, False)


def test_a_log_that_nobody_has_used_is_measured_and_stays_closed(harness: Harness) -> None:
    records = batch(b"one")
    harness.produce(records)
    harness.restart()
    assert sizes(ask(harness)) == {("t", 0): len(records)}
    assert harness.topic().partitions[0].opened_log is None


def test_the_bytes_of_the_volume_are_told_from_version_4_on(harness: Harness) -> None:
    volume = ask(harness, 4)
    assert volume.total_bytes > volume.usable_bytes > 0
    assert ask(harness, 3).total_bytes == -1


def test_each_broker_tells_of_its_own_replicas(tmp_path: Path) -> None:
    cluster = Harness(str(tmp_path / "data"), brokers=3)
    create(cluster, partitions=3, factor=1)
    described = {}
    for node in (1, 2, 3):
        cluster.asks = node
        described[node] = list(sizes(ask(cluster)))
    assert described == {1: [("t", 0)], 2: [("t", 1)], 3: [("t", 2)]}
    cluster.close()


def test_a_directory_that_cannot_be_reached_is_told_as_an_error(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> os.statvfs_result:
        raise OSError

    monkeypatch.setattr(os, "statvfs", fail)
    assert ask(harness).error_code == ErrorCode.KAFKA_STORAGE_ERROR
