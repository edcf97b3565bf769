"""kcat: the common modes of Magnus Edenhill's tool: list (-L), produce (-P), consume (-C, -G) and query (-Q)."""

import getopt
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from minibroker.security.sasl.jaas import quote
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.messages.metadata import MetadataResponse
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import group_values, list_offsets
from minibroker_tools.client.settings import Settings, add_ports, load_properties
from minibroker_tools.failures import ApiError, ToolError, UnreachableError, UsageError
from minibroker_tools.options import Options, Values
from minibroker_tools.output import compact_json, join_commas, write, write_line

with lazy:
    from minibroker_tools.commands import kcat_consumer, kcat_producer

_FLAGS: Final = {
    "L": "list brokers, topics and partitions",
    "P": "produce: lines of standard input, or whole files",
    "C": "consume",
    "Q": "query offsets by timestamps: -t TOPIC:PARTITION:MS",
    "e": "consume: stop after the last record",
    "J": "print JSON",
    "q": "print no informational messages",
    "u": "flush after each record",
    "l": "produce: send the lines of a file",
    "T": "produce: also print the sent records",
    "Z": "produce: send empty keys and values as null; consume: print null",
    "E": "continue after errors",
    "v": "accepted",
    "O": "accepted",
    "V": "print the version",
    "h": "print this help",
}
_VALUES: Final = {
    "b": "BROKERS, HOST[:PORT] separated by commas",
    "t": "TOPIC, with -Q TOPIC:PARTITION:MS",
    "p": "PARTITION",
    "o": "OFFSET to start at: beginning, end, stored, N, -N from the end, s@MS; e@MS to stop at",
    "c": "COUNT of records to produce or consume",
    "f": "FORMAT of records: %s %S %R %k %K %t %p %o %T %h",
    "K": "DELIMITER between key and value",
    "D": "DELIMITER between records",
    "k": "KEY of all records",
    "H": "HEADER=VALUE of all records",
    "z": "CODEC of compression",
    "G": "GROUP to join; the topics follow",
    "X": "PROPERTY=VALUE of librdkafka",
    "F": "FILE with these properties",
    "m": "SECONDS to wait for metadata (default: 5)",
    "s": "[key=|value=]avro: decode keys, values or both with the schemas of -r",
    "d": "debug contexts of librdkafka: not supported",
    "r": "URL of a schema registry",
}
_MODES: Final = ("L", "P", "C", "Q", "G")
_NO_METADATA_ERROR: Final = (
    "% ERROR: Failed to acquire metadata: Local: Broker transport failure (Are the brokers reachable? Also try "
    "increasing the metadata timeout with -m <timeout>?)"
)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|(.))")
_DEFAULT_PORT: Final = 9092


class KcatOptions(Values):
    """The parsed options of a command line. The words are the topics of -G, or the files of -P."""

    def get(self, name: str) -> Any:
        """Return the last value of an option, or None if the option is missing."""
        return next(reversed(self.all(name)), None)

    def number(self, name: str, default: int) -> int:
        """Return the last value of a numeric option, or `default` if the option is missing.

        Raises:
            ToolError: The value is not a number. The message names the option and the value.
        """
        value = self.text(name)
        try:
            return default if value is None else int(value)
        except ValueError:
            raise ToolError(f"% ERROR: -{name}: {value!r} is no number") from None

    def delimiter(self, name: str, default: str | None) -> str | None:
        """Return the last value of an option with escape sequences replaced, or `default` if the option is missing."""
        value = self.text(name)
        return default if value is None else unescape(value)


def declare_options(tool: str) -> Options:
    """Declare the options of kcat, for the help text only."""
    options = Options(tool, "List, produce, consume and query with -L, -P, -C, -G and -Q.")
    for name, text in {**_FLAGS, **_VALUES}.items():
        options.flag(name, help=text.replace("%", "%%"))
    return options


