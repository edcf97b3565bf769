"""The faults of a broker: which are installed, and which of them hit a request."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from minibroker.faults.fault import Fault, RequestContext


@dataclass(slots=True)
class MatchedFault:
    """The effect of a fault on one request.

    Attributes:
        fault: the one that decides; None when the request is only delayed or throttled.
        all: every fault that hits.
        delay_ms: of all of them together.
        throttle_ms: the longest of them.
    """

    fault: Fault | None
    all: list[Fault]
    delay_ms: float
    throttle_ms: int


class FaultRegistry:
    """The installed faults in the order in which they were added.

    Args:
        changed: called when faults have come or gone.
    """

    def __init__(self, changed: Callable[[FaultRegistry], None]) -> None:
        self._faults: tuple[Fault, ...] = ()  # replaced, never changed: other threads may look at it
        self._changed = changed

    def __len__(self) -> int:
        return len(self._faults)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults)

    def list(self) -> tuple[Fault, ...]:
        """The faults, in the order in which they were added."""
        return self._faults

    def add(self, fault: Fault) -> Fault:
        """Install a fault behind the others; one that is installed stays where it is."""
        if fault not in self._faults:
            self._faults = (*self._faults, fault)
            self._changed(self)
        return fault

    def remove(self, fault: Fault) -> bool:
        """Take a fault away; False when it is not installed."""
        if fault not in self._faults:
            return False
        self._faults = tuple(each for each in self._faults if each is not fault)
        self._changed(self)
        return True

    def clear(self) -> None:
        """Take all faults away."""
        self._faults = ()
        self._changed(self)

    @contextmanager
    def installed(self, fault: Fault) -> Generator[Fault]:
        """Have a fault installed within a `with` block."""
        self.add(fault)
        try:
            yield fault
        finally:
            self.remove(fault)

    def match(self, context: RequestContext) -> MatchedFault | None:
        """The fault that hits a request, or None.

        Each fault counts the requests that match it. Of those that are due the first that does more than to delay or
        to throttle decides; faults that only do that come on top, whatever their place.
        """
        due = [fault for fault in self._faults if fault.is_due(context)]
        if not due:
            return None
        first = next((fault for fault in due if fault.action is not None), None)
        hitting = [fault for fault in due if fault is first or fault.action is None]
        return MatchedFault(
            first,
            hitting,
            sum(fault.delay_ms or 0 for fault in hitting),
            max((fault.throttle_ms or 0 for fault in hitting), default=0),
        )
