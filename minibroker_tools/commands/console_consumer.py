"""kafka-console-consumer: records on standard output (`org.apache.kafka.tools.consumer.ConsoleConsumer`)."""

import signal
import sys
import time
from collections.abc import Sequence
from typing import Final

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.membership import Consumer
from minibroker_tools.client.offsets import EARLIEST, LATEST
from minibroker_tools.client.settings import Settings, load_properties
from minibroker_tools.commands.common import StoppedError, stopped_by_signals, topic_filter
from minibroker_tools.commands.formatters import Formatter, formatter_of
from minibroker_tools.failures import TimedOutError, ToolError, UsageError
from minibroker_tools.options import Options, Values, key_values
from minibroker_tools.output import err, log

_LOGGER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_FOREVER: Final = float("inf")
_POLL_S: Final = 0.5
_SIGNALLED: Final = 128


def options(tool: str) -> Options:
    """The options of kafka-console-consumer."""
    known = Options(tool, "This tool helps to read data from Kafka topics and outputs it to standard output.")
    known.value("bootstrap-server", help="the brokers to connect to", metavar="SERVERS")
    known.value("topic", help="the topic to read")
    known.value("include", "whitelist", help="a regular expression of topics to read")
    known.value("partition", help="read this partition only", type=int)
    known.value("offset", help="where to begin in it: a number, earliest or latest")
    known.flag("from-beginning", help="begin at the start where the group has no committed offset")
    known.value("max-messages", help="end after so many records", type=int)
    known.value("timeout-ms", help="end when no record has come for so long", type=int)
    known.value("group", help="the consumer group; without one nothing is committed")
    known.value("isolation-level", help="read_uncommitted or read_committed")
    known.value("consumer-property", "command-property", help="a property of the client", metavar="KEY=VALUE")
    known.value("consumer.config", "command-config", help="a file with properties of the client", metavar="FILE")
    known.value("formatter", help="DefaultMessageFormatter, LoggingMessageFormatter or NoOpMessageFormatter")
    known.value("property", "formatter-property", help="print.key=true, key.separator=: ...", metavar="KEY=VALUE")
    known.value("formatter-config", help="a file with such properties", metavar="FILE")
    known.value("key-deserializer", help="a deserializer of Kafka's clients", metavar="CLASS")
    known.value("value-deserializer", help="a deserializer of Kafka's clients", metavar="CLASS")
    known.flag("skip-message-on-error", help="go on behind a record that cannot be printed")
    known.flag("enable-systest-events", help="print shutdown_complete at the end")
    known.flag("new-consumer", help="accepted for old scripts")
    known.value("zookeeper", help="accepted for old scripts: name the broker", metavar="SERVERS")
    return known


def run(known: Options, arguments: Sequence[str]) -> int:
    """Print records until the number, the time-out or a signal ends it."""
    values = known.parse(arguments)
    _check(values)
    properties = _properties(values)
    start = _start(values)
    formatter = formatter_of(values)
    settings = Settings(values.text("bootstrap-server") or "", properties)
    timeout = _FOREVER if values.number("timeout-ms", -1) < 0 else values.number("timeout-ms", -1) / 1000
    most = values.number("max-messages", -1)
    printer = _Printer(formatter, most, timeout, skips=values.has("skip-message-on-error"))
    patience = None if timeout == _FOREVER else max(timeout, 0.001)
    status = 0
    try:
        with stopped_by_signals(signal.SIGINT, signal.SIGTERM), Cluster(settings, timeout=patience) as cluster:
            consumer = Consumer(cluster, values.text("topic"), topic_filter(values.text("include")), properties)
            if values.has("partition"):
                consumer.seek((values.text("topic") or "", values.number("partition", 0)), start)
            try:
                printer.print_all(consumer)
            finally:
                consumer.close()
    except TimedOutError:  # as with Kafka's, also where no broker has answered
        if patience is None:
            raise
        _log_time_out()
    except StoppedError as stopped:
        status = _SIGNALLED + stopped.number
    finally:
        sys.stdout.flush()
        err(f"Processed a total of {printer.count} messages")
    if values.has("enable-systest-events"):
        sys.stdout.write("shutdown_complete\n")
    return status


class _Printer:
    """Writes records until there are enough, or none has come for too long."""

    def __init__(self, formatter: Formatter, most: int, timeout: float, *, skips: bool) -> None:
        self._format = formatter
        self._most = most
        self._timeout = timeout
        self._skips = skips
        self.count = 0

    def print_all(self, consumer: Consumer) -> None:
        """Print what the consumer gets."""
        write, out = self._format, sys.stdout.buffer
        last = time.monotonic()
        while self._most < 0 or self.count < self._most:
            received = consumer.poll(min(last + self._timeout - time.monotonic(), _POLL_S))
            for record in received:
                self.count += 1
                try:
                    write(record, out)
                except ToolError as error:
                    if not self._skips:
                        raise
                    log("ERROR", f"Error processing message, skipping this message: {error.message}", _LOGGER)
                consumer.taken[record.topic, record.partition] = record.record.offset + 1
                if self.count == self._most:
                    break
            out.flush()
            if received:
                last = time.monotonic()
            elif time.monotonic() - last > self._timeout:
                _log_time_out()
                return


def _log_time_out() -> None:
    reason = "org.apache.kafka.common.errors.TimeoutException"
    log("ERROR", f"Error processing message, terminating consumer process: {reason}", _LOGGER)


def _check(values: Values) -> None:
    if values.has("topic") == values.has("include"):
        raise UsageError("Exactly one of --include/--topic is required. ")
    if values.has("partition"):
        if not values.has("topic"):
            raise UsageError("The topic is required when partition is specified.")
        if values.has("from-beginning") and values.has("offset"):
            raise UsageError("Options from-beginning and offset cannot be specified together.")
    elif values.has("offset"):
        raise UsageError("The partition is required when offset is specified.")
    values.require("bootstrap-server")


def _properties(values: Values) -> dict[str, str]:
    of_file, of_line = load_properties(values.text("consumer.config")), key_values(values.all("consumer-property"))
    properties = {**of_file, **of_line}
    given = [values.text("group"), of_file.get("group.id"), of_line.get("group.id")]
    groups = sorted({group for group in given if group is not None})
    if len(groups) > 1:
        found = ", ".join(f"'{group}'" for group in groups)
        raise UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--consumer.config') do not match. Detected group ids: {found}"
        )
    if groups and values.has("partition"):
        raise UsageError("Options group and partition cannot be specified together.")
    if groups:
        properties["group.id"] = groups[0]
    reset = properties.get("auto.offset.reset")
    if values.has("from-beginning") and reset not in {None, "earliest"}:
        raise ToolError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    properties.setdefault("auto.offset.reset", "earliest" if values.has("from-beginning") else "latest")
    properties.setdefault("client.id", "console-consumer")
    if values.has("isolation-level"):
        properties["isolation.level"] = values.text("isolation-level") or ""
    if properties.get("isolation.level", "read_committed") not in {"read_committed", "read_uncommitted"}:
        raise ToolError(f"isolation.level: {properties['isolation.level']} is not an isolation level")
    return properties


def _start(values: Values) -> int:
    text = values.text("offset")
    if text is None:
        return EARLIEST if values.has("from-beginning") else LATEST
    named = {"earliest": EARLIEST, "latest": LATEST}.get(text.lower())
    if named is not None:
        return named
    if not text.isdecimal():
        raise UsageError(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a "
            "non-negative long."
        )
    return int(text)
