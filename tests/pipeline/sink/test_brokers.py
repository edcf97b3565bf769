"""Apache Kafka 3.9.1 and minibroker serve records that were written into their directories, and continue after them.

Kafka's DumpLogSegments finds no fault. The directory of a running broker cannot be written.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from minibroker_pipeline.log_directories.directory_commit import DirectoryInUseError
from minibroker_pipeline.sink.writer import LogWriter
from tests.clients.broker_process import BrokerProcess
from tests.kafka.answers import Line, answers
from tests.kafka.dumps import check_directory
from tests.kafka.oracle import Oracle
from tests.kafka.real_kafka import RealKafka
from tests.kafka.writers import create, write
from tests.pipeline.sink.writing import Row, new_writer, run_tasks
from tests.pipeline.sink.writing import write as write_rows
from tests.pipeline.source.directories import read

FIRST: Final = datetime(2024, 5, 6, tzinfo=UTC)
CODECS: Final = ["none", "gzip", "snappy", "lz4", "zstd"]
BEFORE: Final = 30
"""The number of records that Kafka writes itself."""
TASKS: Final = 3
OPTIONS: Final[dict[str, Any]] = {"batchBytes": 500, "segmentBytes": 4000, "indexIntervalBytes": 700}


def rows(first: int, count: int) -> list[Row]:
    """Return rows with null and empty keys and values, headers, and timestamps that are not always in order."""
    return [
        {
            "key": None if number % 5 == 2 else b"key-%d" % (number % 11),
            "value": None if number % 7 == 3 else b"%d-" % number * (number % 40),
            "timestamp": FIRST + timedelta(milliseconds=1000 * number - 4000 * (number % 6 == 5)),
            "headers": [{"key": "n", "value": b"%d" % number}, {"key": "é", "value": None}][: number % 3],
        }
        for number in range(first, first + count)
    ]


def lines(written: list[Row], offset: int) -> list[Line]:
    """Return the rows as a consumer sees them."""
    return [
        Line(
            offset + number,
            1,
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for number, row in enumerate(written)
    ]


ALL: Final = rows(0, 3 * 60)


def write_all(data_dir: Path, topic: str, codec: str, *, overwrite: bool = False) -> None:
    tasks = [ALL[60 * task : 60 * task + 60] for task in range(TASKS)]
    write_rows(data_dir, *tasks, topic=topic, codec=codec, overwrite=overwrite, **OPTIONS)


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """A Kafka whose topics were appended to or replaced while it was stopped."""
    kafka = RealKafka(tmp_path_factory.mktemp("kafka"), kafka_libs)
    try:
        kafka.start()
        create(kafka.bootstrap, {name: {} for name in (*CODECS, "again")})
        for topic in ("none", "lz4", "again"):
            write(kafka.bootstrap, topic, BEFORE, batch=7, idempotent=topic == "lz4", recent=True)
        with pytest.raises(DirectoryInUseError, match="stop the broker"):
            write_all(kafka.data_dir, "none", "none")
        kafka.stop()
        for codec in CODECS:
            write_all(kafka.data_dir, codec, codec)
        write_all(kafka.data_dir, "again", "zstd", overwrite=True)
        yield kafka
    finally:
        kafka.close()


@pytest.mark.torture
@pytest.mark.parametrize("topic", [*CODECS, "again"])
def test_kafkas_dump_tool_finds_nothing_wrong(oracle: Oracle, kafka: RealKafka, topic: str) -> None:
    partition = kafka.data_dir / f"{topic}-0"
    check_directory(oracle, partition)
    if topic == "none":
        assert len(list(partition.glob("*.log"))) > 3


@pytest.fixture(scope="module")
def running(kafka: RealKafka, oracle: Oracle) -> RealKafka:
    for topic in (*CODECS, "again"):
        check_directory(oracle, kafka.data_dir / f"{topic}-0")  # Check the files before Kafka changes them.
    kafka.start()
    return kafka


@pytest.mark.torture
@pytest.mark.parametrize("topic", [*CODECS, "again"])
def test_kafka_serves_what_was_written_and_goes_on(running: RealKafka, topic: str) -> None:
    before = BEFORE if topic in {"none", "lz4"} else 0
    result = answers(running.bootstrap, topic)
    assert result.records[before:] == lines(ALL, before)
    assert result.committed == result.records
    for time, offset in result.times.items():
        assert offset == next((line.offset for line in result.records if line.timestamp >= time), -1)
    write(running.bootstrap, topic, 3, batch=2, start=2_000)
    assert [line.offset for line in answers(running.bootstrap, topic).records[-3:]] == [
        before + len(ALL) + number for number in range(3)
    ]
    assert [line for line in running.output().splitlines() if f"{topic}-0" in line] == []


def test_minibroker_serves_what_was_written_and_goes_on(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, ["--set", "log.retention.ms=-1"])
    write_all(broker.data_dir, "orders", "lz4")
    broker.start()
    try:
        assert answers(broker.bootstrap, "orders").records == lines(ALL, 0)
        write(broker.bootstrap, "orders", 5, batch=2, idempotent=True)
        with pytest.raises(DirectoryInUseError):
            new_writer(broker.data_dir, ["value"], topic="orders")
        broker.terminate()
        write_all(broker.data_dir, "orders", "none")
        broker.start()
        result = answers(broker.bootstrap, "orders")
        assert result.records[-len(ALL) :] == lines(ALL, len(ALL) + 5)
        write(broker.bootstrap, "orders", 5, batch=2)
        assert len(answers(broker.bootstrap, "orders").records) == 2 * len(ALL) + 10
        broker.terminate()
    finally:
        broker.close()
    assert len(read(broker.data_dir, ("offset",))) == 2 * len(ALL) + 10


def test_a_broker_that_starts_while_a_query_writes_makes_it_fail(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    write_all(broker.data_dir, "orders", "lz4")
    late: LogWriter = new_writer(broker.data_dir, ["value"], topic="orders")
    messages = run_tasks(late, [[{"value": b"late"}]])
    broker.start()
    try:
        with pytest.raises(DirectoryInUseError):
            late.commit(messages)
        assert len(answers(broker.bootstrap, "orders").records) == len(ALL)
        broker.terminate()
    finally:
        broker.close()
    assert len(read(broker.data_dir, ("offset",))) == len(ALL)
