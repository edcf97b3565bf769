"""Work in slices: no request holds the event loop for more than 200 ms of CPU.

Work that can take longer than that is in steps. Nearly always that is a `ForEach`, which has a plain function for one
element; a generator is for what cannot be cut into elements. Between two steps anything may have changed. `Slices` runs
the steps for a few milliseconds in each turn of the event loop, one work after the other. All else is plain functions;
where Kafka's controller limits a change to 10,000 records, so do these.

What a broker does beside its requests has its own scheduler (`logs/chores.py`), which says why. In steps are:

- validation and conversion of large batches, for Produce and for old fetches; a batch that unpacks to much memory takes
  its turn (`Slices.large`);
- opening, closing and looking into many logs: DeleteRecords, DescribeLogDirs, DescribeProducers, ListOffsets, the stop
  of a broker, and the pages that read logs;
- loading of the coordinators' logs, and whatever waits for it; look-ups and changes of many groups, share-partitions
  or transactions; the removal of many committed offsets; matching of regular expressions. A target assignment is made
  at once: 100 ms for 100,000 partitions by the default assignor, up to a second by the others;
- DeleteAcls, whose every filter looks at all rules, DescribeConfigs, which has some fifty rows for each resource, and
  DescribeTopicPartitions, which looks at some ten rights for each name.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from types import GeneratorType
from typing import Any, Final, Generic, TypeAlias, TypeGuard, TypeVar

from minibroker_protocol.steps import Steps, drain

__all__ = ["ForEach", "Served", "Slices", "Steps", "Work", "drain", "is_work", "rescued", "steps_of", "then"]

T = TypeVar("T")

_SLICE_S: Final = 0.003


def _nothing(_: list[Any]) -> None:
    """Make no result."""


class ForEach(Generic[T]):
    """Work that consists of many elements, each of which takes a step. Plain functions serve them.

    Others may be served between two elements. Both functions may return further work in place of a result.

    Attributes:
        elements: the parts of the work, in order.
        serve: serves one element, and returns its result.
        conclude: makes the result of the whole from the results of the elements.
    """

    __slots__ = ("conclude", "elements", "serve")

    def __init__(
        self,
        elements: Iterable[Any],
        serve: Callable[[Any], Any],
        conclude: Callable[[list[Any]], Any] = _nothing,
    ) -> None:
        self.elements = elements
        self.serve = serve
        self.conclude = conclude


Served: TypeAlias = T | ForEach[T]
"""A result, or the work that has it in the end."""


def is_work(result: object) -> TypeGuard["ForEach[Any] | Steps[Any]"]:
    """Return whether a function has returned work that is still to be done: `ForEach`, or steps."""
    return isinstance(result, ForEach | GeneratorType)


def steps_of(result: Any) -> Steps[Any]:
    """Do work in steps, and return its result; whatever is no work is its own result."""
    while is_work(result):
        if not isinstance(result, ForEach):
            result = yield from result
            continue
        results: list[Any] = []
        for number, element in enumerate(result.elements):
            if number:
                yield
            served = result.serve(element)
            results.append((yield from steps_of(served)) if is_work(served) else served)
        result = result.conclude(results)
    return result


def then(result: Any, change: Callable[[Any], Any]) -> Any:
    """Return `change(result)`; if the result is work, work with that result."""
    if is_work(result):
        work: ForEach[Any] = ForEach((result,), _itself, lambda results: change(results[0]))
        return work
    return change(result)


def rescued(
    begin: Callable[[], Any], errors: type[Exception] | tuple[type[Exception], ...], change: Callable[[Any], Any]
) -> Steps[Any]:
    """Do the work that `begin` returns; if one of some errors ends it, `change(error)` is the result."""
    try:
        return (yield from steps_of(begin()))
    except errors as error:
        return change(error)


def _itself(work: T) -> T:
    return work


class Work(Generic[T]):
    """Steps that did not end within a slice.

    Attributes:
        spent_s: for how long the steps have run.
    """

    __slots__ = ("_done", "_failed", "spent_s", "steps")

    def __init__(self, steps: Steps[T]) -> None:
        self.steps = steps
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

    __slots__ = ("_call_soon", "_commit", "_has_large", "_ready", "_stopped", "is_waiting", "slice_s")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object], commit: Callable[[], None]) -> None:
        self._call_soon = call_soon
        self._commit = commit
        self._ready: deque[Work[object]] = deque()
        self._has_large = False
        self.is_waiting = False
        self._stopped = False
        self.slice_s = _SLICE_S

    def begin(self, result: Any) -> Any:
        """Run the first slice of work: return its result if that was all, else the `Work`, which continues by itself.

        What the steps raise is raised here, or handed to the work's owner.
        """
        if not is_work(result):
            return result
        steps = steps_of(result) if isinstance(result, ForEach) else result
        now = time.perf_counter()
        until = now + self.slice_s
        self.is_waiting = False
        while now <= until and not self.is_waiting:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            now = time.perf_counter()
        work = Work(steps)
        work.spent_s = self.slice_s
        self._ready.append(work)
        if len(self._ready) == 1:
            self._call_soon(self._turn)
        return work

    def run(self, result: Any, done: Callable[[Any], None], failed: Callable[[Exception], None]) -> None:
        """Call `done` with the result of work, now or when it is done, or `failed` with the error that has ended it."""
        try:
            begun = self.begin(result)
        except Exception as error:  # noqa: BLE001 - the owner of the work decides what it means
            failed(error)
            return
        if isinstance(begun, Work):
            begun.then(done, failed)  # pyright: ignore[reportUnknownMemberType] - of any result
        else:
            done(begun)

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
            if self._ready:
                self._call_soon(self._turn)

    def stop(self) -> None:
        """Give up all work, also what has begun: its steps end where they have yielded."""
        self._stopped = True
        for work in self._ready:
            work.steps.close()
        self._ready.clear()
