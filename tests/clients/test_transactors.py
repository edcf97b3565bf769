"""Transactions through kafkajs and franz-go: what their readers see, fencing, and copies that happen exactly once."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final, TypeAlias

import pytest

from minibroker import Broker
from tests.clients.contract import Message, eventually
from tests.clients.kafka_python_client import KafkaAdminClient, KafkaConsumer, KafkaPython, TopicPartition
from tests.clients.transactors import (
    FRANZ_GO,
    KAFKAJS,
    TransactionError,
    Transactor,
    TransactorOptions,
    TransactorProgram,
)
from tests.sweeps import one_in

LAST: Final = "last"
"""Produced outside of any transaction, behind everything else: readers read up to it."""
SHORT_SESSION: Final = 1_500
"""In ms, for members of groups that die."""

Start: TypeAlias = Callable[..., Transactor]

every_program = pytest.mark.parametrize("program", one_in(2, [KAFKAJS, FRANZ_GO]), ids=lambda program: program.name)


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """A broker that allows short sessions and looks often for late transactions, or the Kafka of --kafka."""
    given: str | None = request.config.getoption("--kafka")
    if given is not None:
        yield given
        return
    config = {
        "group.min.session.timeout.ms": "500",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    }
    with Broker(config=config) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def start(bootstrap: str) -> Iterator[Start]:
    """A function that starts a program; one transactional id serves for a test."""
    transactional_id = f"transactor-{uuid.uuid4().hex[:12]}"
    with ExitStack() as ends:

        def running(program: TransactorProgram, **options: Any) -> Transactor:
            transactor = Transactor(program, TransactorOptions(bootstrap, transactional_id, **options))
            ends.callback(transactor.close)
            return transactor

        yield running


@pytest.fixture
def plain(bootstrap: str, topic: str) -> KafkaPython:
    """A client without transactions; the topic exists."""
    client = KafkaPython(bootstrap)
    client.create_topic(topic, 1)
    return client


def end_of_committed(bootstrap: str, topic: str) -> int:
    """The last stable offset."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    try:
        end: int = consumer.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
        return end
    finally:
        consumer.close()


