"""A Kafka and a minibroker keep off each other's running data directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker.cluster.data_dir import DataDir, DataDirInUseError
from tests.kafka.real_kafka import RealKafka


@pytest.fixture
def kafka(kafka_libs: Path, tmp_path: Path) -> Iterator[RealKafka]:
    """A Kafka that runs."""
    made = RealKafka(tmp_path / "kafka", kafka_libs)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.mark.torture
def test_the_directory_of_a_running_broker_is_refused_by_the_other_kind(kafka: RealKafka) -> None:
    with pytest.raises(DataDirInUseError, match="is in use by an Apache Kafka"):
        DataDir(str(kafka.data_dir))
    kafka.stop()
    held = DataDir(str(kafka.data_dir))
    try:
        with pytest.raises(AssertionError, match=r"Failed to acquire lock on file \.lock"):
            kafka.start()
    finally:
        held.release()
    kafka.start()
