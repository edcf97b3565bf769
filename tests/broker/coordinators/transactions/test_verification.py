"""Verification: producers can write only in transactions known to the coordinator (KIP-890)."""

from collections.abc import Callable

import pytest

from minibroker_protocol.error_codes import ErrorCode
from tests.broker.coordinators.transactions.producer import Producer, init_producer_id, produce_in, read_committed
from tests.broker.harness import Harness
from tests.broker.logs.world import log_of

Make = Callable[[dict[str, str]], Harness]


def test_a_late_batch_does_not_open_a_transaction(harness: Harness) -> None:
    producer = Producer(harness)
    producer.write(b"x")
    assert producer.commit() == 0
    assert producer.send(b"late").error_code == ErrorCode.TRANSACTION_ABORTABLE
    log = log_of(harness)
    assert log.last_stable_offset == log.log_end_offset == 2


def test_a_batch_after_a_rejected_one_must_wait_for_it(harness: Harness) -> None:
    producer = Producer(harness)
    first, second = producer.batch(b"first"), producer.batch(b"second", base_sequence=1)
    assert produce_in(harness, "mine", bytearray(first)).error_code == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.add(("t", 0)) == [0]
    assert produce_in(harness, "mine", bytearray(second)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce_in(harness, "mine", bytearray(first)).error_code == 0
    assert produce_in(harness, "mine", bytearray(second)).error_code == 0
    assert producer.commit() == 0
    assert read_committed(harness) == [b"first", b"second"]


def test_a_later_epoch_does_not_wait_for_a_batch_of_an_earlier_one(harness: Harness) -> None:
    producer = Producer(harness)
    assert producer.send(b"x").error_code == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.init() == 0
    assert producer.add(("t", 0)) == [0]
    beginning_later = producer.batch(b"y", base_sequence=3)  # Any number is fine for a new producer (KIP-360).
    assert produce_in(harness, "mine", beginning_later).error_code == 0


def test_rejected_producers_do_not_fill_the_memory(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minibroker.coordinators.transactions.verification._MAX_REMEMBERED", 5)
    producer = Producer(harness)
    for number in range(20):
        batch = producer.batch(b"x", producer_id=number + 100)
        assert produce_in(harness, "mine", batch).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert harness.services.transactions.verifier.refusals == 5


def test_without_verification_any_transactional_batch_is_accepted(configured: Make) -> None:
    harness = configured({"transaction.partition.verification.enable": "false"})
    producer = Producer(harness)
    assert producer.send(b"x").error_code == 0
    assert log_of(harness).last_stable_offset == 0


@pytest.mark.parametrize(
    "configs", [{"compression_type": "gzip"}, {"message_timestamp_type": "LogAppendTime"}], ids=str
)
def test_topics_that_rewrite_records_verify_transactions_too(harness: Harness, configs: dict[str, str]) -> None:
    harness.create("picky", 1, **configs)
    producer = Producer(harness)
    assert producer.send(b"x", topic="picky").error_code == ErrorCode.TRANSACTION_ABORTABLE
    producer.write(b"x", topic="picky")
    assert producer.abort() == 0
    producer.write(b"y", topic="picky")
    assert producer.commit() == 0
    assert read_committed(harness, "picky") == [b"y"]


def test_non_transactional_batches_do_not_load_the_coordinator(harness: Harness) -> None:
    producer = Producer(harness, init=False)
    assert produce_in(harness, "mine", producer.batch(b"x", is_transactional=False, base_sequence=-1)).error_code == 0
    producer.id, producer.epoch = init_producer_id(harness, None).producer_id, 0
    assert produce_in(harness, None, producer.batch(b"x", is_transactional=False)).error_code == 0
    assert "transactions" not in harness.services.__dict__