def run(_known: Options, arguments: Sequence[str]) -> int:
    """Run the selected mode. Without a mode, produce if standard input is not a terminal, or else consume."""
    if not arguments or "--help" in arguments:
        raise UsageError("kcat needs -b BROKERS and one of -L, -P, -C, -G and -Q")
    try:
        pairs, words = getopt.gnu_getopt(list(arguments), "".join(_FLAGS) + "".join(f"{name}:" for name in _VALUES))
    except getopt.GetoptError as error:
        needs = "requires" in error.msg
        reason = f"Option {error.opt} requires an argument" if needs else f"{error.opt} is not a recognized option"
        raise ToolError(reason) from None
    given = group_values((name.lstrip("-"), value) for name, value in pairs)
    options = KcatOptions({name: given.get(name) for name in (*_FLAGS, *_VALUES)}, words)
    if options.has("h"):
        raise UsageError("kcat lists, produces, consumes and queries")
    if options.has("V"):
        write_line("kcat - Apache Kafka producer and consumer tool\nVersion 1.7.1 (minibroker-tools, JSON)")
        return 0
    if options.has("d") and not options.has("q"):
        sys.stderr.write(f"% -d {options.text('d')}: this kcat has no debug output\n")
    properties = kafka_properties(options.text("F") or os.environ.get("KCAT_CONFIG"), options.all("X"))
    if options.has("s") and not (options.text("r") or properties.get(REGISTRY_URL)):
        raise ToolError("% ERROR: -s avro requires -r <sr_url>")
    servers = options.text("b") or properties.get("bootstrap.servers") or properties.get("metadata.broker.list")
    if servers is None:
        raise UsageError("% ERROR: -b <broker,..> missing")
    run_mode = _mode_function(options)
    timeout = options.number("m", 5)
    settings = Settings(add_ports(servers, _DEFAULT_PORT), {"client.id": "rdkafka", **properties})
    try:
        with Cluster(settings, timeout=timeout) as cluster:
            return run_mode(cluster, options)
    except UnreachableError as error:
        raise ToolError(f"{_NO_METADATA_ERROR}\n% {error.message}") from None


def _mode_function(options: KcatOptions) -> Callable[[Cluster, KcatOptions], int]:
    mode = next((name for name in _MODES if options.has(name)), None)
    if mode is None:
        mode = "C" if sys.stdin.isatty() else "P"
        if not options.has("q"):
            name = "Consumer" if mode == "C" else "Producer"
            sys.stderr.write(f"% Auto-selecting {name} mode (use -P or -C to override)\n")
    if mode in {"P", "C"} and options.text("t") is None:
        raise UsageError("% ERROR: -t <topic> missing")
    if mode == "G" and not options.words:
        raise UsageError("% ERROR: -G takes the topics to subscribe to")
    if mode == "P":
        if options.has("s"):
            raise ToolError("% ERROR: -s serdes only available in the consumer")
        return kcat_producer.produce
    if mode in {"C", "G"}:
        return kcat_consumer.consume
    return _list_metadata if mode == "L" else _query_offsets


