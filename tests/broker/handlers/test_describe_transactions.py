"""DescribeTransactions: what a transactional id is doing."""

from typing import Any

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    TopicData,
    TransactionState,
)
from tests.broker.coordinators.transactions.disk import Disk
from tests.broker.coordinators.transactions.producer import Producer
from tests.broker.harness import Harness


def described(harness: Harness, *ids: str) -> list[TransactionState]:
    known: list[TransactionState] = harness.ask(
        DescribeTransactionsRequest(transactional_ids=list(ids)), 0
    ).transaction_states
    return known


def test_a_transaction_is_told_from_its_beginning_to_its_end(harness: Harness) -> None:
    harness.create("other", 3)
    producer = Producer(harness, timeout_ms=1234)
    fields: dict[str, Any] = {
        "error_code": 0,
        "transactional_id": "mine",
        "transaction_timeout_ms": 1234,
        "producer_id": producer.id,
        "producer_epoch": 0,
    }
    assert described(harness, "mine") == [
        TransactionState(**fields, transaction_state="Empty", transaction_start_time_ms=-1, topics=[])
    ]
    harness.clock.advance(5)
    began = harness.clock.now_ms()
    assert producer.add(("other", 2), ("t", 0), ("other", 0)) == [0, 0, 0]
    topics = [TopicData(topic="other", partitions=[0, 2]), TopicData(topic="t", partitions=[0])]
    assert described(harness, "mine") == [
        TransactionState(**fields, transaction_state="Ongoing", transaction_start_time_ms=began, topics=topics)
    ]
    assert producer.commit() == 0
    assert described(harness, "mine") == [
        TransactionState(**fields, transaction_state="CompleteCommit", transaction_start_time_ms=began, topics=[])
    ]


def test_what_still_awaits_its_marker_is_told(harness: Harness, disk: Disk) -> None:
    harness.create("other")
    producer = Producer(harness)
    producer.write(b"x")
    producer.write(b"x", topic="other")
    disk.refused = {"other-0"}
    assert producer.abort() == 0
    (known,) = described(harness, "mine")
    assert (known.transaction_state, known.topics) == ("PrepareAbort", [TopicData(topic="other", partitions=[0])])


def test_unknown_ids_are_told_as_such_in_the_order_asked(harness: Harness) -> None:
    Producer(harness)
    assert [(known.transactional_id, known.error_code) for known in described(harness, "x", "mine", "")] == [
        ("x", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("mine", 0),
        ("", ErrorCode.INVALID_REQUEST),
    ]
    assert described(harness) == []
