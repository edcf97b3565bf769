"""TLS: clients that complete the handshake, their principals, and the cost of large responses."""

import errno
import re
import shutil
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from minibroker import Broker, Security
from minibroker.security.principals import Principal
from minibroker.security.tls import signing
from minibroker.security.tls.certificates import Certificates, write_certificates
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementallyAlteredConfig,
    IncrementallyAlteredResource,
)
from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.harness import batch, fetch_request, produce_request
from tests.broker.security.sasl.login import TlsClient, closes, connections_of
from tests.broker.socket_client import SocketClient

METADATA = MetadataRequest(topics=None)
ADVICE = "minibroker.support.advice"

Start = Callable[..., Broker]


@pytest.fixture
def start(certificates: Certificates) -> Iterator[Start]:
    """Starts a broker with TLS and additional settings."""
    with ExitStack() as held:

        def run(config: dict[str, Any] | None = None, **fields: Any) -> Broker:
            given = {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": certificates.server_keystore,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": certificates.ca,
            }
            listeners = "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"
            return held.enter_context(Broker(listeners=listeners, config=given | (config or {}), **fields))

        yield run


@pytest.fixture
def context(certificates: Certificates) -> ssl.SSLContext:
    """The context of a client without a certificate."""
    return ssl.create_default_context(cafile=certificates.ca)


def connect(broker: Broker, context: ssl.SSLContext) -> TlsClient:
    return TlsClient(tls_address(broker), context)


def tls_address(broker: Broker) -> tuple[str, int]:
    host, port = broker.bootstrap_servers_of("SSL").split(",")[0].split(":")
    return host, int(port)


def principals(broker: Broker) -> set[Principal]:
    return {each._session.principal for each in connections_of(broker)}


def test_each_listener_is_told_of_itself(start: Start, context: ssl.SSLContext) -> None:
    broker = start(brokers=3)
    with connect(broker, context) as client:
        brokers = client.ask(METADATA, 9).brokers
    ports = [int(each.split(":")[1]) for each in broker.bootstrap_servers_of("SSL").split(",")]
    assert [(each.host, each.port) for each in brokers] == [("127.0.0.1", port) for port in ports]
    with SocketClient(broker.address) as client:
        brokers = client.ask(METADATA, 9).brokers
    plain = [int(each.split(":")[1]) for each in broker.bootstrap_servers.split(",")]
    assert [each.port for each in brokers] == plain
    assert not set(plain) & set(ports)


def test_a_node_that_was_down_speaks_tls_again(start: Start, context: ssl.SSLContext) -> None:
    broker = start()
    node = broker.brokers[next(iter(broker.brokers))]
    where = tls_address(broker)
    with connect(broker, context) as client:
        node.stop()
        assert client.is_closed()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(where)
    node.start()
    with connect(broker, context) as client:
        assert client.ask(METADATA, 9).brokers


def alter(broker: Broker, key: str, value: str) -> AlterConfigsResourceResponse:
    """Alter a key of the TLS listener at run time."""
    config = IncrementallyAlteredConfig(name=f"listener.name.ssl.{key}", config_operation=0, value=value)
    with SocketClient(broker.address) as client:
        node = client.ask(METADATA, 9).brokers[0].node_id
        resource = IncrementallyAlteredResource(resource_type=4, resource_name=str(node), configs=[config])
        found: AlterConfigsResourceResponse
        (found,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1).responses
    return found


def test_a_key_store_can_be_replaced_while_the_broker_runs(
    start: Start, context: ssl.SSLContext, tmp_path: Path
) -> None:
    broker = start()
    others = [write_certificates(str(tmp_path / name), []) for name in ("first", "second")]
    with connect(broker, context) as before:
        assert alter(broker, "ssl.keystore.location", others[0].server_keystore).error_code == 0
        with connect(broker, ssl.create_default_context(cafile=others[0].ca)) as client:
            assert client.ask(METADATA, 9).brokers
        with pytest.raises(ssl.SSLCertVerificationError):
            connect(broker, context)
        assert before.ask(METADATA, 9).brokers
    # The file has changed, but its name has not.
    shutil.copy(others[1].server_keystore, others[0].server_keystore)
    assert alter(broker, "ssl.keystore.location", others[0].server_keystore).error_code == 0
    with connect(broker, ssl.create_default_context(cafile=others[1].ca)) as client:
        assert client.ask(METADATA, 9).brokers


@pytest.mark.parametrize("key", ["ssl.keystore.location", "ssl.truststore.location"])
@pytest.mark.parametrize("content", [None, "no store"])
def test_a_store_that_cannot_be_used_is_refused_and_the_old_one_stays(
    start: Start, context: ssl.SSLContext, tmp_path: Path, key: str, content: str | None
) -> None:
    broker = start({"ssl.client.auth": "requested"})
    path = tmp_path / "store"
    if content is not None:
        path.write_text(content)
    answer = alter(broker, key, str(path))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert str(path) in (answer.error_message or "")
    with connect(broker, context) as client:
        assert client.ask(METADATA, 9).brokers


