"""Real clients over TLS and SASL: each protocol with each mechanism, and what a wrong password tells them."""

import asyncio
import base64
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import aiokafka  # type: ignore[import-untyped]  # it has no type information
import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]  # it has no type information

from minibroker import Broker, Security
from minibroker.security.tls.certificates import Certificates, write_certificates
from tests.clients.contract import TIMEOUT
from tests.clients.java_programs import VERSIONS, client_command
from tests.clients.old_client import PLACE as OLD_CLIENT
from tests.programs import run_program, run_to_success
from tests.sweeps import one_in

# None of these three has types that say what it takes.
AioProducer: Any = aiokafka.AIOKafkaProducer
AioConsumer: Any = aiokafka.AIOKafkaConsumer
PythonProducer: Any = KafkaProducer
PythonConsumer: Any = KafkaConsumer

USERS: Final = {"alice": "alice's secret", "bob": 'b"o\\b'}
VALUES: Final = [f"value {number}".encode() for number in range(3)]
FAILED: Final = "Authentication failed: Invalid username or password"

KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "SSL": {"protocol": "SSL"},
    "mTLS": {"protocol": "SSL", "client_auth": "required"},
    **{
        f"{protocol} {mechanism}": {"protocol": protocol, "mechanisms": [mechanism]}
        for protocol in ("SASL_PLAINTEXT", "SASL_SSL")
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    },
}
NEWEST_FIRST: Final = one_in(len(VERSIONS), reversed(VERSIONS))
EACH_KIND: Final = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return write_certificates(str(tmp_path_factory.mktemp("certificates") / "made"))


@pytest.fixture
def start(certificates: Certificates) -> Iterator[Callable[..., Broker]]:
    """Starts a broker with users."""
    with ExitStack() as held:

        def run(protocol: str = "SASL_SSL", config: Mapping[str, Any] | None = None, **fields: Any) -> Broker:
            directory = str(Path(certificates.ca).parent) if protocol.endswith("SSL") else None
            users = USERS if protocol.startswith("SASL") else None
            security = Security(protocol, users=users, certificates=directory, **fields)
            quick = {"connection.failed.authentication.delay.ms": 0}
            return held.enter_context(Broker(security=security, topics=["t"], config={**quick, **(config or {})}))

        yield run


def read_all(broker: Broker) -> list[bytes | None]:
    return [each.value for each in broker.wait_for("t", len(VALUES))]


def of_librdkafka(broker: Broker, user: str = "bob", **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers, **broker.security.librdkafka(user), **more}


@EACH_KIND
def test_kafka_python(start: Callable[..., Broker], kind: str) -> None:
    broker = start(**KINDS[kind])
    given: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, **broker.security.kafka_python("bob")}
    with PythonProducer(**given) as producer:
        for value in VALUES:
            producer.send("t", value).get(TIMEOUT)
    consumer = PythonConsumer("t", auto_offset_reset="earliest", consumer_timeout_ms=int(TIMEOUT * 1000), **given)
    assert [next(consumer).value for _ in VALUES] == VALUES
    consumer.close()


@EACH_KIND
def test_confluent_kafka(start: Callable[..., Broker], kind: str) -> None:
    broker = start(**KINDS[kind])
    producer = Producer(of_librdkafka(broker))
    for value in VALUES:
        producer.produce("t", value)
    assert producer.flush(TIMEOUT) == 0
    consumer = Consumer(of_librdkafka(broker, **{"group.id": "g", "auto.offset.reset": "earliest"}))
    consumer.subscribe(["t"])
    assert [each.value() for each in consumer.consume(len(VALUES), TIMEOUT)] == VALUES
    consumer.close()


@EACH_KIND
def test_aiokafka(start: Callable[..., Broker], kind: str) -> None:
    broker = start(**KINDS[kind])

    async def run() -> list[bytes | None]:
        given: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, **broker.security.aiokafka("bob")}
        async with AioProducer(**given) as producer:
            for value in VALUES:
                await producer.send_and_wait("t", value)
        async with AioConsumer("t", auto_offset_reset="earliest", **given) as consumer:
            return [(await consumer.getone()).value for _ in VALUES]

    assert asyncio.run(run()) == VALUES


