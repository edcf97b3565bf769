"""Work in slices, so that no request holds the event loop for more than 200 ms of CPU.

Work that can take longer is split into steps. Usually it is a `ForEach`, with a plain function for one element. A
generator is for work that cannot be split into elements. Anything may change between two steps. `Slices` runs the
steps for a few milliseconds in each turn of the event loop, rotating between pieces of work. All other work is done by
plain functions. Where Kafka's controller limits a change to 10,000 records, these functions have the same limit.

Background work has its own scheduler (`logs/chores.py`, which gives the reason). The following work runs in steps:

- validation and conversion of large batches, for Produce and for old fetches. Batches that need much memory when
  decompressed are processed one at a time (`Slices.large`);
- opening, closing and searching many logs: DeleteRecords, DescribeLogDirs, DescribeProducers, ListOffsets, the stop of
  a broker, and the pages that read logs;
- loading of the coordinators' logs, and everything that waits for it; look-ups and changes of many groups,
  share-partitions or transactions; removal of many committed offsets; matching of regular expressions. A target
  assignment is a single step: 100 ms for 100,000 partitions with the default assignor, up to a second with the others;
- DeleteAcls, whose filters each check all rules, DescribeConfigs, with about fifty rows per resource, and
  DescribeTopicPartitions, which checks about ten permissions per name.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from types import GeneratorType
from typing import Any, Final, Generic, TypeAlias, TypeGuard, TypeVar

from minibroker_protocol.steps import Steps, drain

__all__ = ["ForEach", "Served", "Slices", "Steps", "Work", "catch_errors", "drain", "is_work", "steps_of", "then"]

T = TypeVar("T")

_SLICE_S: Final = 0.003


class ForEach(Generic[T]):
    """Work on many elements, with one step per element.

    Other requests may be served between two elements. `serve` and `conclude` are ordinary functions, not
    generators. Either may return further work instead of a result.

    Attributes:
        elements: The elements, in order.
        serve: Serves one element, and returns its result.
        conclude: Combines the results of the elements into the overall result.
    """

    __slots__ = ("conclude", "elements", "serve")

    def __init__(
        self,
        elements: Iterable[Any],
        serve: Callable[[Any], Any],
        conclude: Callable[[list[Any]], Any] = lambda _: None,
    ) -> None:
        self.elements = elements
        self.serve = serve
        self.conclude = conclude


Served: TypeAlias = T | ForEach[T]
"""A result, or the work that produces it."""


def is_work(result: object) -> TypeGuard["ForEach[Any] | Steps[Any]"]:
    """Return whether a result is unfinished work: a `ForEach` or a generator of steps."""
    return isinstance(result, ForEach | GeneratorType)


def steps_of(result: Any) -> Steps[Any]:
    """Do work in steps, and return its result. Any other value is returned unchanged."""
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
    """Return `change(result)`. If `result` is work, return work that applies `change` to the work's result."""
    if is_work(result):
        work: ForEach[Any] = ForEach((result,), lambda work: work, lambda results: change(results[0]))
        return work
    return change(result)


def catch_errors(
    begin: Callable[[], Any], errors: type[Exception] | tuple[type[Exception], ...], change: Callable[[Any], Any]
) -> Steps[Any]:
    """Do the work that `begin` returns. If the work raises one of `errors`, the result is `change(error)`."""
    try:
        return (yield from steps_of(begin()))
    except errors as error:
        return change(error)


class Work(Generic[T]):
    """Steps that did not end within a slice.

    Attributes:
        steps: The steps.
        spent_s: The time that the steps have taken, in seconds.
    """

    __slots__ = ("_done", "_failed", "spent_s", "steps")

    def __init__(self, steps: Steps[T]) -> None:
        self.steps = steps
        self.spent_s = 0.0
        self._done: Callable[[T], None] = lambda _: None
        self._failed: Callable[[Exception], None] = lambda _: None

    def then(self, done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """Call `done` with the result, or `failed` with the error that ended the steps."""
        self._done, self._failed = done, failed

    def run(self, slices: "Slices") -> bool:
        """Run steps until the slice is used up or the work must wait. Return whether steps are left."""
        try:
            self.spent_s += slices.advance(self.steps)
        except StopIteration as end:
            self._done(end.value)
            return False
        except Exception as error:  # noqa: BLE001 - passed to the owner of the work
            self._failed(error)
            return False
        return True


class Slices:
    """The unfinished work of one broker.

    Args:
        call_soon: Runs a callback in the event loop's next turn.
        commit: Writes what a slice appended, since staged appends must not be visible.

    Attributes:
        is_waiting: Whether the steps just run can only wait for other work, so that the slice ends.
        slice_s: The length of a slice in seconds.
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
        """Run the first slice of work. Return the result, or a `Work` that continues by itself if steps are left.

        An error in the first slice is raised here. Later errors are passed to the owner of the work.
        """
        if not is_work(result):
            return result
        work = Work(steps_of(result) if isinstance(result, ForEach) else result)
        try:
            work.spent_s = self.advance(work.steps)
        except StopIteration as end:
            return end.value
        self._ready.append(work)
        if len(self._ready) == 1:
            self._call_soon(self._turn)
        return work

    def advance(self, steps: Steps[Any]) -> float:
        """Run steps for one slice, or until they can only wait. Return the time that they have taken, in seconds.

        Raises:
            StopIteration: The steps have ended.
        """
        begin = now = time.perf_counter()
        until = begin + self.slice_s
        self.is_waiting = False
        while now <= until and not self.is_waiting:
            next(steps)
            now = time.perf_counter()
        return now - begin

    def run(self, result: Any, done: Callable[[Any], None], failed: Callable[[Exception], None]) -> None:
        """Run work. Call `done` with the result, immediately or later, or `failed` with the error."""
        try:
            outcome = self.begin(result)
        except Exception as error:  # noqa: BLE001 - passed to the owner of the work
            failed(error)
            return
        if isinstance(outcome, Work):
            outcome.then(done, failed)  # pyright: ignore[reportUnknownMemberType] - any result
        else:
            done(outcome)

    def large(self, steps: Steps[T]) -> Steps[T]:
        """Run steps that may need much memory, such as a batch that decompresses to 100 MiB.

        Only one such sequence of steps runs at a time.
        """
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
        has_more = False
        try:
            has_more = work.run(self)
            self._commit()
        finally:
            self._ready.popleft()
            if has_more:
                self._ready.append(work)
            if self._ready:
                self._call_soon(self._turn)

    def stop(self) -> None:
        """Drop all unfinished work. Generators that have started are closed at the point where they last yielded."""
        self._stopped = True
        for work in self._ready:
            work.steps.close()
        self._ready.clear()
