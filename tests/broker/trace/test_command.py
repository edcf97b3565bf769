"""The command line of the proxy: how it ends, its messages, and its handling of slow clients."""

import asyncio
import contextlib
import json
import shlex
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final
from unittest.mock import Mock

import pytest
from confluent_kafka.admin import AdminClient

from minibroker import Broker
from minibroker.cli.main import main
from minibroker.security.setup import Security
from minibroker.security.tls.certificates import write_certificates
from minibroker_lab.trace.proxy import Proxy
from minibroker_protocol.messages.cluster import DescribeClusterRequest
from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.harness import batch, produce_request
from tests.broker.socket_client import SocketClient, address_of
from tests.clients.broker_process import environment
from tests.clients.trace_process import TraceProcess
from tests.documented import code
from tests.kafka.real_kafka import free_ports
from tests.patience import PATIENCE_S

ATTEMPTS: Final = 5


@pytest.fixture
def behind() -> Iterator[Broker]:
    with Broker(topics=["t"], journal=True) as broker:
        yield broker


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["trace", *arguments]) == 1
    return capsys.readouterr().err


def test_bad_options_name_the_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    odd = tmp_path / "odd.properties"
    odd.write_text("security.protocol=TLS\n")
    torn = tmp_path / "torn.properties"
    torn.write_text("ssl.key.password=\\u12\n")
    store = tmp_path / "store.properties"
    store.write_text(f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={tmp_path}/none.pem\n")
    message = "minibroker: --to: 'kafka' is not HOST:PORT, with a port of 0 to 65535\n"
    assert complaint(capsys, "--to", "kafka") == message
    assert "--to: '0.0.0.0:9092' leads clients nowhere" in complaint(capsys, "--to", "0.0.0.0:9092")
    assert "--listen: 'x' is not HOST:PORT" in complaint(capsys, "--to", "h:1", "--listen", "x")
    message = "security.protocol: TLS is not one of PLAINTEXT, SASL"
    assert message in complaint(capsys, "--to", "h:1", "--to-config", str(odd))
    assert f"--to-config {torn}: line 1: " in complaint(capsys, "--to", "h:1", "--to-config", str(torn))
    assert "none.pem" in complaint(capsys, "--to", "h:1", "--to-config", str(store))
    assert f"{tmp_path}/none: No such file" in complaint(capsys, "--to", "h:1", "--to-config", f"{tmp_path}/none")
    assert f"{tmp_path}/no/f: No such file" in complaint(capsys, "--to", "h:1", "--json", f"{tmp_path}/no/f")


def test_a_broker_that_is_not_there_and_a_taken_port_are_told(
    behind: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # Nothing listens on this port, and no other process gets it.
        port = silent.getsockname()[1]
        message = complaint(capsys, "--to", f"127.0.0.1:{port}", "--listen", "127.0.0.1:0")
    assert message.startswith(f"minibroker: --to: the broker at 127.0.0.1:{port} cannot be reached: ")
    to = behind.bootstrap_servers
    assert complaint(capsys, "--to", to, "--listen", to).startswith(f"minibroker: --listen: {to} cannot be bound: ")
    message = complaint(capsys, "--to", to, "--to-tls", "--listen", "127.0.0.1:0")
    assert message.startswith(f"minibroker: --to: the broker at {to} cannot be reached: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_with_status_0(behind: Broker, tmp_path: Path, number: signal.Signals) -> None:
    trace = TraceProcess(behind.bootstrap_servers, tmp_path)
    with SocketClient(address_of(trace.bootstrap)) as client:
        client.ask(MetadataRequest(topics=None), 12)
        assert trace.end(number) == 0
        assert client.is_closed()
    assert [entry["api"] for entry in trace.entries()] == ["Metadata"]
    assert trace.complaints() == ""


def test_the_documented_command_has_a_line_for_each_request(behind: Broker) -> None:
    (command_line,) = code("docs/trace.md", "Requests on their way", "sh")
    assert "--to 127.0.0.1:9092" in command_line
    documented = shlex.split(command_line.replace("127.0.0.1:9092", behind.bootstrap_servers))
    command = [sys.executable, "-m", *documented, "--listen", "127.0.0.1:0"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), text=True)
    try:
        assert child.stdout is not None
        listen = dict(word.split("=", 1) for word in child.stdout.readline().split() if "=" in word)["listen"]
        with SocketClient(address_of(listen)) as client:
            client.ask(produce_request(batch(b"a", b"b")), 9)
            client.ask(produce_request(batch(b"a"), "none"), 9)
        child.terminate()
        lines = child.stdout.read()
        assert child.stderr is not None
        assert (child.wait(PATIENCE_S), child.stderr.read()) == (0, "")
    finally:
        child.kill()
        child.communicate()
    heading, first, second = lines.splitlines()
    (output,) = code("docs/trace.md", "Requests on their way", "text")
    assert heading.split() == output.splitlines()[0].split()
    assert f"Produce v9                  t-0 (2 records, {len(batch(b'a', b'b'))} bytes)" in first
    assert "none-0 (1 record, " in second
    assert " UNKNOWN_TOPIC_OR_PARTITION " in second


def test_unknown_apis_pass_as_bytes(tmp_path: Path) -> None:
    """The server stands for a broker of another vendor, and accepts any request."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        to = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            TraceProcess(to, tmp_path) as trace,
            closing(socket.create_connection(address_of(trace.bootstrap))) as client,
        ):
            server.accept()[0].close()  # The proxy first checks that the broker is reachable.
            request = struct.pack(">ihhih", 13, 999, 3, 77, 1) + b"xyz"
            response = struct.pack(">ii", 9, 77) + b"hello"
            client.sendall(request)
            with closing(server.accept()[0]) as broker:
                assert received(broker, len(request)) == request
                broker.sendall(response)
                assert received(client, len(response)) == response
    (entry,) = trace.entries()
    assert (entry["api"], entry["version"], entry["clientId"], entry["correlationId"]) == ("API 999", 3, "x", 77)
    assert entry["requestBytes"] == {"size": len(request), "hex": request[4:].hex()}
    assert entry["responseBytes"] == {"size": len(response), "hex": response[4:].hex()}


def received(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        assert piece
        data += piece
    return data


def test_a_client_that_reads_nothing_holds_up_the_broker_and_not_the_memory() -> None:
    """The socket buffers stop a broker that sends endlessly, as they would without a proxy."""

    async def check() -> None:
        # Clients of earlier tests may still look for a broker at this port: each connection gets data, and is aborted.
        accepted: set[asyncio.StreamWriter] = set()
        server = await asyncio.start_server(lambda _, writer: accepted.add(writer), "127.0.0.1", 0)
        proxy = Proxy(("127.0.0.1", server.sockets[0].getsockname()[1]), ("127.0.0.1", 0), None, Mock())
        try:
            await proxy.start()
            with socket.create_connection(proxy.address):
                chunk = struct.pack(">i", (1 << 20) - 4) + bytes((1 << 20) - 4)
                while not proxy.sides:  # noqa: ASYNC110 - nothing tells that a connection is accepted
                    await asyncio.sleep(0)
                (side,) = proxy.sides
                while side.other is None or "full" not in side.other._holds:
                    for writer in accepted:
                        if not writer.is_closing():
                            writer.write(chunk)
                    await asyncio.sleep(0)
                assert side.transport is not None
                assert side.transport.get_write_buffer_size() < 1 << 20
                assert side.other.transport is not None
                assert not side.other.transport.is_reading()
        finally:
            proxy.close()
            server.close()
            for writer in accepted:
                writer.transport.abort()

    asyncio.run(check())


def on_a_free_port(to: str, directory: Path) -> TraceProcess:
    """Start a proxy on a given free port. If another process takes the port first, try again with another one."""
    for _ in range(ATTEMPTS):
        with contextlib.suppress(AssertionError):
            return TraceProcess(to, directory, listen=f"127.0.0.1:{free_ports(1)[0]}")
    raise AssertionError((directory / "trace.stderr").read_text())


def test_several_brokers_get_ports_in_a_row_where_these_are_free(tmp_path: Path) -> None:
    with Broker(brokers=3) as behind:
        to = behind.bootstrap_servers.split(",")[0]
        with on_a_free_port(to, tmp_path) as trace:
            port = address_of(trace.bootstrap)[1]
            with SocketClient(address_of(trace.bootstrap)) as client:
                brokers = client.ask(DescribeClusterRequest(include_cluster_authorized_operations=False), 1).brokers
            ports = sorted(broker.port for broker in brokers)
            assert ports[0] == port
            assert len(set(ports)) == 3
            for broker in brokers:
                with SocketClient((broker.host, broker.port)) as client:
                    again = client.ask(MetadataRequest(topics=None), 12).brokers
                    assert sorted((address.host, address.port) for address in again) == [
                        ("127.0.0.1", address) for address in ports
                    ]
    replaced = [entry["replaced"] for entry in trace.entries()]
    assert len(replaced) == 4
    assert all(replacements == replaced[0] for replacements in replaced)
    assert json.dumps(replaced[0]).count("127.0.0.1") == 6


def test_tls_towards_the_broker_and_logins_that_pass_masked(tmp_path: Path) -> None:
    certificates = write_certificates(str(tmp_path / "certificates"))
    config = tmp_path / "client.properties"
    config.write_text(
        f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={certificates.ca}\n"
    )
    security = Security(users={"alice": "hunter2"}, certificates=str(tmp_path / "certificates"))
    with (
        Broker(security=security) as behind,
        TraceProcess(behind.bootstrap_servers, tmp_path, ["--to-config", str(config)]) as trace,
    ):
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            login: dict[str, str | int | float | bool] = {
                "bootstrap.servers": trace.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.username": "alice",
                "sasl.password": "hunter2",
            }
            assert AdminClient(login).list_topics(timeout=PATIENCE_S).brokers
        lines = trace.lines
    text = lines.read_text()
    assert "hunter2" not in text
    logins = [entry for entry in trace.entries() if entry["api"] == "SaslAuthenticate"]
    assert len(logins) >= 3  # Each connection sends one PLAIN token or two SCRAM tokens.
    assert {entry["request"]["authBytes"] for entry in logins} == {"[hidden]"}
    assert {error for entry in logins for error in entry["errors"]} == set()
