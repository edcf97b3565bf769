"""kafka-producer-perf-test: measures how fast records are written (`org.apache.kafka.tools.ProducerPerformance`)."""

import os
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from minibroker_protocol.primitives import new_uuid, uuid_text
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.producer import ACKS, CODECS, Outgoing, Producer
from minibroker_tools.client.settings import Settings, load_properties
from minibroker_tools.client.transactions import Transactions
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.options import Options, Values, key_values
from minibroker_tools.output import flush, write_error_line, write_line

_LETTERS: Final = bytes(range(ord("A"), ord("Z") + 1))
_BATCH_BYTES: Final = 16384
_REPORT_INTERVAL_MS: Final = 5000
_MEBIBYTE: Final = 1024 * 1024
_TRANSACTION_DURATION_MS: Final = 3000
_ABORTED_MESSAGE: Final = "Cannot execute transactional method because we are in an error state"
_ALL_ACKS_REQUIRED: Final = (
    "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee idempotence."
)
_DISTRIBUTIONS: Final = ("none", "range", "random")
_PAYLOADS: Final = ("record-size", "payload-file", "payload-monotonic")


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-producer-perf-test."""
    options = Options(tool, "This tool is used to verify the producer performance.")
    options.value("topic", help="the topic to write to")
    options.value("num-records", help="the number of records to send", type=int)
    options.value("record-size", help="the size of a record in bytes", type=int)
    options.value("payload-file", help="a file with values, chosen at random for each record", metavar="FILE")
    options.value("payload-delimiter", help="the delimiter of the values in the file (default: newline)")
    options.flag("payload-monotonic", help="values that count from 0")
    options.value("throughput", help="the approximate maximum of records per second, -1 for no limit", type=float)
    options.value("producer-props", "command-property", help="client properties, KEY=VALUE ...")
    options.value("producer.config", "command-config", help="a file with client properties", metavar="FILE")
    options.value("bootstrap-server", help="the brokers to connect to", metavar="SERVERS")
    options.value("transactional-id", help="send in transactions of this id", metavar="ID")
    options.value("transaction-duration-ms", help="commit after this many ms (default: 3000)", type=int, metavar="MS")
    options.value("warmup-records", help="exclude this many records at the start from a second summary", type=int)
    options.value("reporting-interval", help="the interval of statistics in ms (default: 5000)", type=int, metavar="MS")
    options.value("key-distribution", help="the keys of the records: none, range or random", metavar="DISTRIBUTION")
    options.value("record-key-range", help="the number of keys, with range and random", type=int, metavar="KEYS")
    options.value("random-seed", help="the seed of random keys and values (default: 0)", type=int, metavar="SEED")
    options.flag("print-metrics", help="accepted, but has no effect")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Send the records and print the measurements. The exit status is 1 if the broker refuses any of them."""
    values = options.parse(arguments)
    _check_options(values)
    pairs = [*values.all("producer-props"), *values.words]
    for pair in pairs:
        if "=" not in pair:
            raise ToolError(f"Invalid property: {pair}")
    properties = {**load_properties(values.text("producer.config")), **key_values(pairs)}
    servers = values.text("bootstrap-server") or properties.get("bootstrap.servers", "")
    codec = CODECS.get(properties.get("compression.type", "none"))
    acks = properties.get("acks", "all")
    if codec is None or acks not in ACKS:
        key = "acks" if codec is not None else "compression.type"
        raise ToolError(f"Invalid value {properties[key]} for configuration {key}")
    if acks in {"0", "1"} and _is_transactional(values, properties):
        raise ToolError(_ALL_ACKS_REQUIRED)
    payloads = _load_payloads(values)
    properties.setdefault("client.id", "perf-producer-client")
    settings = Settings(servers, properties)
    with Cluster(settings, timeout=settings.milliseconds("max.block.ms")) as cluster:
        transactions = _begin_transactions(cluster, values, properties)
        topic = values.text("topic") or ""
        producer = Producer(cluster, topic, acks=acks, codec=codec, transactions=transactions)
        report = _send_records(values, producer, payloads, transactions)
    report.print_totals()
    return int(report.has_failures)


def _check_options(values: Values) -> None:
    missing = [name for name in ("topic", "num-records", "throughput") if not values.has(name)]
    if missing:
        raise UsageError(f"producer-performance: error: argument --{missing[0]} is required")
    if sum(map(values.has, _PAYLOADS)) != 1:
        options_text = " ".join(f"--{name}" for name in _PAYLOADS)
        raise UsageError(f"producer-performance: error: exactly one of the arguments {options_text} is required")
    if values.number("num-records", 0) < 1:
        raise ToolError("--num-records must be at least 1")
    if values.has("record-size") and values.number("record-size", 1) < 1:
        raise ToolError("--record-size must be at least 1")
    if values.number("transaction-duration-ms", 1) < 1:
        raise UsageError("producer-performance: error: --transaction-duration-ms should be greater than zero.")
    if values.number("warmup-records", 0) >= values.number("num-records", 0):
        raise UsageError(
            "producer-performance: error: The value for --warmup-records must be strictly fewer than the number of "
            "records in the test, --num-records."
        )
    if values.number("reporting-interval", _REPORT_INTERVAL_MS) < 1:
        raise UsageError("producer-performance: error: --reporting-interval should be greater than zero.")
    _check_keys(values)
    if not (values.has("producer-props") or values.has("producer.config") or values.has("bootstrap-server")):
        raise UsageError("producer-performance: error: Either --producer-props or --producer.config must be specified.")


