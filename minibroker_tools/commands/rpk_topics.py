"""rpk topic: creates, lists, describes and deletes topics, produces and consumes."""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import topics as api
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.configs import TOPIC, alter_configs, describe_configs, is_default
from minibroker_tools.client.groups import attempt
from minibroker_tools.client.membership import Consumer
from minibroker_tools.client.offsets import EARLIEST, LATEST, TopicPartition, list_offsets
from minibroker_tools.client.producer import Outgoing, Producer
from minibroker_tools.client.reader import Reader, Received
from minibroker_tools.commands.rpk_common import add_common, cluster_of, section, table
from minibroker_tools.failures import ApiError, ToolError
from minibroker_tools.output import flush, out

_TIMEOUT_MS: Final = 30_000
_POLL_S: Final = 0.5
_OFFSET: Final = re.compile(r"(?P<start>start|end|oldest|newest|[+-]?\d+)?(?P<range>:(?P<stop>end|\d+)?)?")
_NAMED: Final = {"start": EARLIEST, "oldest": EARLIEST, "end": LATEST, "newest": LATEST}
_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", "\\r": "\r"}
_FIELD: Final = re.compile(r"%[tkvpodh%]|\\[ntr]")

Work = Callable[[argparse.Namespace], int]


def add_topic_commands(
    commands: Any,
    add: Callable[[Any, str, Work], argparse.ArgumentParser],
) -> None:
    """Add the commands of `rpk topic`."""
    parsers: dict[str, argparse.ArgumentParser] = {}
    works = {
        "create": _create, "list": _list, "ls": _list, "describe": _describe, "delete": _delete,
        "produce": _produce, "consume": _consume, "alter-config": _alter, "add-partitions": _add_partitions,
    }  # fmt: skip
    for name, work in works.items():
        parsers[name] = add(commands, name, work)
        add_common(parsers[name])
    for name in ("create", "describe", "delete", "consume", "alter-config", "add-partitions"):
        parsers[name].add_argument("topics", nargs="+", metavar="TOPIC")
    option = parsers["create"].add_argument
    option("-p", "--partitions", type=int, default=-1)
    option("-r", "--replicas", type=int, default=-1)
    option("-c", "--topic-config", action="append", default=[], metavar="KEY=VALUE")
    option("-d", "--dry", action="store_true", help="only validate the request")
    option("--if-not-exists", action="store_true")
    for name in ("list", "ls"):
        parsers[name].add_argument("topics", nargs="*", metavar="TOPIC")
        parsers[name].add_argument("-i", "--internal", action="store_true", help="include internal topics")
    option = parsers["describe"].add_argument
    option("-a", "--print-all", action="store_true")
    option("-c", "--print-configs", action="store_true")
    option("-p", "--print-partitions", action="store_true")
    option("-s", "--print-summary", action="store_true")
    option = parsers["produce"].add_argument
    option("topics", nargs=1, metavar="TOPIC")
    option("-k", "--key", default=None)
    option("-f", "--format", default="%v\\n", help="the format of a line, with %%v and %%k")
    option("-p", "--partition", type=int, default=None)
    option("-H", "--header", action="append", default=[], metavar="KEY:VALUE")
    option("-o", "--output-format", default="Produced to partition %p at offset %o with timestamp %d.\\n")
    option = parsers["alter-config"].add_argument
    option("-s", "--set", action="append", default=[], metavar="KEY=VALUE")
    option("-d", "--delete", action="append", default=[], metavar="KEY")
    option("--no-confirm", action="store_true", help="accepted; there is no confirmation")
    option = parsers["add-partitions"].add_argument
    option("-n", "--num", type=int, required=True, help="the number of partitions to add")
    option("-f", "--force", action="store_true", help="include internal topics")
    option = parsers["consume"].add_argument
    option("-n", "--num", type=int, default=0, help="the number of records to print; 0 is unlimited")
    option("-o", "--offset", default="start", help="start, end, N, +N or -N; append :end to stop at the end")
    option("-p", "--partitions", type=int, action="append", default=[])
    option("-f", "--format", default="json", help="json, or text with %%t %%k %%v %%p %%o %%d")
    option("-g", "--group", default="")


