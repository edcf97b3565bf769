"""The coordinator's records in `__transaction_state`: written, replayed, compacted, damaged, deleted."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from minibroker.coordinators.coordinator_log import CoordinatorLog
from minibroker.coordinators.transactions.transaction import Transaction, TransactionState, encode_key, encode_value
from minibroker_protocol.coordinator_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    decode_versioned,
    encode_versioned,
)
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.describe_transactions import DescribeTransactionsRequest, ListTransactionsRequest
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.errors import StorageError
from tests.broker.coordinators.transactions.producer import Producer, init_producer_id
from tests.broker.harness import Harness, bytes_in
from tests.broker.logs.world import log_of, pass_time

Make = Callable[[dict[str, str]], Harness]
TOPIC = "__transaction_state"
UNREADABLE = patch.object(CoordinatorLog, "replay", side_effect=StorageError("no good"))
ONE_PARTITION = {"transaction.state.log.num.partitions": "1"}
Again = Callable[[Harness], None]


@pytest.fixture
def small(configured: Make) -> Harness:
    """Return a broker whose transaction topic has one partition."""
    return configured(ONE_PARTITION)


def records_of(harness: Harness) -> list[tuple[str, TransactionLogValue | None]]:
    """Return (transactional id, value) of every record in the only partition."""
    data = bytes_in(harness.fetch_one(0, TOPIC))
    return [
        (
            decode_versioned(TransactionLogKey, record.key or b"").transactional_id,
            None if record.value is None else decode_versioned(TransactionLogValue, record.value),
        )
        for batch in iter_batches(memoryview(data))
        for record in batch
    ]


def known(harness: Harness) -> set[Transaction]:
    """Load all transactional ids, and return them."""
    harness.services.transactions.store.load_all()
    harness.run_soon()
    assert not harness.services.transactions.store.is_loading
    return set(harness.services.transactions.store.all())


def append(harness: Harness, key: bytes | None, value: bytes | None) -> None:
    """Append a record that the coordinator would not write."""
    log = CoordinatorLog(harness.core, TOPIC, partitions=1, configs={})
    log.append(0, [NewRecord(key, value, harness.clock.now_ms())])


def test_a_transaction_writes_the_same_records_as_kafka(small: Harness) -> None:
    small.create("other", 3)
    began = small.clock.now_ms()
    producer = Producer(small)
    small.clock.advance(1)
    assert producer.add(("other", 2), ("t", 0), ("other", 1)) == [0, 0, 0]
    small.clock.advance(1)
    assert producer.commit() == 0
    partitions = [PartitionsSchema(topic="other", partition_ids=[1, 2]), PartitionsSchema(topic="t", partition_ids=[0])]

    def value(state: TransactionState, **fields: Any) -> TransactionLogValue:
        all_fields: dict[str, Any] = {
            "producer_id": producer.id,
            "producer_epoch": 0,
            "transaction_timeout_ms": 60_000,
            "transaction_status": int(state),
            "transaction_partitions": partitions,
            "transaction_last_update_timestamp_ms": began + 2,
            "transaction_start_timestamp_ms": began + 1,
            **fields,
        }
        return TransactionLogValue(**all_fields)

    assert records_of(small) == [
        (
            "mine",
            value(
                TransactionState.EMPTY,
                transaction_partitions=None,
                transaction_last_update_timestamp_ms=began,
                transaction_start_timestamp_ms=-1,
            ),
        ),
        ("mine", value(TransactionState.ONGOING, transaction_last_update_timestamp_ms=began + 1)),
        ("mine", value(TransactionState.PREPARE_COMMIT)),
        ("mine", value(TransactionState.COMPLETE_COMMIT, transaction_partitions=[])),
    ]


def test_every_state_survives(harness: Harness, again: Again) -> None:
    for number in range(20):
        producer = Producer(harness, f"id-{number}")
        if number % 4:
            producer.write(b"x")
        if number % 4 > 1:
            assert producer.end(commit=number % 4 == 2) == 0
    before = {transaction._replace(last_producer_id=-1, last_producer_epoch=-1) for transaction in known(harness)}
    again(harness)
    assert known(harness) == before
    assert len(before) == 20


def test_every_state_survives_compaction(configured: Make, again: Again) -> None:
    harness = configured({**ONE_PARTITION, "transaction.state.log.segment.bytes": "2000"})
    producers = [Producer(harness, f"id-{number}") for number in range(5)]
    for _ in range(10):
        for producer in producers:
            producer.write(b"x")
            assert producer.commit() == 0
    producers[0].write(b"left open")
    harness.core.logs.compact(roll=True)
    harness.run_soon()
    assert log_of(harness, TOPIC).size < 2000
    before = {transaction._replace(last_producer_id=-1, last_producer_epoch=-1) for transaction in known(harness)}
    again(harness)
    assert known(harness) == before
    assert producers[0].commit() == 0


def test_an_unreadable_record_is_skipped(small: Harness, caplog: pytest.LogCaptureFixture) -> None:
    producer = Producer(small)
    good = Transaction("good", 7, 1000, 0, producer_epoch=3)
    append(small, None, b"x")
    append(small, b"", b"x")
    append(small, b"\0\7unknown", b"x")
    append(small, encode_key("cut short"), b"\0\0\0")
    append(small, encode_key("a version of tomorrow"), b"\0\x63" + encode_value(good)[2:])
    append(small, encode_key("no such state"), encode_value(good)[:16] + b"\x63" + encode_value(good)[17:])
    append(small, encode_key("tombstone"), None)
    append(small, encode_key("good"), encode_value(good))
    small.restart()
    assert {transaction.transactional_id for transaction in known(small)} == {"mine", "good"}
    assert len([record for record in caplog.records if "passed over" in record.getMessage()]) == 6
    assert producer.write(b"x") == 0


def test_values_in_the_flexible_version_are_read(small: Harness) -> None:
    Producer(small)
    value = TransactionLogValue(
        producer_id=5,
        producer_epoch=1,
        transaction_timeout_ms=1000,
        transaction_status=1,
        transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0])],
        transaction_last_update_timestamp_ms=small.clock.now_ms(),
        transaction_start_timestamp_ms=small.clock.now_ms(),
    )
    append(small, encode_key("of kafka 4"), encode_versioned(value, 1))
    small.restart()
    producer = Producer(small, "of kafka 4", init=False)
    producer.id, producer.epoch = 5, 1
    assert producer.commit() == 0


def test_a_tombstone_deletes_earlier_records_only(small: Harness) -> None:
    Producer(small, "gone")
    Producer(small, "back")
    append(small, encode_key("gone"), None)
    append(small, encode_key("back"), None)
    append(small, encode_key("back"), encode_value(Transaction("back", 9, 1000, 0, producer_epoch=4)))
    small.restart()
    assert {(transaction.transactional_id, transaction.producer_id) for transaction in known(small)} == {("back", 9)}


# Loading of a partition


def asked(harness: Harness) -> dict[str, int]:
    """Return the error of every request that uses the store."""
    producer = Producer(harness, init=False)
    producer.id, producer.epoch = 0, 0
    described = harness.ask(DescribeTransactionsRequest(transactional_ids=["mine"]), 0).transaction_states[0]
    listed = harness.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 1)
    return {
        "init": producer.init(),
        "add": producer.add(("t", 0))[0],
        "offsets": producer.add_offsets("g"),
        "commit": producer.commit(),
        "send": producer.send(b"x").error_code,
        "describe": described.error_code,
        "list": listed.error_code,
    }


def test_a_large_partition_is_read_in_steps(small: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    Producer(small)
    Producer(small, "other")
    monkeypatch.setattr("minibroker.coordinators.partition_loader._MAX_AWAITED_BYTES", 0)
    monkeypatch.setattr("minibroker.coordinators.coordinator_log._REPLAY_STEP_BYTES", 1)
    monkeypatch.setattr("minibroker.cluster.logs.chores._SLICE_S", -1.0)
    small.restart()
    soon: list[Callable[[], None]] = []
    monkeypatch.setattr(small.core.chores, "_call_soon", soon.append, raising=False)
    load = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    answers = asked(small)
    assert answers.pop("send") == ErrorCode.NOT_ENOUGH_REPLICAS
    assert set(answers.values()) == {load}
    while soon:
        soon.pop(0)()
    assert init_producer_id(small, "mine").producer_epoch == 1
    assert len(known(small)) == 2


def test_an_unreadable_partition_is_logged_once_and_retried_later(
    small: Harness, errors: Callable[[], list[str]]
) -> None:
    Producer(small)
    small.restart()
    with UNREADABLE:
        for _ in range(3):
            answers = asked(small)
            assert answers.pop("send") == ErrorCode.NOT_ENOUGH_REPLICAS
            assert answers.pop("list") == 0
            assert set(answers.values()) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert errors() == [f"{TOPIC}-0 cannot be read: no good"]
    assert init_producer_id(small, "mine").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    small.clock.advance(5_000)
    assert init_producer_id(small, "mine").producer_epoch == 1


def test_a_transaction_that_was_unreadable_at_the_start_times_out(small: Harness) -> None:
    Producer(small).write(b"x")
    with UNREADABLE:
        small.restart()
        small.run_soon()
    pass_time(small, 100_000)
    assert log_of(small).last_stable_offset == log_of(small).log_end_offset == 2


def test_a_small_partition_is_loaded_immediately_by_a_request(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        Producer(harness, f"id-{number}")
    harness.restart()
    monkeypatch.setattr("minibroker.cluster.logs.chores._SLICE_S", -1.0)
    store = harness.services.transactions.store
    store.load_all()
    listed = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    assert store.is_loading
    for number in range(20):
        assert store.check_readiness(f"id-{number}") == 0
        assert store.get(f"id-{number}") is not None
    assert len(store.all()) == 20
    assert store.is_loading
    assert harness.ask(listed, 1).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    harness.run_soon()
    assert len(harness.ask(listed, 1).transaction_states) == 20
