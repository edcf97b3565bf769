"""kcat: the common forms of Magnus Edenhill's tool: list (-L), produce (-P), consume (-C, -G) and query (-Q)."""

import getopt
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Final

from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.messages.metadata import MetadataResponse
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import list_offsets
from minibroker_tools.client.settings import Settings
from minibroker_tools.commands.kcat_properties import bootstrap_of, kafka_properties
from minibroker_tools.failures import ApiError, ToolError, UnreachableError, UsageError
from minibroker_tools.options import Options
from minibroker_tools.output import out, write

with lazy:
    from minibroker_tools.commands import kcat_consumer, kcat_producer

_FLAGS: Final = {
    "L": "list brokers, topics and partitions",
    "P": "produce: lines of standard input, or whole files",
    "C": "consume",
    "Q": "query offsets by timestamps: -t TOPIC:PARTITION:MS",
    "e": "consume: end behind the last record",
    "J": "print JSON",
    "q": "print no remarks",
    "u": "flush after each record",
    "l": "produce: send the lines of a file",
    "T": "produce: print what was sent, too",
    "Z": "produce: send empty keys and values as null; consume: print null",
    "E": "go on after errors",
    "v": "accepted",
    "O": "accepted",
    "V": "print the version",
    "h": "print this help",
}
_VALUES: Final = {
    "b": "BROKERS, HOST[:PORT] with commas between them",
    "t": "TOPIC, with -Q TOPIC:PARTITION:MS",
    "p": "PARTITION",
    "o": "OFFSET to begin at: beginning, end, stored, N, -N from the end, s@MS, and e@MS to end at",
    "c": "COUNT of records",
    "f": "FORMAT of records: %s %S %R %k %K %t %p %o %T %h",
    "K": "DELIMITER between key and value",
    "D": "DELIMITER between records",
    "k": "KEY of all records",
    "H": "HEADER=VALUE of all records",
    "z": "CODEC of compression",
    "G": "GROUP to consume with; the topics follow",
    "X": "PROPERTY=VALUE of librdkafka",
    "F": "FILE with such properties",
    "m": "SECONDS of patience for metadata, 5 without it",
    "s": "packed values: not supported",
    "d": "debug contexts of librdkafka: not supported",
    "r": "address of a schema registry: not supported",
}
_UNSUPPORTED: Final = ("s", "r")
_MODES: Final = ("L", "P", "C", "Q", "G")
_SILENT: Final = (
    "% ERROR: Failed to acquire metadata: Local: Broker transport failure (Are the brokers reachable? Also try "
    "increasing the metadata timeout with -m <timeout>?)"
)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|(.))")
_PORT: Final = 9092


class Given:
    """The options of a command line."""

    def __init__(self, pairs: Sequence[tuple[str, str]], words: Sequence[str]) -> None:
        self._pairs = [(name.lstrip("-"), value) for name, value in pairs]
        #: Topics of -G, or files of -P.
        self.words = list(words)

    def has(self, name: str) -> bool:
        """Is the option on the command line?"""
        return any(each == name for each, _ in self._pairs)

    def all(self, name: str) -> list[str]:
        """The values of an option."""
        return [value for each, value in self._pairs if each == name]

    def text(self, name: str) -> str | None:
        """The last value of an option."""
        return next(reversed(self.all(name)), None)

    def number(self, name: str, default: int) -> int:
        """The last value of a numeric option. ToolError names both."""
        value = self.text(name)
        try:
            return default if value is None else int(value)
        except ValueError:
            raise ToolError(f"% ERROR: -{name}: {value!r} is no number") from None

    def delimiter(self, name: str, default: str | None) -> str | None:
        """The last value of an option, with its escapes read."""
        value = self.text(name)
        return default if value is None else unescaped(value)

    @property
    def is_quiet(self) -> bool:
        """Are remarks unwanted?"""
        return self.has("q")


def options(tool: str) -> Options:
    """The options of kcat, for its help."""
    known = Options(tool, "List, produce, consume and query with -L, -P, -C, -G and -Q.")
    for name, text in {**_FLAGS, **_VALUES}.items():
        known.flag(name, help=text.replace("%", "%%"))
    return known


def run(_known: Options, arguments: Sequence[str]) -> int:
    """Run in the mode of the command line: without one produce what is piped in, and else consume."""
    if not arguments or "--help" in arguments:
        raise UsageError("kcat needs -b BROKERS and one of -L, -P, -C, -G and -Q")
    try:
        pairs, words = getopt.gnu_getopt(list(arguments), "".join(_FLAGS) + "".join(f"{name}:" for name in _VALUES))
    except getopt.GetoptError as error:
        needs = "requires" in error.msg
        reason = f"Option {error.opt} requires an argument" if needs else f"{error.opt} is not a recognized option"
        raise ToolError(reason) from None
    given = Given(pairs, words)
    if given.has("h"):
        raise UsageError("kcat lists, produces, consumes and queries")
    if given.has("V"):
        out("kcat - Apache Kafka producer and consumer tool\nVersion 1.7.1 (minibroker-tools, JSON)")
        return 0
    for name in _UNSUPPORTED:
        if given.has(name):
            raise ToolError(f"% ERROR: -{name} {given.text(name)}: this kcat lacks support for that")
    if given.has("d") and not given.is_quiet:
        sys.stderr.write(f"% -d {given.text('d')}: this kcat has no debug output\n")
    properties = kafka_properties(given.text("F") or os.environ.get("KCAT_CONFIG"), given.all("X"))
    servers = given.text("b") or bootstrap_of(properties)
    if servers is None:
        raise UsageError("% ERROR: -b <broker,..> missing")
    mode = _mode(given)
    patience = given.number("m", 5)
    settings = Settings(_with_ports(servers), {"client.id": "rdkafka", **properties})
    try:
        with Cluster(settings, timeout=patience) as cluster:
            return _work(mode)(cluster, given)
    except UnreachableError as error:
        raise ToolError(f"{_SILENT}\n% {error.message}") from None