def _create(given: argparse.Namespace) -> int:
    configs = [str(each).partition("=") for each in given.topic_config]
    for key, equals, _ in configs:
        if not equals:
            raise ToolError(f"--topic-config {key}: it is not KEY=VALUE")
    request = api.CreateTopicsRequest(
        topics=[
            api.CreatableTopic(
                name=name,
                num_partitions=given.partitions,
                replication_factor=given.replicas,
                assignments=[],
                configs=[api.CreatableTopicConfig(name=key, value=value) for key, _, value in configs],
            )
            for name in dict.fromkeys(given.topics)
        ],
        timeout_ms=_TIMEOUT_MS,
        validate_only=given.dry,
    )
    passing = {ErrorCode.TOPIC_ALREADY_EXISTS} if given.if_not_exists else set[ErrorCode]()
    with cluster_of(given) as cluster:
        results = cluster.ask_controller(request).topics
        return _statuses([(each.name, each.error_code, each.error_message) for each in results], passing)


def _statuses(results: Sequence[tuple[str, int, str | None]], passing: set[ErrorCode]) -> int:
    """Print a table with the outcome for each topic, and return status 1 if any failed."""
    rows: list[tuple[str, str]] = []
    failed = 0
    for name, code, message in results:
        error = ApiError(code, message) if code else None
        rows.append((name, "OK" if error is None else f"{error.code.name}: {error.message}"))
        failed |= error is not None and error.code not in passing
    table([("TOPIC", "STATUS"), *rows])
    return int(failed)


def _list(given: argparse.Namespace) -> int:
    with cluster_of(given) as cluster:
        found = cluster.metadata(given.topics or None).topics
        rows = [
            (topic.name or "", len(topic.partitions), len(topic.partitions[0].replica_nodes) if topic.partitions else 0)
            for topic in found
            if not topic.error_code and (given.internal or not topic.is_internal)
        ]
    table([("NAME", "PARTITIONS", "REPLICAS"), *sorted(rows)])
    return 0


def _describe(given: argparse.Namespace) -> int:
    shows = (given.print_summary, given.print_configs, given.print_partitions)
    summary, configs, partitions = shows if any(shows) else (True, True, False)
    with cluster_of(given) as cluster:
        for topic in cluster.topics(given.topics):
            name = topic.name or ""
            if summary or given.print_all:
                replicas = len(topic.partitions[0].replica_nodes)
                section("SUMMARY")
                table([("NAME", name), ("PARTITIONS", len(topic.partitions)), ("REPLICAS", replicas)])
                out()
            if configs or given.print_all:
                entries = describe_configs(cluster, [(TOPIC, name)])[TOPIC, name]
                section("CONFIGS")
                rows = [
                    (each.name, each.value, "DEFAULT_CONFIG" if is_default(each) else "DYNAMIC_TOPIC_CONFIG")
                    for each in entries
                ]
                table([("KEY", "VALUE", "SOURCE"), *rows])
                out()
            if partitions or given.print_all:
                _print_partitions(cluster, name)
    return 0


def _print_partitions(cluster: Cluster, name: str) -> None:
    (topic,) = cluster.topics([name])
    places = [(name, each.partition_index) for each in topic.partitions]
    starts = list_offsets(cluster, dict.fromkeys(places, EARLIEST))
    ends = list_offsets(cluster, dict.fromkeys(places, LATEST))
    section("PARTITIONS")
    rows = [
        (
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            f"[{' '.join(map(str, each.replica_nodes))}]",
            starts[name, each.partition_index].offset,
            ends[name, each.partition_index].offset,
        )
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]
    table([("PARTITION", "LEADER", "EPOCH", "REPLICAS", "LOG-START-OFFSET", "HIGH-WATERMARK"), *rows])


