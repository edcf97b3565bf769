"""A client of 2013 to 2017 and clients of today meet in one topic; Apache Kafka 3.9.1 says what each has to see."""

import functools
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from minibroker import Broker
from tests.clients.contract import Client, Compression, Headers, Message, Record
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
    "version", one_in(3, [(version,) for version in VERSIONS]), ids=lambda version: ".".join(map(str, version))
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


def round_trip(bootstrap: str, version: Version) -> tuple[dict[Compression, str], dict[Compression, Seen]]:
    """Topics that the client has written, one for each codec, and what it saw of them."""
    topics: dict[Compression, str] = {codec: f"old-{codec}-{uuid.uuid4().hex[:12]}" for codec in CODECS}
    records = records_of(version)
    times = [FIRST - 1, FIRST, FIRST + 15, FIRST + 999, FIRST + 1_001] if version >= (0, 10, 1) else []
    seen = run(
        bootstrap,
        version,
        [Job(topic, records, codec_of(codec), len(records), times=times) for codec, topic in topics.items()],
    )
    return topics, dict(zip(topics, seen, strict=True))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker that keeps records of long ago."""
    with Broker(config={"log.retention.ms": "-1"}) as running:
        yield running


@pytest.fixture(scope="module")
def ours(broker: Broker) -> Callable[[Version], tuple[dict[Compression, str], dict[Compression, Seen]]]:
    """The round trip of a version through this broker, made once."""
    return functools.cache(functools.partial(round_trip, broker.bootstrap_servers))


Ours: TypeAlias = Callable[[Version], tuple[dict[Compression, str], dict[Compression, Seen]]]


@every_version
def test_an_old_client_reads_what_it_wrote(ours: Ours, version: Version) -> None:
    expected = [in_format(record, version) for record in records_of(version)]
    for codec, seen in ours(version)[1].items():
        assert content(seen) == expected, codec
        assert [record.offset for record in seen.consumed] == list(range(len(expected)))
        assert [offset for offset, _ in seen.produced] == list(range(len(expected)))
        assert (seen.beginning, seen.end) == (0, len(expected))


@every_version
def test_an_old_client_sees_of_this_broker_what_it_sees_of_kafka(
    ours: Ours, real_kafka: RealKafka, version: Version
) -> None:
    assert ours(version)[1] == round_trip(real_kafka.bootstrap, version)[1]


@every_version
def test_clients_of_today_read_what_an_old_one_wrote(ours: Ours, every_client: list[Client], version: Version) -> None:
    expected = [
        Record(offset, -1 if record.timestamp is None else record.timestamp, record.key, record.value, record.headers)
        for offset, record in enumerate(records_of(version))
    ]
    for topic in ours(version)[0].values():
        for client in every_client:
            assert client.consume(topic, len(expected)) == expected, client


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
def small_topics(broker: Broker) -> dict[Compression, str]:
    return wrote_today(KafkaPython(broker.bootstrap_servers), messages_of_today(40))


@pytest.fixture(scope="module")
def kafkas_small_topics(real_kafka: RealKafka) -> dict[Compression, str]:
    return wrote_today(KafkaPython(real_kafka.bootstrap), messages_of_today(40))


def reading(topics: dict[Compression, str], count: int) -> list[Job]:
    return [Job(topic, consume=count, start=start) for topic in topics.values() for start in (None, 3)]


@pytest.fixture(scope="module")
def read_today(broker: Broker, small_topics: dict[Compression, str]) -> Callable[[Version], list[Seen]]:
    """A version's view of them, asked once."""
    return functools.cache(lambda version: run(broker.bootstrap_servers, version, reading(small_topics, 37)))


@every_version
def test_an_old_client_reads_what_a_client_of_today_wrote(
    read_today: Callable[[Version], list[Seen]], version: Version
) -> None:
    messages = messages_of_today(40)
    expected = [in_format(OldRecord(each.key, each.value, each.timestamp, each.headers), version) for each in messages]
    for seen in read_today(version):
        first = seen.consumed[0].offset
        assert first in {0, 3}
        assert content(seen) == expected[first:]
        assert [record.offset for record in seen.consumed] == list(range(first, 40))


@every_version
def test_an_old_client_sees_the_records_of_today_as_kafka_converts_them(
    read_today: Callable[[Version], list[Seen]],
    real_kafka: RealKafka,
    kafkas_small_topics: dict[Compression, str],
    version: Version,
) -> None:
    assert read_today(version) == run(real_kafka.bootstrap, version, reading(kafkas_small_topics, 37))


@pytest.mark.parametrize(
    "version", one_in(3, [((0, 8, 2),), ((0, 10, 0),), ((0, 11, 0),)]), ids=lambda version: ".".join(map(str, version))
)
def test_an_old_client_reads_large_batches_in_small_pieces(bootstrap: str, version: Version) -> None:
    messages = messages_of_today(3_000, size=200)
    topics = wrote_today(KafkaPython(bootstrap), messages)
    expected = [in_format(OldRecord(each.key, each.value, each.timestamp, each.headers), version) for each in messages]
    jobs = [Job(topic, consume=2_400, start=600, fetch_bytes=65_536) for topic in topics.values()]
    for seen in run(bootstrap, version, jobs):
        assert content(seen) == expected[600:]
        assert [record.offset for record in seen.consumed] == list(range(600, 3_000))


# Bytes of the log file: one record "key" and "value"; one without a key; ten of 6 bytes; one of 16,384 bytes.
GOLDEN_RECORDS: Final = [
    [OldRecord(b"key", b"value")],
    [OldRecord(None, b"value")],
    [OldRecord(None, b"value%d" % number) for number in range(10)],
    [OldRecord(None, bytes(16_384))],
]
GOLDEN_SIZES: Final = {"0.8.2": [34, 31, 320, 16_410], "0.10.0": [42, 39, 400, 16_418], "0.11.0": [76, 73, 191, 16_456]}


@every_version
def test_each_format_has_its_size_on_disk_whoever_writes_it(tmp_path: Path, version: Version) -> None:
    topics = {f"{stored}-{number}": stored for stored in GOLDEN_SIZES for number in range(len(GOLDEN_RECORDS))}
    with Broker(
        config={"log.retention.ms": "-1"},
        data_dir=str(tmp_path),
        topics=[f"{topic}:1:message.format.version={stored}" for topic, stored in topics.items()],
    ) as broker:
        run(broker.bootstrap_servers, version, [Job(topic, GOLDEN_RECORDS[int(topic[-1])]) for topic in topics])
        sizes = [(tmp_path / f"{topic}-0" / "00000000000000000000.log").stat().st_size for topic in topics]
    assert sizes == [size for stored in GOLDEN_SIZES.values() for size in stored]
