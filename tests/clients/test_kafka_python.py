"""kafka-python with its defaults, beyond the contract of all clients."""

import time
from pathlib import Path

import pytest

from minibroker_protocol.records.batch import iter_batches
from tests.clients.contract import TIMEOUT
from tests.clients.kafka_python_client import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

TIMEOUT_MS = int(TIMEOUT * 1000)


def test_the_default_producer_is_idempotent_and_its_sequence_has_no_gaps(
    bootstrap: str, topic: str, data_dir: Path
) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(5_000):
        producer.send(topic, value=b"%d" % number)
    producer.close()
    headers = [batch.header for batch in iter_batches((data_dir / f"{topic}-0" / f"{0:020}.log").read_bytes())]
    assert len({(header.producer_id, header.producer_epoch) for header in headers}) == 1
    assert headers[0].producer_id >= 0
    next_sequence = 0
    for header in headers:
        assert header.base_sequence == header.base_offset == next_sequence
        next_sequence += header.record_count
    assert next_sequence == 5_000


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


def test_times_of_several_partitions_are_looked_up_at_once_and_can_be_sought(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({topic: {"num_partitions": 3, "replication_factor": 1}})
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for partition in (0, 1):
        for number in range(100):
            producer.send(topic, b"%d" % number, partition=partition, timestamp_ms=1_000 * (number + 100 * partition))
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    partitions = [TopicPartition(topic, partition) for partition in range(3)]
    consumer.assign(partitions)
    found = consumer.offsets_for_times(dict.fromkeys(partitions, 50_001))
    assert found[partitions[0]][:2] == (51, 51_000)
    assert found[partitions[1]][:2] == (0, 100_000)
    assert found[partitions[2]] is None
    consumer.pause(partitions[1], partitions[2])
    consumer.seek(partitions[0], found[partitions[0]].offset)
    batches = consumer.poll(timeout_ms=TIMEOUT_MS)
    assert set(batches) == {partitions[0]}
    assert batches[partitions[0]][0].value == b"51"
    assert consumer.beginning_offsets(partitions) == dict.fromkeys(partitions, 0)
    assert consumer.end_offsets(partitions) == dict(zip(partitions, (100, 100, 0), strict=True))
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
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_MS,
        fetch_max_bytes=300,
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
