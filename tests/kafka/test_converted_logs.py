"""The pipeline's conversions against Kafka's own, and Kafka 3.9.1 on directories that were converted."""

import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from minibroker_pipeline.jobs.convert import ConvertSettings, convert
from minibroker_pipeline.jobs.convert.settings import Droppable
from minibroker_pipeline.jobs.verify import verify
from minibroker_protocol.records.header import CompressionCodec
from tests.clients.broker_process import BrokerProcess
from tests.kafka.answers import Answers, all_answers, answers
from tests.kafka.dumps import check_directory
from tests.kafka.exchange import give
from tests.kafka.generated import FORMATS, descriptions, name_of
from tests.kafka.oracle import BatchLine, Conversion, Description, Oracle
from tests.kafka.our_side import accepted, lines, written
from tests.kafka.real_kafka import RealKafka
from tests.kafka.writers import TOPICS, TRANSACTIONAL, create, write, write_all, write_transactions
from tests.sweeps import one_in

CASES: Final = 80
EVERYTHING: Final[tuple[Droppable, ...]] = ("headers", "timestamps", "transactions")
WAYS: Final = [
    (target, *source)
    for target in (0, 1)
    for source in FORMATS
    if source[0] > target and source[1] is not CompressionCodec.ZSTD
]


def sequential(cases: Sequence[Description]) -> list[Description]:
    """The same batches behind each other, as in a log; without transactions, of which the broker converts all."""
    found: list[Description] = []
    offset = 0
    for case in cases:
        if case.is_control or case.is_transactional:
            continue
        first = case.records[0].offset
        records = [record._replace(offset=offset + record.offset - first) for record in case.records]
        found.append(case._replace(base_offset=offset, records=records))
        offset = records[-1].offset + 1
    return found


def converted(tmp_path: Path, data: bytes, **how: Any) -> bytes:
    partition = tmp_path / "source" / "orders-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020d}.log").write_bytes(data)
    convert([str(tmp_path / "source")], str(tmp_path / "target"), ConvertSettings(**how), processes=1)
    return b"".join(path.read_bytes() for path in sorted((tmp_path / "target" / "orders-0").glob("*.log")))


def content(batches: list[BatchLine]) -> list[BatchLine]:
    """All but what differs from one library of a codec to another."""
    return [batch if not batch.codec else batch._replace(checksum=0, size_in_bytes=0) for batch in batches]


@pytest.mark.parametrize(
    ("target", "magic", "codec"), one_in(6, WAYS), ids=[f"{name_of(way[1:])}-to-v{way[0]}" for way in WAYS]
)
def test_logs_become_older_as_kafka_converts_them_for_old_consumers(
    oracle: Oracle, tmp_path: Path, target: int, magic: int, codec: CompressionCodec
) -> None:
    cases = sequential(descriptions(magic, codec, CASES, gaps=magic < 2, seed="older logs"))
    ours = converted(tmp_path, b"".join(map(written, cases)), format=f"v{target}", drop=EVERYTHING)
    theirs = b"".join(
        accepted(data) for data in oracle.down_convert(Conversion(target, 0, written(case)) for case in cases)
    )
    if codec is CompressionCodec.NONE:
        assert ours == theirs
    (read,) = oracle.read([ours])
    (expected,) = oracle.read([theirs])
    assert content(accepted(read)) == content(accepted(expected))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", one_in(3, [CompressionCodec.GZIP, CompressionCodec.SNAPPY, CompressionCodec.LZ4]))
def test_wrappers_become_the_batches_that_kafka_builds(
    oracle: Oracle, tmp_path: Path, magic: int, codec: CompressionCodec
) -> None:
    cases = sequential(descriptions(magic, codec, CASES, gaps=False, seed="newer logs"))
    data = converted(tmp_path, b"".join(map(written, cases)), format="v2", codec="none")
    as_v2 = [
        case._replace(
            magic=2,
            codec=0,
            timestamp_type=max(case.timestamp_type, 0),
            records=[
                record._replace(
                    timestamp=-1 if not magic else case.log_append_time if case.timestamp_type else record.timestamp
                )
                for record in case.records
            ],
        )
        for case in cases
    ]
    assert data == b"".join(accepted(built) for built in oracle.build(as_v2))


@pytest.mark.parametrize("codec", one_in(3, CompressionCodec), ids=lambda codec: codec.name.lower())
def test_kafka_reads_batches_under_another_codec_as_they_were(
    oracle: Oracle, tmp_path: Path, codec: CompressionCodec
) -> None:
    chance = random.Random(codec)
    drawn = [
        chance.choice(options)
        for options in zip(
            *(descriptions(2, each, CASES, seed=f"codec {codec}") for each in CompressionCodec), strict=True
        )
    ]
    cases = sequential(drawn)
    data = b"".join(map(written, cases))
    ours = converted(tmp_path, data, codec=codec.name.lower())
    (before,), (after,) = oracle.read([data]), oracle.read([ours])
    listed = [
        [line._replace(codec=0, checksum=0, size_in_bytes=0) for line in accepted(one)] for one in (before, after)
    ]
    assert listed[0] == listed[1]
    assert {line.codec for line in accepted(after)} == {int(codec)}
    assert all(line.is_valid for line in lines(ours))


