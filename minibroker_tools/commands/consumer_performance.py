"""kafka-consumer-perf-test: measures how fast records are read (`org.apache.kafka.tools.ConsumerPerformance`)."""

import random
import re
import time
from collections.abc import Callable, Sequence
from typing import Final

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.groups import Consumer
from minibroker_tools.client.settings import Settings, load_properties
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.options import Options, Values, key_values
from minibroker_tools.output import flush, write_line

_MEBIBYTE: Final = 1024 * 1024
_POLL_S: Final = 0.1
_RECORD_TIMEOUT_MS: Final = 10_000
_MIN_REQUEST_TIMEOUT_MS: Final = 5_000
"""The minimum request timeout. Without it, a short --timeout would abort requests to a slow broker."""
_MAX_GROUP_NUMBER: Final = 100_000
_MORE_COLUMNS: Final = ", rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
_IGNORED: Final = ("fetch-size", "socket-buffer-size", "threads", "num-fetch-threads", "date-format")


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-consumer-perf-test."""
    options = Options(tool, "This tool is used to verify the consumer performance.")
    options.value("bootstrap-server", "broker-list", help="the brokers to connect to", metavar="SERVERS")
    options.value("topic", help="the topic to read")
    options.value("include", help="a regular expression for topic names, instead of --topic", metavar="REGEX")
    options.value("messages", "num-records", help="the number of records to read", type=int)
    options.value("group", help="the consumer group (default: a random name)")
    options.value("consumer.config", "command-config", help="a file with client properties", metavar="FILE")
    options.value("command-property", help="a client property; repeatable", metavar="KEY=VALUE")
    options.flag("from-latest", help="start at the end if the group has no committed offset")
    options.value("timeout", help="how long to wait for a record, in ms (default: 10000)", type=int)
    options.value("reporting-interval", help="with --show-detailed-stats: the interval in ms (default: 5000)", type=int)
    options.flag("show-detailed-stats", help="print a line per interval")
    options.flag("hide-header", help="print no header")
    options.flag("print-metrics", help="accepted, but has no effect")
    for name in _IGNORED:
        options.value(name, help="accepted, but has no effect")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Read the records and print the measurements."""
    values = options.parse(arguments)
    if values.has("threads") or values.has("num-fetch-threads"):
        write_line(
            "WARNING: option [threads] and [num-fetch-threads] have been deprecated and will be ignored by the test"
        )
    if not values.has("bootstrap-server"):
        raise UsageError("Missing required option(s) [bootstrap-server]")
    if values.has("topic") and values.has("include"):
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    values.require(*(() if values.has("include") else ("topic",)), "messages")
    topic, matches = values.text("topic"), _topic_predicate(values.text("include"))
    if values.number("reporting-interval", 1) < 1:
        raise UsageError("Reporting interval must be greater than 0.")
    detailed = values.has("show-detailed-stats")
    if not values.has("hide-header"):
        first = "time, threadId" if detailed else "start.time, end.time"
        write_line(f"{first}, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec{_MORE_COLUMNS}")
    random_group = f"perf-consumer-{random.randrange(_MAX_GROUP_NUMBER)}"  # noqa: S311 - it guards nothing
    properties = {
        "client.id": "perf-consumer-client",
        **load_properties(values.text("consumer.config")),
        **key_values(values.all("command-property")),
        "group.id": values.text("group") or random_group,
        "auto.offset.reset": "latest" if values.has("from-latest") else "earliest",
    }
    request_timeout = max(values.number("timeout", _RECORD_TIMEOUT_MS), _MIN_REQUEST_TIMEOUT_MS) / 1000
    with Cluster(Settings(values.text("bootstrap-server") or "", properties), timeout=request_timeout) as cluster:
        statistics = _read_records(Consumer(cluster, topic, matches, properties), values)
    if not detailed:
        write_line(statistics.summary_line())
    return 0


def _topic_predicate(pattern: str | None) -> Callable[[str], bool]:
    """Return a predicate for topic names that fully match a regular expression.

    Raises:
        ToolError: The regular expression is invalid.
    """
    try:
        compiled = re.compile(".*" if pattern is None else pattern)
    except re.error as error:
        raise ToolError(f"{pattern} is an invalid regular expression: {error}") from None
    return lambda name: compiled.fullmatch(name) is not None


class _Statistics:
    """The number and the size of the records read in total, and up to the last printed line."""

    def __init__(self) -> None:
        self.start = self.line_at = time.time()
        self.joined_ms = 0
        self.count = self.size = self.line_count = self.line_size = 0

    def summary_line(self) -> str:
        """Return the line printed at the end."""
        end = time.time()
        total = max(int((end - self.start) * 1000), 1)
        fetched = max(total - self.joined_ms, 1)
        volume = self.size / _MEBIBYTE
        return (
            f"{_format_time(self.start)}, {_format_time(end)}, {volume:.4f}, {volume * 1000 / total:.4f}, "
            f"{self.count}, {self.count * 1000 / total:.4f}, {self.joined_ms}, {fetched}, "
            f"{volume * 1000 / fetched:.4f}, {self.count * 1000 / fetched:.4f}"
        )

    def interval_line(self) -> str:
        """Return the line for the current interval, and begin the next interval."""
        now = time.time()
        elapsed = max(int((now - self.line_at) * 1000), 1)
        joined = self.joined_ms if self.line_at == self.start else 0
        fetched = max(elapsed - joined, 0)
        count, volume = self.count - self.line_count, (self.size - self.line_size) / _MEBIBYTE
        rates = (volume * 1000 / fetched, count * 1000 / fetched) if fetched else (0.0, 0.0)
        self.line_at, self.line_count, self.line_size = now, self.count, self.size
        return (
            f"{_format_time(now)}, 0, {self.size / _MEBIBYTE:.4f}, {volume * 1000 / elapsed:.4f}, {self.count}, "
            f"{count * 1000 / elapsed:.4f}, {joined}, {fetched}, {rates[0]:.4f}, {rates[1]:.4f}"
        )


def _read_records(consumer: Consumer, values: Values) -> _Statistics:
    """Read until enough records have arrived, or until no record arrives within the timeout."""
    max_records, timeout_ms = values.number("messages", 0), values.number("timeout", _RECORD_TIMEOUT_MS)
    interval = values.number("reporting-interval", 5_000) / 1000
    statistics = _Statistics()
    last = time.time()
    while statistics.count < max_records and (time.time() - last) * 1000 <= timeout_ms:
        received = consumer.poll(_POLL_S)
        now = time.time()
        if not statistics.joined_ms:
            statistics.joined_ms = max(int((now - statistics.start) * 1000), 1)
        for record in received:
            statistics.count += 1
            statistics.size += len(record.record.key or b"") + len(record.record.value or b"")
            consumer.next_offsets[record.topic, record.partition] = record.record.offset + 1
        if received:
            last = now
            if values.has("show-detailed-stats") and now - statistics.line_at >= interval:
                write_line(statistics.interval_line())
                flush()
    consumer.close()
    if statistics.count < max_records:
        write_line(
            f"WARNING: Exiting before consuming the expected number of messages: timeout ({timeout_ms} ms) exceeded. "
            "You can use the --timeout option to increase the timeout."
        )
    return statistics


def _format_time(seconds: float) -> str:
    """Format a time as Kafka's tool does by default."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) + f":{int(seconds * 1000) % 1000:03d}"
