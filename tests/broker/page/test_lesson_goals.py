"""Goals that look alike on the wire are reached only by the right requests."""

import json
import re
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from minibroker import Broker
from minibroker_lab.page.lessons.texts import LESSONS
from tests.broker.control.http import Control
from tests.broker.page.lesson_answers import reached, text_of, with_lab
from tests.patience import PATIENCE_S

FETCHING, GROUPS, OFFSETS, IDEMPOTENCE, RETENTION = (LESSONS[number - 1] for number in (4, 5, 6, 7, 9))


def write(lab: Broker, topic: str, *records: tuple[str | None, str | None], **settings: object) -> None:
    """Write records, given as keys and values, one by one."""
    producer = Producer({"bootstrap.servers": lab.bootstrap_servers, **settings})
    for key, value in records:
        producer.produce(topic, value, key=key)
        assert producer.flush(PATIENCE_S) == 0


def read(lab: Broker, count: int, *, auto_commit: bool) -> list[int]:
    """Return the offsets of the first records that a new consumer of the group reads."""
    settings = {"group.id": "shop", "auto.offset.reset": "earliest", "enable.auto.commit": auto_commit}
    consumer = Consumer({"bootstrap.servers": lab.bootstrap_servers, "fetch.wait.max.ms": 100, **settings})
    consumer.subscribe(["orders"])
    messages = consumer.consume(count, PATIENCE_S)
    assert len(messages) == count
    consumer.close()
    return [message.offset() or 0 for message in messages]


@with_lab(FETCHING)
def test_a_fetch_that_finds_records_late_was_not_woken(lab: Broker) -> None:
    write(lab, "orders", (None, "an order"))
    Control(lab.page_url).post("/control/faults", {"api": "Fetch", "delay_ms": 100, "times": 1}, 201)
    settings = {"group.id": "shop", "fetch.wait.max.ms": 30_000, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": lab.bootstrap_servers, **settings})
    consumer.assign([TopicPartition("orders", 0, 0)])
    assert consumer.consume(1, PATIENCE_S)
    assert reached(FETCHING, lab) == {}
    end = time.monotonic() + PATIENCE_S
    while "woken" not in reached(FETCHING, lab):  # A record can arrive between two waits.
        assert time.monotonic() < end
        assert consumer.consume(1, 0.1) == []
        write(lab, "orders", (None, "another"))
        assert consumer.consume(1, PATIENCE_S)
    consumer.close()
    assert "when its record came" in reached(FETCHING, lab)["woken"]


@with_lab(GROUPS)
def test_members_share_partitions_by_the_new_protocol_too(lab: Broker) -> None:
    settings = {"bootstrap.servers": lab.bootstrap_servers, "group.id": "shop", "group.protocol": "consumer"}
    consumers = [Consumer(settings) for _ in range(2)]
    for consumer in consumers:
        consumer.subscribe(["orders"])
    end = time.monotonic() + PATIENCE_S
    while not all(consumer.assignment() for consumer in consumers):
        assert time.monotonic() < end
        for consumer in consumers:
            consumer.poll(0.1)
    assert "Group 'shop' has 2 members in epoch " in reached(GROUPS, lab)["shared"]
    for consumer in consumers:
        consumer.close()


@with_lab(OFFSETS)
def test_consumers_that_commit_get_no_record_twice(lab: Broker) -> None:
    for number in range(2):
        write(lab, "orders", *[(None, "an order")] * 10)
        assert read(lab, 10, auto_commit=True) == list(range(number * 10, number * 10 + 10))
    assert set(reached(OFFSETS, lab)) == {"stored", "resumed"}


@with_lab(OFFSETS)
def test_consumers_that_never_commit_get_the_same_records(lab: Broker) -> None:
    write(lab, "orders", *[(None, "an order")] * 10)
    read(lab, 10, auto_commit=False)
    assert reached(OFFSETS, lab) == {}
    read(lab, 10, auto_commit=False)
    sentences = reached(OFFSETS, lab)
    assert list(sentences) == ["repeated"]
    assert "begin with offset 0, which no member of 'shop' had committed" in sentences["repeated"]


@with_lab(IDEMPOTENCE)
@pytest.mark.parametrize(("when", "is_reached"), [("before", False), ("after", True)])
def test_a_batch_is_kept_once_when_the_broker_has_written_it_before(
    lab: Broker, when: str, *, is_reached: bool
) -> None:
    Control(lab.page_url).post("/control/faults", {"api": "Produce", "disconnect": when, "times": 1}, 201)
    write(lab, "orders", (None, "paid"), **{"enable.idempotence": True, "retry.backoff.ms": 10})
    assert ("once" in reached(IDEMPOTENCE, lab)) == is_reached


@with_lab(RETENTION)
def test_what_has_expired_goes_with_the_advance_of_the_text(lab: Broker) -> None:
    write(lab, "orders", *[(None, "an order")] * 3)
    (body,) = re.findall(r"^curl .*/clock/advance .* -d '(.*)'$", text_of(RETENTION), re.MULTILINE)
    Control(lab.page_url).post("/control/clock/advance", json.loads(body))
    end = time.monotonic() + PATIENCE_S
    while "expired" not in reached(RETENTION, lab):
        assert time.monotonic() < end


@with_lab(RETENTION)
def test_records_that_an_admin_deletes_have_not_expired(lab: Broker) -> None:
    write(lab, "orders", *[(None, "an order")] * 3)
    admin: Any = AdminClient({"bootstrap.servers": lab.bootstrap_servers})
    (deleted,) = admin.delete_records([TopicPartition("orders", 0, 2)]).values()
    deleted.result(PATIENCE_S)
    assert "expired" not in reached(RETENTION, lab)


@with_lab(RETENTION)
def test_a_tombstone_counts_when_the_cleaner_has_come_to_it(lab: Broker) -> None:
    write(lab, "prices", ("tea", "3"), ("tea", "4"))
    Control(lab.page_url).post("/control/compact", status=204)
    write(lab, "prices", ("tea", None))
    assert set(reached(RETENTION, lab)) == {"compacted"}
    Control(lab.page_url).post("/control/compact", status=204)
    assert "at offset 2" in reached(RETENTION, lab)["tombstone"]