def committed(bootstrap: str, group: str) -> dict[int, int]:
    """The committed offset of each partition."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        offsets = admin.list_group_offsets({group: None})[group]
        return {partition.partition: found.offset for partition, found in offsets.items()}
    finally:
        admin.close()


@every_program
def test_readers_of_committed_records_wait_for_the_end_of_a_transaction_and_see_no_aborted_one(
    start: Start, program: TransactorProgram, plain: KafkaPython, topic: str
) -> None:
    reader = start(program)
    writer = start(program)  # with the same transactional id, which the reader makes no use of
    writer.transaction(topic, ["aborted 1", "aborted 2"], end="abort")
    writer.transaction(topic, ["committed 1", "committed 2"])
    writer.ask("begin")
    writer.ask("produce", topic=topic, partition=0, values=["open"])
    plain.produce(topic, [Message(LAST.encode())])
    everything = ["aborted 1", "aborted 2", "committed 1", "committed 2", "open", LAST]
    assert reader.values(topic, LAST, "read_uncommitted") == everything
    open_at = plain.watermarks(topic)[1] - 2
    assert end_of_committed(plain.bootstrap, topic) == open_at

    reader.send("read", topic=topic, isolation="read_committed", until=LAST)
    writer.ask("produce", topic=topic, partition=0, values=["behind"])
    writer.ask("commit")
    assert reader.answer()["values"] == ["committed 1", "committed 2", "open", LAST]
    assert end_of_committed(plain.bootstrap, topic) == plain.watermarks(topic)[1]


@every_program
def test_a_newer_producer_with_the_same_id_fences_the_older_and_aborts_what_it_left_open(
    start: Start, program: TransactorProgram, plain: KafkaPython, topic: str
) -> None:
    older = start(program)
    older.transaction(topic, ["of the older"])
    older.ask("begin")
    older.ask("produce", topic=topic, partition=0, values=["left open"])
    newer = start(program)
    newer.ask("begin")
    newer.ask("produce", topic=topic, partition=0, values=["of the newer"])
    with pytest.raises(TransactionError):
        older.ask("produce", topic=topic, partition=0, values=["of a zombie"])
    with pytest.raises(TransactionError):
        older.ask("commit")
    newer.ask("commit")
    plain.produce(topic, [Message(LAST.encode())])
    assert newer.values(topic, LAST) == ["of the older", "of the newer", LAST]
    assert newer.values(topic, LAST, "read_uncommitted") == ["of the older", "left open", "of the newer", LAST]


@every_program
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_is_told(
    start: Start, program: TransactorProgram, plain: KafkaPython, topic: str
) -> None:
    late = start(program, transaction_timeout_ms=1_000)
    late.ask("begin")
    late.ask("produce", topic=topic, partition=0, values=["too late"])
    eventually(lambda: end_of_committed(plain.bootstrap, topic) == plain.watermarks(topic)[1])
    with pytest.raises(TransactionError):
        late.ask("commit")
    again = start(program)
    again.transaction(topic, ["in time"])
    plain.produce(topic, [Message(LAST.encode())])
    assert again.values(topic, LAST) == ["in time", LAST]


@every_program
def test_copies_happen_exactly_once_through_aborts_and_kills(
    start: Start, program: TransactorProgram, plain: KafkaPython, topic: str
) -> None:
    source, group = f"{topic}-source", f"{topic}-group"
    plain.create_topic(source, 2)
    values = [f"value {number}" for number in range(10)]
    plain.produce(source, [Message(value.encode(), partition=n % 2) for n, value in enumerate(values)])
    copy = {"group": group, "source": source, "target": topic, "count": len(values)}

    copier = start(program, session_timeout_ms=SHORT_SESSION)
    assert sorted(copier.ask("copy", **copy)["values"]) == values
    copier.ask("end_copy", commit=False)
    assert committed(plain.bootstrap, group) == {}

    assert sorted(copier.ask("copy", **copy)["values"]) == values
    copier.kill()
    copier = start(program)
    assert sorted(copier.ask("copy", **copy)["values"]) == values
    assert committed(plain.bootstrap, group) == {}
    assert copier.ask("end_copy", commit=True)["committed"]
    assert committed(plain.bootstrap, group) == {0: 5, 1: 5}

    plain.produce(source, [Message(b"one more")])
    assert copier.ask("copy", **{**copy, "count": 1})["values"] == ["one more"]
    assert copier.ask("end_copy", commit=True)["committed"]
    plain.produce(topic, [Message(LAST.encode())])
    assert sorted(copier.values(topic, LAST)) == sorted([*values, "one more", LAST])
    assert len(copier.values(topic, LAST, "read_uncommitted")) == 3 * len(values) + 2


def test_a_member_that_slept_past_its_session_cannot_commit_what_another_has_taken_over(
    start: Start, bootstrap: str, plain: KafkaPython, topic: str
) -> None:
    source, group = f"{topic}-source", f"{topic}-group"
    plain.produce(source, [Message(b"value")])
    copy = {"group": group, "source": source, "target": topic, "count": 1}
    sleeper = start(FRANZ_GO, session_timeout_ms=SHORT_SESSION)
    sleeper.ask("copy", **copy)
    sleeper.pause()
    other = Transactor(FRANZ_GO, TransactorOptions(bootstrap, f"{topic}-other"))
    try:
        assert other.ask("copy", **copy)["values"] == ["value"]
        assert other.ask("end_copy", commit=True)["committed"]
        sleeper.resume()
        assert not sleeper.ask("end_copy", commit=True)["committed"]
        plain.produce(topic, [Message(LAST.encode())])
        assert other.values(topic, LAST) == ["value", LAST]
    finally:
        other.close()