def _check_keys(values: Values) -> None:
    """Check the key distribution and the key range. Each requires the other.

    Raises:
        UsageError: The combination is invalid.
    """
    prefix = "producer-performance: error:"
    distribution = values.text("key-distribution") or "none"
    if distribution not in _DISTRIBUTIONS:
        allowed = ",".join(_DISTRIBUTIONS)
        raise UsageError(
            f"{prefix} argument --key-distribution: invalid choice: '{distribution}' (choose from {{{allowed}}})"
        )
    if values.number("record-key-range", 1) < 1:
        raise UsageError(f"{prefix} --record-key-range should be greater than zero.")
    if distribution != "none" and not values.has("record-key-range"):
        raise UsageError(f"{prefix} --record-key-range is required when --key-distribution is 'range' or 'random'.")
    if distribution == "none" and values.has("record-key-range"):
        raise UsageError(
            f"{prefix} --key-distribution must be 'range' or 'random' when --record-key-range is specified."
        )


def _is_transactional(values: Values, properties: Mapping[str, str]) -> bool:
    return any(map(values.has, ("transactional-id", "transaction-duration-ms"))) or "transactional.id" in properties


def _begin_transactions(cluster: Cluster, values: Values, properties: Mapping[str, str]) -> Transactions | None:
    """Return the transactions requested on the command line or in the properties, or None.

    Raises:
        ApiError: The transactional id cannot be initialized.
    """
    if not _is_transactional(values, properties):
        return None
    random_id = f"performance-producer-{uuid_text(new_uuid())}"
    name = values.text("transactional-id") or properties.get("transactional.id", random_id)
    return Transactions(cluster, name, int(cluster.settings.milliseconds("transaction.timeout.ms") * 1000))


def _load_payloads(values: Values) -> list[bytes]:
    path = values.text("payload-file")
    if path is None:
        return []
    write_line(f"Reading payloads from: {os.path.abspath(path)}")
    content = b""
    with suppress(OSError), open(path, "rb") as file:
        content = file.read()
    if not content:
        raise ToolError("File does not exist or empty file provided.")
    delimiter = (values.text("payload-delimiter") or "\\n").replace("\\n", "\n").encode()
    payloads = content.split(delimiter)
    while payloads and not payloads[-1]:  # Like Java's split(), drop trailing empty values.
        payloads.pop()
    write_line(f"Number of messages read: {len(payloads)}")
    return payloads


class _SentBatch(NamedTuple):
    """A sent batch: its latency in milliseconds, its number of records and its size in bytes."""

    latency: int
    records: int
    size: int


