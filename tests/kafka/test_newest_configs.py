"""Configurations beside the newest Kafka: its keys and their defaults, settings of groups, the limit of records."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from minibroker import Broker
from minibroker.config.reference import KAFKA_4_DEFAULTS
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.record import NewRecord
from tests.broker.config.configs import BROKER, DELETE, GROUP, METRICS, SET, TOPIC
from tests.broker.socket_client import SocketClient, address_of
from tests.kafka.real_kafka import RealKafka
from tests.kafka.test_configs import CONFIG, DEFAULT_SOURCE, NODE, Change, Side
from tests.kafka.test_log_answers import Side as Logs
from tests.patience import eventually

_TOPIC: Final = "newest-configs"
_NOW: Final = 1_700_000_000_000
_OTHERWISE_HERE: Final = {
    "group.initial.rebalance.delay.ms": "is 0, so the first member of a group waits for nobody",
    "node.id": "may be left out",
    "process.roles": "may be left out",
}
"""Keys whose default is not that of Kafka 4.4 where it is emulated, and why."""
_SET_THERE: Final = "log.initial.task.delay.ms"
"""An internal key, listed only where it is set, as in the Kafka of the tests."""


@pytest.fixture(scope="module")
def sides(newest_kafka: RealKafka) -> Iterator[tuple[Side, Side]]:
    """Ours and the newest Kafka, each with a topic."""
    with (
        Broker(config={**CONFIG, "minibroker.emulate": "4.4"}) as ours,
        SocketClient(address_of(ours.bootstrap_servers)) as here,
        SocketClient(address_of(newest_kafka.bootstrap)) as there,
    ):
        for client in (here, there):
            Logs(client).create(_TOPIC, max_decompressed_message_bytes="1000")
        yield Side(here), Side(there)


def test_a_broker_has_every_key_of_the_newest_kafka_with_its_default(sides: tuple[Side, Side]) -> None:
    ours, theirs = ({name: _described(row) for name, row in side.describe(BROKER, NODE).items()} for side in sides)
    del theirs[_SET_THERE]
    assert theirs.keys() - ours.keys() == set()
    differing = {name for name, row in theirs.items() if row != ours[name]}
    assert differing == _OTHERWISE_HERE.keys()
    assert {name: theirs[name][1] for name in KAFKA_4_DEFAULTS} == KAFKA_4_DEFAULTS


def _described(row: Any) -> tuple[bool, str | None]:
    """Whether a key holds a secret, and its default."""
    return row.is_sensitive, next((each.value for each in row.synonyms if each.source == DEFAULT_SOURCE), None)


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, _TOPIC), (GROUP, "g"), (METRICS, "m")])
def test_other_resources_have_its_keys_too(sides: tuple[Side, Side], kind: int, name: str) -> None:
    ours, theirs = (
        {key: (row.config_type, row.value, bool(row.documentation)) for key, row in side.describe(kind, name).items()}
        for side in sides
    )
    newer = {"message.timestamp.after.max.ms", "consumer.assignment.interval.ms"}
    assert {key: row for key, row in theirs.items() if key not in newer} == {
        key: ours[key] for key in theirs if key not in newer
    }


_CHANGED_GROUP: Final = "changed"
"""A group of its own: other modules compare groups without settings on the same Kafka."""
_OF_GROUPS: Final[list[list[Change]]] = [
    [(SET, "consumer.session.timeout.ms", "1")],
    [(SET, "consumer.heartbeat.interval.ms", "15001")],
    [(SET, "share.session.timeout.ms", "60001")],
    [(SET, "share.delivery.count.limit", "11")],
    [(SET, "share.delivery.count.limit", "1")],
    [(SET, "share.record.lock.duration.ms", "14999")],
    [(SET, "share.partition.max.record.locks", "4001"), (SET, "share.delivery.count.limit", "99")],
    [(SET, "share.assignment.interval.ms", "15001")],
    [(SET, "streams.num.standby.replicas", "3")],
    [(SET, "streams.num.warmup.replicas", "21")],
    [(SET, "streams.task.offset.interval.ms", "14999")],
    [(SET, "streams.heartbeat.interval.ms", "x")],
    [(SET, "streams.assignor.name", "odd")],
    [(SET, "streams.assignor.name", "sticky")],
    [(SET, "streams.assignor.offload.enable", "false")],
    [(SET, "streams.rack.aware.assignment.tags", "a,a")],
    [(SET, "streams.rack.aware.assignment.tags", "a,b"), (SET, "consumer.session.timeout.ms", "1")],
    [(SET, "errors.deadletterqueue.topic.name", "__x")],
    [(SET, "consumer.assignor.offload.enable", "maybe")],
    [(SET, "share.assignor.offload.enable", "true"), (SET, "no.such.key", "1")],
    [(DELETE, "streams.assignor.name", None)],
]


def test_settings_of_groups_are_refused_in_the_words_of_the_newest_kafka(sides: tuple[Side, Side]) -> None:
    for changes in _OF_GROUPS:
        ours, theirs = (side.change(GROUP, _CHANGED_GROUP, *changes) for side in sides)
        assert ours == theirs, changes
    here, there = sides
    expected = _set_values(here)
    eventually(lambda: _set_values(there) == expected)  # Kafka's broker learns of a change after its controller


def _set_values(side: Side) -> dict[str, str | None]:
    """Return the settings of the group that are not defaults."""
    rows = side.describe(GROUP, _CHANGED_GROUP)
    return {key: row.value for key, row in rows.items() if row.config_source != DEFAULT_SOURCE}


@pytest.mark.parametrize(
    ("codec", "size"),
    [(CompressionCodec.GZIP, 900), (CompressionCodec.GZIP, 1000), (CompressionCodec.ZSTD, 5000), (0, 5000)],
)
def test_records_are_limited_where_they_are_unpacked(sides: tuple[Side, Side], codec: int, size: int) -> None:
    records = [NewRecord(None, value, _NOW) for value in (b"small", b"x" * size)]
    ours, theirs = (_produced(side, build_batch(records, codec=CompressionCodec(codec))) for side in sides)
    assert ours == theirs
    assert bool(ours) == (codec != 0 and size >= 1000)


def _produced(side: Side, batch: bytes | bytearray) -> int:
    data = PartitionProduceData(index=0, records=memoryview(bytes(batch)))
    request = ProduceRequest(
        acks=-1, timeout_ms=20_000, topic_data=[TopicProduceData(name=_TOPIC, partition_data=[data])]
    )
    ((answer,),) = (topic.partition_responses for topic in side.client.ask(request, 9).responses)
    return int(answer.error_code)
