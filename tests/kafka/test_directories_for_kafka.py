"""Topic directories that this broker wrote are loaded by Kafka 3.9.1, and its DumpLogSegments finds nothing wrong.

A Kafka in KRaft mode sets a directory aside whose topic it does not know. So it creates the topics first, is stopped,
and gets our files in the place of its own; of its own it keeps `partition.metadata`, which names the topic's id.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from minibroker_storage.checkpoints import read_offset_checkpoint, write_offset_checkpoint
from tests.clients.broker_process import BrokerProcess
from tests.kafka.answers import Answers, answers, times_of
from tests.kafka.dumps import check_directory
from tests.kafka.oracle import Oracle
from tests.kafka.real_kafka import RealKafka
from tests.kafka.writers import MOVED_TO, SMALL_SEGMENTS, TOPICS, create, write, write_all

OLD_FORMATS: Final[dict[str, Mapping[str, str]]] = {
    f"v{magic}-{codec}": {"message.format.version": version, "compression.type": codec, **SMALL_SEGMENTS}
    for magic, version in ((0, "0.9.0"), (1, "0.10.0"))
    for codec in ("uncompressed", "gzip", "snappy", "lz4")
}
NAMES: Final = [*TOPICS, *OLD_FORMATS]
OPTIONS: Final = [
    option
    for setting in ("log.retention.ms=-1", "log.cleaner.backoff.ms=100", "log.initial.task.delay.ms=100")
    for option in ("--set", setting)
]
CHECKPOINTS: Final = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
)

every_topic = pytest.mark.parametrize("topic", NAMES)
however_it_ended = pytest.mark.parametrize("end", ["stopped", "killed"])


class Left(NamedTuple):
    """A directory that we left, and what we had answered."""

    path: Path
    answers: dict[str, Answers]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Left]]:
    """What we leave when we are stopped, and then, after some more records, when we are killed."""
    copies = tmp_path_factory.mktemp("left")
    with ExitStack() as ends:
        broker = BrokerProcess(tmp_path_factory.mktemp("ours"), OPTIONS)
        ends.callback(broker.close)
        broker.start()
        create(broker.bootstrap, {**TOPICS, **OLD_FORMATS})
        write_all(broker.bootstrap, broker.data_dir / "cleaner-offset-checkpoint")
        for topic in OLD_FORMATS:
            write(broker.bootstrap, topic, 200, batch=7, headers=False)
        stopped = all_answers(broker.bootstrap)
        broker.terminate()
        shutil.copytree(broker.data_dir, copies / "stopped")
        broker.start()
        for topic in ("plain", "segments", "zstd", "v0-lz4", "v1-uncompressed"):
            write(broker.bootstrap, topic, 60, batch=4, start=500, headers=topic not in OLD_FORMATS)
        killed = all_answers(broker.bootstrap)
        broker.kill()
        shutil.copytree(broker.data_dir, copies / "killed")
        yield {"stopped": Left(copies / "stopped", stopped), "killed": Left(copies / "killed", killed)}


def all_answers(bootstrap: str) -> dict[str, Answers]:
    found: dict[str, Answers] = {}
    for topic in NAMES:
        records = answers(bootstrap, topic).records
        found[topic] = answers(bootstrap, topic, times_of(records))
    return found


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """A stopped Kafka that knows the topics."""
    kafka = RealKafka(tmp_path_factory.mktemp("kafka"), kafka_libs)
    try:
        kafka.start()
        known = {name: dict(config) for name, config in {**TOPICS, **OLD_FORMATS}.items()}
        for config in known.values():
            config.pop("message.format.version", None)
        create(kafka.bootstrap, known)
        kafka.stop()
        yield kafka
    finally:
        kafka.close()


def give(kafka: RealKafka, directory: Path, *, clean: bool) -> None:
    """Put our partitions in the place of Kafka's."""
    for topic in NAMES:
        home = kafka.data_dir / f"{topic}-0"
        for path in home.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for path in (directory / f"{topic}-0").iterdir():
            if path.name != "partition.metadata":
                shutil.copy(path, home)
    for name in CHECKPOINTS:
        theirs = read_offset_checkpoint(str(kafka.data_dir / name))
        kept = {place: offset for place, offset in theirs.items() if place[0] not in NAMES}
        ours = read_offset_checkpoint(str(directory / name))
        given = {place: offset for place, offset in ours.items() if place[0] in NAMES}
        write_offset_checkpoint(str(kafka.data_dir / name), {**kept, **given})
    if not clean:
        (kafka.data_dir / ".kafka_cleanshutdown").unlink()


@pytest.fixture(scope="module")
def loaded(kafka: RealKafka, left: dict[str, Left]) -> Callable[[str], RealKafka]:
    """A function that lets Kafka run on our directory."""
    current = ""

    def load(end: str) -> RealKafka:
        nonlocal current
        if end != current:
            if current:
                kafka.stop()
            give(kafka, left[end].path, clean=end == "stopped")
            kafka.start()
            current = end
        return kafka

    return load


@however_it_ended
@every_topic
def test_kafka_serves_our_records_as_we_serve_them(
    loaded: Callable[[str], RealKafka], left: dict[str, Left], end: str, topic: str
) -> None:
    ours = left[end].answers[topic]
    kafka = loaded(end)
    assert answers(kafka.bootstrap, topic, list(ours.times)) == ours
    complaints = [line for line in kafka.output().splitlines() if f"{topic}-0" in line]
    assert complaints == []


@however_it_ended
@every_topic
def test_kafka_goes_on_where_we_ended(
    loaded: Callable[[str], RealKafka], left: dict[str, Left], end: str, topic: str
) -> None:
    kafka = loaded(end)
    write(kafka.bootstrap, topic, 5, batch=2, start=2_000)
    after = answers(kafka.bootstrap, topic)
    assert after.end == left[end].answers[topic].end + 5
    assert [line.offset for line in after.records[-5:]] == list(range(after.end - 5, after.end))


@however_it_ended
@every_topic
def test_kafkas_dump_tool_finds_nothing_wrong(oracle: Oracle, left: dict[str, Left], end: str, topic: str) -> None:
    check_directory(oracle, left[end].path / f"{topic}-0")


def test_the_directory_holds_all_that_matters(left: dict[str, Left]) -> None:
    """The tests above mean something only if we have written it so."""
    path, found = left["stopped"]
    assert found["moved"].beginning == MOVED_TO
    assert len(found["compacted"].records) < found["compacted"].end // 2
    for topic in ("segments", "moved", "compacted", "gzip", *OLD_FORMATS):
        assert len(list((path / f"{topic}-0").glob("*.log"))) > 1, topic
    for topic in OLD_FORMATS:
        for log in (path / f"{topic}-0").glob("*.log"):
            assert log.read_bytes()[16] == int(topic[1]), topic
