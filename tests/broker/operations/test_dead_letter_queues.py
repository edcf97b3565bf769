"""Dead-letter queues of a cluster with a real client: rejected records reach them from any leader (KIP-1191)."""

from collections.abc import Iterator

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from minibroker import Broker
from tests.broker.control.http import Control
from tests.broker.operations.members import SHARING, from_the_start, polled, sharer
from tests.patience import PATIENCE_S

QUEUE = "dlq.jobs"
JOBS, QUEUES = 1, 2
"""The node ids of the two topics' leaders."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    config = SHARING | {
        "offsets.topic.replication.factor": "3",
        "share.coordinator.state.topic.replication.factor": "3",
    }
    with Broker(brokers=3, config=config, control="127.0.0.1:0", timeout=PATIENCE_S) as running:
        running.create_topic("jobs", replication_factor=3)
        running.create_topic(QUEUE, configs={"errors.deadletterqueue.group.enable": "true"})
        running.move_leader("jobs", 0, JOBS)
        running.move_leader(QUEUE, 0, QUEUES)
        from_the_start(running, errors_deadletterqueue_topic_name=QUEUE)
        yield running


def rejected(broker: Broker, consumer: ShareConsumer, *values: str) -> None:
    """Let a member reject records."""
    broker.produce("jobs", *values)
    for record in polled(consumer, len(values)):
        consumer.acknowledge(record, AcknowledgeType.REJECT)
    assert set(consumer.commit_sync(PATIENCE_S).values()) == {None}


def queued(broker: Broker) -> list[int]:
    """Return the original offsets of the records in the queue."""
    return [int(dict(record.headers)["__dlq.errors.offset"] or b"") for record in broker.records(QUEUE)]


def test_what_is_rejected_is_in_the_queue_of_another_broker_and_counted(broker: Broker) -> None:
    with sharer(broker) as consumer:
        rejected(broker, consumer, "a", "b", "c")
        assert broker.group("g").wait_until_caught_up() == {("jobs", 0): 3}
    assert queued(broker) == [0, 1, 2]
    metrics = Control(broker.control_url).get("/metrics").splitlines()
    prefix = "kafka_server_sharegroupmetrics_deadletterqueue"
    assert f'{prefix}recordcount_count{{group="g"}} 3.0' in metrics
    (tried,) = (line for line in metrics if line.startswith(f"{prefix}totalproducerequests_total{{"))
    assert 1 <= float(tried.split()[1]) <= 3
    assert f'{prefix}failedproducerequests_total{{group="g"}} 0.0' in metrics


def test_the_next_leader_buries_what_the_lost_one_could_not(broker: Broker) -> None:
    group = broker.group("g")
    with sharer(broker) as consumer:
        rejected(broker, consumer, "a")
        group.wait_until_caught_up()
        broker.brokers[QUEUES].stop()
        rejected(broker, consumer, "b", "c")
        states = [each.state for each in group.share_partitions()["jobs", 0].in_flight]
        assert states == ["ARCHIVING"]
        broker.brokers[JOBS].stop()
        assert broker.leader("jobs") not in (None, JOBS)
        broker.brokers[QUEUES].start()
        broker.produce("jobs", "d")
        (last,) = polled(consumer, 1)
        assert last.value() == b"d"
        consumer.acknowledge(last)
        assert set(consumer.commit_sync(PATIENCE_S).values()) == {None}
        assert group.wait_until_caught_up() == {("jobs", 0): 4}
    assert queued(broker) == [0, 1, 2]
