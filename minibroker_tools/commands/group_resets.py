"""`kafka-consumer-groups --reset-offsets`: resets the committed offsets of groups without members."""

import csv
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Final

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.groups import DEAD, describe_group
from minibroker_tools.client.offsets import (
    EARLIEST,
    LATEST,
    TopicPartition,
    by_partition,
    commit_offsets,
    fetch_committed_offsets,
    list_offsets_at,
)
from minibroker_tools.failures import ApiError, ToolError, UsageError, reword_failures
from minibroker_tools.options import Values
from minibroker_tools.output import format_row, log, write_line

_LOGGER: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
EXECUTION_PREFIX: Final = "java.util.concurrent.ExecutionException: "
_WIDTHS: Final = (30, 30, 10, 15)
SCENARIOS: Final = ("to-offset", "shift-by", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current")
_NO_SCENARIO: Final = (
    "Option '[reset-offsets]' requires one of the following scenarios: [[to-offset], [shift-by], [to-datetime], "
    "[by-duration], [to-earliest], [to-latest], [to-current], [from-file]]"
)
_DATE: Final = re.compile(r"\d{4}-\d{1,2}-\d{1,2}T\d{1,2}:\d{1,2}:\d{1,2}\.\d{1,3}(Z|[+-]\d\d(:?\d\d)?)")
_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d+)D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?(?:(?P<seconds>[-+]?\d+(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE,
)
_UNITS: Final = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}

Offsets = dict[TopicPartition, int]


def reset(cluster: Cluster, values: Values, groups: Sequence[str]) -> None:
    """Print the new offsets of the groups. With `--execute`, also commit them.

    Raises:
        ToolError: The plan is invalid, or a broker refused a request.
        UsageError: The scope or the scenario of the reset is missing or invalid.
    """
    plan = _load_plan(values)
    single = len(values.all("group")) == 1
    new_offsets: dict[str, Offsets] = {}
    for group in groups:
        state = describe_group(cluster, group).state
        if state not in {"Empty", DEAD}:
            write_line(
                f"\nError: Assignments can only be reset if the group '{group}' is inactive, but the current state is "
                f"{state}."
            )
            new_offsets[group] = {}
            continue
        with prefix_api_errors():
            new_offsets[group] = _new_offsets(cluster, values, group, plan)
            if values.has("execute") and new_offsets[group]:
                for error in filter(None, commit_offsets(cluster, group, new_offsets[group]).values()):
                    raise error
    if values.has("export"):
        for group, offsets in new_offsets.items():
            for (topic, index), offset in sorted(offsets.items()):
                write_line(",".join([*[group] * (not single), topic, str(index), str(offset)]))
        write_line()
        return
    if new_offsets:
        write_line("\n" + format_row(("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), _WIDTHS))
    for group, offsets in new_offsets.items():
        for (topic, index), offset in sorted(offsets.items()):
            write_line(format_row((group, topic, index, offset), _WIDTHS))


def prefix_api_errors() -> AbstractContextManager[None]:
    """Return a context manager that prefixes errors like Kafka's tool, where they are wrapped twice."""
    return reword_failures(lambda error: EXECUTION_PREFIX + error.described, ApiError)


def _new_offsets(cluster: Cluster, values: Values, group: str, plan: Mapping[str, Offsets] | None) -> Offsets:
    if plan is not None:
        if group not in plan:
            write_line(f"\nError: No reset plan for group {group} found")
        return _clamp_offsets(cluster, plan.get(group, {}))
    if values.has("all-topics"):
        partitions = sorted(fetch_committed_offsets(cluster, group))
    elif values.has("topic"):
        partitions = find_partitions(cluster, values.all("topic"))
    else:
        raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    return _scenario_offsets(cluster, values, group, partitions)


def _scenario_offsets(cluster: Cluster, values: Values, group: str, partitions: Sequence[TopicPartition]) -> Offsets:
    match next((name for name in SCENARIOS if values.has(name)), None):
        case "to-offset":
            offsets = _clamp_offsets(cluster, dict.fromkeys(partitions, values.number("to-offset", 0)))
        case "shift-by":
            moved = _shift_offsets(partitions, fetch_committed_offsets(cluster, group), values.number("shift-by", 0))
            offsets = _clamp_offsets(cluster, moved)
        case "to-datetime":
            offsets = _offsets_from_time(cluster, partitions, parse_datetime_ms(values.text("to-datetime") or ""))
        case "by-duration":
            ago = parse_duration_ms(values.text("by-duration") or "")
            offsets = _offsets_from_time(cluster, partitions, time.time_ns() // 1_000_000 - ago)
        case "to-earliest":
            offsets = list_offsets_at(cluster, partitions, EARLIEST)
        case "to-latest":
            offsets = list_offsets_at(cluster, partitions, LATEST)
        case "to-current":
            committed = fetch_committed_offsets(cluster, group)
            current_offsets = committed | list_offsets_at(cluster, set(partitions) - committed.keys(), LATEST)
            offsets = {partition: current_offsets[partition] for partition in partitions}
        case _:
            raise UsageError(_NO_SCENARIO)
    return offsets


def _shift_offsets(partitions: Sequence[TopicPartition], committed: Offsets, by: int) -> Offsets:
    for topic, index in partitions:
        if (topic, index) not in committed:
            raise UsageError(
                f"Cannot shift offset for partition {topic}-{index} since there is no current committed offset"
            )
    return {partition: committed[partition] + by for partition in partitions}


def _offsets_from_time(cluster: Cluster, partitions: Sequence[TopicPartition], timestamp: int) -> Offsets:
    offsets = list_offsets_at(cluster, partitions, timestamp)
    empty = [partition for partition, offset in offsets.items() if offset < 0]
    for topic, index in empty:
        write_line(f"\nWarn: Partition {index} from topic {topic} is empty. Falling back to latest known offset.")
    return {**offsets, **list_offsets_at(cluster, empty, LATEST)}


def _clamp_offsets(cluster: Cluster, offsets: Offsets) -> Offsets:
    starts, ends = (list_offsets_at(cluster, offsets, bound_time) for bound_time in (EARLIEST, LATEST))
    for (topic, index), offset in offsets.items():
        start, end = starts[topic, index], ends[topic, index]
        if not start <= offset <= end:
            bound, nearest = ("higher than latest", end) if offset > end else ("lower than earliest", start)
            log(
                "WARN",
                f"New offset ({offset}) is {bound} offset for topic partition {topic}-{index}. Value will be set to "
                f"{nearest}",
                _LOGGER,
            )
    return {partition: min(max(offset, starts[partition]), ends[partition]) for partition, offset in offsets.items()}


def parse_datetime_ms(text: str) -> int:
    """Parse a `--to-datetime` value, in UTC by default, and return it in milliseconds since 1970.

    Raises:
        ToolError: The date is invalid. The message is Java's.
    """
    before, separator, clock = text.partition("T")
    if not separator or not clock:
        raise ToolError(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
        )
    if not set(clock) & set("+-Z"):
        clock += "Z"
    full = f"{before}T{clock}"
    match = _DATE.fullmatch(full)
    if match is not None:
        # Java's SimpleDateFormat reads the digits after the point as milliseconds, so that .5 means 5 ms.
        fraction = int(re.split(r"[Z+-]", clock)[0].rpartition(".")[2])
        zone = "+0000" if match[1] == "Z" else match[1].replace(":", "").ljust(5, "0")
        whole = clock.partition(".")[0]
        try:
            seconds = datetime.strptime(f"{before}T{whole}{zone}", "%Y-%m-%dT%H:%M:%S%z").timestamp()
        except ValueError:
            pass
        else:
            return int(seconds) * 1000 + fraction
    raise ToolError(f'java.text.ParseException: Unparseable date: "{full}"')


def parse_duration_ms(text: str) -> int:
    """Parse a duration such as P1DT2H and return it in milliseconds.

    Raises:
        ToolError: The duration is invalid. The message is Java's.
    """
    match = _DURATION.fullmatch(text)
    if match is None or match["time"] in {"T", "t"} or not any(match[unit] for unit in _UNITS):
        raise ToolError("Text cannot be parsed to a Duration")
    seconds = sum(float((match[unit] or "0").replace(",", ".")) * size for unit, size in _UNITS.items())
    return round(seconds * 1000) * (-1 if match["sign"] == "-" else 1)


def _load_plan(values: Values) -> dict[str, Offsets] | None:
    """Return the offsets in the `--from-file` file by group, or None without the option.

    Raises:
        ToolError: The file cannot be read, or a line is invalid. The message names the line.
    """
    path = values.text("from-file")
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8", newline="") as file:
            lines = [line for line in csv.reader(file) if line]
    except (OSError, UnicodeDecodeError):
        raise ToolError(f"java.io.IOException: Unable to read file {path}") from None
    groups = values.all("group")
    plan: dict[str, Offsets] = {}
    for number, line in enumerate(lines, 1):
        without_group = len(groups) == 1 and len(lines[0]) == 3  # noqa: PLR2004 - TOPIC,PARTITION,OFFSET
        cells = [groups[0], *line] if without_group else line
        try:
            group, topic, index, offset = cells
            plan.setdefault(group, {})[topic, int(index)] = int(offset)
        except ValueError:
            form = "TOPIC,PARTITION,OFFSET" if len(groups) == 1 else "GROUP,TOPIC,PARTITION,OFFSET"
            raise ToolError(f"{path}: line {number}: {','.join(line)!r} is not {form}") from None
    return plan


def split_topics(arguments: Sequence[str]) -> tuple[list[TopicPartition], list[str]]:
    """Split TOPIC and TOPIC:PARTITIONS arguments into the partitions, and the topics without partitions.

    Raises:
        UsageError: An argument is invalid.
    """
    partitions: list[TopicPartition] = []
    topics: list[str] = []
    for argument in arguments:
        topic, colon, indexes = argument.partition(":")
        if not colon:
            topics.append(topic)
            continue
        if not indexes or ":" in indexes:
            raise UsageError(f"Invalid topic arg '{argument}', expected topic name and partitions")
        for index in indexes.split(","):
            if not index.isdecimal():
                raise UsageError(f"Invalid partition '{index}' specified in topic arg '{argument}''")
            partitions.append((topic, int(index)))
    return partitions, topics


def find_partitions(cluster: Cluster, arguments: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions given by TOPIC and TOPIC:PARTITIONS arguments. TOPIC stands for all its partitions.

    Raises:
        ApiError: A topic does not exist.
        UsageError: An argument is invalid.
    """
    partitions, topics = split_topics(arguments)
    return sorted({*partitions, *by_partition(cluster.topics(topics) if topics else ())})
