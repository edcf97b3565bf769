"""DescribeProducers, DescribeTransactions and ListTransactions."""

from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.describe_transactions import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    PartitionResponse,
    ProducerState,
    TopicData,
    TopicRequest,
    TransactionState,
)
from tests.broker.coordinators.transactions.disk import Disk
from tests.broker.coordinators.transactions.producer import Producer
from tests.broker.harness import Harness


def described(harness: Harness, topic: str = "t", partition: int = 0) -> PartitionResponse:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
    (answered,) = harness.ask(request, 0).topics
    assert answered.name == topic
    outcome: PartitionResponse = answered.partitions[0]
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


def states(harness: Harness, *ids: str) -> list[TransactionState]:
    described: list[TransactionState] = harness.ask(
        DescribeTransactionsRequest(transactional_ids=list(ids)), 0
    ).transaction_states
    return described


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
    assert states(harness, "mine") == [
        TransactionState(**fields, transaction_state="Empty", transaction_start_time_ms=-1, topics=[])
    ]
    harness.clock.advance(5)
    began = harness.clock.now_ms()
    assert producer.add(("other", 2), ("t", 0), ("other", 0)) == [0, 0, 0]
    topics = [TopicData(topic="other", partitions=[0, 2]), TopicData(topic="t", partitions=[0])]
    assert states(harness, "mine") == [
        TransactionState(**fields, transaction_state="Ongoing", transaction_start_time_ms=began, topics=topics)
    ]
    assert producer.commit() == 0
    assert states(harness, "mine") == [
        TransactionState(**fields, transaction_state="CompleteCommit", transaction_start_time_ms=began, topics=[])
    ]


def test_what_still_awaits_its_marker_is_told(harness: Harness, disk: Disk) -> None:
    harness.create("other")
    producer = Producer(harness)
    producer.write(b"x")
    producer.write(b"x", topic="other")
    disk.refused = {"other-0"}
    assert producer.abort() == 0
    (transaction,) = states(harness, "mine")
    assert (transaction.transaction_state, transaction.topics) == (
        "PrepareAbort",
        [TopicData(topic="other", partitions=[0])],
    )


def test_unknown_ids_are_told_as_such_in_the_order_asked(harness: Harness) -> None:
    Producer(harness)
    assert [
        (transaction.transactional_id, transaction.error_code) for transaction in states(harness, "x", "mine", "")
    ] == [("x", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), ("mine", 0), ("", ErrorCode.INVALID_REQUEST)]
    assert states(harness) == []


@pytest.fixture
def ids(harness: Harness) -> dict[str, int]:
    """The producer ids of three transactional ids."""
    idle, opened, ended = (Producer(harness, name) for name in ("idle", "opened", "ended"))
    opened.write(b"x")
    ended.write(b"x")
    harness.clock.advance(1000)
    assert ended.commit() == 0
    return {producer.transactional_id: producer.id for producer in (idle, opened, ended)}


def listed(harness: Harness, version: int = 1, **filters: Any) -> tuple[list[str], list[str]]:
    """Return (transactional ids, unknown states)."""
    fields: dict[str, Any] = {"state_filters": [], "producer_id_filters": [], **filters}
    response = harness.ask(ListTransactionsRequest(**fields), version)
    assert response.error_code == 0
    return sorted(
        transaction.transactional_id for transaction in response.transaction_states
    ), response.unknown_state_filters


@pytest.mark.parametrize("version", [0, 1, 2])
def test_without_filters_all_are_listed_with_their_states(harness: Harness, ids: dict[str, int], version: int) -> None:
    response = harness.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), version)
    transactions = {
        (transaction.transactional_id, transaction.producer_id, transaction.transaction_state)
        for transaction in response.transaction_states
    }
    assert transactions == {
        ("idle", ids["idle"], "Empty"),
        ("opened", ids["opened"], "Ongoing"),
        ("ended", ids["ended"], "CompleteCommit"),
    }


def test_version_1_asks_for_those_that_run_long(harness: Harness, ids: dict[str, int]) -> None:
    assert len(ids) == 3
    assert listed(harness, duration_filter=999, state_filters=["Ongoing"]) == (["opened"], [])
    assert listed(harness, duration_filter=1000, state_filters=["Ongoing"]) == ([], [])


def test_version_2_asks_for_ids_that_match_a_regular_expression(harness: Harness, ids: dict[str, int]) -> None:
    assert len(ids) == 3
    assert listed(harness, 2, transactional_id_pattern="(open|end)ed") == (["ended", "opened"], [])
    assert listed(harness, 2, transactional_id_pattern="open") == ([], [])
    assert listed(harness, 2, transactional_id_pattern="") == (["ended", "idle", "opened"], [])
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[], transactional_id_pattern="(")
    assert harness.ask(request, 2).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_broker_without_transactions_lists_none(harness: Harness) -> None:
    assert listed(harness) == ([], [])
    assert harness.core.topics.get("__transaction_state") is None
