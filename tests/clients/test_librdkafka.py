"""An error of librdkafka itself, which our tests have to avoid; see "Groups" in docs/behavior.md."""

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from minibroker import Broker
from minibroker.clock import ManualClock

_LATE_MS = 1000


def test_librdkafka_fetches_a_partition_taken_away_while_its_first_offset_is_looked_up() -> None:
    """The cause of records that are given twice: they are fetched before the next assignment, and again after it.

    When this fails with a new librdkafka, the error is gone: then `CopierProgram.looks_up_offsets` and what the
    documentation says of it can go, too.
    """
    with Broker(topics=["orders"], clock=ManualClock(), journal=True) as broker:
        broker.produce("orders", "one")
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop", "enable.auto.commit": False}
        )
        try:
            with broker.fault(api="ListOffsets", delay_ms=_LATE_MS, times=1) as late:
                consumer.assign([TopicPartition("orders", 0, OFFSET_BEGINNING)])
                broker.wait_for_requests(api="ListOffsets")
                assert late.fired == 1
                consumer.unassign()
                assert not broker.requests.entries(api="Fetch")
                broker.clock.advance(_LATE_MS)
            (again, *_) = broker.wait_for_requests(api="Fetch", topic="orders")
            assert consumer.assignment() == []
            assert again.number > broker.requests.entries(api="ListOffsets")[1].number
        finally:
            consumer.close()
