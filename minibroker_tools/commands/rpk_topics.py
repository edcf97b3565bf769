"""rpk topic: creates, lists, describes and deletes topics; produces and consumes records. `rpk` shares its parts."""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from minibroker.security.sasl.jaas import quote
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import topics as api
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.configs import TOPIC, alter_configs, describe_configs, is_default
from minibroker_tools.client.groups import Consumer, attempt
from minibroker_tools.client.offsets import EARLIEST, LATEST, by_partition, list_offsets_at
from minibroker_tools.client.producer import Outgoing, Producer
from minibroker_tools.client.reader import Reader, Received
from minibroker_tools.client.settings import Settings, add_ports
from minibroker_tools.failures import ApiError, ToolError, find_error
from minibroker_tools.output import flush, write_error_line, write_line

PROFILES: Final = Path("~/.config/rpk/minibroker.json").expanduser()
_PORT: Final = 9092
_ADMIN_PORT: Final = 9644
_PATIENCE_S: Final = 5.0
_SUBJECTS: Final = {"/v1/security/users": "users", "/v1/cluster_config": "the configuration"}
_SETTINGS: Final = ("brokers", "user", "pass", "sasl.mechanism", "admin.hosts")
_JAAS: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required username={} password={};"


def add_command(
    commands: Any, name: str, work: Callable[[argparse.Namespace], int], *, has_login: bool = True
) -> argparse.ArgumentParser:
    """Add a command that contacts a broker or its admin API. The admin API has no login."""
    parser: argparse.ArgumentParser = commands.add_parser(name)
    parser.set_defaults(work=work)
    option = parser.add_argument
    option("--brokers", default="", metavar="HOST:PORT,...", help="the brokers to connect to")
    option("-X", "--config-opt", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="brokers ...")
    option("--api-urls", "--hosts", dest="api_urls", default="", metavar="HOST:PORT,...", help="admin API addresses")
    if has_login:
        option("--user", default="", help="of SASL")
        option("--password", default="", help="of SASL")
    option("--sasl-mechanism", default="", help="SCRAM-SHA-256, SCRAM-SHA-512 or PLAIN")
    option("--config", default="", metavar="FILE", help="accepted")
    option("-v", "--verbose", action="store_true", help="accepted")
    return parser


def parse_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """Parse the -X settings, and return their values by key.

    Raises:
        ToolError: A setting has no value.
    """
    settings: dict[str, str] = {}
    for pair in arguments.settings:
        key, equals, value = str(pair).strip().partition("=")
        if not equals:
            raise ToolError(f"-X {pair}: it is not KEY=VALUE")
        settings[key] = value
    return settings


def find_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the settings of -X, which override variables, which override the current profile."""
    content = read_profiles()
    names = {key: f"RPK_{key.upper().replace('.', '_')}" for key in _SETTINGS}
    variables = {key: value for key, name in names.items() if (value := os.environ.get(name))}
    return {**content["profiles"].get(content["current"], {}), **variables, **parse_settings(arguments)}


def read_profiles() -> dict[str, Any]:
    """Return the profiles by name, and the name of the current one."""
    if not PROFILES.exists():
        return {"current": "", "profiles": {}}
    content: dict[str, Any] = json.loads(PROFILES.read_text(encoding="utf-8"))
    return content


def cluster_of(arguments: argparse.Namespace) -> Cluster:
    """Return the cluster given on the command line, in the environment or in a profile, or else 127.0.0.1:9092."""
    extra = find_settings(arguments)
    servers = arguments.brokers or extra.get("brokers") or os.environ.get("REDPANDA_BROKERS") or f"127.0.0.1:{_PORT}"
    properties = {"default.api.timeout.ms": "10000", "client.id": "rpk"}
    user = arguments.user or extra.get("user")
    if user:
        properties["security.protocol"] = "SASL_PLAINTEXT"
        secret = arguments.password or extra.get("pass", "")
        properties["sasl.mechanism"] = arguments.sasl_mechanism or extra.get("sasl.mechanism", "SCRAM-SHA-256")
        properties["sasl.jaas.config"] = _JAAS.format(quote(user), quote(secret))
    return Cluster(Settings(add_ports(servers, _PORT), properties))


def request_admin_api(arguments: argparse.Namespace, path: str, method: str = "GET", content: object = None) -> Any:
    """Send a request to the admin API's hosts in turn until one succeeds, and return its response.

    Raises:
        ToolError: All hosts failed. The message names each host and its error.
    """
    extra = find_settings(arguments)
    hosts = arguments.api_urls or extra.get("admin.hosts") or "127.0.0.1"
    failures: list[str] = []
    for host in hosts.split(","):
        address = add_ports(host.removeprefix("http://").rstrip("/"), _ADMIN_PORT)
        try:
            body = None if content is None else json.dumps(content).encode()
            request = Request(f"http://{address}{path}", body, method=method)
            with urlopen(request, timeout=_PATIENCE_S) as answer:  # noqa: S310 - the scheme is http
                return json.loads(answer.read() or b"null")
        except HTTPError as error:
            with error:
                failures.append(f"{address}: status {error.code} {error.read().decode(errors='replace')}".strip())
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            failures.append(f"{address}: {getattr(reason, 'strerror', None) or reason}")
    subject = next((text for prefix, text in _SUBJECTS.items() if path.startswith(prefix)), "cluster health")
    raise ToolError(f"unable to request {subject}: {'; '.join(failures)}")


def print_columns(rows: Sequence[Sequence[object]]) -> None:
    """Print rows in aligned columns, separated by two spaces."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        write_line("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_section(title: str) -> None:
    """Print an underlined title."""
    write_line(f"{title}\n{'=' * len(title)}")


