"""`verify` on directories of real brokers: it finds no fault in them, but finds any damage done to them.

Apache Kafka's DumpLogSegments is the oracle: `verify` must report everything that it reports.
"""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from minibroker import Broker
from minibroker_pipeline.jobs.verify import VerifySettings, verify
from tests.kafka.dumps import check_directory
from tests.kafka.oracle import Oracle
from tests.kafka.real_kafka import RealKafka
from tests.kafka.writers import (
    SMALL_SEGMENTS,
    TOPICS,
    TRANSACTIONAL,
    create,
    with_batches,
    write,
    write_all,
    write_transactions,
)
from tests.pipeline.jobs.directories import copied, cut, flip_a_bit, some_file
from tests.sparse_copies import copy_directory
from tests.sweeps import one_in

OLD: Final = {
    f"v{magic}-{codec}": {"message.format.version": version, "compression.type": codec, **SMALL_SEGMENTS}
    for magic, version in ((0, "0.9.0"), (1, "0.10.2"))
    for codec in ("uncompressed", "gzip")
}
"""The files that Kafka 3.9.1 no longer writes."""
TOPICS_TO_DAMAGE: Final = (
    "plain",
    "zstd",
    "lz4",
    "segments",
    "append-time",
    "moved",
    "recent",
    "transactions",
    "ongoing",
)
FOR_THE_TOOL: Final = ("segments", "gzip", "append-time")
WAYS: Final = (flip_a_bit, cut)


def settings_of(topic: str) -> VerifySettings:
    """Return the settings for a topic."""
    config = {**TOPICS, **TRANSACTIONAL, **OLD}[topic]
    return VerifySettings(topics=(topic,), index_interval_bytes=int(config.get("index.interval.bytes", 4096)))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of minibroker's directory, taken while it runs and after it stopped."""
    data, copies = tmp_path_factory.mktemp("ours"), tmp_path_factory.mktemp("copies")
    config = {"log.retention.ms": "-1", "log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "100"}
    with Broker(data_dir=str(data), config=config) as broker:
        create(broker.bootstrap_servers, {**TOPICS, **TRANSACTIONAL, **OLD})
        write_all(broker.bootstrap_servers, data / "cleaner-offset-checkpoint")
        write_transactions(broker.bootstrap_servers)
        for topic in OLD:
            write(broker.bootstrap_servers, topic, 80, batch=7, headers=False)
        copy_directory(data, copies / "running")
    copy_directory(data, copies / "stopped")
    return copies


@pytest.fixture(scope="module")
def theirs(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of Kafka's directory, taken after a kill and after a clean stop."""
    copies = tmp_path_factory.mktemp("copies")
    kafka = RealKafka(tmp_path_factory.mktemp("kafka"), kafka_libs)
    try:
        kafka.start()
        create(kafka.bootstrap, {**TOPICS, **TRANSACTIONAL})
        write_all(kafka.bootstrap, kafka.data_dir / "cleaner-offset-checkpoint")
        write_transactions(kafka.bootstrap)
        kafka.kill()
        copy_directory(kafka.data_dir, copies / "killed")
        kafka.start()
        kafka.stop()
    finally:
        kafka.close()
    copy_directory(kafka.data_dir, copies / "stopped")
    return copies


@pytest.mark.parametrize("end", one_in(2, ["stopped", "running"]))
def test_nothing_is_found_in_what_minibroker_leaves(ours: Path, end: str) -> None:
    report = verify([str(ours / end)])
    assert report.findings == []
    assert report.records > 1_500


@pytest.mark.torture
@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_nothing_is_found_in_what_kafka_leaves(theirs: Path, end: str) -> None:
    report = verify([str(theirs / end)])
    assert report.findings == []
    assert report.records > 1_300


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("whose", one_in(2, ["ours", "theirs"]))
def test_the_file_that_was_damaged_is_named(
    request: pytest.FixtureRequest, tmp_path: Path, whose: str, way: Callable[[Path, random.Random], None]
) -> None:
    copies: Path = request.getfixturevalue(whose)
    topics = (*TOPICS_TO_DAMAGE, *OLD) if whose == "ours" else TOPICS_TO_DAMAGE
    for seed in range(15):
        chance = random.Random(seed)
        topic = chance.choice(topics)
        damaged = some_file(copied(copies / "stopped", tmp_path / "copy", topic), chance)
        before = damaged.read_bytes()
        way(damaged, chance)
        report = verify([str(tmp_path / "copy")], settings_of(topic))
        if _loses_nothing(damaged, before):
            continue
        named = {Path(finding.path).stem for finding in report.findings}
        assert damaged.stem in named, f"seed {seed}: {topic}: {damaged.name}: {len(before)} bytes"


def _loses_nothing(damaged: Path, before: bytes) -> bool:
    """Return whether an offset index of old messages was cut between entries, whose distances can be of any size."""
    after = damaged.read_bytes()
    is_old = damaged.parent.name.startswith("v")
    return is_old and damaged.suffix == ".index" and len(after) < len(before) and len(after) % 8 == 0


def test_what_kafkas_tool_complains_of_is_found(oracle: Oracle, ours: Path, tmp_path: Path) -> None:
    complaints = 0
    for seed in range(12):
        chance = random.Random(1_000 + seed)
        topic = chance.choice(FOR_THE_TOOL)
        partition = copied(ours / "stopped", tmp_path / "copy", topic)
        flip_a_bit(some_file(partition, chance), chance)
        try:
            check_directory(oracle, partition)
        except AssertionError:
            complaints += 1
            assert not verify([str(tmp_path / "copy")], settings_of(topic)).is_sound, f"seed {seed}"
    assert complaints


@pytest.mark.parametrize("topic", FOR_THE_TOOL)
def test_kafkas_tool_finds_nothing_where_verify_does_not(
    oracle: Oracle, ours: Path, tmp_path: Path, topic: str
) -> None:
    partition = copied(ours / "stopped", tmp_path / "copy", topic)
    assert verify([str(tmp_path / "copy")], VerifySettings(topics=(topic,))).findings == []
    check_directory(oracle, partition)


@pytest.mark.torture
def test_nothing_is_found_while_a_broker_writes(tmp_path: Path) -> None:
    """During the check, segments are rolled, compacted and deleted, and transactions are aborted."""
    config = {
        "log.retention.check.interval.ms": "50",
        "log.cleaner.backoff.ms": "50",
        "log.segment.delete.delay.ms": "50",
    }
    topics = {
        "rolled": SMALL_SEGMENTS,
        "kept-short": {**SMALL_SEGMENTS, "retention.bytes": "9000"},
        "compacted": TOPICS["compacted"],
        "transactions": TRANSACTIONAL["transactions"],
        "ongoing": TRANSACTIONAL["ongoing"],
    }
    with Broker(data_dir=str(tmp_path / "data"), config=config) as broker:
        create(broker.bootstrap_servers, topics)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1})
        keyed = [{"topic": "compacted", "key": b"key-%d" % (number % 9), "value": b"v" * 50} for number in range(60)]
        stop = threading.Event()

        def produce() -> None:
            while not stop.is_set():
                for topic in ("rolled", "kept-short"):
                    write(broker.bootstrap_servers, topic, 60, batch=3, recent=True)
                with_batches(producer, 3, keyed)
                write_transactions(broker.bootstrap_servers)

        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(produce)
            try:
                looks = [verify([str(tmp_path / "data")]) for _ in range(3)]
                while looks[-1].records < 600 and not running.done():
                    looks.append(verify([str(tmp_path / "data")]))
            finally:
                stop.set()
            running.result()
    assert [look.damage for look in looks] == [[]] * len(looks)
