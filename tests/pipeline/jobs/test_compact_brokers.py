"""Apache Kafka 3.9.1 and minibroker serve a directory of Kafka compacted by `compact`, and continue to write to it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

# mypy does not accept these names as exports of the package itself.
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from minibroker_pipeline.jobs.compact import CompactSettings, compact
from minibroker_pipeline.jobs.verify import verify
from minibroker_storage.data_directory.offset_checkpoints import read_offset_checkpoint
from tests.clients.broker_process import BrokerProcess
from tests.kafka.answers import Answers, Line, all_answers, answers
from tests.kafka.dumps import check_directory
from tests.kafka.oracle import Oracle
from tests.kafka.real_kafka import RealKafka
from tests.kafka.writers import create, with_batches
from tests.patience import PATIENCE_S, eventually
from tests.pipeline.jobs.lives import CLEANER_OFFSETS
from tests.sparse_copies import copy_directory

pytestmark = pytest.mark.torture
TOPICS: Final = ("users", "transfers")
CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": "3000",
    "index.interval.bytes": "300",
    "min.cleanable.dirty.ratio": "1.0",  # The broker must not clean the log yet.
}


def records(topic: str, first: int, count: int) -> list[dict[str, Any]]:
    return [
        {
            "topic": topic,
            "partition": 0,
            "key": b"key-%d" % (number * 7 % 23),
            "value": None if number % 6 == 1 else b"value %d " % number * 5,
            "headers": [("n", b"%d" % number)] if number % 4 == 0 else [],
        }
        for number in range(first, first + count)
    ]


def fill(bootstrap: str) -> None:
    common = {"bootstrap.servers": bootstrap, "linger.ms": 1, "log_level": 0}
    with_batches(Producer({**common, "enable.idempotence": True}), 6, records("users", 0, 240))
    producer = Producer({**common, "transactional.id": "transfers"})
    producer.init_transactions(PATIENCE_S)
    for turn in range(20):
        producer.begin_transaction()
        with_batches(producer, 5, records("transfers", 10 * turn, 10))
        if turn % 3:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)


class Compacted:
    """A stopped Kafka, its answers before the stop, and its compacted directory."""

    def __init__(self, kafka: RealKafka, home: Path) -> None:
        self.kafka = kafka
        self.before = all_answers(kafka.bootstrap, TOPICS)
        kafka.stop()
        self.data = home / "data"
        settings = CompactSettings(topics=TOPICS, segment_bytes=3000, index_interval_bytes=300)
        self.report = compact([str(kafka.data_dir)], str(self.data), settings)

    def expected(self, topic: str) -> list[Line]:
        """Return the committed records that must remain.

        These are all records in the active segment, and the newest record of each key below it.
        """
        active = max(int(path.stem) for path in (self.data / f"{topic}-0").glob("*.log"))
        committed = self.before[topic].committed
        newest = {line.key: line.offset for line in committed if line.offset < active}
        return [line for line in committed if line.offset >= active or newest[line.key] == line.offset]

    def check(self, found: Answers, topic: str) -> None:
        assert found.committed == self.expected(topic)
        assert found.end == self.before[topic].end
        assert len(found.records) < len(self.before[topic].records) / 2


@pytest.fixture(scope="module")
def compacted(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compacted]:
    kafka = RealKafka(tmp_path_factory.mktemp("kafka"), kafka_libs, {"log.cleaner.backoff.ms": "100"})
    try:
        kafka.start()
        create(kafka.bootstrap, dict.fromkeys(TOPICS, CONFIG))
        fill(kafka.bootstrap)
        yield Compacted(kafka, tmp_path_factory.mktemp("compacted"))
    finally:
        kafka.close()


@pytest.mark.parametrize("topic", TOPICS)
def test_kafkas_dump_tool_and_verify_find_nothing_wrong(compacted: Compacted, oracle: Oracle, topic: str) -> None:
    check_directory(oracle, compacted.data / f"{topic}-0", compacted=True)
    report = verify([str(compacted.data)])
    assert report.findings == []


def test_minibroker_serves_what_is_left_and_goes_on(compacted: Compacted, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    copy_directory(compacted.data, broker.data_dir)
    broker.start()
    try:
        for topic in TOPICS:
            compacted.check(answers(broker.bootstrap, topic), topic)
        fill(broker.bootstrap)
        assert answers(broker.bootstrap, "users").end == compacted.before["users"].end + 240
        broker.terminate()
    finally:
        broker.close()


def test_kafka_serves_what_is_left_and_its_cleaner_goes_on_from_there(compacted: Compacted) -> None:
    kafka = compacted.kafka
    ours = read_offset_checkpoint(str(compacted.data / CLEANER_OFFSETS))
    for topic in TOPICS:
        shutil.rmtree(kafka.data_dir / f"{topic}-0")
        copy_directory(compacted.data / f"{topic}-0", kafka.data_dir / f"{topic}-0")
    for name in (CLEANER_OFFSETS, "recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        shutil.copy(compacted.data / name, kafka.data_dir)
    kafka.start()
    for topic in TOPICS:
        compacted.check(answers(kafka.bootstrap, topic), topic)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    ratio = ConfigEntry("min.cleanable.dirty.ratio", "0.01", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, "users", incremental_configs=[ratio])
    for future in admin.incremental_alter_configs([change]).values():
        future.result(PATIENCE_S)
    fill(kafka.bootstrap)
    checkpoint = str(kafka.data_dir / CLEANER_OFFSETS)
    eventually(lambda: read_offset_checkpoint(checkpoint)["users", 0] > ours["users", 0])
    logged = [line for line in kafka.output().splitlines() if any(f"{topic}-0" in line for topic in TOPICS)]
    assert [line for line in logged if "ERROR" in line or "WARN" in line] == []
