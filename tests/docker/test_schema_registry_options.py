"""The environment of containers that are a schema registry only, as options of `minibroker registry`."""

from collections.abc import Mapping

import pytest

from minibroker_container import entrypoint, schema_registry

CONFLUENT = {
    "SCHEMA_REGISTRY_HOST_NAME": "schema-registry",
    "SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS": "PLAINTEXT://kafka:29092,PLAINTEXT://kafka-2:29092",
    "SCHEMA_REGISTRY_LISTENERS": "http://0.0.0.0:8085",
}
KARAPACE = {
    "KARAPACE_BOOTSTRAP_URI": "kafka:29092",
    "KARAPACE_PORT": "8081",
    "KARAPACE_HOST": "0.0.0.0",
    "KARAPACE_TOPIC_NAME": "_schemas",
    "KARAPACE_REGISTRY_HOST": "0.0.0.0",
    "KARAPACE_ADVERTISED_HOSTNAME": "karapace",
    "KARAPACE_MASTER_ELIGIBILITY": "true",
    "KARAPACE_LOG_LEVEL": "WARNING",
    "KARAPACE_COMPATIBILITY": "full",
}


def command(environment: Mapping[str, str], *arguments: str) -> list[str]:
    return entrypoint.container_command(environment, arguments, entrypoint.hide_secrets)