def _delete(given: argparse.Namespace) -> int:
    request = api.DeleteTopicsRequest(topic_names=given.topics, timeout_ms=_TIMEOUT_MS)
    with cluster_of(given) as cluster:
        results = cluster.ask_controller(request).responses
        return _statuses([(each.name or "", each.error_code, each.error_message) for each in results], set())


def _alter(given: argparse.Namespace) -> int:
    changes: list[tuple[str, str | None]] = [(key, None) for key in given.delete]
    for setting in given.set:
        key, equals, value = str(setting).partition("=")
        if not equals:
            raise ToolError(f"--set {setting}: it is not KEY=VALUE")
        changes.append((key, value))
    with cluster_of(given) as cluster:
        outcomes = [
            (topic, attempt(partial(alter_configs, cluster, {(TOPIC, topic): changes}))) for topic in given.topics
        ]
    return _statuses([(topic, *_failure(outcome)) for topic, outcome in outcomes], set())


def _add_partitions(given: argparse.Namespace) -> int:
    with cluster_of(given) as cluster:
        counts = {topic.name or "": len(topic.partitions) + given.num for topic in cluster.topics(given.topics)}
        topics = [api.CreatePartitionsTopic(name=name, count=count) for name, count in counts.items()]
        request = api.CreatePartitionsRequest(topics=topics, timeout_ms=_TIMEOUT_MS, validate_only=False)
        results = cluster.ask_controller(request).results
        return _statuses([(each.name, each.error_code, each.error_message) for each in results], set())


def _failure(outcome: ApiError | None) -> tuple[int, str | None]:
    return (0, None) if outcome is None else (int(outcome.code), outcome.message)


def _line_pattern(text: str) -> re.Pattern[str]:
    """Return the regular expression of an input line.

    Raises:
        ToolError: The format has anything besides the key and the value.
    """
    plain = _formatted(text, {"%k": "%k", "%v": "%v"})
    tokens = re.split(r"(%[kv])", plain.removesuffix("\n"))
    others = [match[0] for match in re.finditer(r"%[^%kv]", text)]
    if others or not plain.endswith("\n") or len({*tokens[1::2]}) < len(tokens[1::2]):
        raise ToolError(f"--format {text}: only %k and %v are supported, once each, and \\n at the end")
    groups = {"%k": "(?P<k>.*?)", "%v": "(?P<v>.*)"}
    return re.compile("".join(groups.get(token) or re.escape(token) for token in tokens), re.DOTALL)


def _produce(given: argparse.Namespace) -> int:
    headers: list[tuple[str, bytes | None]] = []
    for header in given.header:
        name, colon, value = str(header).partition(":")
        if not colon:
            raise ToolError(f"--header {header}: it is not KEY:VALUE")
        headers.append((name, value.encode()))
    key = None if given.key is None else str(given.key).encode()
    pattern = _line_pattern(given.format)

    def refused(_records: Sequence[Outgoing], error: ApiError) -> None:
        raise ToolError(f"unable to produce: {error.code.name}: {error.message}")

    (topic,) = given.topics
    with cluster_of(given) as cluster:
        placed: list[tuple[int, int, int]] = []

        def note(partition: int, offset: int, time_ms: int) -> None:
            placed.append((partition, offset, time_ms))

        producer = Producer(cluster, topic, refused, placed=note)
        for line in (each.removesuffix(b"\n").decode(errors="surrogateescape") for each in sys.stdin.buffer):
            match = pattern.fullmatch(line)
            if match is None:
                raise ToolError(f"unable to read a record: {line!r} is not of the form {given.format}")
            found = {name: text.encode(errors="surrogateescape") for name, text in match.groupdict().items()}
            producer.send([Outgoing(found.get("k", key), found.get("v"), tuple(headers), given.partition)])
            partition, offset, time_ms = placed.pop()
            fields = {"%p": str(partition), "%o": str(offset), "%d": str(time_ms), "%t": topic, "%v": line}
            sys.stdout.write(_formatted(given.output_format, fields))
            flush()
    return 0


