"""Properties of librdkafka, with which kcat is configured, as properties of Kafka's clients."""

from collections.abc import Mapping, Sequence
from typing import Final

from minibroker_tools.client.settings import load_properties
from minibroker_tools.failures import ToolError

_SAME: Final = {
    "sasl.mechanisms": "sasl.mechanism",
    "topic.auto.offset.reset": "auto.offset.reset",
    "request.required.acks": "acks",
    "topic.request.required.acks": "acks",
    "topic.acks": "acks",
    "compression.codec": "compression.type",
}
"""Names of librdkafka with those of Kafka's clients."""
_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
}
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
NAMES: Final = frozenset(
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
    """The properties of `-F` and `-X`, with the names of Kafka's clients. ToolError for what makes no sense."""
    given = load_properties(path)
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ToolError(f'% ERROR: -X {pair}: Expected "-X property=value"')
        given[key] = value
    for key in given:
        if key.removeprefix("topic.") not in NAMES:
            raise ToolError(f'% ERROR: No such configuration property: "{key}"')
    found = {_SAME.get(key, key): value for key, value in given.items()}
    _add_login(found)
    _add_certificates(found)
    if found.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    return found


def bootstrap_of(properties: Mapping[str, str]) -> str | None:
    """The addresses that the properties name."""
    return properties.get("bootstrap.servers") or properties.get("metadata.broker.list")


def _add_login(found: dict[str, str]) -> None:
    user, password = found.get("sasl.username"), found.get("sasl.password")
    if user is None:
        return
    module = _MODULES.get(found.get("sasl.mechanism", "").upper(), _SCRAM)
    found["sasl.jaas.config"] = f"{module} required username={_quoted(user)} password={_quoted(password or '')};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _add_certificates(found: dict[str, str]) -> None:
    authority = found.get("ssl.ca.location")
    if authority is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    certificate, key = found.get("ssl.certificate.location"), found.get("ssl.key.location")
    if certificate is not None and key is not None:
        found |= {"ssl.keystore.key": _text(key), "ssl.keystore.certificate.chain": _text(certificate)}


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"{path}: {error}") from None
