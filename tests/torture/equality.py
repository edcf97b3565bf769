"""Topics that producers have filled, read through the broker and from its files: are they the same rows?

Spark compares: hashes over all columns, summed up so that their order does not matter, for each partition. What was
produced is held against both. Nothing is killed here; `make torture ARGS=equal` is for sizes that tests have no time
for.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from minibroker_pipeline import session
from tests.patience import PATIENCE_S
from tests.torture.broker import Broker
from tests.torture.ledger import TortureError

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
LEVELS: Final = ("read_uncommitted", "read_committed")
COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
_FIRST_TIME: Final = 1_700_000_000_000
_DAY: Final = 86_400_000
_VALUES: Final = 997
_HEADERS: Final[list[tuple[str, str | bytes | None]]] = [("trace", b"0123456789abcdef"), ("nothing", None), ("é", b"")]
_IN_TRANSACTIONS: Final = 500
_MOST_TRANSACTIONS: Final = 40
"""The number of records after which the two transactional producers begin again, at least."""
_IN_TURN: Final = 3000
"""Records after which it is the first producer's turn again."""
_SEGMENTS: Final = 12
"""About how many a topic has, if its values are not compressed."""


class Contents(NamedTuple):
    """A topic to be filled: values of about `size` bytes from producers that compress with `codec`."""

    topic: str
    codec: str
    size: int
    records: int
    #: Whether the broker's time counts, rather than the producers'.
    is_append_time: bool = False
    partitions: int = 2


class Totals(NamedTuple):
    """The counts of some records, the same for each reader."""

    rows: int = 0
    values: int = 0
    value_bytes: int = 0
    keys: int = 0
    headers: int = 0

    def plus(self, other: "Totals") -> "Totals":
        """Both together."""
        return Totals(*(one + another for one, another in zip(self, other, strict=True)))


class Fingerprint(NamedTuple):
    """The digest of a partition's rows: two sums of unlike hashes, an exclusive or, and the totals."""

    topic: str
    partition: int
    sum_of_hashes: Any
    sum_of_others: int
    exclusive_or: int
    totals: Totals


class Comparison(NamedTuple):
    """Rows that are the same, and the seconds that reading them took through the broker and from the files."""

    level: str
    rows: int
    by_connector: float
    from_files: float


