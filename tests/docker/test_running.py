"""The health check of the image finds what listens by the command lines of processes, as /proc has them."""

import re
import socket
from pathlib import Path

import pytest

from minibroker_container import health, lists, sockets


def process(proc: Path, pid: int, *words: str) -> Path:
    """Make the folder of a process."""
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "cmdline").write_bytes("".join(f"{word}\0" for word in words).encode())
    return folder


KAFKA = ("/opt/minibroker/bin/python", "-Xkafka.Kafka", "/opt/minibroker/bin/minibroker", "serve")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], [("127.0.0.1:9092", "PLAINTEXT")]),
        (
            [
                "--listen",
                "0.0.0.0:29092",
                "--also-listen",
                "broker:9092=localhost:9092",
                "--silent-port",
                "0.0.0.0:9093",
                "--link",
                "0.0.0.0:9095",
            ],
            [("0.0.0.0:29092", "PLAINTEXT"), ("broker:9092", "PLAINTEXT"), ("0.0.0.0:9093", ""), ("0.0.0.0:9095", "")],
        ),
        (
            [
                *("--set", "listeners=CONTROLLER://:9093,OUT://:9094,PLAINTEXT://kafka:9092"),
                *("--set", "listener.security.protocol.map=OUT:SASL_SSL,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
            ],
            [("kafka:9092", "PLAINTEXT"), ("0.0.0.0:9094", "SASL_SSL")],
        ),
        (["--listen=[::]:9092", "--topic", "serve", "--no-such-option"], [("[::]:9092", "PLAINTEXT")]),
        (["--listen", "127.0.0.1:0", "--data-dir", "/data"], []),
    ],
)
def test_a_broker_is_found_with_its_listeners(
    tmp_path: Path, arguments: list[str], expected: list[tuple[str, str]]
) -> None:
    process(tmp_path, 1, "sh", "-c", "exec minibroker serve --listen :1")
    process(tmp_path, 7, *KAFKA, *arguments)
    process(tmp_path, 8, "/opt/minibroker/bin/python", "/opt/minibroker/bin/entrypoint.py", "--check-health")
    assert health.addresses(tmp_path) == expected


def test_files_of_a_broker_are_read_as_far_as_they_may_be(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("listeners=SSL://:9093\n")
    missing = "/proc/self/fd/9"  # of another user, as the health check sees it
    process(tmp_path, 7, *KAFKA, "--config", str(properties), "--config", missing)
    assert health.addresses(tmp_path) == [("0.0.0.0:9093", "SSL")]
    write_secrets = process(tmp_path, 8, *KAFKA, "--config", "/proc/self/fd/3")
    (write_secrets / "fd" / "3").write_text("listeners=SASL_SSL://:9094\n")
    assert health.addresses(tmp_path)[1:] == [("0.0.0.0:9094", "SASL_SSL")]


def test_a_controller_is_found_with_its_ports(tmp_path: Path) -> None:
    process(tmp_path, 1, "python", "/opt/minibroker/bin/entrypoint.py", lists.HOLD_PORTS, "7", "0.0.0.0:9093")
    assert health.addresses(tmp_path) == [("0.0.0.0:9093", "")]


def test_a_container_without_a_broker_or_with_a_dead_port_is_not_healthy() -> None:
    with pytest.raises(OSError, match=r"^no broker runs in this container$"):
        health.check_all([])
    with socket.socket() as unheard:  # bound, so that nobody else has the port
        unheard.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unheard.getsockname()[1]}"
        for protocol in ("PLAINTEXT", "SASL_SSL", ""):
            with pytest.raises(OSError, match=f"^{re.escape(address)}: "):
                health.check_all([(address, protocol)])


TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid
   0: 00000000:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000
   1: 0100007F:2384 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000
"""
TCP6 = """  sl  local_address                         remote_address                        st
   0: 00000000000000000000000000000000:2385 00000000000000000000000000000000:0000 0A
"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-plnt"], ["0.0.0.0:9092 0.0.0.0:* LISTEN", ":::9093 :::* LISTEN"]),
        (["-t", "-n"], ["127.0.0.1:9092 127.0.0.1:50000 ESTABLISHED"]),
        (
            ["-an"],
            ["0.0.0.0:9092 0.0.0.0:* LISTEN", "127.0.0.1:9092 127.0.0.1:50000 ESTABLISHED", ":::9093 :::* LISTEN"],
        ),
    ],
)
def test_netstat_shows_the_sockets_that_its_options_ask_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], expected: list[str]
) -> None:
    (tmp_path / "tcp").write_text(TCP)
    (tmp_path / "tcp6").write_text(TCP6)
    assert sockets.main(options, tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [" ".join(line.split()[3:]) for line in lines] == expected
