"""The tools over TLS, configured with a file of client properties."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from minibroker import Broker, Security
from tests.command_line_tools.runs import Printed, run_tool

_USERS = {"alice": "a secret"}


def write_properties(directory: Path, properties: Mapping[str, str], **changes: str | None) -> str:
    """Write a properties file. A change to None removes a property. Underscores stand for dots."""
    named = {key.replace("_", "."): value for key, value in changes.items()}
    merged = {"default.api.timeout.ms": "20000", **properties, **named}
    path = directory / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in merged.items() if value is not None))
    return str(path)


@pytest.fixture(scope="module")
def tls() -> Iterator[tuple[str, Security]]:
    security = Security("SSL")
    with Broker(security=security) as broker:
        yield broker.bootstrap_servers, security


def list_topics(bootstrap: str, config: str) -> Printed:
    return run_tool("kafka-topics", "--bootstrap-server", bootstrap, "--list", "--command-config", config)


def test_records_and_groups_go_over_tls(tls: tuple[str, Security], tmp_path: Path) -> None:
    bootstrap, security = tls
    config = write_properties(tmp_path, security.java())
    to = ("--bootstrap-server", bootstrap)
    produced = run_tool(
        "kafka-console-producer", *to, "--topic", "orders", "--producer.config", config, stdin=b"one\ntwo\n"
    )
    assert produced.status == 0, produced.err
    read = run_tool(
        "kafka-console-consumer", *to, "--topic", "orders", "--group", "readers", "--from-beginning",
        "--max-messages", "2", "--timeout-ms", "30000", "--consumer.config", config,
    )  # fmt: skip
    assert (read.status, read.out) == (0, "one\ntwo\n")
    describe = ("kafka-consumer-groups", *to, "--describe", "--group", "readers", "--timeout", "20000")
    described = run_tool(*describe, "--command-config", config)
    assert described.out.split("CLIENT-ID")[1].split()[:6] == ["readers", "orders", "0", "2", "2", "0"]
    assert "orders" in list_topics(bootstrap, config).out.split()
    assert run_tool("cub", "kafka-ready", "-b", bootstrap, "1", "20", "--config", config).status == 0


def test_a_certificate_that_is_not_trusted_is_refused(tls: tuple[str, Security], tmp_path: Path) -> None:
    bootstrap, _ = tls
    stranger = write_properties(tmp_path, Security("SSL").java())
    for config in (stranger, write_properties(tmp_path, {"security.protocol": "SSL"})):
        refused = list_topics(bootstrap, config)
        assert refused.status == 1
        assert refused.out.startswith("Error while executing topic command : SSL handshake failed: 127.0.0.1: ")
        assert "Traceback" not in refused.err


def test_a_pkcs12_store_needs_its_password(tls: tuple[str, Security], tmp_path: Path) -> None:
    bootstrap, security = tls
    files = security.certificates
    assert files is not None
    store = {"ssl_truststore_type": "PKCS12", "ssl_truststore_location": files.truststore_p12}

    def list_with_password(password: str) -> Printed:
        changes = {**store, "ssl_truststore_password": password}
        return list_topics(bootstrap, write_properties(tmp_path, security.java(), **changes))

    assert list_with_password(files.password).status == 0
    refused = list_with_password("a guess")
    assert (refused.status, "Failed to load the TLS settings" in refused.out) == (1, True)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_clients_show_certificates_and_log_in(protocol: str, tmp_path: Path) -> None:
    users = _USERS if protocol == "SASL_SSL" else {}
    security = Security(protocol, users=users, client_auth="required")
    with Broker(security=security) as broker:
        properties = security.java("alice") if users else security.java()
        assert list_topics(broker.bootstrap_servers, write_properties(tmp_path, properties)).status == 0
        bare = {key: value for key, value in properties.items() if "keystore" not in key and "ssl.key." not in key}
        refused = list_topics(broker.bootstrap_servers, write_properties(tmp_path, bare, default_api_timeout_ms="500"))
        assert (refused.status, "Traceback" in refused.err) == (1, False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ssl_truststore_location": "/nowhere"}, "/nowhere"),
        ({"ssl_truststore_type": "WORDS"}, "WORDS"),
        ({"security_protocol": "TLS"}, "security.protocol: TLS is not one of"),
        ({"default_api_timeout_ms": "soon"}, "default.api.timeout.ms"),
    ],
)
def test_wrong_settings_are_named(
    tls: tuple[str, Security], tmp_path: Path, change: dict[str, str], message: str
) -> None:
    bootstrap, security = tls
    refused = list_topics(bootstrap, write_properties(tmp_path, security.java(), **change))
    assert refused.status == 1
    assert message in refused.out + refused.err
    assert "Traceback" not in refused.err
