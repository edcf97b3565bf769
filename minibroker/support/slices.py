"""Work in slices: no request holds the event loop for longer than a few milliseconds.

Work in proportion to what a client has sent, or to all that a broker has, is a generator. It yields after each element
or so, wherever others may be served: between two steps anything may have changed. `Slices` runs the steps for a few
milliseconds in each turn of the event loop, one work after the other. Changes that exclude each other run *in order*,
like those of administrators in Kafka, whose controller handles one request after the other.

What a broker does beside its requests has its own scheduler (`logs/chores.py`), which says why.

These steps may take longer than 20 ms on a slow or busy machine, since each is one piece:

- A single block of Snappy without a framing, as librdkafka sends it, is unpacked at once: 15 ms for a MiB that holds
  21 MiB. Nothing in it tells where it could be cut.
- Produce unpacks a batch of at most 100 records at once if they are at most 4 MiB, or 8 MiB where the times in the
  header are implausible: 13 and 26 ms under gzip, less under other codecs.
- A MiB of zstd that is 350,000 empty blocks is read at once after they were counted: 10 ms.
- The log validator packs a batch for another format or codec in one step: 20 ms for a MiB under gzip.
- A group with more than 50,000 committed offsets is looked through at once before some of them are deleted.
- The topics of a group are hashed at once when they have changed: 10 ms for 10,000 topics, or for 250,000 partitions.
- A heartbeat of a share group takes in at once what was found out about its topics: 12 ms for 10,000 topics. Which of
  10,000 share-partitions have a state is stored at once: 17 ms.
- A heartbeat of a streams group compares and stores its topology at once: 10 ms for the 2,500 parts that it may have.
- A state of a share-partition is changed at once: 12 ms for the 10,000 batches that it may have.
- The groups of a partition of `__consumer_offsets` become known at once when it was read: 14 ms for 10,000. When its
  leader moves, they are forgotten at once: 8 ms, and 45 ms if each has a member.
- A request for a transactional id or share-partition that is not loaded has at most 4 MiB of its partition replayed.
- A reset drops all groups at once: 9 ms for 10,000, and 45 ms if each has a member.
- The configuration of one resource is checked as a whole: 10 ms for the 10,000 keys that it may have.
- The first request of a rare API loads its modules: 5 to 10 ms, once in a process. In `Broker()` this holds for all
  APIs, up to 60 ms for groups.
"""

import time
from collections import deque
from collections.abc import Callable
from types import GeneratorType
from typing import Any, Final, Generic, TypeVar, cast

from minibroker_protocol.steps import Steps, drain

__all__ = ["Slices", "Steps", "Work", "drain", "result_of"]

T = TypeVar("T")

_SLICE_S: Final = 0.003


def result_of(result: Any) -> Steps[Any]:
    """The result of a function that may return steps, as some handlers do."""
    if isinstance(result, GeneratorType):
        return (yield from cast("Steps[Any]", result))
    return result


class Work(Generic[T]):
    """Steps that did not end within a slice, or have to wait for their turn.

    Attributes:
        spent_s: for how long the steps have run.
    """

    __slots__ = ("_done", "_failed", "in_order", "spent_s", "steps")

    def __init__(self, steps: Steps[T], *, in_order: bool) -> None:
        self.steps = steps
        self.in_order = in_order
        self.spent_s = 0.0
        self._done: Callable[[T], None] | None = None
        self._failed: Callable[[Exception], None] | None = None

    def then(self, done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """Have `done` called with the result, or `failed` with the error that has ended the steps."""
        self._done, self._failed = done, failed

    def run(self, slices: "Slices") -> bool:
        """Take steps for the length of a slice, unless they can only wait. Returns whether more are left."""
        begin = now = time.perf_counter()
        until = begin + slices.slice_s
        slices.is_waiting = False
        try:
            while now <= until and not slices.is_waiting:
                next(self.steps)
                now = time.perf_counter()
        except StopIteration as end:
            if self._done is not None:
                self._done(end.value)
            return False
        except Exception as error:  # noqa: BLE001 - the owner of the work decides what it means
            if self._failed is not None:
                self._failed(error)
            return False
        self.spent_s += now - begin
        return True


class Slices:
    """The works of one broker.

    Args:
        call_soon: runs a callback in the event loop's next turn.
        commit: writes what a slice has appended, since nothing that is staged may be seen.

    Attributes:
        is_waiting: whether the steps just taken can only wait for others, so that the slice ends.
        slice_s: the length of a slice in seconds.
    """

    __slots__ = ("_call_soon", "_commit", "_has_large", "_in_order", "_ready", "_stopped", "is_waiting", "slice_s")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object], commit: Callable[[], None]) -> None:
        self._call_soon = call_soon
        self._commit = commit
        self._ready: deque[Work[object]] = deque()
        self._in_order: deque[Work[object]] = deque()  # the first one is under way
        self._has_large = False
        self.is_waiting = False
        self._stopped = False
        self.slice_s = _SLICE_S

    @property
    def has_work_in_order(self) -> bool:
        """Whether work that is done in order has begun and not ended: more of it has to wait."""
        return bool(self._in_order)

    def begin(self, steps: Steps[T], *, in_order: bool = False) -> "T | Work[T]":
        """Run the first slice at once: the result if that was all, otherwise the work, which goes on by itself.

        With `in_order` the work begins when all other such works have ended. What the steps raise is raised here, or
        handed to the work's owner.
        """
        if not (in_order and self._in_order):
            now = time.perf_counter()
            until = now + self.slice_s
            self.is_waiting = False
            while now <= until and not self.is_waiting:
                try:
                    next(steps)
                except StopIteration as end:
                    result: T = end.value
                    return result
                now = time.perf_counter()
        work = Work(steps, in_order=in_order)
        work.spent_s = self.slice_s
        self._add(work)  # type: ignore[arg-type]  # the queues do not look at results
        return work

    def large(self, steps: Steps[T]) -> Steps[T]:
        """Take steps that may need much memory, such as a batch that unpacks to 100 MiB, when no others do."""
        while self._has_large:
            self.is_waiting = True
            yield
        self._has_large = True
        try:
            return (yield from steps)
        finally:
            self._has_large = False

    def _add(self, work: Work[object]) -> None:
        if work.in_order:
            self._in_order.append(work)
            if len(self._in_order) > 1:
                return
        self._make_ready(work)

    def _make_ready(self, work: Work[object]) -> None:
        self._ready.append(work)
        if len(self._ready) == 1:
            self._call_soon(self._turn)

    def _turn(self) -> None:
        """Run a slice of the work that has waited longest."""
        if self._stopped:
            return
        work = self._ready[0]
        goes_on = False
        try:
            goes_on = work.run(self)
            self._commit()
        finally:
            self._ready.popleft()
            if goes_on:
                self._ready.append(work)
            elif work.in_order:
                self._in_order.popleft()
                if self._in_order:
                    self._ready.append(self._in_order[0])
            if self._ready:
                self._call_soon(self._turn)

    def stop(self) -> None:
        """Give up all work, also what has begun: its steps end where they have yielded."""
        self._stopped = True
        for work in {*self._ready, *self._in_order}:
            work.steps.close()
        self._ready.clear()
        self._in_order.clear()
