"""kafka-get-offsets: prints the offsets of partitions at a time (`org.apache.kafka.tools.GetOffsetShell`)."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from minibroker_protocol.internal_topics import INTERNAL_TOPICS
from minibroker_protocol.java_text import to_long
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import by_partition, list_offsets
from minibroker_tools.client.settings import Settings, load_properties
from minibroker_tools.commands.common import partition_name, topic_filter
from minibroker_tools.failures import ApiError, ToolError, UsageError
from minibroker_tools.options import Options, Values
from minibroker_tools.output import write_error_line, write_line

_SPECIAL_TIMES: Final = {"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5}
_RULE_PATTERN: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
_ERROR_PREFIX: Final = "Error occurred: "
_UNKNOWN_OFFSET: Final = -1

PartitionFilter = Callable[[str, int], bool]


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-get-offsets."""
    options = Options(tool, "An interactive shell for getting topic-partition offsets.")
    options.value("bootstrap-server", help="the brokers to connect to", metavar="SERVERS")
    options.value("broker-list", help="the older name of --bootstrap-server", metavar="SERVERS")
    options.value("command-config", help="a file with client properties", metavar="FILE")
    options.value("topic-partitions", help="TOPIC[:PARTITION|:FROM-TO], separated by commas")
    options.value("topic", help="a regular expression for topic names")
    options.value("partitions", help="partition numbers, separated by commas")
    options.value("time", help=f"a timestamp in ms, or one of {', '.join(_SPECIAL_TIMES)}")
    options.value("offsets", help="accepted for old scripts")
    options.value("max-wait-ms", help="accepted for old scripts")
    options.flag("exclude-internal-topics", help="leave out the internal topics")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Print TOPIC:PARTITION:OFFSET for each partition."""
    values = options.parse(arguments)
    servers = values.text("bootstrap-server") or values.text("broker-list")
    if servers is None:
        raise UsageError('Missing required argument "[bootstrap-server]"')
    try:
        settings = Settings(servers, load_properties(values.text("command-config")))
        time = _parse_time(values.text("time") or "latest")
        matches = _parse_filters(values)
        with Cluster(settings) as cluster:
            _print_offsets(cluster, values, matches, time)
    except ToolError as failure:
        raise ToolError(_ERROR_PREFIX + failure.message, failure.status) from None
    return 0


def _print_offsets(cluster: Cluster, values: Values, matches: PartitionFilter, time: int) -> None:
    hides_internal = values.has("exclude-internal-topics")
    partitions = [
        (topic, index)
        for topic, index in by_partition(cluster.metadata().topics)
        if topic and not (hides_internal and topic in INTERNAL_TOPICS) and matches(topic, index)
    ]
    if not partitions:
        raise ToolError("Could not match any topic-partitions with the specified filters")
    results = list_offsets(cluster, dict.fromkeys(partitions, time))
    for topic, partition in sorted(partitions, key=partition_name):
        result = results[topic, partition]
        if isinstance(result, ApiError):
            reason = result.described
            write_error_line(f"Skip getting offsets for topic-partition {topic}-{partition} due to error: {reason}")
        elif result != _UNKNOWN_OFFSET:
            write_line(f"{topic}:{partition}:{result}")


def _parse_time(text: str) -> int:
    if text in _SPECIAL_TIMES:
        return _SPECIAL_TIMES[text]
    try:
        return to_long(text)
    except ValueError:
        raise ToolError(
            f"Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / "
            "-4 or earliest-local / -5 or latest-tiered, or a specified long format timestamp"
        ) from None


def _parse_filters(values: Values) -> PartitionFilter:
    rules = values.text("topic-partitions")
    if rules is None:
        is_topic = topic_filter(values.text("topic") or ".*")
        indexes = _parse_partitions(values.text("partitions") or "")
        return lambda topic, partition: is_topic(topic) and (not indexes or partition in indexes)
    if values.has("topic") or values.has("partitions"):
        raise ToolError("--topic-partitions cannot be used with --topic or --partitions")
    parsed = [_parse_rule(rule) for rule in rules.split(",")]
    return lambda topic, partition: any(rule(topic, partition) for rule in parsed)


def _parse_partitions(text: str) -> set[int]:
    try:
        return {to_long(number) for number in text.split(",") if number}
    except ValueError:
        raise ToolError(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {text}"
        ) from None


def _parse_rule(text: str) -> PartitionFilter:
    match = _RULE_PATTERN.fullmatch(text)
    if match is None:
        raise ToolError(f"Invalid rule specification: {text}")
    is_topic = topic_filter(match[1] or ".*")
    if match[2]:
        only = int(match[2])
        return lambda topic, partition: is_topic(topic) and partition == only
    first, end = int(match[3] or 0), int(match[4]) if match[4] else None
    return lambda topic, partition: is_topic(topic) and first <= partition and (end is None or partition < end)
