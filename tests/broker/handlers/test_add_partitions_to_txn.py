"""AddPartitionsToTxn: partitions join a transaction, all of them or none."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.broker.coordinators.transactions.producer import Producer
from tests.broker.harness import Harness

PLACE = ("t", 0)


@pytest.mark.parametrize("version", range(4))
def test_every_version_of_clients_opens_a_transaction(harness: Harness, version: int) -> None:
    producer = Producer(harness)
    assert producer.add(PLACE, version=version) == [0]
    assert producer.add(PLACE, version=version) == [0]
    assert producer.send(b"x").error_code == 0


@pytest.mark.parametrize("version", range(4))
def test_a_client_may_not_name_an_internal_topic(harness: Harness, version: int) -> None:
    producer = Producer(harness)
    assert producer.add(("__transaction_state", 0), version=version) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def batched(producer: Producer, *, verify_only: bool, partition: int = 0) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=producer.transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name="t", partitions=[partition])],
    )


@pytest.mark.parametrize("version", [4, 5])
def test_a_broker_adds_for_several_transactions_and_asks_for_others(harness: Harness, version: int) -> None:
    adding, asking, lost = Producer(harness, "adding"), Producer(harness, "asking"), Producer(harness, "lost")
    lost.id += 1
    request = AddPartitionsToTxnRequest(
        transactions=[
            batched(adding, verify_only=False),
            batched(asking, verify_only=True),
            batched(lost, verify_only=True),
            batched(adding, verify_only=True, partition=9),
        ]
    )
    response = harness.ask(request, version)
    outcomes = [
        (each.transactional_id, each.topic_results[0].results_by_partition[0].partition_error_code)
        for each in response.results_by_transaction
    ]
    assert response.error_code == 0
    assert outcomes == [
        ("adding", 0),
        ("asking", ErrorCode.TRANSACTION_ABORTABLE),
        ("lost", ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("adding", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    again = harness.ask(AddPartitionsToTxnRequest(transactions=[batched(adding, verify_only=True)]), version)
    assert again.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code == 0


@pytest.mark.parametrize("version", [4, 5])
def test_no_transaction_is_answered_with_none(harness: Harness, version: int) -> None:
    assert harness.ask(AddPartitionsToTxnRequest(transactions=[]), version).results_by_transaction == []
