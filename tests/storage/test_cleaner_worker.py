"""Cleaning in a separate process."""

import errno
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from minibroker_protocol.errors import CorruptRecordError
from minibroker_storage.cleaner import CleaningAbortedError, CleaningFailedError, CleaningPlan
from minibroker_storage.cleaner.process import (
    READY,
    encode_error,
    encode_plan,
    read_outcome,
    worker_command,
    worker_environment,
)
from minibroker_storage.cleaner.worker import NICENESS
from minibroker_storage.errors import StorageError
from tests.patience import PATIENCE_S
from tests.storage.cleaning import batch, entries_in, pairs_of, plan_for, put_in_place, write_segments
from tests.storage.helpers import contents


@pytest.fixture
def plan(tmp_path: Path) -> CleaningPlan:
    """Return a plan that removes one of two records."""
    home = tmp_path / "orders-0"
    write_segments(home, {0: [batch(0, (b"a", b"1"))], 1: [batch(1, (b"a", b"2"))], 2: []})
    return plan_for(home, 2)


def worker(*runner: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    command = [*runner, *worker_command()]
    # An unbuffered pipe has nothing to flush when it is closed, which would fail after the worker has ended.
    return subprocess.Popen(command, bufsize=0, env=worker_environment(), stdin=pipe, stdout=pipe, stderr=pipe)


def work(plan_bytes: bytes, *runner: str) -> subprocess.CompletedProcess[bytes]:
    """Send a plan to a worker, keep its standard input open, and wait for it to end.

    `runner` is a command that starts the worker.
    """
    with worker(*runner) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        assert started.stderr is not None
        with suppress(BrokenPipeError):  # The worker may have ended at its start.
            started.stdin.write(plan_bytes)
        output, complaint = started.stdout.read(), started.stderr.read()
        return subprocess.CompletedProcess(worker_command(), started.wait(PATIENCE_S), output, complaint)


def test_a_worker_does_what_the_plan_says(plan: CleaningPlan) -> None:
    completed = work(encode_plan(plan))
    assert completed.stderr == b""
    result = read_outcome(completed.stdout, completed.returncode)
    put_in_place(result)
    assert pairs_of(entries_in(Path(plan.directory))) == [(1, b"a", b"2")]
    assert (result.stats.messages_read, result.stats.messages_written) == (2, 1)


def test_a_worker_needs_no_site_of_its_own_and_no_working_directory(
    plan: CleaningPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    completed = work(encode_plan(plan))
    assert read_outcome(completed.stdout, completed.returncode).next_dirty_offset == 2


def test_a_python_path_that_is_set_stays_behind_our_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "their/place")
    *ours, expected = worker_environment()["PYTHONPATH"].split(os.pathsep)
    assert expected == "their/place"
    assert any((Path(root) / "minibroker_storage" / "cleaner" / "worker.py").exists() for root in ours)


def test_a_worker_tells_that_the_log_is_gone(plan: CleaningPlan) -> None:
    completed = work(encode_plan(plan._replace(directory=plan.directory + "x")))
    with pytest.raises(CleaningAbortedError, match="orders-0x: gone"):
        read_outcome(completed.stdout, completed.returncode)


def test_a_worker_tells_that_a_log_cannot_be_cleaned(plan: CleaningPlan) -> None:
    path = Path(plan.directory) / f"{1:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    with path.open("r+b") as file:  # The plan requires the same inode.
        file.write(data)
    before = contents(Path(plan.directory))
    completed = work(encode_plan(plan))
    with pytest.raises(CleaningFailedError, match="CorruptRecordError: byte 0"):
        read_outcome(completed.stdout, completed.returncode)
    assert contents(Path(plan.directory)) == before


@pytest.mark.parametrize("question", [b"", b"{}", b"not json"])
def test_a_plan_that_is_none_is_a_failure(question: bytes) -> None:
    completed = work(question + b"\n")
    with pytest.raises(CleaningFailedError, match=r"ended with 1 and said b'\\n' Traceback"):
        read_outcome(completed.stdout, completed.returncode, completed.stderr)


def test_a_worker_that_was_killed_is_a_failure() -> None:
    with pytest.raises(CleaningFailedError, match="ended with -9"):
        read_outcome(READY, -9)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is set with prlimit")
@pytest.mark.parametrize("descriptors", [3, 4])
def test_a_worker_that_cannot_begin_may_be_able_to_later(plan: CleaningPlan, descriptors: int) -> None:
    """A worker inherits the limit of the broker, which may have no descriptors left at that time."""
    completed = work(encode_plan(plan), "prlimit", f"--nofile={descriptors}")
    with pytest.raises(StorageError, match=r"before it began: .*(Error 24|Too many open files)") as caught:
        read_outcome(completed.stdout, completed.returncode, completed.stderr)
    assert type(caught.value) is StorageError
    assert "\n" not in str(caught.value)


def test_an_error_of_the_disk_arrives_as_such() -> None:
    encoded = encode_error(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OSError, match="No space left on device") as caught:
        read_outcome(READY + encoded, 1)
    assert caught.value.errno == errno.ENOSPC


def test_an_error_of_the_bytes_arrives_with_its_name() -> None:
    with pytest.raises(CleaningFailedError, match="CorruptRecordError: byte 5"):
        read_outcome(READY + encode_error(CorruptRecordError("byte 5")), 1)


def test_a_worker_gives_way_to_everybody_else() -> None:
    expected = min(os.getpriority(os.PRIO_PROCESS, 0) + NICENESS, 19)
    with worker() as started:
        deadline = time.monotonic() + PATIENCE_S
        while os.getpriority(os.PRIO_PROCESS, started.pid) != expected:
            assert time.monotonic() < deadline
        started.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize("size", [0, 3, 20])
def test_a_worker_that_is_not_told_all_leaves_without_a_word(plan: CleaningPlan, size: int) -> None:
    with worker() as started:
        output, complaint = started.communicate(encode_plan(plan)[:size], PATIENCE_S)
    assert (output, complaint) == (b"", b"")
    assert started.returncode not in {0, 1}


def test_a_worker_ends_with_its_broker_and_leaves_everything_as_it_is(plan: CleaningPlan) -> None:
    slow = plan._replace(io_bytes_per_second=0.001)  # The cleaning would take days.
    before = contents(Path(plan.directory))
    with worker() as started:
        # This closes the worker's input, as the broker's death does.
        output, complaint = started.communicate(encode_plan(slow), PATIENCE_S)
    assert (output, complaint) == (READY, b"")
    assert started.returncode not in {0, 1}
    assert contents(Path(plan.directory)) == before
