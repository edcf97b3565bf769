"""The transaction coordinator: sequences of transactions, fencing, timeouts and expiration."""

from collections.abc import Callable

import pytest

from minibroker.cluster.routing.slices import drain, steps_of
from minibroker.coordinators.transactions.transaction import TransactionState
from minibroker_protocol.error_codes import ErrorCode
from tests.broker.coordinators.groups.offset_requests import delete_topics
from tests.broker.coordinators.transactions.producer import (
    Producer,
    init_producer_id,
    known,
    markers_in,
    produce_in,
    read_committed,
)
from tests.broker.harness import Harness
from tests.broker.logs.world import pass_time, topic_of

Make = Callable[[dict[str, str]], Harness]
ABORT, COMMIT = 0, 1
BEFORE_EPOCHS_ARE_RAISED = {"transaction.version": 1}
"""The first version of transactions. `test_epochs` has the second one."""
ABORT_INTERVAL_MS = 10_000
EXPIRY_INTERVAL_MS = 3_600_000
EXPIRY_MS = 3 * EXPIRY_INTERVAL_MS
EXPIRING = {"transactional.id.expiration.ms": str(EXPIRY_MS), "transaction.state.log.num.partitions": "1"}


def state_of(harness: Harness, transactional_id: str = "mine") -> TransactionState | None:
    store = harness.services.transactions.store
    assert store.check_readiness(transactional_id) == 0
    transaction = store.get(transactional_id)
    return None if transaction is None else transaction.state


def test_a_producer_gets_another_id_after_its_last_epoch(harness: Harness) -> None:
    producer = Producer(harness)
    assert harness.services.transactions.store.save(known(harness)._replace(producer_epoch=32_765)) == 0
    old_id = producer.id
    assert producer.init() == 0
    assert (producer.id, producer.epoch) == (old_id, 32_766)
    assert producer.init(keeps_id=True) == 0
    assert (producer.id, producer.epoch) == (old_id + 1, 0)
    # After a lost response, the producer can retry with its previous id and last epoch.
    retried = init_producer_id(harness, "mine", producer_id=old_id, producer_epoch=32_766)
    assert (retried.error_code, retried.producer_id, retried.producer_epoch) == (0, producer.id, 0)
    # An earlier epoch is fenced.
    fenced = init_producer_id(harness, "mine", producer_id=old_id, producer_epoch=32_765)
    assert fenced.error_code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("level", [1, 2])
def test_a_producer_that_writes_in_the_coordinators_epoch_is_fenced(harness: Harness, level: int) -> None:
    harness.core.features.finalize({"transaction.version": level})
    thief = Producer(harness)
    last = known(harness)._replace(producer_epoch=32_767, state=TransactionState.COMPLETE_ABORT)
    assert harness.services.transactions.store.save(last) == 0
    thief.epoch = 32_767
    thief.write(b"x")
    other = Producer(harness, init=False)
    assert other.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert other.init() == 0
    assert (other.id, other.epoch) == (thief.id + 1, level - 1)
    assert read_committed(harness) == []


# Timeouts and expiration


def test_a_transaction_that_times_out_is_aborted_and_its_producer_fenced(harness: Harness) -> None:
    producer = Producer(harness, timeout_ms=15_000)
    producer.write(b"slow")
    pass_time(harness, ABORT_INTERVAL_MS + 1)
    assert state_of(harness) is TransactionState.ONGOING
    pass_time(harness, ABORT_INTERVAL_MS)
    assert state_of(harness) is TransactionState.COMPLETE_ABORT
    assert markers_in(harness) == [(1, producer.id, 1, ABORT)]
    assert producer.commit() == ErrorCode.PRODUCER_FENCED
    assert producer.send(b"slow").error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.init() == 0
    assert producer.epoch == 2
    assert read_committed(harness) == []


def test_a_producer_that_timed_out_cannot_continue_in_its_old_epoch(harness: Harness) -> None:
    harness.core.features.finalize(BEFORE_EPOCHS_ARE_RAISED)
    producer = Producer(harness, timeout_ms=1)
    producer.write(b"slow")
    pass_time(harness, ABORT_INTERVAL_MS)
    assert producer.init(keeps_id=True) == ErrorCode.PRODUCER_FENCED


def test_an_open_transaction_times_out_after_a_restart(harness: Harness) -> None:
    producer = Producer(harness, timeout_ms=15_000)
    producer.write(b"slow")
    harness.restart()
    harness.run_soon()
    pass_time(harness, 2 * ABORT_INTERVAL_MS)
    assert markers_in(harness) == [(1, producer.id, 1, ABORT)]


