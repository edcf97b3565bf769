"""Keys and values with a schema id, decoded beside their bytes."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from minibroker import Broker
from minibroker_lab.terminal.bytes_view import about
from tests.broker.control.http import Control
from tests.patience import PATIENCE_S
from tests.registry.schemas import OTHER, V1

BROKEN = "The payload does not fit the schema with the id 1"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(page=True, topics=["orders"]) as broker:
        yield broker


def fields(tree: Any) -> Iterator[Any]:
    yield tree
    for child in (*tree.get("children", ()), *tree.get("inside", {}).get("children", ())):
        yield from fields(child)


def remarks(part: Any) -> list[tuple[str, str]]:
    """Return the name and the remark of each key and value."""
    nodes = [field for field in fields(part["tree"]) if field["name"] in {"key", "value"}]
    texts = [node.get("fault") or node.get("note", "") for node in nodes]
    return [(node["name"], BROKEN if BROKEN in text else text) for node, text in zip(nodes, texts, strict=True)]


def batch(broker: Broker) -> Any:
    """Return the last batch of the topic."""
    page = Control(broker.page_url)
    last = page.get("/data/logs/orders/0/batches")["batches"][-1]
    return page.get(f"/data/logs/orders/0/batch?segment={last['segment']}&position={last['position']}")


def newest(broker: Broker, api: str) -> Any:
    """Return the newest request of an API."""
    page = Control(broker.page_url)
    numbers = page.get(f"/data/requests?api={api}")["numbers"]
    return page.get(f"/data/requests/{numbers[-1]}")


def test_values_are_decoded_in_requests_and_in_logs(broker: Broker) -> None:
    value = broker.schemas.register("orders-value", V1).to_bytes(5, "big")
    key = broker.schemas.register("orders-key", '"string"').to_bytes(5, "big")
    guid = broker.schemas.register("other", OTHER)
    header = ("__value_schema_id", b"\0" + guid.to_bytes(4, "big"))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 60_000})
    producer.list_topics("orders", PATIENCE_S)  # A flush may split the batch of a topic without metadata.
    producer.produce("orders", value + b"\x0e", key + b"\x04K1")
    producer.produce("orders", b"\x02", headers=[header])
    producer.produce("orders", b"\0\0\0\0\x63\x02")
    producer.produce("orders", value)
    producer.produce("orders", b"plain")
    producer.flush(PATIENCE_S)
    expected = [
        ("key", 'orders-key version 1, id 2: "K1"'),
        ("value", 'orders-value version 1, id 1: {"id": 7}'),
        ("key", "null"),
        ("value", 'other version 1, id 3: {"id": 1}'),
        ("key", "null"),
        ("value", "No schema has the id 99"),
        ("key", "null"),
        ("value", BROKEN),
        ("key", "null"),
        ("value", ""),
    ]
    assert remarks(batch(broker)) == expected
    assert remarks(newest(broker, "Produce")["request"]) == expected
    (field,) = [field for field in fields(batch(broker)["tree"]) if "No schema" in field.get("fault", "")]
    assert about(field, {}).endswith("\nNo schema has the id 99")


def test_a_new_schema_is_known_and_a_reset_forgets_all(broker: Broker) -> None:
    broker.produce("orders", b"\0\0\0\0\1\x02")
    assert remarks(batch(broker)) == [("key", "null"), ("value", "")]  # There is no topic of schemas.
    broker.schemas.register("orders-value", V1)
    assert remarks(batch(broker))[1] == ("value", 'orders-value version 1, id 1: {"id": 1}')
    broker.reset(keep_topics=True)
    broker.produce("orders", b"\0\0\0\0\1\x02")
    assert remarks(batch(broker))[1] == ("value", "No schema has the id 1")


def test_records_of_kafkas_own_are_not_taken_for_values_with_a_schema(broker: Broker) -> None:
    broker.schemas.register("orders-value", V1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("orders", b"plain")
    producer.commit_transaction(PATIENCE_S)
    marker = batch(broker)
    assert "COMMIT" in [field.get("note") for field in fields(marker["tree"])]
    broker.create_topic("__consumer_offsets", partitions=1)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.assign([TopicPartition("__consumer_offsets", 0, 0)])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    consumer.close()
    page = Control(broker.page_url)
    fetches = [page.get(f"/data/requests/{number}") for number in page.get("/data/requests?api=Fetch")["numbers"]]
    with_records = [fetch["response"] for fetch in fetches if fetch["records"]]
    assert with_records
    for part in (marker, *with_records):
        assert not [field for field in fields(part["tree"]) if "fault" in field]
