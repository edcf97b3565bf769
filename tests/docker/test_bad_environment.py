"""Unusable variables of a container: one line names the variable, its value and a remedy, and the status is 1."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from minibroker.cli.container_variables import add_variable
from minibroker.security.tls.certificates import write_certificates
from tests.docker.test_entrypoint import run
from tests.sweeps import one_in

ANY_PORT: Final = "PLAINTEXT://127.0.0.1:0"
NAMES: Final = {
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,BROKER://kafka:9093",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}
TLS: Final = {"KAFKA_LISTENERS": "SSL://127.0.0.1:0", "KAFKA_SSL_KEYSTORE_TYPE": "PKCS12"}
LOGIN: Final = {"KAFKA_LISTENERS": "SASL_PLAINTEXT://127.0.0.1:0"}

REFUSED: Final[tuple[tuple[Mapping[str, str], str, str], ...]] = (
    # Listeners
    ({"KAFKA_LISTENERS": "9092"}, "KAFKA_LISTENERS: '9092'", "is not NAME://HOST:PORT"),
    ({"KAFKA_LISTENERS": "SECURE://:9093"}, "KAFKA_LISTENERS: ", "for the listener SECURE"),
    ({"KAFKA_LISTENERS": "PLAINTEXT://:99999"}, "KAFKA_LISTENERS: 'PLAINTEXT://:99999'", "port of 0 to 65535"),
    ({"KAFKA_LISTENERS": "CONTROLLER://:9093"}, "KAFKA_LISTENERS: 'CONTROLLER://:9093'", "no listener for clients"),
    (
        {"KAFKA_LISTENERS": "PLAINTEXT://:9092,PLAINTEXT://:9093"},
        "KAFKA_LISTENERS: each listener must have a different name",
        "two of PLAINTEXT",
    ),
    (
        {**NAMES, "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,BROKER://kafka:9092"},
        "KAFKA_LISTENERS: PLAINTEXT://0.0.0.0:9092 and BROKER://kafka:9092 have one port",
        "each listener must have a different port",
    ),
    (
        {"KAFKA_LISTENERS": "PLAINTEXT://192.0.2.1:9092"},
        "KAFKA_LISTENERS=PLAINTEXT://192.0.2.1:9092: cannot listen",
        "leave the host out, as in PLAINTEXT://:9092",
    ),
    (
        {"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTXT"},
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=PLAINTEXT:PLAINTXT: ",
        "it must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
    ),
    (
        {"KAFKA_INTER_BROKER_LISTENER_NAME": "OTHER"},
        "KAFKA_INTER_BROKER_LISTENER_NAME=OTHER: ",
        "there is no listener OTHER in KAFKA_LISTENERS",
    ),
    # Advertised listeners
    (
        {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost"},
        "KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost: ",
        "is not NAME://HOST:PORT",
    ),
    (
        {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://0.0.0.0:9092"},
        "KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://0.0.0.0:9092: ",
        "name the host by which they reach the broker",
    ),
    (
        {"KAFKA_LISTENERS": "PLAINTEXT://:9092", "KAFKA_ADVERTISED_LISTENERS": "OUTSIDE://localhost:9094"},
        "KAFKA_ADVERTISED_LISTENERS: OUTSIDE://localhost:9094 names a listener that KAFKA_LISTENERS",
        "add OUTSIDE://:9094 there, or leave it out here",
    ),
    (
        {**NAMES, "KAFKA_ADVERTISED_LISTENERS": "BROKER://a:1,BROKER://b:2"},
        "KAFKA_ADVERTISED_LISTENERS: BROKER://b:2 is the second address of BROKER",
        "a listener has one",
    ),
    (
        {"KAFKA_ADVERTISED_PORT": "x", "KAFKA_ADVERTISED_HOST_NAME": "h"},
        "KAFKA_ADVERTISED_PORT: 'x' is not a port",
        "give a number from 1 to 65535",
    ),
    # Files
    ({"MINIBROKER_CONFIG": "/no/file"}, "MINIBROKER_CONFIG=/no/file: ", "mount the file there"),
    ({"MINIBROKER_FAULTS": "/no/file"}, "MINIBROKER_FAULTS=/no/file: ", "mount the file there"),
    ({"MINIBROKER_SEED_DATA": "/no/file"}, "MINIBROKER_SEED_DATA=/no/file: ", "mount the file there"),
    ({"MINIBROKER_READY_FILE": "/no/ready"}, "MINIBROKER_READY_FILE=/no/ready: ", "a directory that exists"),
    ({"KAFKA_LOG_DIRS": "/proc/logs"}, "KAFKA_LOG_DIRS=/proc/logs: ", "give a directory that user"),
    ({"KAFKA_LOG_DIRS": "/dev/null"}, "KAFKA_LOG_DIRS=/dev/null: ", "give a directory that user"),
    (
        {"KAFKA_CLIENT_PASSWORDS_FILE": "/missing/passwords"},
        "KAFKA_CLIENT_PASSWORDS_FILE: /missing/passwords: No such file",
        "mount the file there",
    ),
    (
        {"KAFKA_OPTS": "-Djava.security.auth.login.config=/missing/jaas.conf"},
        "KAFKA_OPTS: /missing/jaas.conf: No such file",
        "mount the file there",
    ),
    # Key stores
    (
        {**TLS, "KAFKA_SSL_KEYSTORE_CREDENTIALS": "missing"},
        "KAFKA_SSL_KEYSTORE_CREDENTIALS: /etc/kafka/secrets/missing: No such file",
        "mount the file there",
    ),
    (
        {**TLS, "KAFKA_SSL_KEYSTORE_FILENAME": "no.p12"},
        "KAFKA_SSL_KEYSTORE_FILENAME: /etc/kafka/secrets/no.p12: No such file",
        "mount the file there",
    ),
    (
        {"KAFKA_LISTENERS": "SASL_SSL://:9093", "KAFKA_SSL_TRUSTSTORE_LOCATION": "/missing/trust.jks"},
        "KAFKA_SSL_TRUSTSTORE_LOCATION: /missing/trust.jks: No such file",
        "mount the file there",
    ),
    (TLS, "KAFKA_SSL_KEYSTORE_LOCATION is not set: ", "`minibroker certificates DIR` writes some for tests"),
    # Logins
    (LOGIN, "KAFKA_SASL_ENABLED_MECHANISMS is not set: ", "needs one of PLAIN"),
    (
        {**LOGIN, "KAFKA_SASL_ENABLED_MECHANISMS": "PLAN"},
        "KAFKA_SASL_ENABLED_MECHANISMS=PLAN: ",
        "needs one of PLAIN, SCRAM-SHA-256",
    ),
    (
        {**LOGIN, "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN"},
        "KAFKA_LISTENER_NAME_SASL__PLAINTEXT_PLAIN_SASL_JAAS_CONFIG is not set: ",
        "PlainLoginModule required user_alice=",
    ),
    (
        {"KAFKA_CLIENT_USERS": "a,b", "KAFKA_CLIENT_PASSWORDS": "one"},
        "KAFKA_CLIENT_USERS names 2 but KAFKA_CLIENT_PASSWORDS has 1",
        "give as many",
    ),
    # Settings
    ({"KAFKA_NUM_PARTITIONS": "x"}, "KAFKA_NUM_PARTITIONS=x: Invalid value x ", "Not a number of type INT"),
    ({"KAFKA_CFG_NODE_ID": "x"}, "KAFKA_CFG_NODE_ID=x: Invalid value x ", "Not a number of type INT"),
    ({"KAFKA_PROCESS_ROLES": "brokr"}, "KAFKA_PROCESS_ROLES=brokr: ", "must be one of: broker, controller"),
    ({"CLUSTER_ID": "a b"}, "CLUSTER_ID=a b: ", "without blanks"),
    ({"KAFKA_CREATE_TOPICS": "a:b:1"}, "KAFKA_CREATE_TOPICS: 'a:b:1' is not NAME[:PARTITIONS", "[:REPLICAS"),
    (
        {"KAFKA_CREATE_TOPICS": "a:1:1 --replica-assignment 1"},
        "KAFKA_CREATE_TOPICS: 'a:1:1 --replica-assignment 1': --replica-assignment is not supported",
        "--config=KEY=VALUE is",
    ),
    ({"KAFKA_CREATE_TOPICS": "a?:1:1"}, "KAFKA_CREATE_TOPICS=a?:1:1: ", "other than ASCII alphanumerics"),
    ({"MINIBROKER_TOPICS": "a:b"}, "MINIBROKER_TOPICS=a:b: ", "'b' is not a number of partitions"),
    ({"MINIBROKER_BROKERS": "x"}, "MINIBROKER_BROKERS=x: ", "invalid int value: 'x'"),
    ({"MINIBROKER_JOURNAL": "x"}, "MINIBROKER_JOURNAL=x: ", "invalid int value: 'x'"),
    ({"MINIBROKER_LOG_FORMAT": "x"}, "MINIBROKER_LOG_FORMAT=x: ", "choose from"),
    ({"MINIBROKER_EMULATE": "9.9"}, "MINIBROKER_EMULATE=9.9: ", "known are 0.8.2"),
    ({"MINIBROKER_CONTROL": "x"}, "MINIBROKER_CONTROL=x: ", "is not HOST:PORT"),
    ({"MINIBROKER_LISTEN": "x"}, "MINIBROKER_LISTEN=x: ", "is not HOST:PORT"),
    ({"MINIBROKER_LISTEN": "127.0.0.1:0", "MINIBROKER_ADVERTISE": "x"}, "MINIBROKER_ADVERTISE=x: ", "is not HOST:PORT"),
)
"""Environments, how the line begins, and a part of its remedy."""


def refusal(environment: Mapping[str, str], tmp_path: Path, *arguments: str) -> str:
    """Return the one line by which the container refuses to start, without the program's name."""
    common = {"KAFKA_LOG_DIRS": str(tmp_path / "logs"), "KAFKA_LISTENERS": ANY_PORT}
    return refusal_of({**common, **environment}, tmp_path, *arguments)