def unescape(text: str) -> str:
    r"""Replace the escape sequences \n, \r, \t, \\ and \xNN."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2]), text)


def topic_error(topic: str, error: ApiError) -> ToolError:
    """Return a topic's error in kcat's wording."""
    text = error.code.name.replace("_", " ").capitalize()
    return ToolError(f"% ERROR: Topic {topic} error: Broker: {text}")


def _list_metadata(cluster: Cluster, options: KcatOptions) -> int:
    topic = options.text("t")
    metadata = cluster.metadata(None if topic is None else [topic])
    source = cluster.any()
    ids = [str(broker.node_id) for broker in cluster.brokers() if (broker.host, broker.port) == source.address]
    node, name = (ids[0], ids[0]) if ids else ("-1", "bootstrap")
    origin = f"{source}/{name}"
    if options.has("J"):
        write(_metadata_json(metadata, int(node), origin, topic))  # kcat writes no newline here.
        return 0
    write_line(f"Metadata for {topic or 'all topics'} (from broker {node}: {origin}):")
    write_line(f" {len(metadata.brokers)} brokers:")
    for broker in metadata.brokers:
        role = " (controller)" if broker.node_id == metadata.controller_id else ""
        write_line(f"  broker {broker.node_id} at {broker.host}:{broker.port}{role}")
    write_line(f" {len(metadata.topics)} topics:")
    for info in metadata.topics:
        failed = f" {topic_error(info.name or '', ApiError(info.error_code)).message[2:]}" if info.error_code else ""
        write_line(f'  topic "{info.name}" with {len(info.partitions)} partitions:{failed}')
        for partition in sorted(info.partitions, key=lambda partition: partition.partition_index):
            write_line(
                f"    partition {partition.partition_index}, leader {partition.leader_id}, "
                f"replicas: {join_commas(partition.replica_nodes)}, isrs: {join_commas(partition.isr_nodes)}"
            )
    return 0


def _metadata_json(metadata: MetadataResponse, node: int, origin: str, topic: str | None) -> str:
    """Return the brokers, topics and partitions as one line of JSON."""
    return compact_json(
        {
            "originating_broker": {"id": node, "name": origin},
            "query": {"topic": topic or "*"},
            "controllerid": metadata.controller_id,
            "brokers": [{"id": node.node_id, "name": f"{node.host}:{node.port}"} for node in metadata.brokers],
            "topics": [
                {
                    "topic": info.name,
                    "partitions": [
                        {
                            "partition": partition.partition_index,
                            "leader": partition.leader_id,
                            "replicas": [{"id": node_id} for node_id in partition.replica_nodes],
                            "isrs": [{"id": node_id} for node_id in partition.isr_nodes],
                        }
                        for partition in sorted(info.partitions, key=lambda partition: partition.partition_index)
                    ],
                }
                for info in metadata.topics
            ],
        },
        ensure_ascii=False,
    )


def _query_offsets(cluster: Cluster, options: KcatOptions) -> int:
    timestamps: dict[tuple[str, int], int] = {}
    for text in options.all("t"):
        topic, *numbers = text.split(":")
        try:
            partition, timestamp = map(int, numbers)
        except ValueError:
            raise ToolError('% ERROR: -t: expected "topic:partition:offset_or_timestamp"') from None
        timestamps[topic, partition] = timestamp
    if not timestamps:
        raise UsageError('% ERROR: -t: expected "topic:partition:offset_or_timestamp"')
    for (topic, partition), result in sorted(list_offsets(cluster, timestamps).items()):
        if isinstance(result, ApiError):
            raise topic_error(topic, result)
        write_line(f"{topic} [{partition}] offset {result}")
    return 0


_KAFKA_NAMES: Final = {
    "sasl.mechanisms": "sasl.mechanism",
    "topic.auto.offset.reset": "auto.offset.reset",
    "request.required.acks": "acks",
    "topic.request.required.acks": "acks",
    "topic.acks": "acks",
    "compression.codec": "compression.type",
}
"""The property of Kafka's clients for each librdkafka property with another name."""
_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
REGISTRY_URL: Final = "schema.registry.url"
"""The property of libserdes that has the meaning of -r."""
LIBRDKAFKA_PROPERTIES: Final = frozenset(
    """
acks allow.auto.create.topics api.version.fallback.ms api.version.request api.version.request.timeout.ms
auto.commit.enable auto.commit.interval.ms auto.offset.reset batch.num.messages batch.size bootstrap.servers
broker.address.family broker.address.ttl broker.version.fallback builtin.features check.crcs client.dns.lookup
client.id client.rack compression.codec compression.level compression.type connections.max.idle.ms
consume.callback.max.messages coordinator.query.interval.ms debug default_topic_conf delivery.report.only.error
delivery.timeout.ms enable.auto.commit enable.auto.offset.store enable.gapless.guarantee enable.idempotence
enable.metrics.push enable.partition.eof enable.random.seed enable.sasl.oauthbearer.unsecure.jwt
enable.ssl.certificate.verification enabled_events fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes
fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms group.id group.instance.id group.protocol group.protocol.type
group.remote.assignor heartbeat.interval.ms https.ca.location https.ca.pem internal.termination.signal isolation.level
linger.ms log.connection.close log.queue log.thread.name log_level max.in.flight max.in.flight.requests.per.connection
max.partition.fetch.bytes max.poll.interval.ms message.copy.max.bytes message.max.bytes message.send.max.retries
message.timeout.ms metadata.broker.list metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms
metadata.recovery.strategy msg_order_cmp offset.store.method offset.store.path offset.store.sync.interval.ms
partition.assignment.strategy partitioner plugin.library.paths produce.offset.report
queue.buffering.backpressure.threshold queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms
queued.max.messages.kbytes queued.min.messages queuing.strategy receive.message.max.bytes reconnect.backoff.jitter.ms
reconnect.backoff.max.ms reconnect.backoff.ms request.required.acks request.timeout.ms retries retry.backoff.max.ms
retry.backoff.ms sasl.kerberos.keytab sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanism sasl.mechanisms sasl.oauthbearer.assertion.algorithm
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.client.id sasl.oauthbearer.client.secret
sasl.oauthbearer.config sasl.oauthbearer.extensions sasl.oauthbearer.grant.type
sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method sasl.oauthbearer.scope
sasl.oauthbearer.token.endpoint.url sasl.password sasl.username security.protocol session.timeout.ms
socket.blocking.max.ms socket.connection.setup.timeout.ms socket.keepalive.enable socket.max.fails
socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms ssl.ca.certificate.stores
ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem ssl.cipher.suites ssl.crl.location
ssl.curves.list ssl.endpoint.identification.algorithm ssl.engine.id ssl.engine.location ssl.key.location
ssl.key.password ssl.key.pem ssl.keystore.location ssl.keystore.password ssl.providers ssl.sigalgs.list ssl_ca
ssl_certificate ssl_engine_callback_data ssl_key statistics.interval.ms sticky.partitioning.linger.ms topic.blacklist
topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms
topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse transaction.timeout.ms transactional.id
""".split()  # noqa: SIM905 - a list of so many names would have a line for each
)


