"""AlterReplicaLogDirs: one directory is where everything is; codes compared with Kafka 3.9.1."""

import os
from pathlib import Path

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tests.broker.cluster.nodes import create
from tests.broker.harness import Harness


def move(harness: Harness, path: str, *partitions: tuple[str, int], version: int = 2) -> list[int]:
    topics = [AlterReplicaLogDirTopic(name=name, partitions=[index]) for name, index in partitions]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
    results = harness.ask(request, version).results
    codes = {
        (topic.topic_name, each.partition_index): each.error_code for topic in results for each in topic.partitions
    }
    return [codes[each] for each in partitions]


@pytest.mark.parametrize("version", range(3))
def test_a_replica_is_moved_to_where_it_is(harness: Harness, version: int) -> None:
    assert move(harness, os.path.abspath(harness.data_dir), ("t", 0), version=version) == [0]


def test_there_is_no_other_directory(harness: Harness) -> None:
    partitions = [("t", 0), ("t", 9), ("none", 0)]
    assert move(harness, "/elsewhere", *partitions) == [ErrorCode.LOG_DIR_NOT_FOUND] * 3


def test_partitions_that_there_are_not_are_unknown(harness: Harness) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(harness, os.path.abspath(harness.data_dir), ("t", 9), ("none", 0)) == [unknown, unknown]


def test_a_broker_moves_its_own_replicas_only(tmp_path: Path) -> None:
    cluster = Harness(str(tmp_path / "data"), brokers=3)
    create(cluster, partitions=3, factor=1)
    path = os.path.abspath(cluster.data_dir)
    assert move(cluster, path, ("t", 0), ("t", 1)) == [0, ErrorCode.REPLICA_NOT_AVAILABLE]
    cluster.close()
