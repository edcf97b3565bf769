"""Topics made, grown and removed by every client's admin calls."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
from tests.clients.contract import Client, Message, RefusedError, eventually


def test_a_created_topic_has_its_partitions_and_can_be_used_at_once(client: Client, topic: str) -> None:
    client.create_topic(topic, 5)
    assert client.produce(topic, [Message(b"in the last one", partition=4)]) == [0]
    assert client.topics()[topic] == 5


def test_creating_a_topic_twice_is_refused(client: Client, topic: str) -> None:
    client.create_topic(topic, 1)
    with pytest.raises(RefusedError) as refusal:
        client.create_topic(topic, 1)
    assert refusal.value.code == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("no spaces please", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("n" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_a_name_that_kafka_does_not_allow_is_refused(client: Client, name: str, code: ErrorCode) -> None:
    with pytest.raises(RefusedError) as refusal:
        client.create_topic(name, 1)
    assert refusal.value.code == code
    assert name not in client.topics()


def test_new_partitions_can_be_used_and_the_old_ones_keep_their_records(client: Client, topic: str) -> None:
    client.create_topic(topic, 1)
    client.produce(topic, [Message(b"before")])
    client.create_partitions(topic, 3)
    eventually(lambda: client.topics()[topic] == 3)
    client.produce(topic, [Message(b"after", partition=2)])
    assert [record.value for record in client.consume(topic, 1, partition=0)] == [b"before"]
    assert [record.value for record in client.consume(topic, 1, partition=2)] == [b"after"]


@pytest.mark.parametrize("total", [1, 2])
def test_a_topic_never_gets_fewer_partitions_and_never_as_many_as_it_has(
    client: Client, topic: str, total: int
) -> None:
    client.create_topic(topic, 2)
    with pytest.raises(RefusedError) as refusal:
        client.create_partitions(topic, total)
    assert refusal.value.code == ErrorCode.INVALID_PARTITIONS


def test_a_deleted_topic_is_gone_and_its_name_starts_again_empty(client: Client, topic: str) -> None:
    client.create_topic(topic, 1)
    client.produce(topic, [Message(b"old")] * 10)
    client.delete_topic(topic)
    eventually(lambda: topic not in client.topics())
    client.create_topic(topic, 1)
    assert client.produce(topic, [Message(b"new")]) == [0]
    assert [record.value for record in client.consume(topic, 1)] == [b"new"]


def test_deleting_an_unknown_topic_is_refused(client: Client, topic: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        client.delete_topic(topic)
    assert refusal.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