def test_the_interval_of_timeouts_is_configured(configured: Make) -> None:
    harness = configured({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"})
    producer = Producer(harness, timeout_ms=50)
    producer.write(b"x")
    pass_time(harness, 100)
    assert state_of(harness) is TransactionState.COMPLETE_ABORT


@pytest.mark.parametrize("end", ["committed", "aborted", "idle"])
def test_an_unused_transactional_id_expires(configured: Make, end: str) -> None:
    harness = configured(EXPIRING)
    producer = Producer(harness)
    if end != "idle":
        producer.write(b"x")
        assert producer.end(commit=end == "committed") == 0
    pass_time(harness, EXPIRY_MS - EXPIRY_INTERVAL_MS)
    assert state_of(harness) is not None
    pass_time(harness, EXPIRY_INTERVAL_MS)
    assert state_of(harness) is None
    assert producer.add(("t", 0)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    harness.restart()
    harness.run_soon()
    assert state_of(harness) is None
    assert init_producer_id(harness, "mine").producer_id > producer.id


def test_a_transactional_id_with_an_open_transaction_does_not_expire(configured: Make) -> None:
    never = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": str(2**31 - 1)}
    harness = configured({**EXPIRING, **never})
    producer = Producer(harness)
    producer.write(b"x")
    pass_time(harness, 2 * EXPIRY_MS)
    assert state_of(harness) is TransactionState.ONGOING
    assert producer.commit() == 0


def test_very_many_transactional_ids_expire_in_batches(configured: Make) -> None:
    harness = configured({**EXPIRING, "message.max.bytes": "1000"})
    ids = [f"{'long' * 20}-{number}" for number in range(100)]
    for transactional_id in ids:
        assert init_producer_id(harness, transactional_id).error_code == 0
    pass_time(harness, 2 * EXPIRY_MS)
    assert harness.services.transactions.store.all() == []
    harness.restart()
    harness.run_soon()
    assert harness.services.transactions.store.all() == []


def test_a_transactional_id_used_during_expiration_is_kept(configured: Make) -> None:
    harness = configured({**EXPIRING, "message.max.bytes": "260"})
    producers = [Producer(harness, entry) for entry in ("a", "b" * 80, "c" * 80)]
    store = harness.services.transactions.store
    steps = steps_of(store.remove(store.all()))
    next(steps)
    producers[2].write(b"x")
    drain(steps)
    assert [entry.transactional_id for entry in store.all()] == ["c" * 80]
    assert producers[2].commit() == 0
    assert read_committed(harness) == [b"x"]


def test_a_topic_deleted_during_expiration_is_not_created_again(configured: Make) -> None:
    harness = configured({**EXPIRING, "message.max.bytes": "260"})
    for transactional_id in ("a" * 80, "b" * 80):
        init_producer_id(harness, transactional_id)
    store = harness.services.transactions.store
    steps = steps_of(store.remove(store.all()))
    next(steps)
    delete_topics(harness, "__transaction_state")
    drain(steps)
    assert harness.core.topics.get("__transaction_state") is None


def test_the_longest_timeout_is_configured(configured: Make) -> None:
    harness = configured({"transaction.max.timeout.ms": "5000"})
    assert init_producer_id(harness, "mine", timeout_ms=5000).error_code == 0
    assert init_producer_id(harness, "mine", timeout_ms=5001).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


# Deleted topics


def test_a_deleted_partition_does_not_keep_a_transaction_open(harness: Harness) -> None:
    harness.create("short-lived", 2)
    producer = Producer(harness)
    producer.write(b"stays")
    producer.write(b"goes", topic="short-lived", partition=1)
    delete_topics(harness, "short-lived")
    assert producer.commit() == 0
    assert state_of(harness) is TransactionState.COMPLETE_COMMIT
    assert read_committed(harness) == [b"stays"]


def test_transactional_ids_are_lost_with_the_transaction_topic(harness: Harness) -> None:
    producer = Producer(harness)
    producer.write(b"x")
    delete_topics(harness, "__transaction_state")
    assert harness.services.transactions.store.all() == []
    assert producer.commit() == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    new_producer = Producer(harness)
    assert new_producer.id > producer.id
    new_producer.write(b"y")
    assert new_producer.commit() == 0
    harness.restart()
    harness.run_soon()
    assert [transaction.transactional_id for transaction in harness.services.transactions.store.all()] == ["mine"]


def test_the_coordinators_topic_has_kafkas_configuration(configured: Make) -> None:
    harness = configured(
        {
            "transaction.state.log.num.partitions": "7",
            "transaction.state.log.segment.bytes": "123456",
            "transaction.state.log.min.isr": "1",
        }
    )
    assert harness.core.topics.get("__transaction_state") is None
    assert produce_in(harness, "mine", Producer(harness).batch(b"x")).error_code == ErrorCode.TRANSACTION_ABORTABLE
    topic = topic_of(harness, "__transaction_state")
    assert len(topic.partitions) == 7
    assert topic.config.overrides == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "123456",
        "unclean.leader.election.enable": "false",
    }