def contents(records: int) -> Iterator[Contents]:
    """All codecs with values of 100 bytes, then a fifth as many of 1000 bytes, of which some take the broker's time."""
    for size, count in ((100, records), (1000, records // 5)):
        for number, codec in enumerate(CODECS):
            yield Contents(f"equal-{size}-{codec}", codec, size, count, size >= 1000 and number % 2 == 1)


def fill(bootstrap: str, spec: Contents, seed: int) -> dict[str, Totals]:
    """Create the topic and fill it; what readers of each isolation level must find. `TortureError`."""
    config = {
        "segment.bytes": str(max(spec.size * spec.records // _SEGMENTS, 20_000)),
        "retention.ms": "-1",  # the timestamps are of long ago
        "message.timestamp.type": "LogAppendTime" if spec.is_append_time else "CreateTime",
    }
    admin = AdminClient({"bootstrap.servers": bootstrap})  # must outlive its futures
    for future in admin.create_topics([NewTopic(spec.topic, spec.partitions, 1, config=config)]).values():
        future.result(PATIENCE_S)
    return _Filling(bootstrap, spec, seed).run()


class _Filling:
    """One producer without transactions, and two with, of which in each round one commits and the other one aborts.

    They write at the same time, so that batches of all three lie among each other.
    """

    def __init__(self, bootstrap: str, spec: Contents, seed: int) -> None:
        self._spec = spec
        self._rolls = random.Random(seed)
        shared = {
            "bootstrap.servers": bootstrap,
            "compression.codec": spec.codec,
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 300_000,
        }
        names = [f"{spec.topic}-{number}" for number in range(2)]
        self._plain = Producer(shared)
        self._transactional = [Producer({**shared, "transactional.id": name}) for name in names]
        self._values = [
            self._some_bytes(self._rolls.randint(spec.size * 3 // 4, spec.size * 5 // 4)) for _ in range(_VALUES)
        ]

    def _some_bytes(self, size: int) -> bytes:
        """Half of them such as compress."""
        text = b'{"field": "some text that repeats", "number": 1234567}, ' * (size // 50)
        return text[: size // 2] + self._rolls.randbytes(size - size // 2)

    def run(self) -> dict[str, Totals]:
        for producer in self._transactional:
            producer.init_transactions(PATIENCE_S)
        spec = self._spec
        rounds = max(min(spec.records // _IN_TRANSACTIONS, _MOST_TRANSACTIONS), 2)
        each = -(-spec.records // rounds)
        kept, aborted = Totals(), Totals()
        for number in range(rounds):
            committing, aborting = self._transactional if number % 2 else self._transactional[::-1]
            for producer in self._transactional:
                producer.begin_transaction()
            end = min((number + 1) * each, spec.records)
            for first in range(number * each, end, _IN_TURN):
                turn = range(first, min(first + _IN_TURN, end))
                kept = kept.plus(self._send(self._plain, turn[0::3])).plus(self._send(committing, turn[1::3]))
                aborted = aborted.plus(self._send(aborting, turn[2::3]))
            for producer in (self._plain, aborting):  # which would drop what has not been sent
                if producer.flush(PATIENCE_S):
                    raise TortureError(f"{spec.topic}: records were not acknowledged within {PATIENCE_S:.0f} s")
            committing.commit_transaction(PATIENCE_S)
            aborting.abort_transaction(PATIENCE_S)
        return {"read_uncommitted": kept.plus(aborted), "read_committed": kept}

    def _send(self, producer: Producer, numbers: range) -> Totals:
        topic, partitions, values = self._spec.topic, self._spec.partitions, self._values
        with_value = value_bytes = with_key = header_count = 0
        for number in numbers:
            value = None if number % 11 == 5 else b"%d:" % number + values[number % _VALUES]
            key = None if number % 7 == 3 else b"key-%d" % (number * 7919 % 5003)
            headers = _HEADERS[: number % 8] if number % 8 < 4 else []
            if value is not None:
                with_value += 1
                value_bytes += len(value)
            with_key += key is not None
            header_count += len(headers)
            timestamp = _FIRST_TIME + number * 3 % _DAY
            while True:
                try:
                    producer.produce(topic, value, key, number // 3 % partitions, timestamp=timestamp, headers=headers)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
        return Totals(len(numbers), with_value, value_bytes, with_key, header_count)


def compare(
    spark: SparkSession, bootstrap: str, data_dir: str, sent: dict[str, dict[str, Totals]]
) -> Iterator[Comparison]:
    """Read the topics of `sent`, which are what `fill` has returned of each, at both isolation levels and both ways.

    `TortureError` names what differs.
    """
    topics = ",".join(sent)
    for level in LEVELS:
        connector = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topics)
        connector = connector.option("kafka.isolation.level", level).option("includeHeaders", "true")
        began = time.monotonic()
        expected = fingerprints(connector.load())
        between = time.monotonic()
        files = spark.read.format("minibroker").option("topics", topics).option("isolation", level)
        found = fingerprints(files.option("includeHeaders", "true").load(data_dir))
        ended = time.monotonic()
        for one, other in zip(expected, found, strict=False):
            if one != other:
                raise TortureError(f"{level}: through the broker {one}, from its files {other}")
        if len(expected) != len(found):
            raise TortureError(f"{level}: {len(expected)} partitions through the broker, {len(found)} from its files")
        _check_totals(level, found, {topic: totals[level] for topic, totals in sent.items()})
        rows = sum(one.totals.rows for one in found)
        yield Comparison(level, rows, between - began, ended - between)


def _check_totals(level: str, found: Sequence[Fingerprint], sent: dict[str, Totals]) -> None:
    for topic, totals in sent.items():
        read = Totals()
        for one in found:
            if one.topic == topic:
                read = read.plus(one.totals)
        if read != totals:
            raise TortureError(f"{topic}, {level}: {totals} were sent, {read} are there")


def fingerprints(frame: DataFrame) -> list[Fingerprint]:
    """Of each partition, in the order of their names. A null column counts in the hashes, and where it is."""
    columns = [sql.col(name) for name in COLUMNS]
    everything = [*columns, *(column.isNull() for column in columns)]
    hashed = sql.xxhash64(*everything)
    totals = (
        sql.count("*"),
        sql.count("value"),
        sql.coalesce(sql.sum(sql.octet_length("value")), sql.lit(0)),
        sql.count("key"),
        sql.coalesce(sql.sum(sql.when(sql.col("headers").isNotNull(), sql.size("headers"))), sql.lit(0)),
    )
    rows = frame.groupBy("topic", "partition").agg(
        sql.sum(hashed.cast("decimal(20)")), sql.sum(sql.hash(*everything)), sql.bit_xor(hashed), *totals
    )
    found = rows.orderBy("topic", "partition").collect()
    return [Fingerprint(row[0], row[1], row[2], row[3], row[4], Totals(*row[5:])) for row in found]


def run(directory: Path, seed: int, records: int, say: Callable[[str], None]) -> None:
    """Fill and compare all of `contents`, one topic after the other, with a broker and a Spark of its own."""
    directory.mkdir(parents=True)
    spark = session.spark_session("equality", **{**session.test_settings(), "spark.driver.memory": "2g"})
    broker = Broker(directory, [])
    broker.spawn()
    try:
        if not broker.await_ready():
            raise TortureError(f"the broker does not start; see {broker.stderr}")
        bootstrap = f"{broker.address[0]}:{broker.address[1]}"
        for spec in contents(records):
            began = time.monotonic()
            sent = fill(bootstrap, spec, seed)
            filled = time.monotonic() - began
            size = sum(path.stat().st_size for path in broker.data_dir.glob(f"{spec.topic}-*/*.log"))
            say(f"{spec.topic}: {spec.records:,} records, {size / 1e6:,.0f} MB of log, written in {filled:.0f} s")
            for same in compare(spark, bootstrap, str(broker.data_dir), {spec.topic: sent}):
                say(
                    f"    {same.level}: {same.rows:,} rows, the same through the broker ({same.by_connector:.1f} s) and"
                    f" from its files ({same.from_files:.1f} s)"
                )
            _delete(bootstrap, spec.topic)
        if complaints := broker.complaints():
            raise TortureError(f"the broker complains: {complaints[0]}")
    finally:
        broker.close()
        spark.stop()


def _delete(bootstrap: str, topic: str) -> None:
    """Make room in memory for the next topic's files."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_topics([topic]).values():
        future.result(PATIENCE_S)
