"""Transactions with so many partitions that their markers are written in slices."""

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
)
from tests.broker.harness import Harness

PARTITIONS = 60


def ends(harness: Harness) -> list[int]:
    topic = harness.core.topics.get("many")
    assert topic is not None
    return [each.log.log_end_offset for each in topic.partitions]


def test_the_producer_is_told_when_the_end_is_decided_and_the_markers_follow(harness: Harness) -> None:
    harness.create("many", PARTITIONS)
    producer = harness.ask(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000), 4)
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="many", partitions=list(range(PARTITIONS)))],
    )
    harness.ask(add, 3)
    end = EndTxnRequest(
        transactional_id="t",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=True,
    )
    coordinator = harness.services.transactions
    harness.core.slices.slice_s = 0.0
    identity = (producer.producer_id, producer.producer_epoch)
    assert coordinator.end("t", *identity, commit=True).error_code == ErrorCode.NONE
    assert 0 < sum(ends(harness)) < PARTITIONS
    assert coordinator.add_partitions("t", *identity, [("many", 0)]) == ErrorCode.CONCURRENT_TRANSACTIONS
    harness.crash()  # the next start writes what is left, or all of it again
    harness.run_soon()
    assert harness.ask(end, 3).error_code == ErrorCode.NONE
    assert all(ends(harness))


def test_markers_that_are_written_in_slices_complete_the_transaction(harness: Harness) -> None:
    harness.create("many", PARTITIONS)
    producer = harness.ask(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000), 4)
    identity = (producer.producer_id, producer.producer_epoch)
    coordinator = harness.services.transactions
    everything = [("many", index) for index in range(PARTITIONS)]
    assert coordinator.add_partitions("t", *identity, everything) == ErrorCode.NONE
    harness.core.slices.slice_s = 0.0
    assert coordinator.end("t", *identity, commit=False).error_code == ErrorCode.NONE
    harness.run_soon()
    assert ends(harness) == [1] * PARTITIONS
    assert coordinator.add_partitions("t", *identity, everything[:1]) == ErrorCode.NONE


def test_a_coordinator_that_loads_a_transaction_again_writes_its_markers(harness: Harness) -> None:
    harness.create("many", PARTITIONS)
    producer = harness.ask(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000), 4)
    identity = (producer.producer_id, producer.producer_epoch)
    coordinator = harness.services.transactions
    everything = [("many", index) for index in range(PARTITIONS)]
    assert coordinator.add_partitions("t", *identity, everything) == ErrorCode.NONE
    harness.core.slices.slice_s = 0.0
    assert coordinator.end("t", *identity, commit=True).error_code == ErrorCode.NONE
    coordinator.store.leader_moved(coordinator.store.log.partition_of("t"))
    assert coordinator.store.readiness("t") == ErrorCode.NONE  # loaded, while the markers of before are being written
    harness.run_soon()
    assert all(ends(harness))
    assert coordinator.add_partitions("t", *identity, everything[:1]) == ErrorCode.NONE
