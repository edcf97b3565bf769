"""A record's life as the page's server describes it, with real clients."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from minibroker import Broker
from minibroker.server.inspection import recording
from tests.broker.control.http import Control
from tests.clients.kafka_python_client import KafkaProducer
from tests.patience import PATIENCE_S

TOPICS = [
    "plain:2:index.interval.bytes=200",
    "packed",
    "paid",
    "latest:1:cleanup.policy=compact,segment.bytes=300,min.cleanable.dirty.ratio=0.01",
    "short:1:segment.bytes=300,retention.ms=-1",
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(page=True, topics=TOPICS) as broker:
        yield broker


def story(broker: Broker, topic: str, offset: int, partition: int = 0) -> dict[str, Any]:
    life: dict[str, Any] = Control(broker.page_url).get(f"/data/follow/{topic}/{partition}/{offset}")
    life["stages"] = {stage["id"]: stage for stage in life["stages"]}
    return life


def part_of(broker: Broker, link: str, direction: str) -> bytes:
    """Return the bytes that a link to a request marks."""
    path, _, query = link.partition("?")
    frame = bytes.fromhex(Control(broker.page_url).get(f"/data{path}")[direction]["hex"])
    start, end = query.partition("&")[0].removeprefix(f"at={direction}-").split("-")
    return frame[int(start) : int(end)]


def sent(broker: Broker, topic: str, values: list[bytes], **options: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "till", **options})
    producer.list_topics(topic, PATIENCE_S)  # A flush may split the batch of a topic without metadata.
    for value in values:
        producer.produce(topic, value, key=b"k" if topic == "latest" else None, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def read_by(broker: Broker, topic: str, group: str, count: int, **options: Any) -> None:
    """Read records from the beginning, and commit."""
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, **options}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    for _ in range(count):
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
    consumer.commit(asynchronous=False)
    consumer.close()


def test_a_plain_record_is_followed_from_its_request_to_the_committed_offset(broker: Broker) -> None:
    sent(broker, "plain", [b"order %d" % number for number in range(10)], **{"linger.ms": 60_000})
    read_by(broker, "plain", "billing", 10)
    life = story(broker, "plain", 7)
    assert life["record"]["value"]["text"] == "order 7"
    stages = life["stages"]
    states = [stages[name]["state"] for name in ("produced", "stored", "read", "committed", "removed")]
    assert states == ["done"] * 4 + ["none"]
    (produce_item,) = stages["produced"]["items"]
    assert b"order 7" in part_of(broker, produce_item["link"], "request")
    assert b"order 6" not in part_of(broker, produce_item["link"], "request")
    fetch_item = stages["read"]["items"][0]
    assert part_of(broker, fetch_item["link"], "response") == part_of(broker, produce_item["link"], "request")
    commit, record = stages["committed"]["items"]
    assert "OffsetCommit" in commit["text"]
    assert "billing" in commit["text"]
    topic, partition, offset = record["link"].removeprefix("/follow/").split("/")
    assert topic == "__consumer_offsets"
    log = Control(broker.page_url).get(f"/data/logs/{topic}/{partition}")
    assert int(offset) < log["log_end_offset"]


def test_the_index_entry_that_covers_a_record_is_named(broker: Broker) -> None:
    for _ in range(12):
        broker.produce("plain", b"x" * 90, partition=1)
    stages = story(broker, "plain", 0, 1)["stages"]
    assert stages["indexed"]["state"] == "none"
    assert "index.interval.bytes" in stages["indexed"]["text"]
    indexed = story(broker, "plain", 11, 1)["stages"]["indexed"]
    assert indexed["state"] == "done"
    entries = Control(broker.page_url).get("/data/logs/plain/1/indexes?segment=0")["offset_entries"]
    last = [entry for entry in entries if entry["offset"] <= 11][-1]
    assert f"Entry {last['slot'] + 1} of {len(entries)} covers it: offset {last['offset']}" in indexed["text"]


def test_who_has_written_a_record_without_a_request_is_not_made_up(broker: Broker) -> None:
    broker.produce("plain", b"by hand", partition=1)
    produced = story(broker, "plain", 0, 1)["stages"]["produced"]
    assert (produced["state"], produced["items"]) == ("unknown", [])


def test_a_compressed_record_is_followed(broker: Broker) -> None:
    values = [b"a line of a log, number %d" % number for number in range(40)]
    sent(broker, "packed", values, **{"compression.type": "gzip", "linger.ms": 60_000})
    read_by(broker, "packed", "zipped", 40)
    life = story(broker, "packed", 33)
    assert life["record"]["value"]["text"] == "a line of a log, number 33"
    stages = life["stages"]
    assert "under gzip" in stages["produced"]["text"]
    (produce_item,) = stages["produced"]["items"]
    assert "&inside=" in produce_item["link"]
    assert len(part_of(broker, produce_item["link"], "request")) < 40 * 26
    assert "compressed" in stages["stored"]["items"][0]["text"]
    assert "&inside=" in stages["read"]["items"][0]["link"]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_transactional_record_is_followed_to_its_marker(broker: Broker, *, is_committed: bool) -> None:
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer({**servers, "transactional.id": f"payer-{is_committed}", "client.id": "till"})
    producer.init_transactions(PATIENCE_S)
    placed: list[int | None] = []
    producer.begin_transaction()
    producer.produce("paid", b"10 euro", on_delivery=lambda _, message: placed.append(message.offset()))
    assert producer.flush(PATIENCE_S) == 0
    (offset,) = placed
    assert offset is not None
    decided = story(broker, "paid", offset)["stages"]["decided"]
    assert decided["state"] == "waiting"
    assert "is open" in decided["text"]
    member: Any = Consumer({**servers, "group.id": f"till-{is_committed}"}).consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition("paid", 0, offset + 1)], member, PATIENCE_S)
    (producer.commit_transaction if is_committed else producer.abort_transaction)(PATIENCE_S)
    stages = story(broker, "paid", offset)["stages"]
    assert stages["decided"]["state"] == ("done" if is_committed else "bad")
    end, marker = stages["decided"]["items"]
    assert part_of(broker, end["link"], "request") == bytes([is_committed])
    assert f"offset {offset + 1}" in marker["text"]
    commits = [item["text"] for item in stages["committed"]["items"] if f"till-{is_committed}" in item["text"]]
    assert "TxnOffsetCommit" in commits[0]
    assert ("has committed it" if is_committed else "has aborted it") in commits[1]


def test_a_compacted_record_is_followed_to_the_one_that_replaced_it(broker: Broker) -> None:
    for number in range(12):
        sent(broker, "latest", [b"price %d" % number * 10])
    assert "offset 11 has the same key" in story(broker, "latest", 3)["stages"]["removed"]["text"]
    broker.compact()
    life = story(broker, "latest", 3)
    assert life["record"]["value"]["text"].startswith("price 3")
    assert life["record"]["source"].startswith("request ")
    removed = life["stages"]["removed"]
    assert removed["state"] == "bad"
    assert "compacted latest-0" in removed["items"][0]["text"]
    assert removed["items"][1]["link"] == "/follow/latest/0/11"
    assert life["stages"]["stored"]["state"] == "none"


def test_retention_and_delete_records_are_told(broker: Broker) -> None:
    for number in range(12):
        sent(broker, "short", [b"%d" % number * 50])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_records([TopicPartition("short", 0, 2)])[TopicPartition("short", 0)].result(PATIENCE_S)
    assert "DeleteRecords" in story(broker, "short", 1)["stages"]["removed"]["items"][0]["text"]
    broker.configure_topic("short", {"retention.bytes": "600"})
    broker.retention.run()
    removed = story(broker, "short", 3)["stages"]["removed"]
    assert removed["text"] == "Retention has removed it."
    assert removed["items"][0]["text"].startswith("Retention has removed ")


def test_a_record_that_is_not_there_yet_is_waited_for(broker: Broker) -> None:
    stages = story(broker, "plain", 5000)["stages"]
    assert (stages["produced"]["state"], stages["stored"]["state"]) == ("waiting", "waiting")


def test_a_duplicate_and_a_refused_batch_are_told(broker: Broker) -> None:
    with broker.fault(api="Produce", error="NOT_ENOUGH_REPLICAS", times=1):
        placed: list[int | None] = []
        settings = {"enable.idempotence": True, "retry.backoff.ms": 1}
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
        producer.produce("plain", b"again", partition=0, on_delivery=lambda _, message: placed.append(message.offset()))
        assert producer.flush(PATIENCE_S) == 0
    (offset,) = placed
    assert offset is not None
    items = story(broker, "plain", offset)["stages"]["produced"]["items"]
    assert "NOT_ENOUGH_REPLICAS" in items[0]["text"]
    assert len(items) == 2


def test_a_topic_that_is_gone_is_told(broker: Broker) -> None:
    life = story(broker, "none", 3)
    assert life["log"] is None
    assert life["stages"]["stored"]["state"] == "bad"
    assert Control(broker.page_url).ask("GET", "/data/follow/plain/0/x").problem[0] == 400


def test_a_request_that_is_no_longer_kept_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_EXCHANGES", 10)
    with Broker(page=True, topics=["plain"]) as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        producer.send("plain", b"first").get(PATIENCE_S)
        produced = story(broker, "plain", 0)["stages"]["produced"]
        assert produced["state"] == "done"
        for _ in range(15):
            producer.send("plain", b"more").get(PATIENCE_S)
        producer.close()
        # A search that started in time still has the request, and a new search does not.
        assert story(broker, "plain", 0)["stages"]["produced"] == produced
        lost = story(broker, "plain", 1)["stages"]["produced"]
        assert lost["state"] == "unknown"
        assert "are no longer kept" in lost["text"]
