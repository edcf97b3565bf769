"""The health check of the image, by what its processes report."""

import asyncio
import contextlib
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker import Broker
from minibroker_container import health
from tests.docker.test_meeting import Containers, held_in, until
from tests.patience import PATIENCE_S
from tests.programs import run_program

CHECK = Path(__file__).parents[2] / "docker" / "rootfs" / "usr" / "bin" / "minibroker-health"


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the report, as if this process ran in the image."""
    path = tmp_path / "report"
    monkeypatch.setattr(health, "REPORT", str(path))
    monkeypatch.setattr(health, "_IMAGE", sys.prefix)
    return path


def check(report: Path) -> tuple[int, str]:
    """Run the check and return its status and what it prints."""
    done = run_program(["bash", str(CHECK), str(report)])
    return done.returncode, done.stdout


@contextlib.contextmanager
def closing_server() -> Iterator[str]:
    """Yield the address of a server that closes each connection without an answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close_each() -> None:
            with contextlib.suppress(OSError):
                while True:
                    server.accept()[0].close()

        thread = threading.Thread(target=close_each)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE_S)


def test_a_container_is_healthy_while_all_its_ports_answer(report: Path, broker: Broker) -> None:
    address = broker.bootstrap_servers
    with closing_server() as other:
        health.report_ports([("PLAINTEXT", address), ("SASL_PLAINTEXT", address), ("SASL_SSL", other), ("", other)])
        assert check(report) == (0, "")
        health.report_ports([("PLAINTEXT", address), ("PLAINTEXT", other)])
        assert check(report) == (1, f"{other} does not answer\n")
    health.report_ports([("", other)])
    assert check(report) == (1, f"{other} accepts no connection\n")


def test_a_container_that_waits_is_not_healthy_and_says_why(report: Path) -> None:
    health.report("waiting: kafka-1:9093 does not answer")
    assert check(report) == (1, "waiting: kafka-1:9093 does not answer\n")


async def test_a_broker_of_a_cluster_is_healthy_while_the_holder_of_the_logs_is_there(
    report: Path, tmp_path: Path
) -> None:
    containers = Containers(tmp_path)
    held_in(tmp_path, 0, 1)
    stop = asyncio.Event()
    member = asyncio.create_task(containers.run(1, stop))
    expected = "waiting: this broker waits for broker 0, which holds the logs of this cluster\n"
    for _ in range(2):
        await until(lambda: report.exists() and report.read_text() == expected)
        assert await asyncio.to_thread(check, report) == (1, expected)
        stop_holder = asyncio.Event()
        holder = asyncio.create_task(containers.run(0, stop_holder))
        await until(lambda: report.read_text() == f"PLAINTEXT 127.0.0.1 {containers.ports[4]}\n")
        assert await asyncio.to_thread(check, report) == (0, "")
        stop_holder.set()
        await holder
    stop.set()
    await member


def test_ports_are_reported_as_the_container_reaches_them(report: Path) -> None:
    health.report_ports([("SSL", "0.0.0.0:9092"), ("PLAINTEXT", "[::1]:9093"), ("", ":9094"), ("PLAINTEXT", "a:9095")])
    assert report.read_text() == "SSL 127.0.0.1 9092\nPLAINTEXT ::1 9093\nsilent 127.0.0.1 9094\nPLAINTEXT a 9095\n"


def test_nothing_is_reported_outside_of_the_image(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    health.report("waiting: nothing\n")
    assert not report.exists()
