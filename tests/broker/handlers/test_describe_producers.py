"""DescribeProducers: who writes to a partition."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.describe_transactions import (
    DescribeProducersRequest,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)
from tests.broker.coordinators.transactions.producer import Producer
from tests.broker.harness import Harness


def described(harness: Harness, topic: str = "t", partition: int = 0) -> PartitionResponse:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
    (answered,) = harness.ask(request, 0).topics
    assert answered.name == topic
    (outcome,) = answered.partitions
    assert isinstance(outcome, PartitionResponse)
    assert outcome.partition_index == partition
    return outcome


def test_a_producer_is_told_with_its_open_transaction(harness: Harness) -> None:
    assert described(harness).active_producers == []
    producer = Producer(harness)
    producer.write(b"a", b"b")
    fields = {"producer_id": producer.id, "producer_epoch": 0, "last_sequence": 1}
    last = 1_700_000_000_001
    assert described(harness).active_producers == [
        ProducerState(**fields, last_timestamp=last, coordinator_epoch=-1, current_txn_start_offset=0)
    ]
    assert producer.commit() == 0
    assert described(harness).active_producers == [
        ProducerState(**fields, last_timestamp=harness.clock.now_ms(), coordinator_epoch=0, current_txn_start_offset=-1)
    ]


@pytest.mark.parametrize(
    ("topic", "partition", "code"),
    [
        ("t", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("not a name", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_what_is_not_there_is_told_with_its_error(
    harness: Harness, topic: str, partition: int, code: ErrorCode
) -> None:
    outcome = described(harness, topic, partition)
    assert (outcome.error_code, outcome.active_producers) == (code, [])