def kafka_properties(path: str | None, pairs: Sequence[str]) -> dict[str, str]:
    """Return the properties from `-F` and `-X`, under the names used by Kafka's clients.

    Raises:
        ToolError: A property is malformed or unknown, or a file cannot be read.
    """
    librdkafka_properties = load_properties(path)
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ToolError(f'% ERROR: -X {pair}: Expected "-X property=value"')
        librdkafka_properties[key] = value
    for key in librdkafka_properties:
        if key.removeprefix("topic.") not in LIBRDKAFKA_PROPERTIES and key != REGISTRY_URL:
            raise ToolError(f'% ERROR: No such configuration property: "{key}"')
    properties = {_KAFKA_NAMES.get(key, key): value for key, value in librdkafka_properties.items()}
    _add_login(properties)
    _add_certificates(properties)
    if properties.get("ssl.endpoint.identification.algorithm") == "none":
        properties["ssl.endpoint.identification.algorithm"] = ""
    return properties


def _add_login(properties: dict[str, str]) -> None:
    user, password = properties.get("sasl.username"), properties.get("sasl.password")
    if user is None:
        return
    module = _PLAIN_MODULE if properties.get("sasl.mechanism", "").upper() == "PLAIN" else _SCRAM_MODULE
    properties["sasl.jaas.config"] = f"{module} required username={quote(user)} password={quote(password or '')};"


def _add_certificates(properties: dict[str, str]) -> None:
    authority = properties.get("ssl.ca.location")
    if authority is not None:
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    certificate, key = properties.get("ssl.certificate.location"), properties.get("ssl.key.location")
    if certificate is not None and key is not None:
        properties |= {"ssl.keystore.key": _read_text(key), "ssl.keystore.certificate.chain": _read_text(certificate)}


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"{path}: {error}") from None
