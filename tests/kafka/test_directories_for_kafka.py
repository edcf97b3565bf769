"""Topic directories that this broker wrote are loaded by Kafka 3.9.1, and its DumpLogSegments finds nothing wrong.

A Kafka in KRaft mode sets a directory aside whose topic it does not know. So it creates the topics first, is stopped,
and gets our files in the place of its own; of its own it keeps `partition.metadata`, which names the topic's id.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.clients.broker_process import BrokerProcess
from tests.kafka.answers import Answers, all_answers, answers
from tests.kafka.dumps import check_directory
from tests.kafka.exchange import give
from tests.kafka.oracle import Oracle
from tests.kafka.real_kafka import RealKafka
from tests.kafka.writers import MOVED_TO, SMALL_SEGMENTS, TOPICS, create, write, write_all
from tests.sparse_copies import copy_directory
from tests.sweeps import one_in

_SEGMENTS: Final = {**SMALL_SEGMENTS, "segment.bytes": "1500"}
OLD_FORMATS: Final[dict[str, Mapping[str, str]]] = {
    f"v{magic}-{codec}": {"message.format.version": version, "compression.type": codec, **_SEGMENTS}
    for magic, version in ((0, "0.9.0"), (1, "0.10.0"))
    for codec in ("uncompressed", "gzip", "snappy", "lz4")
}
"""Formats that Kafka 3.9 does not write any more, and still reads."""
UNTOUCHED: Final = "untouched"
"""A topic that no client has ever asked for."""
NAMES: Final = [*TOPICS, *OLD_FORMATS]
OPTIONS: Final = [
    option
    for setting in ("log.retention.ms=-1", "log.cleaner.backoff.ms=100", "log.initial.task.delay.ms=100")
    for option in ("--set", setting)
]

every_topic = pytest.mark.parametrize("topic", one_in(2, NAMES))


class Left(NamedTuple):
    """A directory that we left, and what we had answered."""

    path: Path
    answers: dict[str, Answers]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Left]:
    """Our directory after a stop; after some more records and a kill; and after another start."""
    copies = tmp_path_factory.mktemp("left")
    with ExitStack() as ends:
        broker = BrokerProcess(tmp_path_factory.mktemp("ours"), OPTIONS)
        ends.callback(broker.close)
        broker.start()
        create(broker.bootstrap, {**TOPICS, **OLD_FORMATS, UNTOUCHED: {}})
        write_all(broker.bootstrap, broker.data_dir / "cleaner-offset-checkpoint")
        for topic in OLD_FORMATS:
            write(broker.bootstrap, topic, 80, batch=7, headers=False)
        stopped = all_answers(broker.bootstrap, NAMES)
        broker.terminate()
        copy_directory(broker.data_dir, copies / "stopped")
        broker.start()
        for topic in ("plain", "segments", "zstd", "v0-lz4", "v1-uncompressed"):
            write(broker.bootstrap, topic, 20, batch=4, start=500, headers=topic not in OLD_FORMATS)
        killed = all_answers(broker.bootstrap, NAMES)
        broker.kill()
        copy_directory(broker.data_dir, copies / "killed")
        broker.start()
        assert all_answers(broker.bootstrap, NAMES) == killed
        broker.terminate()
        return {
            "stopped": Left(copies / "stopped", stopped),
            "killed": Left(copies / "killed", killed),
            "recovered": Left(broker.data_dir, killed),
        }


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """A stopped Kafka that knows the topics."""
    kafka = RealKafka(tmp_path_factory.mktemp("kafka"), kafka_libs)
    try:
        kafka.start()
        known = {name: dict(config) for name, config in {**TOPICS, **OLD_FORMATS, UNTOUCHED: {}}.items()}
        for config in known.values():
            config.pop("message.format.version", None)
        create(kafka.bootstrap, known)
        kafka.stop()
        yield kafka
    finally:
        kafka.close()


@pytest.fixture(scope="module")
def loaded(kafka: RealKafka, left: dict[str, Left]) -> Callable[[str], RealKafka]:
    """A function that lets Kafka run on our directory."""
    current = ""

    def load(end: str) -> RealKafka:
        nonlocal current
        if end != current:
            if current:
                kafka.stop()
            give(kafka, left[end].path, [*NAMES, UNTOUCHED])
            if end != "stopped":
                (kafka.data_dir / ".kafka_cleanshutdown").unlink()
            kafka.start()
            current = end
        return kafka

    return load


@every_topic
@pytest.mark.parametrize("end", one_in(2, ["killed", "stopped"]))
def test_kafka_serves_our_records_as_we_serve_them_and_goes_on(
    loaded: Callable[[str], RealKafka], left: dict[str, Left], end: str, topic: str
) -> None:
    ours = left[end].answers[topic]
    kafka = loaded(end)
    assert answers(kafka.bootstrap, topic, list(ours.times)) == ours
    write(kafka.bootstrap, topic, 3, batch=2, start=2_000)
    after = answers(kafka.bootstrap, topic)
    assert after.records[:-3] == ours.records
    assert [line.offset for line in after.records[-3:]] == list(range(ours.end, ours.end + 3))
    assert [line for line in kafka.output().splitlines() if f"{topic}-0" in line] == []


@pytest.mark.parametrize("end", one_in(2, ["killed", "stopped"]))
def test_kafka_appends_to_a_partition_that_was_never_used_without_a_warning(
    loaded: Callable[[str], RealKafka], end: str
) -> None:
    kafka = loaded(end)
    write(kafka.bootstrap, UNTOUCHED, 3, batch=2)
    assert len(answers(kafka.bootstrap, UNTOUCHED).records) == 3
    assert [line for line in kafka.output().splitlines() if f"{UNTOUCHED}-0" in line] == []


@pytest.mark.parametrize(
    "topic", one_in(2, [name for name in NAMES if name != "empty"])
)  # which has no log to be dumped
@pytest.mark.parametrize(
    "end", one_in(2, ["recovered", "stopped"])
)  # an index that is still preallocated is corrupt to the tool
def test_kafkas_dump_tool_finds_nothing_wrong(oracle: Oracle, left: dict[str, Left], end: str, topic: str) -> None:
    check_directory(oracle, left[end].path / f"{topic}-0", compacted=topic == "compacted")


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
