"""Clients under faults: each fault is seen as the client documents it, and is gone when the fault is."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]  # no types
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from minibroker import Broker
from minibroker.server.faults.fault import Fault
from minibroker.server.faults.registry import FaultRegistry, faults_of
from minibroker.server.inspection.recording import journal_of, recording_of
from tests.clients.kafka_python_client import KafkaConsumer, KafkaProducer, kafka_errors
from tests.patience import PATIENCE_S


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["t", "two:2"], config={"group.min.session.timeout.ms": 100}) as running:
        recording_of(running.services).keep_journal()
        yield running


@pytest.fixture
def faults(broker: Broker) -> FaultRegistry:
    return faults_of(broker.services)


def producer(broker: Broker, **settings: Any) -> Producer:
    return Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": "writer",
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 10,
            "linger.ms": 0,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def sent(to: Producer, *values: bytes, topic: str = "t", partition: int = 0) -> list[KafkaError | None]:
    """The fate of each value, once all are known."""
    fates: list[KafkaError | None] = []
    for value in values:
        to.produce(topic, value, partition=partition, on_delivery=lambda error, _: fates.append(error))
    assert to.flush(PATIENCE_S) == 0
    return fates


def consumer(broker: Broker, **settings: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "reconnect.backoff.ms": 10,
            "retry.backoff.ms": 10,
            "fetch.error.backoff.ms": 10,
            "fetch.wait.max.ms": 50,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def read(consuming: Consumer, count: int) -> list[bytes | None]:
    """The next values; errors that pass are passed over."""
    values: list[bytes | None] = []
    end = time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < end:
        message = consuming.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value())
    return values


def log_of(broker: Broker, topic: str = "t") -> list[bytes | None]:
    """All values of a topic, with those of aborted transactions; no fault hits whoever looks so."""
    return [record.value for record in broker.records(topic, isolation="read_uncommitted")]


def test_a_producer_tries_again_when_the_leader_has_moved(broker: Broker, faults: FaultRegistry) -> None:
    fault = faults.add(Fault(api="Produce", topic="t", error="NOT_LEADER_OR_FOLLOWER", times=2))
    assert sent(producer(broker), b"a") == [None]
    assert fault.fired == 2
    assert log_of(broker) == [b"a"]


def test_an_error_that_does_not_pass_reaches_the_application(broker: Broker, faults: FaultRegistry) -> None:
    faults.add(Fault(api="Produce", topic="two", partition=1, error="TOPIC_AUTHORIZATION_FAILED"))
    (error,) = sent(producer(broker), b"a", topic="two", partition=1)
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert sent(producer(broker), b"b", topic="two", partition=0) == [None]
    assert log_of(broker, "two") == [b"b"]


@pytest.mark.parametrize(("idempotent", "copies"), [(True, 1), (False, 2)])
def test_a_lost_answer_makes_a_duplicate_unless_the_producer_is_idempotent(
    broker: Broker,
    faults: FaultRegistry,
    idempotent: bool,  # noqa: FBT001 - a column of the table
    copies: int,
) -> None:
    fault = faults.add(Fault(api="Produce", client_id="writer", disconnect="after", times=1))
    assert sent(producer(broker, enable_idempotence=idempotent), b"a") == [None]
    assert fault.fired == 1
    assert log_of(broker) == [b"a"] * copies


def test_a_dropped_answer_is_missed_when_the_request_times_out(broker: Broker, faults: FaultRegistry) -> None:
    fault = faults.add(Fault(api="Produce", drop="after", times=1))
    sending = producer(broker, socket_timeout_ms=300, request_timeout_ms=300, enable_idempotence=True)
    assert sent(sending, b"a", b"b") == [None, None]
    assert fault.fired == 1
    assert log_of(broker) == [b"a", b"b"]


def test_a_black_hole_is_left_by_a_new_connection(broker: Broker, faults: FaultRegistry) -> None:
    fault = faults.add(Fault(api="Produce", black_hole=True, times=1))
    # Idempotent, since on a busy machine an answer may be later than that, and the record would be there twice.
    sending = producer(broker, socket_timeout_ms=300, request_timeout_ms=300, enable_idempotence=True)
    assert sent(sending, b"a") == [None]
    assert fault.fired == 1
    assert log_of(broker) == [b"a"]


@pytest.mark.parametrize("fields", [{"truncate": 10}, {"corrupt": "correlation_id"}])
def test_a_damaged_answer_is_asked_for_again(broker: Broker, faults: FaultRegistry, fields: dict[str, Any]) -> None:
    fault = faults.add(Fault(api="Produce", client_id="writer", times=1, **fields))
    sending = producer(broker, enable_idempotence=True, socket_timeout_ms=300, request_timeout_ms=300)
    assert sent(sending, b"a") == [None]
    assert fault.fired == 1
    assert log_of(broker) == [b"a"]


def test_an_answer_of_negative_length_ends_the_request(broker: Broker, faults: FaultRegistry) -> None:
    faults.add(Fault(api="Produce", client_id="writer", corrupt="length", times=1))
    sending = producer(broker)
    (error,) = sent(sending, b"a")
    assert error is not None
    assert error.name() == "_BAD_MSG"
    assert sent(sending, b"b") == [None]
    assert log_of(broker) == [b"a", b"b"]


def test_a_consumer_looks_for_its_coordinator_again(broker: Broker, faults: FaultRegistry) -> None:
    sent(producer(broker), b"a", b"b")
    joined = faults.add(Fault(api="JoinGroup", group="g", error="NOT_COORDINATOR", times=1))
    unstable = faults.add(Fault(api="OffsetFetch", topic="t", error="UNSTABLE_OFFSET_COMMIT", times=1))
    consuming = consumer(broker)
    consuming.subscribe(["t"])
    assert read(consuming, 2) == [b"a", b"b"]
    consuming.close()
    assert (joined.fired, unstable.fired) == (1, 1)
    journal = journal_of(broker.services)
    assert journal is not None
    assert len(journal.entries(api="FindCoordinator", group="g")) >= 2


def test_a_commit_that_fails_is_told(broker: Broker, faults: FaultRegistry) -> None:
    sent(producer(broker), b"a")
    consuming = consumer(broker, enable_auto_commit=False)
    consuming.subscribe(["t"])
    assert read(consuming, 1) == [b"a"]
    faults.add(Fault(api="OffsetCommit", group="g", error="GROUP_AUTHORIZATION_FAILED", times=1))
    with pytest.raises(KafkaException) as refused:
        consuming.commit(asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    assert consuming.commit(asynchronous=False)
    consuming.close()


def test_a_fetch_with_an_error_is_tried_again(broker: Broker, faults: FaultRegistry) -> None:
    sent(producer(broker), b"a", b"b")
    fault = faults.add(Fault(api="Fetch", topic="t", error="NOT_LEADER_OR_FOLLOWER", times=2))
    consuming = consumer(broker)
    consuming.subscribe(["t"])
    assert read(consuming, 2) == [b"a", b"b"]
    consuming.close()
    assert fault.fired == 2


def test_records_with_a_wrong_checksum_are_recognised(broker: Broker, faults: FaultRegistry) -> None:
    sent(producer(broker), b"a")
    fault = faults.add(Fault(api="Fetch", topic="t", corrupt="records", client_id="checking"))
    consuming = KafkaConsumer(
        "t", bootstrap_servers=broker.bootstrap_servers, client_id="checking", auto_offset_reset="earliest"
    )
    with pytest.raises(kafka_errors.CorruptRecordError):
        next(consuming)
    consuming.close()
    assert fault.fired >= 1


def test_kafka_python_gives_up_when_metadata_has_no_leader(broker: Broker, faults: FaultRegistry) -> None:
    faults.add(Fault(api="Metadata", topic="missing", error="LEADER_NOT_AVAILABLE"))
    sending = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, max_block_ms=300)
    with pytest.raises(kafka_errors.KafkaTimeoutError):
        sending.send("missing", b"a")
    faults.clear()
    assert sending.send("missing", b"a").get(timeout=PATIENCE_S).offset == 0
    sending.close()


async def test_aiokafka_is_throttled_and_goes_on(broker: Broker, faults: FaultRegistry) -> None:
    fault = faults.add(Fault(api="Produce", throttle_ms=100, delay_ms=20, times=1))
    sending = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    await sending.start()
    try:
        for value in (b"a", b"b"):
            await asyncio.wait_for(sending.send_and_wait("t", value), PATIENCE_S)
    finally:
        await sending.stop()
    assert fault.fired == 1
    assert fault.hits[0].response.throttle_time_ms == 100
    journal = journal_of(broker.services)
    assert journal is not None
    first, second = journal.entries(api="Produce")[:2]
    assert second.began_ms - first.began_ms >= 100


def test_a_transaction_is_aborted_when_its_producer_is_fenced(broker: Broker, faults: FaultRegistry) -> None:
    faults.add(Fault(api="EndTxn", transactional_id="tx", error="CONCURRENT_TRANSACTIONS", times=2))
    sending = producer(broker, transactional_id="tx")
    sending.init_transactions(PATIENCE_S)
    sending.begin_transaction()
    sending.produce("t", b"a")
    sending.commit_transaction(PATIENCE_S)
    faults.add(Fault(api="AddPartitionsToTxn", transactional_id="t*", error="PRODUCER_FENCED"))
    sending.begin_transaction()
    sending.produce("t", b"b")
    with pytest.raises(KafkaException) as fenced:
        sending.commit_transaction(PATIENCE_S)
    assert fenced.value.args[0].fatal()
    assert log_of(broker) == [b"a"]


def test_stale_metadata_hides_a_new_partition(broker: Broker, faults: FaultRegistry) -> None:
    fault = faults.add(Fault(api="Metadata", stale_metadata=1, client_id="writer"))
    sending = producer(broker)
    assert "t" in sending.list_topics(timeout=PATIENCE_S).topics
    sent(Producer({"bootstrap.servers": broker.bootstrap_servers}), b"a", topic="young")
    assert "young" not in sending.list_topics(timeout=PATIENCE_S).topics
    faults.remove(fault)
    assert "young" in sending.list_topics(timeout=PATIENCE_S).topics
