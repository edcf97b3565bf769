"""TLS and logins as files for Confluent's, Apache's and bitnami's images configure them, with a real client each."""

import re
from pathlib import Path

import pytest

from minibroker.security.tls.certificates import write_certificates
from tests.docker.composing import Project
from tests.docker.engine import IMAGE, Engine
from tests.docker.test_compose import consume
from tests.sweeps import one_in

PASSWORD = "certificate-secret"
CONFLUENT = """
services:
  kafka:
    image: confluentinc/cp-kafka:7.5.0
    ports: ["127.0.0.1:9092:9092", "127.0.0.1:9094:9094"]
    environment:
      KAFKA_BROKER_ID: 1
      KAFKA_ZOOKEEPER_CONNECT: zookeeper:2181
      KAFKA_ADVERTISED_LISTENERS: SSL://localhost:9092,SASL_SSL://localhost:9094
      KAFKA_SECURITY_INTER_BROKER_PROTOCOL: SSL
      KAFKA_SSL_KEYSTORE_TYPE: PKCS12
      KAFKA_SSL_KEYSTORE_FILENAME: keystore.p12
      KAFKA_SSL_KEYSTORE_CREDENTIALS: credentials
      KAFKA_SSL_KEY_CREDENTIALS: credentials
      KAFKA_SSL_TRUSTSTORE_TYPE: PKCS12
      KAFKA_SSL_TRUSTSTORE_FILENAME: truststore.p12
      KAFKA_SSL_TRUSTSTORE_CREDENTIALS: credentials
      KAFKA_SASL_ENABLED_MECHANISMS: PLAIN
      KAFKA_OPTS: -Djava.security.auth.login.config=/etc/kafka/secrets/jaas.conf
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
    volumes: ["./secrets:/etc/kafka/secrets"]
"""
CONFLUENTS_CLUSTER = """
x-broker: &broker
  image: confluentinc/cp-kafka:7.9.0
  volumes: ["./secrets:/etc/kafka/secrets"]
x-environment: &environment
  KAFKA_PROCESS_ROLES: broker,controller
  KAFKA_CONTROLLER_QUORUM_VOTERS: 1@kafka-1:29093,2@kafka-2:29093,3@kafka-3:29093
  KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
  KAFKA_LISTENERS: CONTROLLER://:29093,SSL://:9093,SASL_SSL://:9094
  KAFKA_INTER_BROKER_LISTENER_NAME: SSL
  KAFKA_SASL_ENABLED_MECHANISMS: PLAIN
  KAFKA_OPTS: -Djava.security.auth.login.config=/etc/kafka/secrets/jaas.conf
  KAFKA_SSL_CLIENT_AUTH: required
  KAFKA_SSL_KEYSTORE_FILENAME: keystore.p12
  KAFKA_SSL_KEYSTORE_CREDENTIALS: credentials
  KAFKA_SSL_KEY_CREDENTIALS: credentials
  KAFKA_SSL_TRUSTSTORE_FILENAME: truststore.p12
  KAFKA_SSL_TRUSTSTORE_CREDENTIALS: credentials
  CLUSTER_ID: MkU3OEVBNTcwNTJENDM2Qk
services:
  kafka-1:
    <<: *broker
    ports: ["127.0.0.1:19093:9093", "127.0.0.1:19094:9094"]
    environment:
      <<: *environment
      KAFKA_NODE_ID: 1
      KAFKA_ADVERTISED_LISTENERS: SSL://localhost:19093,SASL_SSL://localhost:19094
  kafka-2:
    <<: *broker
    ports: ["127.0.0.1:29093:9093", "127.0.0.1:29094:9094"]
    environment:
      <<: *environment
      KAFKA_NODE_ID: 2
      KAFKA_ADVERTISED_LISTENERS: SSL://localhost:29093,SASL_SSL://localhost:29094
  kafka-3:
    <<: *broker
    ports: ["127.0.0.1:39093:9093", "127.0.0.1:39094:9094"]
    environment:
      <<: *environment
      KAFKA_NODE_ID: 3
      KAFKA_ADVERTISED_LISTENERS: SSL://localhost:39093,SASL_SSL://localhost:39094
"""
APACHE = """
services:
  kafka:
    image: apache/kafka:4.0.0
    ports: ["127.0.0.1:9092:9092"]
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@kafka:9093
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_LISTENERS: SSL://:9092,CONTROLLER://:9093
      KAFKA_ADVERTISED_LISTENERS: SSL://localhost:9092
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: CONTROLLER:PLAINTEXT,SSL:SSL
      KAFKA_INTER_BROKER_LISTENER_NAME: SSL
      KAFKA_SSL_CLIENT_AUTH: required
      KAFKA_SSL_KEYSTORE_FILENAME: keystore.p12
      KAFKA_SSL_KEYSTORE_TYPE: PKCS12
      KAFKA_SSL_KEYSTORE_CREDENTIALS: credentials
      KAFKA_SSL_KEY_CREDENTIALS: credentials
      KAFKA_SSL_TRUSTSTORE_FILENAME: truststore.p12
      KAFKA_SSL_TRUSTSTORE_TYPE: PKCS12
      KAFKA_SSL_TRUSTSTORE_CREDENTIALS: credentials
    volumes: ["./secrets:/etc/kafka/secrets"]
"""
BITNAMI = """
services:
  kafka:
    image: bitnami/kafka:latest
    ports: ["127.0.0.1:9092:9092"]
    environment:
      - KAFKA_CFG_NODE_ID=0
      - KAFKA_CFG_PROCESS_ROLES=controller,broker
      - KAFKA_CFG_CONTROLLER_QUORUM_VOTERS=0@kafka:9093
      - KAFKA_CFG_CONTROLLER_LISTENER_NAMES=CONTROLLER
      - KAFKA_CFG_LISTENERS=SASL_SSL://:9092,CONTROLLER://:9093
      - KAFKA_CFG_ADVERTISED_LISTENERS=SASL_SSL://localhost:9092
      - KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL
      - KAFKA_CFG_SASL_MECHANISM_INTER_BROKER_PROTOCOL=PLAIN
      - KAFKA_CLIENT_USERS=alice,bob
      - KAFKA_CLIENT_PASSWORDS=alice-secret,bob-secret
      - KAFKA_TLS_TYPE=PEM
      - KAFKA_TLS_CLIENT_AUTH=none
    volumes: ["./secrets:/opt/bitnami/kafka/config/certs"]
"""
JAAS = (
    'KafkaServer {\n  org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";\n};\n'
)


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """Return a folder with certificates under the names of all three images."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    paths = write_certificates(str(folder), ["localhost"], client="alice", password=PASSWORD)
    (folder / "keystore.p12").write_bytes(Path(paths.server_keystore_p12).read_bytes())
    (folder / "truststore.p12").write_bytes(Path(paths.truststore_p12).read_bytes())
    (folder / "credentials").write_text(f"{PASSWORD}\n")
    (folder / "jaas.conf").write_text(JAAS)
    (folder / "kafka.keystore.pem").write_bytes(Path(paths.server_certificate).read_bytes())
    (folder / "kafka.keystore.key").write_bytes(Path(paths.server_key).read_bytes())
    (folder / "kafka.truststore.pem").write_bytes(Path(paths.ca).read_bytes())
    for each in folder.iterdir():
        each.chmod(0o644)
    return folder


def started(engine: Engine, tmp_path: Path, text: str, *, waits: bool = False) -> Project:
    """Return the project of a file, in which only the image's name changes."""
    path = tmp_path / "compose.yaml"
    path.write_text(re.sub("image: .*", f"image: {IMAGE}", text))
    return Project(engine, path, waits=waits)