def java(
    version: str, directory: Path, properties: Mapping[str, Any], *job: str, jars: Sequence[Path] = ()
) -> list[Mapping[str, Any]]:
    """The output of the job of Secure.java, but for its end; `jars` are further ones on the class path."""
    path = directory / "client.properties"
    path.write_text("".join(f"{name}={_escaped(str(value))}\n" for name, value in properties.items()))
    command = [*client_command("Secure", version), str(path), *job]
    place = command.index("-cp") + 1
    command[place] = os.pathsep.join([command[place], *map(str, jars)])
    done = run_to_success(command, timeout=2 * TIMEOUT)
    *events, last = map(json.loads, done.stdout.splitlines())
    assert last == {"event": "closed"}
    return events


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")


def of_java(broker: Broker, user: str = "bob") -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers, **broker.security.java(user)}


@pytest.mark.parametrize("version", NEWEST_FIRST)
@pytest.mark.parametrize("kind", one_in(4, KINDS))
def test_java(start: Callable[..., Broker], tmp_path: Path, kind: str, version: str) -> None:
    broker = start(**KINDS[kind])
    events = java(version, tmp_path, of_java(broker), "roundtrip", "t")
    assert [each.get("value", each) for each in events] == [value.decode() for value in VALUES]


@pytest.mark.torture
@pytest.mark.parametrize("version", NEWEST_FIRST)
def test_java_with_key_stores_in_pkcs12(
    start: Callable[..., Broker], certificates: Certificates, tmp_path: Path, version: str
) -> None:
    prefix = "listener.name.ssl.ssl"
    config = {
        f"{prefix}.keystore.type": "PKCS12",
        f"{prefix}.keystore.location": certificates.server_keystore_p12,
        f"{prefix}.keystore.password": certificates.password,
        f"{prefix}.truststore.type": "PKCS12",
        f"{prefix}.truststore.location": certificates.truststore_p12,
        f"{prefix}.truststore.password": certificates.password,
    }
    broker = start("SSL", config, client_auth="required")
    properties = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.truststore.location": certificates.truststore_p12,
        "ssl.truststore.password": certificates.password,
        "ssl.keystore.location": certificates.client_keystore_p12,
        "ssl.keystore.password": certificates.password,
    }
    events = java(version, tmp_path, properties, "roundtrip", "t")
    assert [each.get("value", each) for each in events] == [value.decode() for value in VALUES]


@pytest.mark.parametrize("version", NEWEST_FIRST)
def test_java_learns_why_it_is_not_let_in(start: Callable[..., Broker], tmp_path: Path, version: str) -> None:
    broker = start("SASL_PLAINTEXT", mechanisms=["PLAIN"])
    wrong = of_java(broker)
    wrong["sasl.jaas.config"] = wrong["sasl.jaas.config"].replace("password=", 'password="wrong" was=')
    (event,) = java(version, tmp_path, wrong, "roundtrip", "t")
    assert (event["error"], event["message"]) == ("SaslAuthenticationException", FAILED)
    kerberos = {**of_java(broker), "sasl.mechanism": "SCRAM-SHA-256"}
    kerberos["sasl.jaas.config"] = kerberos["sasl.jaas.config"].replace("plain.Plain", "scram.Scram")
    (event,) = java(version, tmp_path, kerberos, "roundtrip", "t")
    assert event["error"] == "UnsupportedSaslMechanismException"
    assert event["message"].endswith("enabled mechanisms are [PLAIN]")


