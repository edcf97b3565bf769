"""The grader ends and reports brokers that die, are silent or slow, or send garbage."""

import json
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from minibroker_grade.catalogue import select_checks
from minibroker_grade.runner import Result, Target, run
from minibroker_grade.wire import Address

_PATIENCE_S = 300.0
_SHORT_S = 0.3
"""The limit for brokers that never answer. A slow machine does not affect their results."""
_CHECKS = [check for check in select_checks() if check.stage != "clients"]

Answer = Callable[[socket.socket, bytes], bool]
"""Sends a broker's answer to a request, and returns False to close the connection."""


def _silent(client: socket.socket, request: bytes) -> bool:
    return True


def _closing(client: socket.socket, request: bytes) -> bool:
    return False


def _huge(client: socket.socket, request: bytes) -> bool:
    client.sendall(struct.pack(">i", 0x7FFFFFFF))
    return True


def _large_and_late(client: socket.socket, request: bytes) -> bool:
    client.sendall(struct.pack(">i", 0x0FFFFFFF) + request[8:12])
    return True


def _trickle(client: socket.socket, request: bytes) -> bool:
    client.sendall(struct.pack(">i", 1000) + request[8:12])
    while not threading.Event().wait(_SHORT_S / 10):
        client.sendall(b"\0")
    return True


def _text(client: socket.socket, request: bytes) -> bool:
    client.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    return False


def _noise(client: socket.socket, request: bytes) -> bool:
    noise = random.Random(request[4:8]).randbytes(len(request) * 3)
    client.sendall(struct.pack(">i", len(noise) + 4) + request[8:12] + noise)
    return True


def _noise_behind_versions(client: socket.socket, request: bytes) -> bool:
    """Serve all APIs in all versions, and answer everything except ApiVersions with noise."""
    if request[4:6] != b"\0\x12":
        return _noise(client, request)
    rows = b"".join(struct.pack(">hhh", key, 0, 20) for key in range(93))
    client.sendall(struct.pack(">i", len(rows) + 10) + request[8:12] + b"\0\0" + struct.pack(">i", 93) + rows)
    return True


def _request(client: socket.socket) -> bytes:
    head = client.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        raise ConnectionError
    return head + client.recv(max(struct.unpack(">i", head)[0], 0), socket.MSG_WAITALL)


@contextmanager
def _broker(answer: Answer, *, requests: int | None = None) -> Generator[Address]:
    """Run a broker with this answer function. It ends after this many requests."""
    sockets = [socket.create_server(("127.0.0.1", 0))]
    remaining_requests = iter(range(requests)) if requests is not None else None

    def close() -> None:
        for open_socket in sockets:
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
            open_socket.close()

    def serve(client: socket.socket) -> None:
        with suppress(OSError):
            while answer(client, _request(client)):
                if remaining_requests is not None and next(remaining_requests, None) is None:
                    close()
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
        client.close()

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = sockets[0].accept()
                sockets.append(client)
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield sockets[0].getsockname()[:2]
    finally:
        close()


def _run_checks(address: Address, limit: float = _PATIENCE_S) -> list[Result]:
    checks = [replace(check, limit=limit) for check in _CHECKS]
    results = list(run(Target(address), checks))
    assert [result.check for result in results] == checks
    return results


@pytest.mark.parametrize("answer", [_silent, _large_and_late, _trickle])
def test_a_broker_without_whole_answers_is_left_after_one_check(answer: Answer) -> None:
    with _broker(answer) as address:
        first, *remaining = _run_checks(address, _SHORT_S)
    assert first.outcome == "died"
    assert "accepts connections, but has not answered ApiVersions" in first.reason
    assert {result.outcome for result in remaining} == {"skipped"}
    assert remaining[0].reason == f"the broker is gone since {first.check.name}"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (_closing, "closed the connection"),
        (_huge, "the length of the response is 2147483647"),
        (_text, "the length of the response is 1213486160: that is the text 'HTTP'"),
        (_noise, "the response cannot be read"),
    ],
)
def test_nonsense_fails_each_check_with_its_own_report(answer: Answer, words: str) -> None:
    with _broker(answer) as address:
        results = _run_checks(address)
    failed = [result for result in results if result.outcome == "failed"]
    assert len(failed) > len(_CHECKS) / 2
    assert words in failed[0].reason
    for result in failed:
        assert list(result.failure) == ["sent", "came", "expected", "why", "byte", "look"]
        assert all(result.failure.values())


def test_noise_in_all_responses_but_the_first_fails_checks_of_all_stages() -> None:
    with _broker(_noise_behind_versions) as address:
        results = _run_checks(address)
    assert {result.outcome for result in results} <= {"passed", "failed", "skipped"}
    failed = {result.check.stage for result in results if result.outcome == "failed"}
    assert failed == {check.stage for check in _CHECKS}


def test_a_broker_that_ends_in_the_middle_is_told_as_such() -> None:
    with _broker(_noise_behind_versions, requests=20) as address:
        results = _run_checks(address)
    at = next(index for index, result in enumerate(results) if result.outcome == "died")
    assert "accepts no connection any more" in results[at].reason
    assert {result.outcome for result in results[at + 1 :]} == {"skipped"}


_HEARING_SIGINT = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""A program that enables SIGINT and replaces itself with another program. Shells ignore SIGINT in background jobs."""


@pytest.mark.parametrize(
    ("number", "status", "last"),
    [(signal.SIGKILL, -signal.SIGKILL, ""), (signal.SIGINT, 128 + signal.SIGINT, "stopped after ")],
)
def test_a_grader_that_is_ended_leaves_the_results_that_it_has(
    number: signal.Signals, status: int, last: str, tmp_path: Path
) -> None:
    is_waiting = threading.Event()

    def answer(client: socket.socket, request: bytes) -> bool:
        if request[4:6] == b"\0\x12":
            return _noise_behind_versions(client, request)
        is_waiting.set()
        return True

    with _broker(answer) as (host, port):
        command = [sys.executable, "-c", _HEARING_SIGINT, sys.executable, "-m", "minibroker", "grade", f"{host}:{port}"]
        command += ["--only", "flexible", "--json", str(tmp_path / "json"), "--junit", str(tmp_path / "xml")]
        grader = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert is_waiting.wait(_PATIENCE_S)
        grader.send_signal(number)
        out, error = grader.communicate(timeout=_PATIENCE_S)
    assert (grader.returncode, error) == (status, "")
    report = json.loads((tmp_path / "json").read_text())
    failed = [check for check in report["checks"] if check["outcome"] == "failed"]
    assert failed
    assert len(report["checks"]) < report["chosen"]
    assert [line.partition(":")[0] for line in out.splitlines() if line.endswith(": failed")] == [
        check["name"] for check in failed
    ]
    assert last in out
    assert len(list(ET.parse(tmp_path / "xml").getroot().iter("failure"))) == len(failed)