def mutual(secrets: Path) -> list[str]:
    """Return the settings of a client that has a certificate."""
    return [
        f"ssl.ca.location={secrets / 'ca.pem'}",
        f"ssl.keystore.location={secrets / 'client.keystore.p12'}",
        f"ssl.keystore.password={PASSWORD}",
    ]


def login(mechanism: str, user: str) -> list[str]:
    """Return a client's settings for a user."""
    return [
        "security.protocol=SASL_SSL",
        f"sasl.mechanism={mechanism}",
        f"sasl.username={user}",
        f"sasl.password={user}-secret",
    ]


@pytest.mark.torture
def test_confluents_variables_serve_tls_and_plain_logins(engine: Engine, tmp_path: Path, secrets: Path) -> None:
    authority = f"ssl.ca.location={secrets / 'ca.pem'}"
    with started(engine, tmp_path, CONFLUENT) as project:
        plain = ["bootstrap.servers=localhost:9092", "security.protocol=SSL", authority]
        assert consume(project, *plain) == ["localhost:9092/1", "consumed a new order"]
        logged_in = ["bootstrap.servers=localhost:9094", authority, *login("PLAIN", "alice")]
        assert consume(project, *logged_in)[0] == "localhost:9094/1"


@pytest.mark.torture  # Confluent's variables, as above; certificates of clients: tests/clients/test_security.py
def test_apaches_variables_serve_tls_with_certificates_of_clients(
    engine: Engine, tmp_path: Path, secrets: Path
) -> None:
    with started(engine, tmp_path, APACHE) as project:
        lines = consume(project, "bootstrap.servers=localhost:9092", "security.protocol=SSL", *mutual(secrets))
        assert lines == ["localhost:9092/1", "consumed a new order"]


@pytest.mark.torture  # members with TLS in one process: tests/broker/server/test_remote.py
def test_each_broker_of_a_cluster_serves_tls_and_logins(engine: Engine, tmp_path: Path, secrets: Path) -> None:
    with started(engine, tmp_path, CONFLUENTS_CLUSTER, waits=True) as project:
        for port, settings in ((9093, ["security.protocol=SSL"]), (9094, login("PLAIN", "alice"))):
            for first in (30000, 10000):
                lines = consume(project, f"bootstrap.servers=localhost:{first + port}", *settings, *mutual(secrets))
                brokers = " ".join(f"localhost:{10000 * number + port}/{number}" for number in (1, 2, 3))
                assert lines == [brokers, "consumed a new order"]


@pytest.mark.parametrize(("mechanism", "user"), one_in(2, [("PLAIN", "alice"), ("SCRAM-SHA-512", "bob")]))
def test_bitnamis_variables_serve_tls_in_pem_and_its_users(
    engine: Engine, tmp_path: Path, secrets: Path, mechanism: str, user: str
) -> None:
    authority = f"ssl.ca.location={secrets / 'ca.pem'}"
    with started(engine, tmp_path, BITNAMI) as project:
        lines = consume(project, "bootstrap.servers=localhost:9092", authority, *login(mechanism, user))
        assert lines == ["localhost:9092/0", "consumed a new order"]
