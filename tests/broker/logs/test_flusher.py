"""Group commit: which requests an fsync covers, and how errors are reported."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minibroker.cluster.logs.flusher import Flusher, flush_now
from minibroker_storage.flush import LogFlush
from minibroker_storage.log import Log
from tests.broker.harness import Harness, batch


class Rig:
    """Flushes of a broker's logs that run when a test lets them."""

    def __init__(self, path: Path) -> None:
        self.harness = Harness(str(path))
        self.harness.create("t", 3)
        self.soon: list[Callable[[], None]] = []
        self.running: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.flusher = Flusher(self.soon.append, self.background)
        self.finished: list[tuple[str, OSError | None]] = []

    def background(self, work: Callable[[], None], then: Callable[[], None] | None = None) -> None:
        assert then is not None
        self.running.append((work, then))

    def log(self, partition: int = 0) -> Log:
        return self.harness.topic().partitions[partition].log

    def produce(self, partition: int = 0) -> None:
        assert self.harness.produce(batch(b"x"), "t", partition).error_code == 0

    def ask(self, name: str, partition: int = 0) -> None:
        self.flusher.request(self.log(partition), lambda error: self.finished.append((name, error)))

    def names(self) -> list[str]:
        return [name for name, _ in self.finished]

    def wake_up_ends(self) -> None:
        while self.soon:
            self.soon.pop(0)()

    def fsync_ends(self) -> None:
        work, then = self.running.pop(0)
        work()
        then()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    new_rig = Rig(tmp_path / "data")
    yield new_rig
    new_rig.harness.close()


def test_what_is_asked_for_in_one_wake_up_is_one_fsync(rig: Rig) -> None:
    for partition in (0, 1):
        rig.produce(partition)
    for name, partition in (("a", 0), ("b", 1), ("c", 0)):
        rig.ask(name, partition)
    assert not rig.running  # Later appends of the wake-up belong to it, too.
    rig.produce(0)
    rig.wake_up_ends()
    assert (len(rig.running), rig.finished) == (1, [])
    rig.fsync_ends()
    assert sorted(rig.finished) == [("a", None), ("b", None), ("c", None)]
    assert [rig.log(partition).recovery_point for partition in (0, 1)] == [2, 1]
    assert not rig.running


def test_what_is_asked_for_while_an_fsync_runs_is_covered_by_the_next_one(rig: Rig) -> None:
    rig.produce()
    rig.ask("a")
    rig.wake_up_ends()
    for name in ("b", "c", "d"):
        rig.produce()
        rig.ask(name)
        rig.wake_up_ends()
    assert len(rig.running) == 1
    rig.fsync_ends()
    assert (rig.names(), len(rig.running)) == (["a"], 1)
    assert rig.log().recovery_point == 1
    rig.fsync_ends()
    assert (rig.names(), rig.running) == (["a", "b", "c", "d"], [])
    assert rig.log().recovery_point == 4


def test_a_log_that_is_on_disk_needs_no_fsync(rig: Rig) -> None:
    rig.produce()
    rig.ask("a")
    rig.wake_up_ends()
    rig.fsync_ends()
    rig.ask("b")
    rig.wake_up_ends()
    assert (rig.names(), rig.running) == (["a", "b"], [])
    rig.produce()
    rig.ask("c")
    rig.wake_up_ends()
    rig.fsync_ends()
    assert rig.names() == ["a", "b", "c"]


def test_who_is_told_may_ask_again(rig: Rig) -> None:
    rig.produce()
    rig.flusher.request(rig.log(), lambda _: rig.ask("again"))
    rig.wake_up_ends()
    rig.fsync_ends()
    rig.wake_up_ends()
    assert rig.names() == ["again"]


def test_a_failed_fsync_is_told_to_those_who_wait_for_it_and_logged(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for partition in (0, 1):
        rig.produce(partition)
    rig.ask("a", 0)
    rig.ask("b", 1)
    rig.wake_up_ends()
    error = OSError(5, "Input/output error")
    failures = [error, None]
    with monkeypatch.context() as patched:
        run = LogFlush.run

        def failing(self: LogFlush) -> None:
            if failure := failures.pop(0):
                raise failure
            run(self)

        patched.setattr(LogFlush, "run", failing)
        rig.fsync_ends()
    assert rig.finished == [("a", error), ("b", None)]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert [rig.log(partition).recovery_point for partition in (0, 1)] == [0, 1]
    rig.ask("c", 0)
    rig.wake_up_ends()
    rig.fsync_ends()
    assert rig.finished[-1] == ("c", None)
    assert rig.log().recovery_point == 1


def test_a_log_that_closes_while_its_fsync_runs_is_no_error(rig: Rig) -> None:
    rig.produce()
    log = rig.log()
    rig.ask("a")
    rig.wake_up_ends()
    log.delete()
    rig.fsync_ends()
    rig.flusher.request(log, lambda error: rig.finished.append(("b", error)))
    rig.wake_up_ends()
    assert rig.finished == [("a", None), ("b", None)]


@pytest.mark.parametrize("partitions", [1, 3])
def test_all_can_be_forced_to_disk_at_once(rig: Rig, partitions: int) -> None:
    for partition in range(partitions):
        rig.produce(partition)
    logs = [rig.log(partition) for partition in range(partitions)]
    assert flush_now(logs)
    assert [log.recovery_point for log in logs] == [1] * partitions
    assert flush_now(logs)


def test_an_error_says_that_not_all_is_on_disk(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig.produce()

    def failing(self: LogFlush) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(LogFlush, "run", failing)
    assert not flush_now([rig.log()])
    assert rig.log().recovery_point == 0
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