class Converted(NamedTuple):
    """Directories that came out of one of ours, and what this had answered."""

    paths: dict[str, Path]
    answers: dict[str, Answers]


NEWER: Final = ("gzip", "segments", "moved", "compacted", "transactions", "ongoing")
OLDER: Final = ("snappy", "append-time")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Converted]:
    """A broker's directory; some topics under another codec and in other batches, some in format v1."""
    home = tmp_path_factory.mktemp("converted")
    (home / "source").mkdir()
    options = ["--set", "log.retention.ms=-1", "--set", "log.cleaner.backoff.ms=100"]
    broker = BrokerProcess(home / "source", [*options, "--set", "log.initial.task.delay.ms=100"])
    try:
        broker.start()
        create(broker.bootstrap, {**TOPICS, **TRANSACTIONAL})
        write_all(broker.bootstrap, broker.data_dir / "cleaner-offset-checkpoint")
        write_transactions(broker.bootstrap)
        answers_by_topic = all_answers(broker.bootstrap, [*NEWER, *OLDER])
        broker.terminate()
    finally:
        broker.close()
    paths: dict[str, Path] = {}
    for settings in (
        ConvertSettings(topics=NEWER, codec="zstd", batch_bytes=700, segment_bytes=3_000, index_interval_bytes=300),
        ConvertSettings(topics=OLDER, format="v1", codec="gzip", drop=EVERYTHING, segment_bytes=3_000),
    ):
        topics = settings.topics
        target = home / topics[0]
        convert([str(broker.data_dir)], str(target), settings, processes=1)
        paths |= dict.fromkeys(topics, target)
    yield Converted(paths, answers_by_topic)
    shutil.rmtree(home)


@pytest.mark.parametrize("topic", one_in(2, [*NEWER, *OLDER]))
def test_kafkas_dump_tool_finds_nothing_wrong_with_what_was_converted(
    oracle: Oracle, ours: Converted, topic: str
) -> None:
    check_directory(oracle, ours.paths[topic] / f"{topic}-0", compacted=topic == "compacted")


def test_what_was_converted_is_sound(ours: Converted) -> None:
    for path in set(ours.paths.values()):
        assert list(verify([str(path)], processes=1).findings) == []


def expected(topic: str, original: Answers) -> Answers:
    """A broker's view of a converted topic: records of format v1 have no headers."""
    if topic not in OLDER:
        return original
    records, committed = (
        [line._replace(headers=()) for line in some] for some in (original.records, original.committed)
    )
    return original._replace(records=records, committed=committed)


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory, ours: Converted) -> Iterator[RealKafka]:
    """A Kafka that runs on what was converted, and whose cleaner does not take of it what the tests read."""
    kafka = RealKafka(tmp_path_factory.mktemp("kafka"), kafka_libs, {"log.cleaner.enable": "false"})
    try:
        kafka.start()
        create(kafka.bootstrap, {**TOPICS, **TRANSACTIONAL})
        kafka.stop()
        for topics in (NEWER, OLDER):
            give(kafka, ours.paths[topics[0]], topics)
        kafka.start()
        yield kafka
    finally:
        kafka.close()


@pytest.mark.torture
@pytest.mark.parametrize("topic", [*NEWER, *OLDER])
def test_kafka_serves_what_was_converted_and_goes_on(kafka: RealKafka, ours: Converted, topic: str) -> None:
    before = expected(topic, ours.answers[topic])
    assert answers(kafka.bootstrap, topic, list(before.times)) == before
    write(kafka.bootstrap, topic, 3, batch=2, start=2_000)
    after = answers(kafka.bootstrap, topic)
    assert after.records[:-3] == before.records
    assert [line.offset for line in after.records[-3:]] == list(range(before.end, before.end + 3))
    assert [line for line in kafka.output().splitlines() if f"{topic}-0" in line] == []


def test_this_broker_serves_what_was_converted_and_goes_on(ours: Converted, tmp_path: Path) -> None:
    for topics in (NEWER, OLDER):
        home = tmp_path / topics[0]
        shutil.copytree(ours.paths[topics[0]], home / "data")
        broker = BrokerProcess(home, ["--set", "log.retention.ms=-1"])
        try:
            broker.start()
            for topic in topics:
                before = expected(topic, ours.answers[topic])
                assert answers(broker.bootstrap, topic, list(before.times)) == before
                write(broker.bootstrap, topic, 3, batch=2, start=2_000)
                assert len(answers(broker.bootstrap, topic).records) == len(before.records) + 3
            broker.terminate()
        finally:
            broker.close()
