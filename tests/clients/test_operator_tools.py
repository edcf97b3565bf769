"""Kafka's own command line tools print the same on this broker as on Kafka when both are in the same state."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from minibroker import Broker
from minibroker_protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.coordinators.transactions.producer import init_producer_id
from tests.broker.harness import batch
from tests.broker.socket_client import SocketClient
from tests.clients.contract import TIMEOUT, Message, eventually
from tests.clients.librdkafka_client import Librdkafka
from tests.clients.operator_tools import Transcript, both
from tests.kafka.oracle import Oracle
from tests.kafka.real_kafka import RealKafka
from tests.patience import NO_RETENTION

PARTITIONS: Final = 3
TIMESTAMP: Final = 1_600_000_000_000
"""Of the first record of each partition, in ms: 2020-09-13T12:26:40Z. The others follow second by second."""
GROUPS: Final = "kafka-consumer-groups"
TRANSACTIONS: Final = "kafka-transactions"
OFFSETS: Final = "kafka-get-offsets"
CONSOLE: Final = "kafka-console-consumer"

Scenario: TypeAlias = Callable[[Transcript], None]
Compare: TypeAlias = Callable[[Scenario], Transcript]


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    """Our broker; a hanging transaction is only possible without the verification of produce requests."""
    config = {
        "minibroker.emulate": "3.9",  # its transaction log has no tagged fields
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.partition.verification.enable": "false",
        **NO_RETENTION,
    }
    with Broker(config=config) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> str:
    """Kafka: the one of --kafka, or one for all tests."""
    given: str | None = request.config.getoption("--kafka")
    if given is not None:
        return given
    running: RealKafka = request.getfixturevalue("real_kafka")
    return running.bootstrap


@pytest.fixture
def compare(oracle: Oracle, ours: str, kafka: str) -> Compare:
    """A function that runs a scenario on both brokers and holds what the tools print against each other."""
    return lambda scenario: both(oracle, ours, kafka, f"run-{uuid.uuid4().hex[:8]}", scenario)


@pytest.fixture
def without_verification(oracle: Oracle, kafka: str) -> Iterator[None]:
    """Kafka takes transactional records of which no coordinator knows, as `ours` does."""
    key = "transaction.partition.verification.enable"
    of_the_broker = ("--bootstrap-server", kafka, "--entity-type", "brokers", "--entity-name", "1", "--alter")
    oracle.run("kafka.admin.ConfigCommand", *of_the_broker, "--add-config", f"{key}=false")
    yield
    oracle.run("kafka.admin.ConfigCommand", *of_the_broker, "--delete-config", key)


def fill(on: Transcript, count: int = 5) -> str:
    """A topic with so many records in each partition; returns its name."""
    client, topic = Librdkafka(on.bootstrap), f"{on.prefix}-topic"
    client.create_topic(topic, PARTITIONS)
    for partition in range(PARTITIONS):
        messages = [Message(b"%d" % n, partition=partition, timestamp=TIMESTAMP + n * 1_000) for n in range(count)]
        client.produce(topic, messages)
    return topic


@contextmanager
def consumer(on: Transcript, name: str, **options: Any) -> Iterator[Consumer]:
    """A consumer of a group that is named after the run."""
    settings = {"bootstrap.servers": on.bootstrap, "client.id": name, "heartbeat.interval.ms": 100, **options}
    running = Consumer({"group.id": f"{on.prefix}-group", "enable.auto.commit": False, **settings})
    try:
        yield running
    finally:
        running.close()


@contextmanager
def members(on: Transcript, topic: str, *names: str, **options: Any) -> Iterator[Sequence[Consumer]]:
    """Members that share the topic."""
    with ExitStack() as ends:
        running = [ends.enter_context(consumer(on, name, **options)) for name in names]
        for each in running:
            each.subscribe([topic])

        def is_shared() -> bool:
            for each in running:
                each.poll(0.05)
            sizes = [len(each.assignment()) for each in running]
            return sum(sizes) == PARTITIONS and min(sizes) > 0

        eventually(is_shared)
        yield running


def commit(on: Transcript, topic: str, offsets: Sequence[int]) -> None:
    """Commit offsets for the partitions from 0 on, as a consumer that is no member."""
    with consumer(on, "committer") as committer:
        places = [TopicPartition(topic, partition, offset) for partition, offset in enumerate(offsets)]
        committer.commit(offsets=places, asynchronous=False)


def test_groups_with_members_are_shown_and_protected_as_on_kafka(compare: Compare) -> None:
    def scenario(on: Transcript) -> None:
        topic = fill(on)
        commit(on, topic, [2, 5])
        static = {"group.id": f"{on.prefix}-static", "group.instance.id": "instance"}
        with members(on, topic, "one", "two"), members(on, topic, "three", **static):
            on.run_all(
                GROUPS,
                "--list",
                "--list --state",
                "--list --state stable",
                "--list --state Empty,Dead",
                "--list --type",
                "--list --type classic --state stable",
                "--list --type consumer",
                "--describe --group {}-group",
                "--describe --group {}-group --offsets --verbose",
                "--describe --group {}-group --members",
                "--describe --group {}-group --members --verbose",
                "--describe --group {}-group --state",
                "--describe --group {}-group --state --verbose",
                "--describe --group {}-static --group {}-group",
                "--describe --group {}-static --members --verbose",
                "--describe --all-groups",
                "--describe --all-groups --members",
                "--describe --all-groups --state",
                "--delete --group {}-group",
                "--delete-offsets --group {}-group --topic {}-topic",
                "--reset-offsets --group {}-group --all-topics --to-earliest --execute",
            )

    comparison = compare(scenario)
    group = f"{comparison.prefix}-group"
    assert (
        f"{group} {comparison.prefix}-topic 0 2 5 3 one-UUID /127.0.0.1 one"
        in comparison.find("--describe", group).lines
    )
    assert f"{group} BROKER (1) range Stable 2" in comparison.find("--state", group).lines
    assert (
        f"{comparison.prefix}-static three-UUID"
        not in comparison.find("--members", f"{comparison.prefix}-static").text()
    )
    assert "GroupNotEmptyException" in comparison.find("--delete").text()


class RawMember:
    """A member that sends its requests when it is told to, and no heartbeats."""

    def __init__(self, on: Transcript, group: str, protocol_type: str = "consumer", name: str = "range") -> None:
        host, _, port = on.bootstrap.rpartition(":")
        self._client = SocketClient((host, int(port)))
        self._member_id: str | None = None
        self._join = JoinGroupRequest(
            group_id=f"{on.prefix}-{group}",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id="",
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=b"")],
        )

    def begin_to_join(self) -> None:
        """Join, and do not wait for the others."""
        self._client.send(self._join, 3)

    def join(self) -> JoinGroupResponse:
        """Join a group that waits for nobody else."""
        response: JoinGroupResponse = self._client.ask(self._join, 3)
        assert response.error_code == 0
        self._member_id = response.member_id
        return response

    def share(self, assignment: bytes = b"") -> None:
        """Join as the only member, and give itself this."""
        joined = self.join()
        request = SyncGroupRequest(
            group_id=self._join.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)],
        )
        assert self._client.ask(request, 2).error_code == 0

    def close(self) -> None:
        """Leave, so that no other test meets this group."""
        with self._client as client:
            if self._member_id is not None:
                leave = LeaveGroupRequest(group_id=self._join.group_id, member_id=self._member_id)
                assert client.ask(leave, 2).error_code == 0


@pytest.mark.torture
def test_groups_in_the_middle_of_a_rebalance_or_of_other_programs_are_shown_as_on_kafka(compare: Compare) -> None:
    def scenario(on: Transcript) -> None:
        commit(on, fill(on), [1])
        with ExitStack() as ends:

            def member(*settings: str) -> RawMember:
                return ends.enter_context(closing(RawMember(on, *settings)))

            member("completing").join()
            member("preparing").share()
            member("preparing").begin_to_join()
            member("connectors", "connect", "sessioned").share(b"its own")
            member("empty-assignment").share()
            member("unreadable").share(b"\0")
            eventually(lambda: "PreparingRebalance" in on.ask(GROUPS, "--list", "--state").text())
            on.run_all(GROUPS, "--list", "--list --state", "--list --state PreparingRebalance,CompletingRebalance")
            for group in ("completing", "preparing", "connectors", "empty-assignment", "unreadable"):
                on.run_all(
                    GROUPS,
                    *(f"--describe --group {{}}-{group} {option}" for option in ("--offsets", "--state")),
                    f"--describe --group {{}}-{group} --members --verbose",
                )
            on.run_all(
                GROUPS,
                "--delete --group {}-preparing --group {}-connectors --group {}-completing",
                "--delete-offsets --group {}-connectors --topic {}-topic",
                "--reset-offsets --group {}-completing --topic {}-topic --to-latest --execute",
            )

    comparison = compare(scenario)
    assert f"{comparison.prefix}-completing CompletingRebalance" in comparison.find("--list", "--state").lines


def test_groups_without_members_have_their_offsets_moved_and_deleted_as_on_kafka(
    compare: Compare, tmp_path: Path
) -> None:
    def scenario(on: Transcript) -> None:
        topic = fill(on)
        commit(on, topic, [2, 5])
        plan = tmp_path / "plan.csv"
        plan.write_text(f"{topic},0,1\n{topic},2,4\n")
        on.run_all(GROUPS, "--list --state", "--describe --group {}-group --state")
        times = ("earliest", "latest", "max-timestamp", str(TIMESTAMP + 1_500), str(TIMESTAMP * 2))
        on.run_all(OFFSETS, *(f"--topic-partitions {{}}-topic --time {time}" for time in times))
        moves = (
            "--to-earliest",
            "--to-latest",
            "--to-offset 4",
            "--to-offset 400",
            "--shift-by -3",
            "--shift-by 10",
            "--to-datetime 2020-09-13T12:26:42.000",
            "--to-current",
            "--by-duration P1D",
        )
        on.run_all(GROUPS, *(f"--reset-offsets --group {{}}-group --all-topics {move} --execute" for move in moves))
        on.run_all(
            GROUPS,
            f"--reset-offsets --group {{}}-group --from-file {plan} --execute",
            "--describe --group {}-group --offsets",
        )
        on.run_all(
            GROUPS,
            "--reset-offsets --group {}-group --topic {}-topic:0,1 --to-earliest --dry-run",
            "--reset-offsets --group {}-group --topic {}-topic --to-latest --export --dry-run",
            "--reset-offsets --group {}-group --topic {}-other --to-latest --execute",
            "--reset-offsets --group {}-new --topic {}-topic --to-earliest --execute",
            "--describe --group {}-new",
            "--delete-offsets --group {}-group --topic {}-topic:1",
            "--delete-offsets --group {}-group --topic {}-topic:7 --topic {}-other",
            "--describe --group {}-group",
            "--delete --group {}-group --group {}-none",
            "--describe --group {}-group",
            "--describe --group {}-group --state",
            "--describe --group {}-group --members",
            "--delete-offsets --group {}-none --topic {}-topic",
            "--list",
            "--delete --group {}-new",
            "--list",
        )

    comparison = compare(scenario)
    group, topic = f"{comparison.prefix}-group", f"{comparison.prefix}-topic"
    assert f"{group} {topic} 2 4 5 1 - - -" in comparison.find("--offsets").lines
    assert comparison.commands[-1].lines == ()


def transactional(on: Transcript, name: str) -> Producer:
    """A producer that is ready for its first transaction."""
    producer = Producer({"bootstrap.servers": on.bootstrap, "transactional.id": f"{on.prefix}-{name}"})
    producer.init_transactions(TIMEOUT)
    return producer


def until_complete(on: Transcript) -> None:
    """Wait for the markers of all transactions of the run; Kafka answers before it has written them."""
    eventually(lambda: "Prepare" not in on.ask(TRANSACTIONS, "list").text())


def begin(on: Transcript, name: str, topic: str, partition: int = 0) -> Producer:
    """A producer that has written into a transaction."""
    producer = transactional(on, name)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=partition)
    producer.flush(TIMEOUT)
    return producer


def test_transactions_are_shown_and_aborted_as_on_kafka(compare: Compare) -> None:
    def scenario(on: Transcript) -> None:
        topic = fill(on)
        producers = [transactional(on, "idle")]
        producers.append(begin(on, "done", topic))
        producers[-1].commit_transaction(TIMEOUT)
        producers.append(begin(on, "given-up", topic))
        producers[-1].abort_transaction(TIMEOUT)
        producers.append(begin(on, "open", topic, partition=1))
        until_complete(on)
        on.run_all(
            TRANSACTIONS,
            "list",
            "list --duration-filter 3600000",
            *(f"describe --transactional-id {{}}-{name}" for name in ("idle", "done", "given-up", "open", "none")),
            *(f"describe-producers --topic {{}}-topic --partition {partition}" for partition in range(PARTITIONS)),
            "describe-producers --topic {}-topic --partition 1 --broker-id 1",
            "find-hanging --topic {}-topic",
            "find-hanging --topic {}-topic --partition 1 --max-transaction-timeout 0",
            "abort --topic {}-topic --partition 1 --start-offset 2",
            "abort --topic {}-topic --partition 1 --start-offset 5",
            "describe-producers --topic {}-topic --partition 1",
            "describe --transactional-id {}-open",
        )
        producers[-1].abort_transaction(TIMEOUT)
        until_complete(on)
        on.run_all(TRANSACTIONS, "list")

    comparison = compare(scenario)
    shown = comparison.commands[-1].text()
    for name, state in {"idle": "Empty", "done": "CompleteCommit", "given-up": "CompleteAbort"}.items():
        assert f"{comparison.prefix}-{name} | 1 | - | {state}" in shown


def write_without_coordinator(on: Transcript, topic: str) -> int:
    """Append a transactional record whose transaction nobody has begun and nobody will end; returns its offset."""
    host, _, port = on.bootstrap.rpartition(":")
    with SocketClient((host, int(port))) as client:
        producer = init_producer_id(client, None)
        written = batch(
            b"left behind",
            timestamp=TIMESTAMP,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        request = ProduceRequest(
            transactional_id=f"{on.prefix}-lost",
            acks=-1,
            timeout_ms=int(TIMEOUT * 1_000),
            topic_data=[TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=written)])],
        )
        (outcome,) = client.ask(request, 9).responses[0].partition_responses
    assert outcome.error_code == 0
    offset: int = outcome.base_offset
    return offset


@pytest.mark.usefixtures("without_verification")
def test_a_hanging_transaction_is_found_and_aborted_as_on_kafka(compare: Compare) -> None:
    def scenario(on: Transcript) -> None:
        topic = fill(on)
        assert write_without_coordinator(on, topic) == 5
        on.run_all(
            TRANSACTIONS,
            "list",
            "describe-producers --topic {}-topic --partition 0",
            "find-hanging --broker-id 1",
            "find-hanging --topic {}-topic",
            "abort --topic {}-topic --partition 0 --start-offset 5",
            "find-hanging --topic {}-topic",
            "describe-producers --topic {}-topic --partition 0",
        )
        assert Librdkafka(on.bootstrap).consume(topic, 5, isolation="read_committed")[-1].value == b"4"

    comparison = compare(scenario)
    assert f"{comparison.prefix}-topic | 0 |" in comparison.find("find-hanging", "--broker-id").text()
    assert f"{comparison.prefix}-topic" not in comparison.commands[-2].text()


def records_in(bootstrap: str, topic: str) -> int:
    """The number of records that a reader of a whole topic gets."""
    # As the tools read, which do not stop where somebody else's transaction is open.
    settings = {"bootstrap.servers": bootstrap, "group.id": "counts", "isolation.level": "read_uncommitted"}
    reader = Consumer({**settings, "enable.partition.eof": True})
    try:
        partitions = reader.list_topics(topic, timeout=TIMEOUT).topics[topic].partitions
        reader.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        count, at_end = 0, set[int | None]()
        while at_end != set(partitions):
            (message,) = reader.consume(1, TIMEOUT)
            error = message.error()
            assert error is None or error.code() == KafkaError._PARTITION_EOF, error
            count += error is None
            at_end |= {message.partition()} if error is not None else set()
        return count
    finally:
        reader.close()


@pytest.mark.torture
def test_the_topics_of_the_coordinators_read_as_on_kafka(compare: Compare) -> None:
    formatters = {
        "__consumer_offsets": ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter"),
        "__transaction_state": ("TransactionLogMessageFormatter",),
    }

    def scenario(on: Transcript) -> None:
        topic = fill(on)
        with members(on, topic, "one") as (member,):
            member.commit(offsets=[TopicPartition(topic, 0, 3, metadata="three of five")], asynchronous=False)
            producer = begin(on, "done", topic)
            offsets = [TopicPartition(topic, 1, 4)]
            producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), TIMEOUT)
            producer.commit_transaction(TIMEOUT)
        until_complete(on)
        on.run_all(GROUPS, "--delete-offsets --group {}-group --topic {}-topic:0", "--delete --group {}-group")
        for internal, names in formatters.items():
            count = records_in(on.bootstrap, internal)
            for name in names:
                on.run_all(
                    CONSOLE,
                    f"--topic {internal} --from-beginning --formatter org.apache.kafka.tools.consumer.{name}"
                    f" --max-messages {count}",
                )

    compare(scenario)
