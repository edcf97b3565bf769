"""A client of 2013 to 2017 and clients of today meet in one topic; Apache Kafka 3.9.1 says what each has to see."""

import uuid
from collections.abc import Iterator
from typing import Final, TypeAlias

import pytest

from minibroker import Broker
from tests.clients.contract import Client, Compression, Headers, Message
from tests.clients.kafka_python_client import KafkaPython
from tests.clients.old_client import Job, OldRecord, Seen, run
from tests.kafka.real_kafka import RealKafka
from tests.sweeps import one_in

Version: TypeAlias = tuple[int, ...]

VERSIONS: Final[list[Version]] = [(0, 8, 2), (0, 9), (0, 10, 0), (0, 10, 1), (0, 11), (0, 11, 0)]
"""The broker's version in the client's configuration. It writes v2 from (0, 11) on, and reads it from (0, 11, 0) on."""
CODECS: Final[list[Compression]] = ["none", "gzip", "snappy", "lz4"]
FIRST: Final = 1_700_000_000_000

every_version = pytest.mark.parametrize(
    "version", one_in(6, [(version,) for version in VERSIONS]), ids=lambda version: ".".join(map(str, version))
)


def has_timestamps(version: Version) -> bool:
    return version >= (0, 10)


def records_of(version: Version) -> list[OldRecord]:
    """The records that a client of this version writes: all that its format can hold."""
    plain = [
        OldRecord(b"key", b"value"),
        OldRecord(None, b"no key"),
        OldRecord(b"no value", None),
        OldRecord(b"", b""),
        OldRecord(b"key", b"repeated " * 500),
        *(OldRecord(b"%d" % number, b"value %d" % number) for number in range(20)),
    ]
    if has_timestamps(version):
        plain = [record._replace(timestamp=FIRST + 10 * number) for number, record in enumerate(plain)]
        plain[2] = plain[2]._replace(timestamp=FIRST + 1_000)
    if version >= (0, 11):
        plain[0] = plain[0]._replace(headers=(("name", b"content"), ("name", b""), ("é", b"\xff")))
    return plain


def in_format(record: OldRecord, version: Version) -> OldRecord:
    """The record as a reader of this version sees it."""
    return OldRecord(
        record.key,
        record.value,
        record.timestamp if has_timestamps(version) else None,
        record.headers if version >= (0, 11, 0) else (),
    )


def content(seen: Seen) -> list[OldRecord]:
    return [OldRecord(*record[:4]) for record in seen.consumed]


def codec_of(compression: Compression) -> str | None:
    return None if compression == "none" else compression


def round_trip(bootstrap: str, version: Version) -> list[Seen]:
    """What the client saw of topics that it has written, one for each codec."""
    records = records_of(version)
    times = [FIRST - 1, FIRST, FIRST + 15, FIRST + 999, FIRST + 1_001] if version >= (0, 10, 1) else []
    names = {codec: f"old-{codec}-{uuid.uuid4().hex[:12]}" for codec in CODECS}
    jobs = [Job(name, records, codec_of(codec), len(records), times=times) for codec, name in names.items()]
    return run(bootstrap, version, jobs)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker that keeps records of long ago."""
    with Broker(config={"log.retention.ms": "-1"}) as running:
        yield running


@every_version
def test_an_old_client_sees_of_this_broker_what_it_sees_of_kafka(
    broker: Broker, real_kafka: RealKafka, version: Version
) -> None:
    assert round_trip(broker.bootstrap_servers, version) == round_trip(real_kafka.bootstrap, version)


HEADERS: Final[Headers] = (("name", b"content"), ("é", b"\xff"))


def messages_of_today(count: int, size: int = 30) -> list[Message]:
    """Records with headers, with and without keys and values, with times that go back and forth."""
    return [
        Message(
            None if number % 7 == 3 else (b"value %d " % number) * (size // 8),
            None if number % 7 == 5 else b"key %d" % number,
            HEADERS if number % 3 == 0 else (),
            FIRST + 10 * number - 35 * (number % 4),
        )
        for number in range(count)
    ]


def wrote_today(client: Client, messages: list[Message]) -> dict[Compression, str]:
    """Topics with these records, one for each codec."""
    topics: dict[Compression, str] = {codec: f"new-{codec}-{uuid.uuid4().hex[:12]}" for codec in CODECS}
    for codec, topic in topics.items():
        client.produce(topic, messages, compression=codec)
    return topics


@pytest.fixture(scope="module")
def small_topics(broker: Broker, real_kafka: RealKafka) -> dict[str, dict[Compression, str]]:
    """Topics of today, by the address of the broker that has them."""
    addresses = (broker.bootstrap_servers, real_kafka.bootstrap)
    return {address: wrote_today(KafkaPython(address), messages_of_today(40)) for address in addresses}


@every_version
def test_an_old_client_sees_the_records_of_today_as_kafka_converts_them(
    small_topics: dict[str, dict[Compression, str]], version: Version
) -> None:
    ours, theirs = (
        run(address, version, [Job(topic, consume=37, start=start) for topic in topics.values() for start in (None, 3)])
        for address, topics in small_topics.items()
    )
    assert ours == theirs


@pytest.mark.torture
@pytest.mark.parametrize(
    "version", [(0, 8, 2), (0, 10, 0), (0, 11, 0)], ids=lambda version: ".".join(map(str, version))
)
def test_an_old_client_reads_large_batches_in_small_pieces(bootstrap: str, version: Version) -> None:
    messages = messages_of_today(3_000, size=200)
    topics = wrote_today(KafkaPython(bootstrap), messages)
    expected = [in_format(OldRecord(each.key, each.value, each.timestamp, each.headers), version) for each in messages]
    jobs = [Job(topic, consume=2_400, start=600, fetch_bytes=65_536) for topic in topics.values()]
    for seen in run(bootstrap, version, jobs):
        assert content(seen) == expected[600:]
        assert [record.offset for record in seen.consumed] == list(range(600, 3_000))
