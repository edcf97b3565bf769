"""Moving topics of this broker to Apache Kafka 3.9.1 with KRaft and back, as docs/spark-to-kafka.md describes."""

import os
import shlex
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.clients.broker_process import BrokerProcess
from tests.documented import code
from tests.kafka import jvm
from tests.kafka.answers import all_answers, answers
from tests.kafka.real_kafka import RealKafka
from tests.patience import PATIENCE_S
from tests.pipeline.producing import Message, begin, create, produce, produce_in_transaction
from tests.programs import run_to_success

PAGE: Final = "docs/spark-to-kafka.md"
STEPS: Final = "Step by step"
COMMANDS: Final = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
}
SETTINGS: Final = ("offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1")
TOPICS: Final = ("orders", "users")
ORDERS: Final = 40
COMMITTED: Final = 7
LEFT_OPEN: Final = "left-open"


class Move(NamedTuple):
    """Both brokers, and a folder with Kafka's commands in `bin`."""

    ours: BrokerProcess
    kafka: RealKafka
    directory: Path

    def run(self, script: str) -> str:
        """Run commands of the page and return their output."""
        for there, here in (
            ("localhost:9092", self.kafka.bootstrap),
            ("/var/lib/minibroker", str(self.ours.data_dir)),
            ("/var/lib/kafka", str(self.kafka.data_dir)),
        ):
            script = script.replace(there, here)
        path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        completed = run_to_success(["bash", "-e", "-c", script], cwd=self.directory, env={**os.environ, "PATH": path})
        return completed.stdout


@pytest.fixture(scope="module")
def move(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Move]:
    directory = tmp_path_factory.mktemp("move")
    (directory / "bin").mkdir()
    with ExitStack() as ends:
        ours = BrokerProcess(directory, [word for setting in SETTINGS for word in ("--set", setting)])
        ends.callback(ours.close)
        kafka = RealKafka(directory / "kafka", kafka_libs)
        ends.callback(kafka.close)
        for command, name in COMMANDS.items():
            path = directory / "bin" / command
            log = f"-Dlog4j.configuration=file:{kafka.directory}/log4j.properties"
            java = shlex.join(jvm.command(kafka_libs, log, heap="256m"))
            path.write_text(f"""#!/bin/sh\nexec {java} {name} "$@"\n""")
            path.chmod(0o755)
        ours.start()
        yield Move(ours, kafka, directory)


def fill(bootstrap: str) -> None:
    """Write everything that the page says is kept: records, a compacted topic, a group and transactions."""
    create(bootstrap, "orders", 2)
    create(bootstrap, "users", 1, {"cleanup.policy": "compact"})
    produce(bootstrap, "orders", [Message(b"%d" % n, b"key", n % 2, headers=[("n", b"1")]) for n in range(ORDERS)])
    produce(bootstrap, "users", [Message(b"%d" % n, b"user-%d" % (n % 3)) for n in range(10)])
    produce_in_transaction(bootstrap, "orders", [Message(b"aborted")], commit=False)
    produce_in_transaction(bootstrap, "orders", [Message(b"committed")], commit=True)
    consumer = billing(bootstrap)
    consumer.commit(offsets=[TopicPartition("orders", 0, COMMITTED)], asynchronous=False)
    consumer.close()
    begin(bootstrap, "orders", [Message(b"open")], name=LEFT_OPEN)


def billing(bootstrap: str) -> Consumer:
    settings = {"group.id": "billing", "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
    return Consumer({"bootstrap.servers": bootstrap, **settings})


@contextmanager
def running(kafka: RealKafka) -> Generator[str]:
    """Start Kafka, yield its address, and stop it cleanly."""
    kafka.start()
    try:
        yield kafka.bootstrap
        kafka.stop()
    finally:
        kafka.close()


def ends(bootstrap: str, topic: str) -> list[int]:
    consumer = billing(bootstrap)
    places = [
        TopicPartition(topic, number) for number in consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions
    ]
    result = [consumer.get_watermark_offsets(partition, PATIENCE_S)[1] for partition in places]
    consumer.close()
    return result


@pytest.mark.torture
def test_topics_groups_and_transactions_go_on_under_kafka(move: Move) -> None:
    look, topics, group, copy, check = code(PAGE, STEPS, "sh")
    fill(move.ours.bootstrap)
    before = all_answers(move.ours.bootstrap, TOPICS)
    orders = ends(move.ours.bootstrap, "orders")
    move.ours.terminate()
    assert ": no damage" in move.run(look)

    with running(move.kafka) as bootstrap:
        move.run(topics)
        move.run(group.replace("10000", "3000"))
        produce_in_transaction(bootstrap, "orders", [Message(b"first")], commit=True, name="first")
    move.run(copy)
    with running(move.kafka) as bootstrap:
        assert {name: answers(bootstrap, name, list(answered.times)) for name, answered in before.items()} == before
        output = move.run(check)
        for partition, end in enumerate(orders):
            assert f"orders:{partition}:{end}\n" in output
        assert f"billing orders 0 {COMMITTED} {orders[0]} " in " ".join(output.split())
        assert "-stray" not in " ".join(path.name for path in move.kafka.data_dir.iterdir())
        # The producer of the open transaction ends it.
        produce_in_transaction(bootstrap, "orders", [Message(b"on")], commit=True, name=LEFT_OPEN)
        after = answers(bootstrap, "orders")
        assert before["orders"].last_stable_offset < before["orders"].end
        assert after.last_stable_offset == after.end == orders[0] + 3


@pytest.mark.torture
def test_a_directory_of_kafka_is_served_and_goes_back(move: Move) -> None:
    """Topics created in the meantime are set aside, and a deleted topic returns without its records."""
    (command,) = code(PAGE, "Serve Kafka's directory", "sh")
    assert command == "minibroker serve --data-dir /var/lib/kafka\n"
    with running(move.kafka) as bootstrap:
        create(bootstrap, "kept", 2)
        create(bootstrap, "deleted", 1)
        for topic in ("kept", "deleted"):
            produce(bootstrap, topic, [Message(b"of Kafka")] * 5)
    served = BrokerProcess(move.kafka.directory)
    assert served.data_dir == move.kafka.data_dir
    try:
        served.start()
        produce(served.bootstrap, "kept", [Message(b"of minibroker", partition=n % 2) for n in range(4)])
        create(served.bootstrap, "made", 1)
        admin = AdminClient({"bootstrap.servers": served.bootstrap})  # The client must outlive its futures.
        admin.delete_topics(["deleted"])["deleted"].result(PATIENCE_S)
        answers_kept = answers(served.bootstrap, "kept")
        assert answers_kept.end == 7
        served.terminate()
    finally:
        served.close()
    with running(move.kafka) as bootstrap:
        assert answers(bootstrap, "kept", list(answers_kept.times)) == answers_kept
        assert ends(bootstrap, "kept") == [7, 2]
        assert ends(bootstrap, "deleted") == [0]
        assert [path.name for path in move.kafka.data_dir.iterdir() if path.name.startswith("made-0.")] != []
