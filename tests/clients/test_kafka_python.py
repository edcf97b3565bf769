"""kafka-python with its defaults, beyond the contract of all clients."""

import time

import pytest

from tests.clients.contract import TIMEOUT
from tests.clients.kafka_python_client import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

TIMEOUT_MS = int(TIMEOUT * 1000)


def test_a_waiting_consumer_gets_each_record_as_it_is_produced(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send(topic, value=b"before").get(TIMEOUT)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        fetch_max_wait_ms=TIMEOUT_MS,
        request_timeout_ms=2 * TIMEOUT_MS,
        connections_max_idle_ms=3 * TIMEOUT_MS,
    )
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_end()
    assert consumer.position(partition) == 1
    assert consumer.poll() == {}  # its fetch is under way now, and the broker waits with it
    for number in range(20):
        producer.send(topic, value=b"%d" % number).get(TIMEOUT)
        (record,) = consumer.poll(timeout_ms=TIMEOUT_MS)[partition]
        assert (record.offset, record.value) == (number + 1, b"%d" % number)
    consumer.close()
    producer.close()


def test_seeking_back_and_forth_in_one_fetch_session_reads_from_there(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(1_000):
        producer.send(topic, value=b"%d" % number)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, max_poll_records=10)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    for offset in (990, 0, 500, 3, 999, 42):
        consumer.seek(partition, offset)
        first = consumer.poll(timeout_ms=TIMEOUT_MS)[partition][0]
        assert (first.offset, first.value) == (offset, b"%d" % offset)
    consumer.close()


def test_partitions_are_read_to_their_ends_with_room_for_less_than_two_batches(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}})
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(20):
        for partition in range(2):
            producer.send(topic, b"%d" % number * 50, partition=partition).get(TIMEOUT)
    producer.close()
    partitions = [TopicPartition(topic, partition) for partition in range(2)]
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=TIMEOUT_MS, fetch_max_bytes=300
    )
    consumer.assign(partitions)
    received = [(record.partition, record.offset) for _, record in zip(range(40), consumer, strict=False)]
    consumer.close()
    assert sorted(received) == [(partition, offset) for partition in range(2) for offset in range(20)]


@pytest.mark.parametrize("poll_ms", [1, 100])
def test_a_group_gets_its_records_however_short_its_polls_are(bootstrap: str, topic: str, poll_ms: int) -> None:
    topics = [topic, f"{topic}-2"]
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(5):
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=f"{topic}-{number}", auto_offset_reset="earliest"
        )
        consumer.subscribe(topics)
        producer.send(topics[-1], value=b"x").get(TIMEOUT)
        deadline = time.monotonic() + TIMEOUT
        while not consumer.poll(poll_ms):
            assert time.monotonic() < deadline
        consumer.close()
    producer.close()