@pytest.mark.torture
@pytest.mark.parametrize("version", NEWEST_FIRST)
def test_java_stores_credentials_and_makes_tokens_to_log_in_with(
    start: Callable[..., Broker], tmp_path: Path, version: str
) -> None:
    broker = start(config={"delegation.token.secret.key": "a secret"}, mechanisms=["SCRAM-SHA-512"])
    properties = of_java(broker)
    assert java(version, tmp_path, properties, "scram", "carol", "new") == [
        {"event": "stored", "user": "carol", "iterations": 4096}
    ]
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required username="
    carol = {**properties, "sasl.jaas.config": f'{login}"carol" password="new";'}
    (token,) = java(version, tmp_path, carol, "token")
    assert token["count"] == 1
    by_token = {
        **properties,
        "sasl.jaas.config": f'{login}"{token["id"]}" password="{token["hmac"]}" tokenauth="true";',
    }
    assert len(java(version, tmp_path, by_token, "roundtrip", "t")) == len(VALUES)
    (refused,) = java(version, tmp_path, by_token, "token")
    assert refused["error"] == "DelegationTokenDisabledException" or "not allowed" in refused["message"]


@pytest.mark.torture
@pytest.mark.parametrize("version", NEWEST_FIRST)
def test_java_logs_in_with_unsecured_tokens(
    start: Callable[..., Broker], kafka_libs: Path, tmp_path: Path, version: str
) -> None:
    broker = start(mechanisms=["OAUTHBEARER"])
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    properties = {
        "bootstrap.servers": broker.bootstrap_servers,
        **broker.security.java(),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{module} required unsecuredLoginStringClaim_sub="carol";',
    }
    jackson = sorted(kafka_libs.glob("jackson-*.jar"))
    assert len(java(version, tmp_path, properties, "roundtrip", "t", jars=jackson)) == len(VALUES)


def unsecured(name: str, lifetime_s: float) -> str:
    """A token that nobody has signed."""
    now = time.time()

    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'sub': name, 'iat': now - 1, 'exp': now + lifetime_s})}."


def test_confluent_kafka_goes_on_when_sessions_end(start: Callable[..., Broker]) -> None:
    broker = start("SASL_PLAINTEXT", {"connections.max.reauth.ms": 1200}, mechanisms=["OAUTHBEARER"])
    asked: list[float] = []

    def token(_config: str) -> tuple[str, float]:
        asked.append(time.time())
        return unsecured("carol", 60), time.time() + 60

    given: dict[str, Any] = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": token}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **given})
    producer.produce("t", VALUES[0])
    assert producer.flush(TIMEOUT) == 0
    broker.clock.advance(5)  # the broker's session is over, whatever the client thinks
    for value in VALUES[1:]:
        producer.produce("t", value)
    assert producer.flush(TIMEOUT) == 0
    assert read_all(broker) == VALUES


def test_librdkafka_learns_that_its_password_is_wrong(start: Callable[..., Broker]) -> None:
    broker = start("SASL_PLAINTEXT")
    errors: list[KafkaError] = []
    wrong = {**of_librdkafka(broker), "sasl.password": "wrong", "error_cb": errors.append}
    producer = Producer(wrong)
    deadline = time.monotonic() + TIMEOUT
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert FAILED in errors[0].str()


def test_the_client_of_2019_sends_its_tokens_bare(start: Callable[..., Broker]) -> None:
    broker = start("SASL_PLAINTEXT", mechanisms=["PLAIN"])
    program = """
import sys
from tests.clients.kafka_versions import import_kafka
kafka = import_kafka(sys.argv[1])
given = {"bootstrap_servers": sys.argv[2], "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN",
         "sasl_plain_username": "bob", "sasl_plain_password": sys.argv[3], "api_version": (0, 10, 2)}
producer = kafka.KafkaProducer(**given)
producer.send("t", b"from 2019").get(int(sys.argv[4]))
producer.close()
consumer = kafka.KafkaConsumer("t", auto_offset_reset="earliest", consumer_timeout_ms=1000 * int(sys.argv[4]), **given)
print(next(consumer).value.decode())
"""
    command = [
        sys.executable,
        "-c",
        program,
        str(OLD_CLIENT),
        broker.bootstrap_servers,
        USERS["bob"],
        str(int(TIMEOUT)),
    ]
    done = run_program(command, timeout=3 * TIMEOUT)
    assert done.stdout == "from 2019\n", done.stderr
