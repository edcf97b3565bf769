"""The sentence of an open goal, from the same check that decides whether the goal is reached."""

import socket
import struct

from confluent_kafka import Consumer, Producer, TopicPartition

from minibroker import Broker
from minibroker_lab.page.lessons.texts import LESSONS
from tests.broker.control.http import Control
from tests.broker.page.lesson_answers import server_of, so_far, with_lab
from tests.broker.page.test_lesson_goals import read, write
from tests.broker.socket_client import framed
from tests.patience import PATIENCE_S
from tests.registry.schemas import OTHER, V1

REQUESTS, PRODUCING, FINDING, FETCHING, GROUPS, OFFSETS, *_ = LESSONS
IDEMPOTENCE, TRANSACTIONS, RETENTION, FAILURE, SCHEMAS = LESSONS[6:]


def plain(sentence: str) -> str:
    """Return a sentence without its link targets and request numbers."""
    text, *rest = sentence.split("[")
    for part in rest:
        name, _, tail = part.partition("](")
        text += name.rstrip("0123456789").rstrip() if "Request" in name else name
        text += tail.partition(")")[2]
    return text


def ask(lab: Broker, request: bytes) -> None:
    """Send a request and wait for the response."""
    host, port = server_of(lab).split(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
        connection.sendall(framed(request))
        assert connection.recv(4)


@with_lab(REQUESTS)
def test_of_versions(lab: Broker) -> None:
    ask(lab, struct.pack(">hhih", 18, 3, 1, 7) + b"by-hand\0" + b"\2x\2y\0")
    assert {name: plain(sentence) for name, sentence in so_far(REQUESTS, lab).items()} == {
        "negotiated": "Only `by-hand` has asked for versions.",
        "by-hand": "Request has version 3 and the client id 'by-hand'.",
        "unsupported": "ApiVersions has come with version 3, which the broker has.",
    }


@with_lab(PRODUCING)
def test_of_batches(lab: Broker) -> None:
    assert so_far(PRODUCING, lab)["compressed"] == "`orders` has no record yet."
    write(lab, "orders", (None, "an order"))
    for records in (2, 3):
        settings = {"compression.type": "gzip", "linger.ms": 10_000}
        producer = Producer({"bootstrap.servers": lab.bootstrap_servers, **settings})
        for _ in range(records):
            producer.produce("orders", b"an order" * 100)
        assert producer.flush(PATIENCE_S) == 0
    sentences = so_far(PRODUCING, lab)
    assert sentences["lingered"] == "The largest batch in `orders` has 3 records."
    assert sentences["compressed"] == "Compressed batches in `orders`: 2 of 3; the last one has 3 records with gzip."
    assert plain(sentences["unacknowledged"]) == "Request, the last Produce, has acks=-1."


@with_lab(FINDING)
def test_of_places_in_a_log(lab: Broker) -> None:
    assert so_far(FINDING, lab)["by-time"] == "No ListOffsets has come."
    write(lab, "orders", (None, "an order"))
    consumer = Consumer({"bootstrap.servers": lab.bootstrap_servers, "group.id": "shop"})
    assert consumer.get_watermark_offsets(TopicPartition("orders", 0), PATIENCE_S) == (0, 1)
    assert plain(so_far(FINDING, lab)["by-time"]) == (
        "Request, the last ListOffsets, asks for the start or the end, not for a time."
    )
    consumer.offsets_for_times([TopicPartition("orders", 0, 2**42)], PATIENCE_S)
    consumer.assign([TopicPartition("orders", 0, 0)])
    assert consumer.consume(1, PATIENCE_S)
    consumer.close()
    sentences = so_far(FINDING, lab)
    assert sentences["segments"] == "`orders` has 1 segment."
    assert plain(sentences["by-time"]) == "Request, the last ListOffsets, asks for a time after the last record."
    assert plain(sentences["inside"]).startswith("Request asked for offset ")
    write(lab, "orders", (None, "x" * 20_000))
    assert plain(so_far(FINDING, lab)["segments"]) == "Request, the last Produce, got RECORD_LIST_TOO_LARGE."


@with_lab(FINDING)
def test_of_a_topic_without_a_name(lab: Broker) -> None:
    list_offsets = struct.pack(">hhih", 2, 1, 1, 0) + struct.pack(">iihiiq", -1, 1, 0, 1, 0, -1)
    ask(lab, list_offsets)
    assert so_far(FINDING, lab)["by-time"] == "No ListOffsets has come."


@with_lab(FETCHING)
def test_of_fetches(lab: Broker) -> None:
    assert so_far(FETCHING, lab)["waited"] == "No Fetch has been answered."
    write(lab, "orders", (None, "an order"))
    read(lab, 1, auto_commit=False)
    sentences = so_far(FETCHING, lab)
    assert sentences["waited"].startswith("The longest Fetch took ")
    assert plain(sentences["session"]) == "Request, the last Fetch, is that of 'rdkafka' and wants no session."
    assert plain(sentences["woken"]).startswith("Request, the last Fetch, was answered after ")
    assert " of 100 ms with" in sentences["woken"]


@with_lab(GROUPS)
def test_of_members(lab: Broker) -> None:
    assert so_far(GROUPS, lab)["shared"] == "No JoinGroup has been answered."
    write(lab, "orders", (None, "an order"))
    read(lab, 1, auto_commit=False)
    sentences = so_far(GROUPS, lab)
    assert plain(sentences["shared"]) == "Request: group 'shop' has 1 member in generation 1."
    assert (
        sentences["interrupted"].startswith("No Heartbeat has come.")
        or "no REBALANCE_IN_PROGRESS" in sentences["interrupted"]
    )
    assert sentences["new-protocol"] == "No ConsumerGroupHeartbeat has come."


@with_lab(OFFSETS)
def test_of_commits(lab: Broker) -> None:
    assert so_far(OFFSETS, lab)["repeated"] == "No consumer of a group has got records."
    write(lab, "orders", (None, "an order"))
    read(lab, 1, auto_commit=False)
    sentences = so_far(OFFSETS, lab)
    assert sentences["stored"] == "No OffsetCommit has come."
    assert plain(sentences["resumed"]).endswith(
        "found no committed offset, and no Fetch has gone on from a committed one."
    )
    assert sentences["repeated"] == (
        "1 consumer of a group got records, beginning at 0: none came twice without a commit in between."
    )


@with_lab(IDEMPOTENCE)
def test_of_batches_that_came_twice(lab: Broker) -> None:
    write(lab, "orders", (None, "an order"))
    assert so_far(IDEMPOTENCE, lab) == {
        "numbered": "`orders` has 1 batch, and no producer id in any.",
        "once": "No batch with a producer id has come.",
        "twice": "1 batch has come without a producer id, and none twice.",
    }
    Control(lab.page_url).post("/control/faults", {"api": "Produce", "disconnect": "before", "times": 1}, 201)
    write(lab, "orders", (None, "paid"), **{"enable.idempotence": True, "retry.backoff.ms": 10})
    once = so_far(IDEMPOTENCE, lab)["once"]
    assert once.endswith("came 2 times, but the broker had not written it before the last time.")


@with_lab(TRANSACTIONS)
def test_of_transactions(lab: Broker) -> None:
    assert so_far(TRANSACTIONS, lab)["skipped"] == "`orders` has 0 abort markers, and no Fetch has come."
    producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "transactional.id": "shop"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("orders", b"an order")
    assert producer.flush(PATIENCE_S) == 0
    producer.abort_transaction(PATIENCE_S)
    write(lab, "orders", (None, "an order"))
    settings = {"group.id": "shop", "isolation.level": "read_uncommitted"}
    consumer = Consumer({"bootstrap.servers": lab.bootstrap_servers, **settings})
    consumer.assign([TopicPartition("orders", 0, 0)])
    assert len(consumer.consume(2, PATIENCE_S)) == 2
    consumer.close()
    sentences = {name: plain(sentence) for name, sentence in so_far(TRANSACTIONS, lab).items()}
    assert sentences == {
        "committed": "Request of 'shop', the last EndTxn, aborted.",
        "skipped": "`orders` has 1 abort marker, and all consumers have read uncommitted records, too.",
        "fenced": "Request gave 'shop' the epoch 0, and no producer of an older epoch has gone on.",
    }


@with_lab(RETENTION)
def test_of_tombstones(lab: Broker) -> None:
    assert so_far(RETENTION, lab)["tombstone"] == "No tombstone has come to `prices`."
    write(lab, "orders", (None, "an order"))
    write(lab, "prices", ("tea", None), ("tea", "3"))
    sentences = {name: plain(sentence) for name, sentence in so_far(RETENTION, lab).items()}
    assert sentences == {
        "expired": "Retention has deleted nothing of orders-0: it has the offsets 0 to 0.",
        "compacted": "prices-0 has 2 records at 2 offsets: all are left.",
        "tombstone": "The tombstone at offset 0 has the key 'tea', which had no value before.",
    }
    write(lab, "prices", ("tea", None))
    assert plain(so_far(RETENTION, lab)["tombstone"]) == (
        "The tombstone of the key 'tea' is at offset 2 of prices-0, to which the cleaner has not come."
    )


@with_lab(FAILURE)
def test_of_leaders(lab: Broker) -> None:
    assert so_far(FAILURE, lab)["moved"] == "`orders` has no record yet."
    write(lab, "orders", (None, "an order"))
    sentences = {name: plain(sentence) for name, sentence in so_far(FAILURE, lab).items()}
    assert sentences == {
        "moved": "orders-0 has records, and is still in leader epoch 0.",
        "refused": "1 Produce or Fetch request, and none to a broker that is not the leader.",
        "went-on": "orders-0 has records of leader epoch 0 alone, and is in 0.",
        "recovered": "No run before this one was killed.",
    }


@with_lab(SCHEMAS)
def test_of_schemas(lab: Broker) -> None:
    assert so_far(SCHEMAS, lab) == {
        "identified": "`orders` has no record yet.",
        "evolved": "Versions of the values in `orders`: none.",
        "broken": "The registry has no schema of `orders-value`.",
        "unreadable": "Each value with an id could be decoded.",
    }
    write(lab, "orders", (None, "plain"))
    newest = plain(so_far(SCHEMAS, lab)["identified"])
    assert newest == "Request, the last one: there is no topic of schemas."
    lab.schemas.register("orders-value", V1)
    write(lab, "orders", (None, "plain"))
    newest = plain(so_far(SCHEMAS, lab)["identified"])
    assert newest == "Request, the last one: The value does not begin with a schema id."
    lab.schemas.register("other", OTHER)
    write(lab, "orders", (None, "\0\0\0\0\2\2"))
    newest = plain(so_far(SCHEMAS, lab)["identified"])
    assert newest == "Request, the last one: its schema is not one of `orders-value`."
    write(lab, "orders", (None, "\0\0\0\0\1\2"))
    sentences = so_far(SCHEMAS, lab)
    assert "identified" not in sentences
    assert sentences["evolved"] == "Versions of the values in `orders`: 1."
    assert plain(so_far(SCHEMAS, lab)["broken"]) == "Version 1, the latest, reads all values that have come."