def test_confluent_s_image_becomes_a_registry(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(CONFLUENT) == [
        *("minibroker", "registry", "--bootstrap", "kafka:29092,kafka-2:29092"),
        *("--listen", "0.0.0.0:8085", "--set", "security.protocol=PLAINTEXT"),
    ]
    assert command(CONFLUENT, "/etc/confluent/docker/run") == command(CONFLUENT)
    without_effect = {"SCHEMA_REGISTRY_CUB_KAFKA_TIMEOUT": "300", "SCHEMA_REGISTRY_SCHEMA_REGISTRY_GROUP_ID": "a"}
    assert command(CONFLUENT | without_effect) == command(CONFLUENT)
    bitnami = {"SCHEMA_REGISTRY_KAFKA_BROKERS": "PLAINTEXT://kafka:9092"}
    assert command(bitnami)[:4] == ["minibroker", "registry", "--bootstrap", "kafka:9092"]
    assert not capsys.readouterr().err


def test_brokers_are_found_by_zookeeper_as_up_to_release_5(capsys: pytest.CaptureFixture[str]) -> None:
    zookeeper = {"SCHEMA_REGISTRY_KAFKASTORE_CONNECTION_URL": "zookeeper:2181", "SCHEMA_REGISTRY_HOST_NAME": "registry"}
    expected = ["minibroker", "registry", "--bootstrap", "zookeeper://zookeeper:2181", "--listen", "0.0.0.0:8081"]
    assert command(zookeeper) == expected
    assert command(CONFLUENT | zookeeper) == command(CONFLUENT)
    assert not capsys.readouterr().err


def test_karapace_becomes_a_registry(capsys: pytest.CaptureFixture[str]) -> None:
    expected = ["minibroker", "registry", "--bootstrap", "kafka:29092", "--listen", "0.0.0.0:8081"]
    expected += ["--topic", "_schemas", "--compatibility", "FULL"]
    assert command(KARAPACE) == expected
    assert command(KARAPACE, "python3", "-m", "karapace") == expected
    assert command(KARAPACE, "/bin/bash", "/opt/karapace/start.sh", "registry") == expected
    assert not capsys.readouterr().err


def test_apicurio_s_image_becomes_a_registry() -> None:
    expected = ["minibroker", "registry", "--bootstrap", "kafka:9092", "--listen", "0.0.0.0:8080"]
    for variable in ("APICURIO_KAFKASQL_BOOTSTRAP_SERVERS", "REGISTRY_KAFKASQL_BOOTSTRAP_SERVERS"):
        assert command({variable: "kafka:9092"}) == expected


def test_properties_for_logins_are_passed_on_and_their_secrets_hidden() -> None:
    environment = CONFLUENT | {
        "SCHEMA_REGISTRY_KAFKASTORE_SECURITY_PROTOCOL": "SASL_SSL",
        "SCHEMA_REGISTRY_KAFKASTORE_SASL_MECHANISM": "PLAIN",
        "SCHEMA_REGISTRY_KAFKASTORE_SASL_JAAS_CONFIG": "some login",
        "SCHEMA_REGISTRY_KAFKASTORE_SSL_TRUSTSTORE_PASSWORD": "secret",
        "SCHEMA_REGISTRY_KAFKASTORE_TOPIC_REPLICATION_FACTOR": "3",
        "SCHEMA_REGISTRY_SCHEMA_COMPATIBILITY_LEVEL": "none",
    }
    options, secrets = schema_registry.registry_options(environment, lambda _: None)
    assert secrets == {"sasl.jaas.config": "some login", "ssl.truststore.password": "secret"}
    assert options[-4:] == ["--set", "security.protocol=SASL_SSL", "--set", "sasl.mechanism=PLAIN"]
    assert options[4:8] == ["--replication-factor", "3", "--compatibility", "NONE"]
    login = {
        "KARAPACE_SASL_MECHANISM": "PLAIN",
        "KARAPACE_SASL_PLAIN_USERNAME": "a",
        "KARAPACE_SASL_PLAIN_PASSWORD": "b",
    }
    _, secrets = schema_registry.registry_options(KARAPACE | login, lambda _: None)
    assert 'username="a" password="b"' in secrets["sasl.jaas.config"]


def test_a_variable_without_effect_is_named() -> None:
    remarks: list[str] = []
    environment = CONFLUENT | {"SCHEMA_REGISTRY_AUTHENTICATION_METHOD": "BASIC", "SCHEMA_REGISTRY_DEBUG": "true"}
    schema_registry.registry_options(environment, remarks.append)
    assert remarks == ["no effect: SCHEMA_REGISTRY_AUTHENTICATION_METHOD=BASIC; the registry has no such setting"]


@pytest.mark.parametrize(
    ("environment", "arguments"),
    [
        ({}, []),
        (CONFLUENT | {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092"}, []),
        (CONFLUENT, ["kafka-topics", "--list"]),
        ({"SCHEMA_REGISTRY_HOST_NAME": "registry"}, []),
    ],
)
def test_other_containers_are_none(environment: Mapping[str, str], arguments: list[str]) -> None:
    assert not schema_registry.is_meant(environment, arguments)


def test_a_listener_with_tls_has_a_certificate_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    environment = CONFLUENT | {
        "SCHEMA_REGISTRY_LISTENERS": "https://:8085,http://:8081",
        "SCHEMA_REGISTRY_SSL_KEYSTORE_LOCATION": "/secrets/registry.jks",
        "SCHEMA_REGISTRY_SSL_KEYSTORE_PASSWORD": "secret",
        "SCHEMA_REGISTRY_SSL_KEY_PASSWORD": "secret",
        "SCHEMA_REGISTRY_KAFKASTORE_SSL_KEYSTORE_LOCATION": "/secrets/client.jks",
    }
    options, secrets = schema_registry.registry_options(environment, print)
    assert options[2:4] == ["--listen", "https://0.0.0.0:8085"]
    assert "server.ssl.keystore.location=/secrets/registry.jks" in options
    assert "ssl.keystore.location=/secrets/client.jks" in options
    assert secrets == {"server.ssl.keystore.password": "secret", "server.ssl.key.password": "secret"}
    assert not capsys.readouterr().out


def test_the_registry_of_a_broker_is_an_option() -> None:
    for value, address in (("8081", "0.0.0.0:8081"), ("127.0.0.1:0", "127.0.0.1:0")):
        words = command({"MINIBROKER_REGISTRY": value})
        assert words[words.index("--registry") + 1] == address