def _formatted(text: str, fields: dict[str, str]) -> str:
    return _FIELD.sub(
        lambda match: _ESCAPES.get(match[0]) or ("%" if match[0] == "%%" else fields.get(match[0], "")), text
    )


def _consume(given: argparse.Namespace) -> int:
    count = 0
    with cluster_of(given) as cluster:
        for received in _grouped(cluster, given) if given.group else _read(cluster, given):
            _print(received, given.format)
            count += 1
            if count == given.num:
                break
    return 0


def _grouped(cluster: Cluster, given: argparse.Namespace) -> Iterator[Received]:
    reset = "latest" if given.offset in {"end", "newest"} else "earliest"
    properties = {"group.id": given.group, "auto.offset.reset": reset}
    consumer = Consumer(cluster, None, set(given.topics).__contains__, properties)
    try:
        while True:
            for each in consumer.poll(_POLL_S):
                consumer.taken[each.topic, each.partition] = each.record.offset + 1
                yield each
    finally:
        consumer.close()


def _read(cluster: Cluster, given: argparse.Namespace) -> Iterator[Received]:
    """Yield records from the start offset on, up to the stop offset if the option has one."""
    match = _OFFSET.fullmatch(given.offset)
    if match is None:
        raise ToolError(f"--offset {given.offset}: it is not one of start, end, N, +N, -N, START:STOP")
    places = [
        (topic.name or "", each.partition_index)
        for topic in cluster.topics(given.topics)
        for each in topic.partitions
        if not given.partitions or each.partition_index in given.partitions
    ]
    first = {place: found.offset for place, found in list_offsets(cluster, dict.fromkeys(places, EARLIEST)).items()}
    last = {place: found.offset for place, found in list_offsets(cluster, dict.fromkeys(places, LATEST)).items()}
    start = match["start"] or "start"
    starts = {place: _place(start, first[place], last[place]) for place in places}
    stop = match["stop"]
    stops = {
        place: min(int(stop), last[place]) if stop and stop.isdecimal() else last[place]
        for place in places
        if match["range"]
    }
    return _records(cluster, starts, stops, has_stop=bool(match["range"]))


def _place(start: str, first: int, last: int) -> int:
    if start in _NAMED:
        return first if _NAMED[start] == EARLIEST else last
    if start.startswith("-"):
        return max(first, last + int(start))
    return min(first + int(start), last) if start.startswith("+") else int(start)


def _records(
    cluster: Cluster, starts: dict[TopicPartition, int], stops: dict[TopicPartition, int], *, has_stop: bool
) -> Iterator[Received]:
    reader = Reader(cluster, reset="earliest", read_committed=True)
    reader.assign(starts)
    while not has_stop or any(reader.positions[place] < stop for place, stop in stops.items()):
        for each in reader.poll(_POLL_S):
            if each.record.offset < stops.get((each.topic, each.partition), each.record.offset + 1):
                yield each


def _print(received: Received, form: str) -> None:
    record = received.record
    key, value = (None if each is None else bytes(each).decode(errors="replace") for each in (record.key, record.value))
    if form == "json":
        shown: dict[str, object] = {"topic": received.topic}
        if key is not None:
            shown["key"] = key
        if value is not None:
            shown["value"] = value
        headers = [{"key": name, "value": (each or b"").decode(errors="replace")} for name, each in record.headers]
        if headers:
            shown["headers"] = headers
        shown |= {"timestamp": record.timestamp, "partition": received.partition, "offset": record.offset}
        out(json.dumps(shown, indent=2, ensure_ascii=False))
    else:
        places = {"%t": received.topic, "%p": str(received.partition), "%o": str(record.offset)}
        fields = {**places, "%k": key or "", "%v": value or "", "%d": str(record.timestamp)}
        sys.stdout.write(_formatted(form, fields))
    flush()