def _mode(given: Given) -> str:
    mode = next((name for name in _MODES if given.has(name)), None)
    if mode is None:
        mode = "C" if sys.stdin.isatty() else "P"
        if not given.is_quiet:
            name = "Consumer" if mode == "C" else "Producer"
            sys.stderr.write(f"% Auto-selecting {name} mode (use -P or -C to override)\n")
    if mode in {"P", "C"} and given.text("t") is None:
        raise UsageError("% ERROR: -t <topic> missing")
    if mode == "G" and not given.words:
        raise UsageError("% ERROR: -G takes the topics to subscribe to")
    return mode


def _work(mode: str) -> Callable[[Cluster, Given], int]:
    if mode == "P":
        return kcat_producer.produce
    if mode in {"C", "G"}:
        return kcat_consumer.consume
    return _list if mode == "L" else _query


def _with_ports(servers: str) -> str:
    """The addresses, with Kafka's port where they have none."""
    entries = (entry.strip() for entry in servers.split(",") if entry.strip())
    return ",".join(entry if re.search(r":\d+$", entry) else f"{entry}:{_PORT}" for entry in entries)


def unescaped(text: str) -> str:
    r"""Text with \n, \r, \t, \\ and \xNN read."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPES.get(found[2], found[2]), text)


def error_of(topic: str, error: ApiError) -> ToolError:
    """A failure of a topic as kcat shows it."""
    text = error.code.name.replace("_", " ").capitalize()
    return ToolError(f"% ERROR: Topic {topic} error: Broker: {text}")


def _list(cluster: Cluster, given: Given) -> int:
    topic = given.text("t")
    metadata = cluster.metadata(None if topic is None else [topic])
    source = cluster.any()
    own = next((each for each in cluster.brokers() if (each.host, each.port) == source.address), None)
    node, name = ("-1", "bootstrap") if own is None else (str(own.node_id), str(own.node_id))
    origin = f"{source}/{name}"
    if given.has("J"):
        write(_metadata_json(metadata, int(node), origin, topic))  # kcat ends no line here
        return 0
    out(f"Metadata for {topic or 'all topics'} (from broker {node}: {origin}):")
    out(f" {len(metadata.brokers)} brokers:")
    for broker in metadata.brokers:
        role = " (controller)" if broker.node_id == metadata.controller_id else ""
        out(f"  broker {broker.node_id} at {broker.host}:{broker.port}{role}")
    out(f" {len(metadata.topics)} topics:")
    for each in metadata.topics:
        failed = f" {error_of(each.name or '', ApiError(each.error_code)).message[2:]}" if each.error_code else ""
        out(f'  topic "{each.name}" with {len(each.partitions)} partitions:{failed}')
        for partition in sorted(each.partitions, key=lambda found: found.partition_index):
            replicas = ",".join(map(str, partition.replica_nodes))
            isrs = ",".join(map(str, partition.isr_nodes))
            out(
                f"    partition {partition.partition_index}, leader {partition.leader_id}, replicas: {replicas}, "
                f"isrs: {isrs}"
            )
    return 0


def _metadata_json(metadata: MetadataResponse, node: int, origin: str, topic: str | None) -> str:
    """Brokers, topics and partitions on one line."""
    return kcat_consumer.json_line(
        {
            "originating_broker": {"id": node, "name": origin},
            "query": {"topic": topic or "*"},
            "controllerid": metadata.controller_id,
            "brokers": [{"id": each.node_id, "name": f"{each.host}:{each.port}"} for each in metadata.brokers],
            "topics": [
                {
                    "topic": each.name,
                    "partitions": [
                        {
                            "partition": partition.partition_index,
                            "leader": partition.leader_id,
                            "replicas": [{"id": node_id} for node_id in partition.replica_nodes],
                            "isrs": [{"id": node_id} for node_id in partition.isr_nodes],
                        }
                        for partition in sorted(each.partitions, key=lambda found: found.partition_index)
                    ],
                }
                for each in metadata.topics
            ],
        }
    )


def _query(cluster: Cluster, given: Given) -> int:
    places: dict[tuple[str, int], int] = {}
    for text in given.all("t"):
        topic, *numbers = text.split(":")
        try:
            partition, timestamp = map(int, numbers)
        except ValueError:
            raise ToolError('% ERROR: -t: expected "topic:partition:offset_or_timestamp"') from None
        places[topic, partition] = timestamp
    if not places:
        raise UsageError('% ERROR: -t: expected "topic:partition:offset_or_timestamp"')
    for (topic, partition), found in sorted(list_offsets(cluster, places).items()):
        if found.error is not None:
            raise error_of(topic, found.error)
        out(f"{topic} [{partition}] offset {found.offset}")
    return 0
