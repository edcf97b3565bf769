"""kafka-consumer-perf-test: measures how fast records are read (`org.apache.kafka.tools.ConsumerPerformance`)."""

import random
import re
import time
from collections.abc import Callable, Sequence
from typing import Final

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.membership import Consumer
from minibroker_tools.client.settings import Settings, load_properties
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.options import Options, Values, key_values
from minibroker_tools.output import flush, out

_MEBIBYTE: Final = 1024 * 1024
_POLL_S: Final = 0.1
_PATIENCE_MS: Final = 10_000
_LEAST_MS: Final = 5_000
"""The minimum request timeout, so that a short record timeout does not abort requests to a slow broker."""
_GROUPS: Final = 100_000
_MORE: Final = ", rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
_IGNORED: Final = ("fetch-size", "socket-buffer-size", "threads", "num-fetch-threads", "date-format")


def options(tool: str) -> Options:
    """Declare the options of kafka-consumer-perf-test."""
    known = Options(tool, "This tool is used to verify the consumer performance.")
    known.value("bootstrap-server", "broker-list", help="the brokers to connect to", metavar="SERVERS")
    known.value("topic", help="the topic to read")
    known.value("include", help="a regular expression for topic names, instead of --topic", metavar="REGEX")
    known.value("messages", "num-records", help="the number of records to read", type=int)
    known.value("group", help="the consumer group (default: a random name)")
    known.value("consumer.config", "command-config", help="a file with client properties", metavar="FILE")
    known.value("command-property", help="a client property; repeatable", metavar="KEY=VALUE")
    known.flag("from-latest", help="start at the end if the group has no committed offset")
    known.value("timeout", help="how long to wait for a record, in ms (default: 10000)", type=int)
    known.value("reporting-interval", help="with --show-detailed-stats: the interval in ms (default: 5000)", type=int)
    known.flag("show-detailed-stats", help="print a line per interval")
    known.flag("hide-header", help="print no header")
    known.flag("print-metrics", help="accepted, but has no effect")
    for name in _IGNORED:
        known.value(name, help="accepted, but has no effect")
    return known


def run(known: Options, arguments: Sequence[str]) -> int:
    """Read the records and print the measurements."""
    values = known.parse(arguments)
    if values.has("threads") or values.has("num-fetch-threads"):
        out("WARNING: option [threads] and [num-fetch-threads] have been deprecated and will be ignored by the test")
    if not values.has("bootstrap-server"):
        raise UsageError("Missing required option(s) [bootstrap-server]")
    if values.has("topic") and values.has("include"):
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    values.require(*(() if values.has("include") else ("topic",)), "messages")
    topic, matches = values.text("topic"), _matches(values.text("include"))
    if values.number("reporting-interval", 1) < 1:
        raise UsageError("Reporting interval must be greater than 0.")
    detailed = values.has("show-detailed-stats")
    if not values.has("hide-header"):
        first = "time, threadId" if detailed else "start.time, end.time"
        out(f"{first}, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec{_MORE}")
    pairs = key_values(values.all("command-property"))
    properties = {**load_properties(values.text("consumer.config")), **pairs}
    properties.setdefault("client.id", "perf-consumer-client")
    group = values.text("group") or f"perf-consumer-{random.randrange(_GROUPS)}"  # noqa: S311 - it guards nothing
    properties["group.id"] = group
    properties["auto.offset.reset"] = "latest" if values.has("from-latest") else "earliest"
    patience = max(values.number("timeout", _PATIENCE_MS), _LEAST_MS) / 1000
    with Cluster(Settings(values.text("bootstrap-server") or "", properties), timeout=patience) as cluster:
        figures = _read(Consumer(cluster, topic, matches, properties), values)
    if not detailed:
        out(figures.final())
    return 0


def _matches(pattern: str | None) -> Callable[[str], bool]:
    """Return a predicate for topic names that fully match a regular expression.

    Raises:
        ToolError: The regular expression is invalid.
    """
    if pattern is None:
        return lambda _: True
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ToolError(f"{pattern} is an invalid regular expression: {error}") from None
    return lambda name: compiled.fullmatch(name) is not None


class _Figures:
    """The number and size of records read since the start and since the last printed line."""

    def __init__(self) -> None:
        self.start = self.line_at = time.time()
        self.joined_ms = 0
        self.count = self.size = self.line_count = self.line_size = 0

    def final(self) -> str:
        """Return the summary line."""
        end = time.time()
        total = max(int((end - self.start) * 1000), 1)
        fetched = max(total - self.joined_ms, 1)
        volume = self.size / _MEBIBYTE
        return (
            f"{_date(self.start)}, {_date(end)}, {volume:.4f}, {volume * 1000 / total:.4f}, {self.count}, "
            f"{self.count * 1000 / total:.4f}, {self.joined_ms}, {fetched}, {volume * 1000 / fetched:.4f}, "
            f"{self.count * 1000 / fetched:.4f}"
        )

    def window(self) -> str:
        """Return the line of the current interval and begin the next interval."""
        now = time.time()
        elapsed = max(int((now - self.line_at) * 1000), 1)
        joined = self.joined_ms if self.line_at == self.start else 0
        fetched = max(elapsed - joined, 0)
        count, volume = self.count - self.line_count, (self.size - self.line_size) / _MEBIBYTE
        rates = (volume * 1000 / fetched, count * 1000 / fetched) if fetched else (0.0, 0.0)
        self.line_at, self.line_count, self.line_size = now, self.count, self.size
        return (
            f"{_date(now)}, 0, {self.size / _MEBIBYTE:.4f}, {volume * 1000 / elapsed:.4f}, {self.count}, "
            f"{count * 1000 / elapsed:.4f}, {joined}, {fetched}, {rates[0]:.4f}, {rates[1]:.4f}"
        )


def _read(consumer: Consumer, values: Values) -> _Figures:
    """Read until enough records have arrived, or until no record has arrived for the timeout."""
    most, patience = values.number("messages", 0), values.number("timeout", _PATIENCE_MS)
    interval = values.number("reporting-interval", 5_000) / 1000
    figures = _Figures()
    last = time.time()
    while figures.count < most and (time.time() - last) * 1000 <= patience:
        received = consumer.poll(_POLL_S)
        now = time.time()
        if not figures.joined_ms:
            figures.joined_ms = max(int((now - figures.start) * 1000), 1)
        for record in received:
            figures.count += 1
            figures.size += len(record.record.key or b"") + len(record.record.value or b"")
            consumer.taken[record.topic, record.partition] = record.record.offset + 1
        if received:
            last = now
            if values.has("show-detailed-stats") and now - figures.line_at >= interval:
                out(figures.window())
                flush()
    consumer.close()
    if figures.count < most:
        out(
            f"WARNING: Exiting before consuming the expected number of messages: timeout ({patience} ms) exceeded. "
            "You can use the --timeout option to increase the timeout."
        )
    return figures


def _date(seconds: float) -> str:
    """Return a time in the default format of Kafka's tool."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) + f":{int(seconds * 1000) % 1000:03d}"