@pytest.mark.parametrize("asked", ["requested", "required"])
def test_a_certificate_says_who_the_client_is(
    start: Start, context: ssl.SSLContext, certificates: Certificates, asked: str
) -> None:
    broker = start({"ssl.client.auth": asked})
    context.load_cert_chain(certificates.client_certificate, certificates.client_key)
    with connect(broker, context) as client:
        assert client.ask(METADATA, 9).brokers
        assert principals(broker) == {Principal("User", "CN=client")}


def test_without_a_certificate_a_client_is_nobody_or_stays_outside(start: Start, context: ssl.SSLContext) -> None:
    with connect(start({"ssl.client.auth": "requested"}), context) as client:
        assert client.ask(METADATA, 9).brokers
    strict = start({"ssl.client.auth": "required"})
    with pytest.raises((ConnectionError, ssl.SSLError)), connect(strict, context) as client:
        client.ask(METADATA, 9)


def test_a_certificate_of_somebody_else_is_not_taken(start: Start, context: ssl.SSLContext, tmp_path: Path) -> None:
    others = write_certificates(str(tmp_path / "others"))
    context.load_cert_chain(others.client_certificate, others.client_key)
    with (
        pytest.raises((ConnectionError, ssl.SSLError)),
        connect(start({"ssl.client.auth": "required"}), context) as client,
    ):
        client.ask(METADATA, 9)


def test_each_certificate_in_the_trust_store_is_trusted(
    start: Start, context: ssl.SSLContext, certificates: Certificates, tmp_path: Path
) -> None:
    twins = [signing.sign("twin") for _ in range(2)]
    without_its_authority = signing.sign("signed", signing.sign("an authority that is not there"))
    clients = [*twins, without_its_authority]
    trusted, shown = tmp_path / "trusted.pem", tmp_path / "shown.pem"
    trusted.write_bytes(Path(certificates.ca).read_bytes() + b"".join(map(signing.pem, clients)))
    broker = start({"ssl.client.auth": "required", "ssl.truststore.location": str(trusted)})
    for signed in clients:
        shown.write_bytes(signing.key_pem(signed) + signing.pem(signed))
        context.load_cert_chain(shown)
        with connect(broker, context) as client:
            assert client.ask(METADATA, 9).brokers


def test_names_are_mapped_and_who_fits_no_rule_stays_outside(
    start: Start, context: ssl.SSLContext, certificates: Certificates
) -> None:
    context.load_cert_chain(certificates.client_certificate, certificates.client_key)
    mapped = {"ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U"}
    broker = start(mapped)
    with connect(broker, context) as client:
        assert client.ask(METADATA, 9).brokers
        assert principals(broker) == {Principal("User", "CLIENT")}
    with connect(start({**mapped, "ssl.principal.mapping.rules": "RULE:^CN=other$/x/"}), context) as client:
        client.send(METADATA, 9)
        assert client.is_closed()


def test_with_sasl_a_certificate_counts_only_where_the_listener_asks_for_it(
    certificates: Certificates, context: ssl.SSLContext
) -> None:
    security = Security(users={"alice": "secret"}, certificates=str(Path(certificates.ca).parent))
    broad = {"ssl.client.auth": "required"}
    with Broker(security=security, config=broad) as broker, TlsClient(broker.address, context) as client:
        assert client.socket.version()
    own = {"listener.name.sasl_ssl.ssl.client.auth": "required"}
    with (
        Broker(security=security, config=own) as broker,
        pytest.raises((ConnectionError, ssl.SSLError)),
        TlsClient(broker.address, context) as client,
    ):
        client.ask(METADATA, 9)


def test_versions_and_suites_are_those_that_are_configured(start: Start, context: ssl.SSLContext) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    old = start({"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": suite})
    with connect(old, context) as client:
        assert client.socket.version() == "TLSv1.2"
        assert client.socket.cipher()[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    with pytest.raises(ssl.SSLError):
        connect(old, context)
    with pytest.raises(ssl.SSLError):
        connect(start({"ssl.enabled.protocols": "TLSv1.3"}), context)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"ssl.enabled.protocols": "SSLv3"}, "of SSLv3 none is served, only TLSv1.2, TLSv1.3 are"),
        ({"ssl.cipher.suites": "TLS_NONE_WITH_NULL"}, "ssl.cipher.suites: none of"),
        ({"ssl.keystore.location": ""}, "ssl.keystore.location is missing.*minibroker certificates DIR"),
        ({"ssl.keystore.type": "JKS"}, "for PEM set the type to PEM"),
        ({"ssl.keystore.location": "{ca}"}, "ca.pem: .*"),
        ({"ssl.client.auth": "required", "ssl.truststore.location": "{key}"}, "holds no certificates in PEM"),
        ({"ssl.client.auth": "sometimes"}, "none"),
        ({"ssl.principal.mapping.rules": "x"}, "is not a rule"),
        ({"listener.name.ssl.ssl.client.auth": "sometimes"}, "listener.name.ssl.ssl.client.auth"),
    ],
)
def test_what_cannot_be_is_told_at_the_start(
    start: Start, certificates: Certificates, config: dict[str, str], reason: str
) -> None:
    places = {"{ca}": certificates.ca, "{key}": certificates.client_key}
    with pytest.raises(ValueError, match=reason):
        start({name: places.get(value, value) for name, value in config.items()})