def refusal_of(environment: Mapping[str, str], tmp_path: Path, *arguments: str) -> str:
    program = tmp_path / "minibroker"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m minibroker "$@"\n')
    program.chmod(0o755)
    completed = run({"PATH": f"{tmp_path}:/usr/bin:/bin", **environment}, *arguments)
    assert (completed.returncode, completed.stdout) == (1, ""), completed.stderr
    line = completed.stderr.removeprefix("minibroker container: ").removeprefix("minibroker: ")
    assert line.count("\n") == 1, line
    return line


@pytest.mark.parametrize(
    ("environment", "begins", "remedy"), one_in(3, REFUSED), ids=[" ".join(each[0]) for each in REFUSED]
)
def test_a_variable_that_cannot_be_honored_is_named_with_its_value_and_a_remedy_in_one_line(
    environment: Mapping[str, str], begins: str, remedy: str, tmp_path: Path
) -> None:
    line = refusal(environment, tmp_path)
    assert line.startswith(begins)
    assert remedy in line


@pytest.mark.parametrize(
    ("options", "address"),
    [
        (("--kafka-addr", "192.0.2.1:9092"), "192.0.2.1:9092"),
        (("--kafka-addr", "127.0.0.1:0", "--rpc-addr", "192.0.2.1:33145"), "192.0.2.1:33145"),
    ],
)
def test_an_address_of_redpanda_that_cannot_be_bound_is_not_blamed_on_kafkas_variables(
    options: tuple[str, ...], address: str, tmp_path: Path
) -> None:
    line = refusal_of({}, tmp_path, "--redpanda", *options, "--set", f"redpanda.data_directory={tmp_path / 'data'}")
    assert line.startswith(f"redpanda start: cannot listen on {address}: Cannot assign requested address; give 0.0.0.0")