class _Statistics:
    """Statistics of the batches sent since `start`."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.batches: list[_SentBatch] = []

    def _rates(self) -> tuple[int, float, float, float, int]:
        """Return the record count, records per second, MB per second, and mean and maximum latency in milliseconds."""
        seconds = max(time.monotonic() - self.start, 0.001)
        count = sum(batch.records for batch in self.batches)
        size = sum(batch.size for batch in self.batches)
        total_latency = sum(batch.latency * batch.records for batch in self.batches)
        longest = max((batch.latency for batch in self.batches), default=0)
        return count, count / seconds, size / seconds / _MEBIBYTE, total_latency / max(count, 1), longest

    def interval_line(self) -> str:
        """Return the line printed after an interval."""
        count, rate, volume, mean, longest = self._rates()
        return (
            f"{count} records sent, {rate:.1f} records/sec ({volume:.2f} MB/sec), {mean:.1f} ms avg latency, "
            f"{longest:.1f} ms max latency."
        )

    def summary_line(self, subject: str = "records") -> str:
        """Return the line printed at the end, with percentiles."""
        count, rate, volume, mean, longest = self._rates()
        percentiles = ", ".join(
            f"{self._percentile(fraction, count)} ms {name}"
            for fraction, name in ((0.5, "50th"), (0.95, "95th"), (0.99, "99th"), (0.999, "99.9th"))
        )
        return (
            f"{count} {subject} sent, {rate:f} records/sec ({volume:.2f} MB/sec), {mean:.2f} ms avg latency, "
            f"{longest:.2f} ms max latency, {percentiles}."
        )

    def _percentile(self, fraction: float, count: int) -> int:
        remaining = int(fraction * count)
        for sent_batch in sorted(self.batches, key=lambda batch: batch.latency):
            remaining -= sent_batch.records
            if remaining < 0:
                return sent_batch.latency
        return 0


class _Report:
    """The statistics of a run: for all records, for the records after the warmup, and for the current interval.

    Attributes:
        total: The statistics of all records.
        steady: The statistics of the records after the warmup, or None if no such record has been sent.
        has_failures: Whether the broker has refused a record.
    """

    def __init__(self, warmup: int, interval_s: float) -> None:
        self._warmup = warmup
        self._interval_s = interval_s
        self._window = _Statistics()
        self._is_announced = False
        self.total = _Statistics()
        self.steady: _Statistics | None = None
        self.has_failures = False

    def max_batch_records(self, sent: int, remaining: int) -> int:
        """Return the maximum number of records in the next batch. No batch mixes warmup records with others."""
        if 0 < self._warmup <= sent and self.steady is None:
            self.steady = _Statistics()
        return self._warmup - sent if sent < self._warmup else remaining

    def add(self, batch: _SentBatch) -> None:
        """Add an acknowledged batch to the statistics."""
        for statistics in (self.total, self._window, self.steady):
            if statistics is not None:
                statistics.batches.append(batch)

    def print_interval(self) -> None:
        """Print the statistics of the current interval if it has ended, and begin the next one."""
        if time.monotonic() - self._window.start < self._interval_s:
            return
        if self.steady is not None and not self._is_announced:
            write_line("In steady state.")
            self._is_announced = True
        write_line(self._window.interval_line())
        flush()
        self._window = _Statistics()

    def print_totals(self) -> None:
        """Print the statistics of the whole run."""
        write_line(self.total.summary_line())
        if self.steady is not None:
            write_line(self.steady.summary_line("steady state records"))


def _send_records(
    values: Values,
    producer: Producer,
    payloads: Sequence[bytes],
    transactions: Transactions | None,
) -> _Report:
    """Send the records in batches of about 16 KiB, or less if the throughput allows fewer records in 0.1 s.

    Raises:
        ToolError: The broker refused a batch of a transaction. The transaction is aborted.
    """
    remaining, throughput = values.number("num-records", 0), float(values.get("throughput"))
    generator, sent = random.Random(values.number("random-seed", 0)), 0  # noqa: S311 - a seed makes it repeatable
    warmup = values.number("warmup-records", 0)
    if warmup > 0:
        write_line(f"Warmup first {warmup} records. Steady state results will print after the complete test summary.")
    report = _Report(warmup, values.number("reporting-interval", _REPORT_INTERVAL_MS) / 1000)
    duration = values.number("transaction-duration-ms", _TRANSACTION_DURATION_MS) / 1000
    while remaining:
        batch_start = time.monotonic()
        batch = _make_batch(values, payloads, generator, sent, report.max_batch_records(sent, remaining), throughput)
        accepted = 0
        for part in producer.send(batch):
            if part.error is None:
                accepted += len(part.records)
            else:
                report.has_failures = True
                write_error_line(part.error.described)
        latency = int((time.monotonic() - batch_start) * 1000)
        if accepted:
            report.add(_SentBatch(latency, accepted, sum(len(record.value or b"") for record in batch)))
        sent, remaining = sent + len(batch), remaining - len(batch)
        if transactions is not None and (report.has_failures or not remaining or transactions.seconds >= duration):
            transactions.end(committed=not report.has_failures)
            if report.has_failures:
                raise ToolError(_ABORTED_MESSAGE)
        report.print_interval()
        if throughput > 0 and remaining:
            time.sleep(max(report.total.start + sent / throughput - time.monotonic(), 0.0))
    return report


def _make_batch(
    values: Values,
    payloads: Sequence[bytes],
    generator: random.Random,
    first: int,
    max_batch_records: int,
    throughput: float,
) -> list[Outgoing]:
    size = values.number("record-size", 0)
    if throughput > 0:
        max_batch_records = min(max_batch_records, max(int(throughput / 10), 1))
    records: list[Outgoing] = []
    room = _BATCH_BYTES
    while len(records) < max_batch_records and room > 0:
        if payloads:
            value = generator.choice(payloads)
        elif size:
            value = bytes(generator.choices(_LETTERS, k=size))
        else:
            value = b"%d" % (first + len(records))
        records.append(Outgoing(_make_key(values, first + len(records), generator), value))
        room -= records[-1].size
    return records


def _make_key(values: Values, index: int, generator: random.Random) -> bytes | None:
    """Return the key of the record with this index."""
    distribution = values.text("key-distribution")
    if distribution == "range":
        return b"%d" % (index % values.number("record-key-range", 1))
    return b"%d" % generator.randrange(values.number("record-key-range", 1)) if distribution == "random" else None
