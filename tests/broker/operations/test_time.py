"""Operations on a broker's clock."""

from datetime import timedelta

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from minibroker import Broker
from minibroker.cluster.errors import OperationError
from tests.patience import PATIENCE_S


def test_records_get_the_time_that_the_broker_believes_in() -> None:
    with Broker() as broker:
        broker.produce("t", "now")
        broker.clock.advance(timedelta(days=2))
        broker.produce("t", "later")
        first, second = broker.records("t")
        assert second.timestamp - first.timestamp >= 2 * 24 * 3_600_000
        assert broker.clock.now_ms() >= second.timestamp


def test_retention_deletes_what_has_become_too_old() -> None:
    with Broker(topics=["t:1:retention.ms=3600000,segment.bytes=200"]) as broker:
        for number in range(10):
            broker.produce("t", "x" * 100 + str(number))
        assert broker.retention.run() == 0
        broker.clock.advance(3601)
        assert broker.retention.run() > 0 or broker.records("t") == []
        assert broker.records("t") == []


def test_a_day_is_over_in_a_moment_also_with_compaction_and_groups() -> None:
    with Broker(topics=["t:1:cleanup.policy=compact"]) as broker:
        broker.produce("t", "x", key="k")
        broker.group("g").describe()
        broker.clock.advance(timedelta(days=30))
        assert broker.records("t")[0].text() == "x"


def test_a_member_that_is_silent_for_too_long_is_removed() -> None:
    with Broker(topics=["t"]) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        consumer.subscribe(["t"])
        while not broker.group("g").describe().is_stable:
            consumer.poll(0.01)
        broker.clock.advance(3600)
        assert broker.group("g").describe().members == ()
        consumer.close()


def test_a_transaction_that_is_open_for_too_long_is_aborted() -> None:
    with Broker(topics=["t"]) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x"})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce("t", b"never")
        producer.flush(PATIENCE_S)
        broker.clock.advance(3600)
        broker.clock.advance(60)
        with pytest.raises(KafkaException):
            producer.commit_transaction(PATIENCE_S)
        assert broker.records("t") == []


def test_compaction_leaves_the_newest_of_each_key() -> None:
    with Broker(topics=["c:1:cleanup.policy=compact", "plain"]) as broker:
        for number in range(10):
            broker.produce("c", number, key=f"k{number % 3}")
        broker.compact()
        assert [(record.key_text(), record.json()) for record in broker.records("c")] == [
            ("k1", 7),
            ("k2", 8),
            ("k0", 9),
        ]
        broker.compact("c")
        with pytest.raises(OperationError, match="topic 'plain' is not compacted"):
            broker.compact("plain")


def test_time_goes_by_numbers() -> None:
    with Broker() as broker, pytest.raises(OperationError, match="advance: '1' is neither a number"):
        broker.clock.advance("1")  # type: ignore[arg-type]  # that is the point


def test_time_does_not_go_back() -> None:
    with Broker() as broker, pytest.raises(OperationError, match="advance: -1 s: time does not go back"):
        broker.clock.advance(-1)


@pytest.mark.parametrize("by", [float("inf"), float("nan"), 1e300])
def test_a_jump_that_no_time_can_show_is_refused(by: float) -> None:
    with Broker() as broker:
        with pytest.raises(OperationError, match=r"advance: .* s: no broker lives that long"):
            broker.clock.advance(by)
        broker.clock.advance(timedelta.max)
        broker.produce("t", "x")
        assert len(broker.records("t")) == 1