_TIMEOUT_MS: Final = 30_000
_OFFSET: Final = re.compile(r"(?P<start>start|end|oldest|newest|[+-]?\d+)?(?P<range>:(?P<stop>end|\d+)?)?")
_NAMED_OFFSETS: Final = {"start": EARLIEST, "oldest": EARLIEST, "end": LATEST, "newest": LATEST}
_REDPANDA_KEY: Final = re.compile(
    r"write\.caching|flush\.bytes|compaction\.strategy|(redpanda|(initial\.)?retention\.local\.target)\..+"
)
_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", "\\r": "\r"}
_FIELD: Final = re.compile(r"%[tkvpodh%]|\\[ntr]")


def add_topic_commands(commands: Any) -> None:
    """Add the commands of `rpk topic`."""
    works = {
        "create": _create_topics, "list": _list_topics, "ls": _list_topics, "describe": _describe_topics,
        "delete": _delete_topics, "produce": _produce_lines, "consume": _consume_records,
        "alter-config": _alter_topics, "add-partitions": _add_partitions,
    }  # fmt: skip
    parsers = {name: add_command(commands, name, work) for name, work in works.items()}
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


def _parse_configs(option: str, settings: Sequence[str]) -> list[tuple[str, str]]:
    """Return the configurations of a topic. Those that only Redpanda has are named on standard error and left out.

    Raises:
        ToolError: A setting has no value.
    """
    configs: list[tuple[str, str]] = []
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ToolError(f"{option} {setting}: it is not KEY=VALUE")
        if _REDPANDA_KEY.fullmatch(key):
            write_error_line(f"no effect: {setting}; this configuration is Redpanda's, and only its topics have it")
        else:
            configs.append((key, value))
    return configs


def _create_topics(arguments: argparse.Namespace) -> int:
    configs = _parse_configs("--topic-config", arguments.topic_config)
    request = api.CreateTopicsRequest(
        topics=[
            api.CreatableTopic(
                name=name,
                num_partitions=arguments.partitions,
                replication_factor=arguments.replicas,
                assignments=[],
                configs=[api.CreatableTopicConfig(name=key, value=value) for key, value in configs],
            )
            for name in dict.fromkeys(arguments.topics)
        ],
        timeout_ms=_TIMEOUT_MS,
        validate_only=arguments.dry,
    )
    passing = [ErrorCode.TOPIC_ALREADY_EXISTS] * arguments.if_not_exists
    with cluster_of(arguments) as cluster:
        results = cluster.ask_controller(request).topics
        return _print_statuses([(result.name, find_error(result)) for result in results], *passing)


def _print_statuses(results: Sequence[tuple[str, ApiError | None]], *passing: ErrorCode) -> int:
    """Print the outcome for each topic. Return 1 if a topic has an error that is not in `passing`, otherwise 0."""
    rows = [(name, f"{error.code.name}: {error.message}" if error else "OK") for name, error in results]
    print_columns([("TOPIC", "STATUS"), *rows])
    return int(any(error and error.code not in passing for _, error in results))


def _list_topics(arguments: argparse.Namespace) -> int:
    with cluster_of(arguments) as cluster:
        topics = cluster.metadata(arguments.topics or None).topics
        rows = [
            (topic.name or "", len(topic.partitions), len(topic.partitions[0].replica_nodes) if topic.partitions else 0)
            for topic in topics
            if not topic.error_code and (arguments.internal or not topic.is_internal)
        ]
    print_columns([("NAME", "PARTITIONS", "REPLICAS"), *sorted(rows)])
    return 0