def test_a_wrong_password_of_a_key_store_is_told_as_such_and_not_shown(tmp_path: Path) -> None:
    store = write_certificates(str(tmp_path / "certificates"), ["localhost"]).server_keystore_p12
    line = refusal({**TLS, "KAFKA_SSL_KEYSTORE_LOCATION": store, "KAFKA_SSL_KEYSTORE_PASSWORD": "a-guess"}, tmp_path)
    assert line.startswith(f"KAFKA_SSL_KEYSTORE_LOCATION={store}: ")
    assert line.endswith("Is ssl.keystore.password right?\n")
    assert "a-guess" not in line


def test_an_unknown_option_of_the_container_is_refused_in_one_line_with_the_one_that_is_like_it(tmp_path: Path) -> None:
    line = refusal({}, tmp_path, "--topics", "orders")
    assert line == "unrecognized arguments: --topics orders; did you mean --topic?\n"


@pytest.mark.parametrize(
    ("variable", "message", "expected"),
    [
        ("KAFKA_SSL_KEY_PASSWORD", "ssl.key.password: no key", "KAFKA_SSL_KEY_PASSWORD: ssl.key.password: no key"),
        ("KAFKA_LOG_DIR", "log.dirs.x: bad", "KAFKA_LOG_DIRS_X is not set: log.dirs.x: bad"),
        ("KAFKA_LOG_DIRS", "something else", "something else"),
        ("KAFKA_BROKER_ID", "node.id 1 is taken", "KAFKA_BROKER_ID=value: node.id 1 is taken"),
    ],
)
def test_a_message_names_the_variable_that_it_is_about_and_no_secret(
    variable: str, message: str, expected: str
) -> None:
    assert add_variable(message, {variable: "value"}) == expected
