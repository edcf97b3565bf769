"""A kill at every step: between any two system calls that change files, and in the middle of any write.

The broker runs in this process, on a clock that stands still unless it is moved. The calls of the `os` module that
change files are counted; from a chosen one on none is made any more, which leaves the files as `kill -9` at that moment
would. What the random kills of `campaign` find by luck, such as a kill between the two renames of a swap, is found
here every time.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from minibroker_protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from tests.torture.in_process import NONE, Torture, sliced
from tests.torture.ledger import Ledger, RecordLedger
from tests.torture.workload import MAGIC_V0, MAGIC_V1, Sent, Topic

CHANGING: Final = (
    "ftruncate",
    "link",
    "mkdir",
    "open",
    "pwrite",
    "pwritev",
    "remove",
    "rename",
    "replace",
    "rmdir",
    "truncate",
    "unlink",
    "write",
)
_FORCING: Final = ("fdatasync", "fsync")
_CREATES: Final = os.O_CREAT | os.O_TRUNC
_TINY: Final = {"segment.bytes": "2500", "index.interval.bytes": "100", "segment.index.bytes": "240"}
TOPICS: Final = (
    Topic("plain", 1, _TINY, most_records=8),
    Topic(
        "compacted",
        1,
        {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "1000", **_TINY},
        most_records=8,
    ),
    Topic("retained", 1, {"retention.bytes": "4000", **_TINY}, most_records=8),
    Topic("trimmed", 1, _TINY, most_records=8, is_trimmed=True),
    Topic("old", 1, {"message.format.version": "0.10.2", **_TINY}, (MAGIC_V0, MAGIC_V1), MAGIC_V1, most_records=8),
)
TURNS: Final = 16
BRIEF, BRIEF_PARTITIONS = "brief", 3
"""A topic that comes and goes."""
_CREATED, _DELETED = 2, 5


class Killed(BaseException):
    """The process is gone: no handler of errors may take it for one."""


@contextmanager
def unforced() -> Iterator[None]:
    """Nothing is forced to disk within the block: that would take half of the time and tell nothing of a kill.

    Nor is anything sliced by time, so that each life takes the same steps on a busy machine, too.
    """
    with ExitStack() as stack:
        stack.enter_context(sliced(math.inf))
        for name in _FORCING:
            if hasattr(os, name):
                stack.enter_context(patch.object(os, name, _do_nothing))
        yield


def _do_nothing(descriptor: int) -> None:
    pass


class Guillotine:
    """Counts the calls that change files, and falls at a chosen one."""

    def __init__(self, at: int | None, *, torn: bool = False) -> None:
        self.calls = 0
        self.names: list[str] = []
        self._at = at
        self._torn = torn

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Guard the `os` module within the block."""
        real = {name: getattr(os, name) for name in CHANGING if hasattr(os, name)}
        for name, call in real.items():
            setattr(os, name, self._guarded(name, call))
        try:
            yield
        finally:
            for name, call in real.items():
                setattr(os, name, call)

    def _guarded(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if name == "open" and not arguments[1] & _CREATES:
                return real(*arguments, **named)
            number, self.calls = self.calls, self.calls + 1
            if self._at is None or number < self._at:
                self.names.append(name)
                return real(*arguments, **named)
            if number == self._at and self._torn and name in {"pwrite", "pwritev"}:
                data = arguments[1] if name == "pwrite" else b"".join(map(bytes, arguments[1]))
                real(
                    arguments[0], data[: len(data) // 2] if name == "pwrite" else [data[: len(data) // 2]], arguments[2]
                )
            raise Killed(name)

        return call


class Life:
    """A broker's life in some hundred steps: rolling, compaction, retention, topics that come and go, a stop."""

    def __init__(self, directory: Path, seed: int, topics: Sequence[Topic] = TOPICS) -> None:
        self.torture = Torture(directory, topics, seed)
        self._sent: list[tuple[Ledger, Sent]] = []

    def live(self, guillotine: Guillotine) -> bool:
        """Live until the end, True, or until killed, False."""
        try:
            with guillotine.raised():
                for turn in range(TURNS):
                    self._produce()
                    self._administer(turn)
                    self.torture.do_chores()
                    if turn == TURNS // 2:
                        self.torture.reopen(clean=True)
        except Killed:
            return False
        return True

    def check(self) -> None:
        """Start again after the kill: nothing is lost, what was not answered can be sent again, the files are right."""
        torture = self.torture
        torture.reopen(clean=False)
        self._check_brief_topic()
        torture.verify()
        for ledger, sent in self._sent:
            if sent.sequence >= 0:
                assert torture.send((ledger, sent)) == [NONE]
            elif sent.base_offset is None:
                assert isinstance(ledger, RecordLedger)
                ledger.forget(sent)
        torture.verify(looks=10)
        self._produce()
        torture.verify(looks=10)
        torture.check_files()
        torture.verify()

    def close(self) -> None:
        """Stop."""
        self.torture.close()

    def _administer(self, turn: int) -> None:
        torture = self.torture
        if turn in {_CREATED, _DELETED + 1}:
            torture.harness.create(BRIEF, BRIEF_PARTITIONS, cleanup_policy="compact")
        elif turn == _DELETED:
            torture.harness.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=BRIEF)], timeout_ms=1000), 6)
        for ledger in torture.ledgers:
            if ledger.topic.is_trimmed and turn % 2:
                torture.delete_records(ledger, torture.rng.randint(ledger.start, ledger.acked_end))

    def _check_brief_topic(self) -> None:
        """A topic that was being made, or deleted, is there whole or not at all."""
        topic = self.torture.harness.core.topics.get(BRIEF)
        if topic is not None:
            assert len(topic.partitions) == BRIEF_PARTITIONS
            assert topic.config.overrides == {"cleanup.policy": "compact"}

    def _produce(self) -> None:
        torture = self.torture
        for ledger in torture.ledgers:
            for count in (1, 2):
                self._sent = [(ledger, torture.mint_for(ledger)) for _ in range(count)]
                assert torture.send(*self._sent) == [NONE] * count
        self._sent = []


@unforced()
def steps_of(directory: Path, seed: int) -> Guillotine:
    """A whole life without a kill, for its number of steps."""
    guillotine = Guillotine(None)
    life = Life(directory, seed)
    assert life.live(guillotine)
    life.torture.verify()
    life.torture.check_files()
    life.close()
    return guillotine


@unforced()
def kill_at(directory: Path, seed: int, step: int, *, torn: bool) -> None:
    """A life that ends at one step, and what comes after it. `AssertionError`."""
    life = Life(directory, seed)
    try:
        assert not life.live(Guillotine(step, torn=torn))
        life.check()
    except Exception as error:
        error.add_note(f"seed {seed}, killed at step {step}{' within the write' if torn else ''}, in {directory}")
        raise
    life.close()