def _describe_topics(arguments: argparse.Namespace) -> int:
    selected = (arguments.print_summary, arguments.print_configs, arguments.print_partitions)
    summary, configs, partitions = selected if any(selected) else (True, True, False)
    with cluster_of(arguments) as cluster:
        for topic in cluster.topics(arguments.topics):
            name = topic.name or ""
            if summary or arguments.print_all:
                replicas = len(topic.partitions[0].replica_nodes)
                print_section("SUMMARY")
                print_columns([("NAME", name), ("PARTITIONS", len(topic.partitions)), ("REPLICAS", replicas)])
                write_line()
            if configs or arguments.print_all:
                entries = describe_configs(cluster, [(TOPIC, name)])[TOPIC, name]
                print_section("CONFIGS")
                rows = [
                    (entry.name, entry.value, "DEFAULT_CONFIG" if is_default(entry) else "DYNAMIC_TOPIC_CONFIG")
                    for entry in entries
                ]
                print_columns([("KEY", "VALUE", "SOURCE"), *rows])
                write_line()
            if partitions or arguments.print_all:
                _print_partitions(cluster, name)
    return 0


def _print_partitions(cluster: Cluster, name: str) -> None:
    (topic,) = cluster.topics([name])
    starts, ends = (list_offsets_at(cluster, by_partition([topic]), timestamp) for timestamp in (EARLIEST, LATEST))
    print_section("PARTITIONS")
    rows = [
        (
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch,
            f"[{' '.join(map(str, partition.replica_nodes))}]",
            starts[name, partition.partition_index],
            ends[name, partition.partition_index],
        )
        for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
    ]
    print_columns([("PARTITION", "LEADER", "EPOCH", "REPLICAS", "LOG-START-OFFSET", "HIGH-WATERMARK"), *rows])


def _delete_topics(arguments: argparse.Namespace) -> int:
    request = api.DeleteTopicsRequest(topic_names=arguments.topics, timeout_ms=_TIMEOUT_MS)
    with cluster_of(arguments) as cluster:
        results = cluster.ask_controller(request).responses
        return _print_statuses([(result.name or "", find_error(result)) for result in results])


def _alter_topics(arguments: argparse.Namespace) -> int:
    changes: list[tuple[str, str | None]] = [(key, None) for key in arguments.delete]
    changes += _parse_configs("--set", arguments.set)
    with cluster_of(arguments) as cluster:
        return _print_statuses(
            [(topic, attempt(partial(alter_configs, cluster, {(TOPIC, topic): changes}))) for topic in arguments.topics]
        )


def _add_partitions(arguments: argparse.Namespace) -> int:
    with cluster_of(arguments) as cluster:
        counts = {topic.name or "": len(topic.partitions) + arguments.num for topic in cluster.topics(arguments.topics)}
        topics = [api.CreatePartitionsTopic(name=name, count=count) for name, count in counts.items()]
        request = api.CreatePartitionsRequest(topics=topics, timeout_ms=_TIMEOUT_MS, validate_only=False)
        results = cluster.ask_controller(request).results
        return _print_statuses([(result.name, find_error(result)) for result in results])


def _line_pattern(text: str) -> re.Pattern[str]:
    """Return a regular expression for input lines in this format.

    Raises:
        ToolError: The format has fields other than the key and the value, repeats one, or lacks the final newline.
    """
    line_format = _fill_format(text, {"%k": "%k", "%v": "%v"})
    tokens = re.split(r"(%[kv])", line_format.removesuffix("\n"))
    others = [match[0] for match in re.finditer(r"%[^%kv]", text)]
    if others or not line_format.endswith("\n") or len({*tokens[1::2]}) < len(tokens[1::2]):
        raise ToolError(f"--format {text}: only %k and %v are supported, once each, and \\n at the end")
    groups = {"%k": "(?P<k>.*?)", "%v": "(?P<v>.*)"}
    return re.compile("".join(groups.get(token) or re.escape(token) for token in tokens), re.DOTALL)


