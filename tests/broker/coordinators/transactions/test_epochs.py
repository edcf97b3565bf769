"""The second version of transactions (KIP-890): writes add partitions, and each end raises the epoch."""

from collections.abc import Callable

import pytest

from minibroker.coordinators.transactions.transaction import TransactionState
from minibroker_protocol.coordinator_records import TransactionLogValue, decode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.batch import iter_batches
from tests.broker.coordinators.groups.offset_requests import offsets_of
from tests.broker.coordinators.transactions.disk import Disk
from tests.broker.coordinators.transactions.producer import Producer, known, read_committed
from tests.broker.harness import Harness
from tests.broker.logs.world import log_of

V2 = 5
"""The version of EndTxn that raises the epoch."""
LAST_EPOCH = 32_766
EITHER_END = pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])


def values_of_log(harness: Harness) -> list[tuple[int, TransactionLogValue]]:
    """Return (version, value) of each record of the transactional id "mine"."""
    store = harness.services.transactions.store
    log = log_of(harness, "__transaction_state", store.log.partition_of("mine"))
    return [
        (int.from_bytes(record.value[:2], "big"), decode_versioned(TransactionLogValue, record.value))
        for batch in iter_batches(memoryview(log.read(0, 1 << 20).read()))
        for record in batch
        if record.value is not None
    ]


@EITHER_END
def test_a_batch_does_not_overtake_the_marker_that_the_disk_refused(harness: Harness, disk: Disk, commit: bool) -> None:  # noqa: FBT001 - a parameter
    producer = Producer(harness)
    producer.write_at_once(b"x")
    assert producer.commit_offset("g", 1, version=5) == 0
    index = harness.services.groups.store.partition_of("g")
    disk.refused = {"t-0", f"__consumer_offsets-{index}"}
    assert producer.end(commit=commit, version=V2) == 0
    disk.refused = set()
    assert producer.send(b"y", version=12).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.commit_offset("g", 2, version=5) == ErrorCode.CONCURRENT_TRANSACTIONS
    harness.clock.advance(500)
    producer.write_at_once(b"y")
    assert producer.commit_offset("g", 2, version=5) == 0
    assert producer.commit(version=V2) == 0
    assert read_committed(harness) == ([b"x", b"y"] if commit else [b"y"])
    assert offsets_of(harness, "g") == {("t", 0): 2}
    assert log_of(harness).last_stable_offset == log_of(harness).log_end_offset


def test_a_new_producer_id_survives_a_crash_before_completion(harness: Harness, disk: Disk) -> None:
    producer = Producer(harness)
    harness.services.transactions.store.save(known(harness)._replace(producer_epoch=LAST_EPOCH))
    producer.epoch = LAST_EPOCH
    producer.write_at_once(b"x")
    disk.refused = {"t-0"}
    assert producer.commit(version=V2) == 0
    assert known(harness).state is TransactionState.PREPARE_COMMIT
    assert producer.send(b"y", version=12).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    disk.refused = set()
    harness.crash()
    producer.write_at_once(b"y")
    assert producer.commit(version=V2) == 0
    assert read_committed(harness) == [b"x", b"y"]


def test_a_producer_can_continue_after_a_timeout(harness: Harness) -> None:
    producer = Producer(harness, timeout_ms=1000)
    producer.write_at_once(b"x")
    harness.clock.advance(30_000)
    assert known(harness).state is TransactionState.COMPLETE_ABORT
    assert producer.commit(version=V2) == ErrorCode.INVALID_TXN_STATE
    assert producer.abort(version=V2) == 0
    producer.write_at_once(b"y")
    assert producer.commit(version=V2) == 0
    assert read_committed(harness) == [b"y"]


def test_without_verification_a_batch_still_adds_its_partition(configured: Callable[[dict[str, str]], Harness]) -> None:
    harness = configured({"transaction.partition.verification.enable": "false"})
    Producer(harness).write_at_once(b"x")
    assert known(harness).partitions == {("t", 0)}


def test_records_are_flexible_and_contain_the_client_version(harness: Harness) -> None:
    producer = Producer(harness)
    producer.write_at_once(b"x")
    assert producer.commit(version=V2) == 0
    producer.write(b"y")
    assert producer.commit(version=4) == 0
    records = values_of_log(harness)
    assert {version for version, _ in records} == {1}
    # Initialized, and then added, prepared and completed by both kinds of clients.
    assert [value.client_transaction_version for _, value in records] == [0, 2, 2, 2, 0, 0, 0]
    assert {(value.previous_producer_id, value.next_producer_id) for _, value in records} == {(-1, -1)}


def test_initializing_a_producer_clears_the_start_time(harness: Harness) -> None:
    producer = Producer(harness)
    producer.write_at_once(b"x")
    assert producer.commit(version=V2) == 0
    assert known(harness).start_ms > 0
    assert producer.init() == 0
    assert known(harness).start_ms == -1  # Kafka 3.9 forgets it only at the next start.
