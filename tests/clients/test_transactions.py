"""Transactions of real producers: the visibility of their records, fencing, and their end."""

import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.clients.contract import TIMEOUT, Client, Isolation, Message
from tests.clients.librdkafka_client import Librdkafka
from tests.clients.transactional import FencedError, TransactionalProducer
from tests.patience import eventually

ISOLATIONS: tuple[Isolation, ...] = get_args(Isolation)


@pytest.fixture(scope="module")
def config() -> Mapping[str, str]:
    """The broker looks every 100 ms whether a transaction has been open for too long."""
    return {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}


class Producers:
    """Producers with transactional ids that no other test has."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._suffix = uuid.uuid4().hex[:12]
        self._started: list[TransactionalProducer] = []

    def start(self, transactional_id: str = "id", timeout_ms: int = 60_000) -> TransactionalProducer:
        """Start one."""
        producer = TransactionalProducer(self._bootstrap, f"{transactional_id}-{self._suffix}", timeout_ms)
        self._started.append(producer)
        return producer

    def close(self) -> None:
        """Close all of them."""
        for producer in self._started:
            producer.close()


@pytest.fixture
def producers(bootstrap: str) -> Iterator[Producers]:
    running = Producers(bootstrap)
    try:
        yield running
    finally:
        running.close()


def assert_values(
    readers: list[Client], topic: str, isolation: Isolation, values: list[bytes], partition: int = 0
) -> None:
    """Every client reads exactly this; a record `end` outside of all transactions shows that there is no more."""
    for reader in readers:
        records = reader.consume(topic, len(values), partition=partition, isolation=isolation)
        assert [record.value for record in records] == values, (reader, isolation)


def test_committed_records_reach_all_and_aborted_ones_only_those_who_read_uncommitted(
    producers: Producers, every_client: list[Client], topic: str
) -> None:
    plain = every_client[0]
    plain.create_topic(topic, 2)
    plain.produce(topic, [Message(b"before", partition=partition) for partition in range(2)])
    one, other = producers.start("one"), producers.start("other")
    one.begin()
    one.send(topic, b"committed")
    one.send(topic, b"committed", partition=1)
    other.begin()
    other.send(topic, b"aborted beside an open one")
    one.commit()
    one.begin()
    one.send(topic, b"aborted")
    plain.produce(topic, [Message(b"plain")])
    other.abort()
    one.send(topic, b"aborted too")
    one.abort()
    one.begin()
    one.commit()  # nothing was sent
    one.begin()
    one.send(topic, b"committed again")
    one.commit()
    plain.produce(topic, [Message(b"end", partition=partition) for partition in range(2)])
    aborted = [b"aborted beside an open one", b"aborted", b"aborted too"]
    written = [b"before", b"committed", *aborted[:2], b"plain", aborted[2], b"committed again", b"end"]
    assert_values(every_client, topic, "read_uncommitted", written)
    assert_values(every_client, topic, "read_committed", [value for value in written if value not in aborted])
    for isolation in ISOLATIONS:
        assert_values(every_client, topic, isolation, [b"before", b"committed", b"end"], partition=1)


def test_records_behind_the_start_of_an_open_transaction_wait_for_its_end(
    producers: Producers, every_client: list[Client], topic: str
) -> None:
    plain = every_client[0]
    plain.produce(topic, [Message(b"before")])
    producer = producers.start()
    producer.begin()
    assert producer.send(topic, b"open") == 1
    plain.produce(topic, [Message(b"behind")])
    for reader in every_client:
        assert reader.watermarks(topic, isolation="read_committed") == (0, 1)
        assert reader.watermarks(topic) == (0, 3)
    assert_values(every_client, topic, "read_uncommitted", [b"before", b"open", b"behind"])
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(reader.consume, topic, 3, isolation="read_committed") for reader in every_client]
        # Some may be waiting at the open transaction by now; whenever they look, its end comes before its records.
        producer.commit()
        for read in waiting:
            assert [record.value for record in read.result(TIMEOUT)] == [b"before", b"open", b"behind"]
    for reader in every_client:
        for isolation in ISOLATIONS:
            assert reader.watermarks(topic, isolation=isolation) == (0, 4)


def test_offsets_of_a_group_change_with_the_commit_of_their_transaction(
    producers: Producers, every_client: list[Client], topic: str
) -> None:
    group = f"group of {topic}"
    every_client[0].create_topic(topic, 2)
    producer = producers.start()

    def seen() -> list[tuple[int | None, int | None]]:
        return [(reader.committed(group, topic), reader.committed(group, topic, 1)) for reader in every_client]

    producer.begin()
    producer.send(topic, b"aborted")
    producer.send_offsets(group, {(topic, 0): 5, (topic, 1): 7})
    assert set(seen()) == {(None, None)}
    producer.abort()
    assert set(seen()) == {(None, None)}
    producer.begin()
    producer.send_offsets(group, {(topic, 0): 1})
    producer.send_offsets(group, {(topic, 0): 2, (topic, 1): 3})
    assert set(seen()) == {(None, None)}
    producer.commit()
    # The transaction is over once that is decided; the group hears of it a moment later.
    eventually(lambda: set(seen()) == {(2, 3)})


def test_whoever_reads_committed_waits_for_offsets_that_are_being_committed(
    producers: Producers, bootstrap: str, topic: str
) -> None:
    group = f"group of {topic}"
    Librdkafka(bootstrap).create_topic(topic, 1)
    producer = producers.start()
    producer.begin()
    producer.send_offsets(group, {(topic, 0): 5})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed"})
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(consumer.committed, [TopicPartition(topic, 0)], timeout=TIMEOUT)
        producer.commit()
        assert [found.offset for found in asked.result(TIMEOUT)] == [5]
    consumer.close()


@pytest.mark.parametrize("attempt", ["send", "commit"])
def test_a_second_producer_with_the_same_id_fences_the_first_and_aborts_what_it_left(
    producers: Producers, every_client: list[Client], topic: str, attempt: str
) -> None:
    first = producers.start()
    first.begin()
    first.send(topic, b"left open")
    second = producers.start()
    too_late = {"send": lambda: first.send(topic, b"too late"), "commit": first.commit}[attempt]
    with pytest.raises(FencedError):
        too_late()
    second.begin()
    second.send(topic, b"of the second")
    second.commit()
    every_client[0].produce(topic, [Message(b"end")])
    assert_values(every_client, topic, "read_uncommitted", [b"left open", b"of the second", b"end"])
    assert_values(every_client, topic, "read_committed", [b"of the second", b"end"])


def test_a_transaction_that_is_open_for_too_long_is_aborted(
    producers: Producers, every_client: list[Client], topic: str
) -> None:
    producer = producers.start(timeout_ms=1_000)
    producer.begin()
    offset = producer.send(topic, b"timed out")
    plain = every_client[0]
    eventually(lambda: plain.watermarks(topic, isolation="read_committed") == (0, offset + 2))
    with pytest.raises(FencedError):
        producer.commit()
    again = producers.start()
    again.begin()
    again.send(topic, b"committed")
    again.commit()
    plain.produce(topic, [Message(b"end")])
    assert_values(every_client, topic, "read_uncommitted", [b"timed out", b"committed", b"end"])
    assert_values(every_client, topic, "read_committed", [b"committed", b"end"])


def test_only_a_member_of_the_group_commits_with_the_metadata_of_the_group(bootstrap: str, topic: str) -> None:
    output, group = f"{topic}-out", f"group of {topic}"
    client = Librdkafka(bootstrap)
    client.create_topic(output, 1)
    client.produce(topic, [Message(b"%d" % number) for number in range(10)])
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"id of {topic}"})
    producer.init_transactions(TIMEOUT)
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([topic])
    records = consumer.consume(10, TIMEOUT)
    producer.begin_transaction()
    for record in records:
        producer.produce(output, record.value() or b"")
    producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata())
    producer.commit_transaction(TIMEOUT)
    metadata = consumer.consumer_group_metadata()
    consumer.close()  # from here on it is no member
    producer.begin_transaction()
    producer.produce(output, b"again")
    with pytest.raises(KafkaException) as refused:
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, 5)], metadata)
    assert refused.value.args[0].code() in {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION}
    producer.abort_transaction(TIMEOUT)
    eventually(lambda: client.committed(group, topic) == 10)
    client.produce(output, [Message(b"end")])
    assert_values([client], output, "read_committed", [*(b"%d" % number for number in range(10)), b"end"])