def _produce_lines(arguments: argparse.Namespace) -> int:
    headers: list[tuple[str, bytes | None]] = []
    for header in arguments.header:
        name, colon, value = str(header).partition(":")
        if not colon:
            raise ToolError(f"--header {header}: it is not KEY:VALUE")
        headers.append((name, value.encode()))
    key = None if arguments.key is None else str(arguments.key).encode()
    pattern = _line_pattern(arguments.format)
    (topic,) = arguments.topics
    with cluster_of(arguments) as cluster:
        producer = Producer(cluster, topic)
        for data in sys.stdin.buffer:
            line = data.removesuffix(b"\n").decode(errors="surrogateescape")
            match = pattern.fullmatch(line)
            if match is None:
                raise ToolError(f"unable to read a record: {line!r} is not of the form {arguments.format}")
            parts = {name: text.encode(errors="surrogateescape") for name, text in match.groupdict().items()}
            record = Outgoing(parts.get("k", key), parts.get("v"), tuple(headers), arguments.partition)
            (sent,) = producer.send([record])
            if sent.error is not None:
                raise ToolError(f"unable to produce: {sent.error.code.name}: {sent.error.message}")
            position = {"%p": str(sent.partition), "%o": str(sent.offset), "%d": str(sent.time_ms)}
            fields = {**position, "%t": topic, "%v": line}
            sys.stdout.write(_fill_format(arguments.output_format, fields))
            flush()
    return 0


def _fill_format(text: str, fields: dict[str, str]) -> str:
    return _FIELD.sub(
        lambda match: _ESCAPES.get(match[0]) or ("%" if match[0] == "%%" else fields.get(match[0], "")), text
    )


def _consume_records(arguments: argparse.Namespace) -> int:
    read = _read_group if arguments.group else _read_partitions
    # Closing the generator makes the consumer leave its group before the connections are closed.
    with cluster_of(arguments) as cluster, closing(read(cluster, arguments)) as records:
        for received in islice(records, arguments.num if arguments.num > 0 else None):
            _print_record(received, arguments.format)
    return 0


def _read_group(cluster: Cluster, arguments: argparse.Namespace) -> Generator[Received]:
    reset = "latest" if arguments.offset in {"end", "newest"} else "earliest"
    properties = {"group.id": arguments.group, "auto.offset.reset": reset}
    consumer = Consumer(cluster, None, set(arguments.topics).__contains__, properties)
    try:
        while True:
            for received in consumer.poll():
                consumer.next_offsets[received.topic, received.partition] = received.record.offset + 1
                yield received
    finally:
        consumer.close()


def _read_partitions(cluster: Cluster, arguments: argparse.Namespace) -> Generator[Received]:
    """Yield records from the start offset, up to the stop offset if `--offset` has one.

    Raises:
        ToolError: The offset is invalid.
    """
    match = _OFFSET.fullmatch(arguments.offset)
    if match is None:
        raise ToolError(f"--offset {arguments.offset}: it is not one of start, end, N, +N, -N, START:STOP")
    partitions = [
        (topic, index)
        for topic, index in by_partition(cluster.topics(arguments.topics))
        if not arguments.partitions or index in arguments.partitions
    ]
    first_offsets = list_offsets_at(cluster, partitions, EARLIEST)
    end_offsets = list_offsets_at(cluster, partitions, LATEST)
    start = match["start"] or "start"
    starts = {
        partition: _resolve_offset(start, first_offsets[partition], end_offsets[partition]) for partition in partitions
    }
    stop = match["stop"]
    stops = {
        partition: min(int(stop), end_offsets[partition]) if stop and stop.isdecimal() else end_offsets[partition]
        for partition in partitions
        if match["range"]
    }
    reader = Reader(cluster, reset="earliest", read_committed=True)
    reader.assign(starts)
    while not match["range"] or any(reader.positions[partition] < stop for partition, stop in stops.items()):
        for received in reader.poll():
            if received.record.offset < stops.get((received.topic, received.partition), received.record.offset + 1):
                yield received


def _resolve_offset(start: str, first: int, last: int) -> int:
    if start in _NAMED_OFFSETS:
        return first if _NAMED_OFFSETS[start] == EARLIEST else last
    if start.startswith("-"):
        return max(first, last + int(start))
    return min(first + int(start), last) if start.startswith("+") else int(start)


def _print_record(received: Received, form: str) -> None:
    record = received.record
    key, value = (None if data is None else bytes(data).decode(errors="replace") for data in (record.key, record.value))
    if form == "json":
        headers = [{"key": name, "value": (data or b"").decode(errors="replace")} for name, data in record.headers]
        fields: dict[str, object] = {"topic": received.topic, "key": key, "value": value, "headers": headers or None}
        fields |= {"timestamp": record.timestamp, "partition": received.partition, "offset": record.offset}
        set_fields = {name: field for name, field in fields.items() if field is not None}
        write_line(json.dumps(set_fields, indent=2, ensure_ascii=False))
    else:
        position = {"%t": received.topic, "%p": str(received.partition), "%o": str(record.offset)}
        texts = {**position, "%k": key or "", "%v": value or "", "%d": str(record.timestamp)}
        sys.stdout.write(_fill_format(form, texts))
    flush()