def test_a_key_may_have_a_password_and_stand_in_the_configuration_itself(
    certificates: Certificates, context: ssl.SSLContext
) -> None:
    key = load_pem_private_key(Path(certificates.server_key).read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"key secret")).decode()
    config = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": locked,
        "ssl.keystore.certificate.chain": Path(certificates.server_certificate).read_text(),
        "ssl.key.password": "key secret",
    }
    with Broker(listeners="SSL://127.0.0.1:0", config=config) as broker, TlsClient(broker.address, context) as client:
        assert client.ask(METADATA, 9).brokers
    for wrong in ({**config, "ssl.key.password": "x"}, {k: v for k, v in config.items() if k != "ssl.key.password"}):
        with pytest.raises(ValueError, match=r"Is ssl\.key\.password right"):
            Broker(listeners="SSL://127.0.0.1:0", config=wrong).start()


def test_plain_text_on_a_tls_port_ends_with_advice(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    broker = start()
    for _ in range(2):
        with SocketClient(tls_address(broker)) as client:
            client.send(METADATA, 9)
            assert closes(client)
    settle(broker)
    (record,) = [each for each in caplog.records if each.name == ADVICE]
    assert (record.levelname, "a client does not use TLS" in record.message) == ("WARNING", True)


def test_tls_on_a_plaintext_port_ends_with_advice(
    start: Start, context: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start()
    for _ in range(2):
        with pytest.raises((ConnectionError, ssl.SSLError)):
            TlsClient(broker.address, context)
    settle(broker)
    (record,) = [each for each in caplog.records if each.name == ADVICE]
    assert record.levelname == "WARNING"
    assert "a client speaks TLS, but the listener PLAINTEXT does not: give the client security.protocol=PLAINTEXT," in (
        record.message
    )
    assert 'Kafka logs "Invalid receive (size = 369295' in record.message


def test_a_client_that_does_not_trust_the_broker_is_advised(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", ADVICE)
    broker = start()
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(broker, ssl.create_default_context())
    with connect(broker, insecure()) as client:
        assert client.ask(METADATA, 9).brokers
    settle(broker)
    assert "does not trust the broker's certificate" in caplog.text


def settle(broker: Broker) -> None:
    """Let the broker's event loop run its deferred callbacks."""
    for _ in range(3):
        broker.wait(_held(broker))


def insecure() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_a_client_for_whom_no_descriptor_is_left_is_let_go(
    start: Start, context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: socket.socket) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    broker = start()
    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "dup", fail)
        with SocketClient(tls_address(broker)) as client:
            client.send_bytes(b"hello")
            assert closes(client)
    with connect(broker, context) as client:
        assert client.ask(METADATA, 1).brokers
    assert [each.getMessage() for each in caplog.records if each.levelname in {"WARNING", "ERROR"}] == [
        "A connection could not be taken: Too many open files"
    ]


def test_a_broker_that_stops_does_not_wait_for_handshakes(start: Start) -> None:
    broker = start()
    with SocketClient(tls_address(broker)) as client, SocketClient(tls_address(broker)) as other:
        other.send_bytes(b"\x16\x03\x01\x02\x00\x01")
        broker.stop()
        assert closes(client)
        assert closes(other)


def test_records_come_whole_through_tls_and_a_slow_reader_costs_little(start: Start, context: ssl.SSLContext) -> None:
    broker = start({"message.max.bytes": 8 << 20}, topics=["t"])
    value = bytes(range(256)) * (4 << 10)  # 1 MiB
    with connect(broker, context) as client:
        for _ in range(32):
            client.ask(produce_request(batch(value)), 9)
        sent = client.send(
            fetch_request(("t", 0, 0), max_bytes=64 << 20, partition_max_bytes=64 << 20, max_wait_ms=0), 12
        )
        (length,) = struct.unpack(">i", client.receive_bytes(4))
        assert length > 32 << 20
        assert broker.wait(_held(broker)) < 2 << 20  # The client has read four bytes.
        data = client.receive_bytes(length)
    assert struct.unpack_from(">i", data) == (sent,)
    assert len(re.findall(re.escape(value[:4096]), data)) == 32 * 256
    assert data.count(value) == 32


async def _held(broker: Broker) -> int:
    """Return the number of bytes that the broker holds for its connections."""
    return sum(each._transport.get_write_buffer_size() for each in connections_of(broker))


def test_a_client_that_goes_in_the_middle_of_an_answer_is_forgotten(start: Start, context: ssl.SSLContext) -> None:
    broker = start({"message.max.bytes": 8 << 20}, topics=["t"])
    with connect(broker, context) as client:
        for _ in range(8):
            client.ask(produce_request(batch(bytes(1 << 20))), 9)
        client.send(fetch_request(("t", 0, 0), max_bytes=64 << 20, partition_max_bytes=64 << 20), 12)
        client.receive_bytes(4)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with connect(broker, context) as client:
        assert client.ask(METADATA, 9).brokers
