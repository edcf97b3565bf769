"""Installed faults, and which of them hit a request."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from minibroker.server.faults.fault import Fault, RequestContext

_PIECES_PER_SECOND: Final = 20
_SLICE_MS: Final = 1.0
"""The pause between pieces of a response that has no rate, so that they leave one by one."""


@dataclass(slots=True)
class MatchedFault:
    """The effect of faults on one request.

    Attributes:
        fault: The fault whose action applies, or None if the request is only delayed or throttled.
        all: All faults that hit the request.
        delay_ms: The sum of the delays of these faults.
        throttle_ms: The longest throttle time of these faults.
        bytes_per_second: The lowest rate of these faults, or None.
        slice_bytes: The smallest pieces of these faults, or None.
    """

    fault: Fault | None
    all: list[Fault]
    delay_ms: float
    throttle_ms: int
    bytes_per_second: int | None
    slice_bytes: int | None

    @property
    def is_paced(self) -> bool:
        """Whether the response is sent in pieces."""
        return self.bytes_per_second is not None or self.slice_bytes is not None

    def pieces(self, data: bytes | bytearray) -> Iterator[tuple[bytes | bytearray, float]]:
        """Yield the pieces of a response, each with the pause after it in milliseconds."""
        rate = self.bytes_per_second
        size = min(self.slice_bytes or len(data), len(data) if rate is None else max(1, rate // _PIECES_PER_SECOND))
        for start in range(0, len(data), size or 1):
            yield data[start : start + size], _SLICE_MS if rate is None else 1000 * size / rate


class InstalledFaults:
    """Faults in the order of their installation."""

    def __init__(self) -> None:
        self._faults: tuple[Fault, ...] = ()  # Changes replace the tuple, because other threads may be reading it.

    def __len__(self) -> int:
        return len(self._faults)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults)

    def list(self) -> tuple[Fault, ...]:
        """Return the faults in the order of their installation."""
        return self._faults

    def add(self, fault: Fault) -> Fault:
        """Install a fault after the others. A fault that is already installed keeps its position."""
        if fault not in self._faults:
            self._install((*self._faults, fault))
        return fault

    def remove(self, fault: Fault) -> bool:
        """Remove a fault, and return whether it was installed."""
        if fault not in self._faults:
            return False
        self._install(tuple(other for other in self._faults if other is not fault))
        return True

    def clear(self) -> None:
        """Remove all faults."""
        self._install(())

    @contextmanager
    def installed(self, fault: Fault) -> Generator[Fault]:
        """Install a fault for the duration of a `with` block."""
        self.add(fault)
        try:
            yield fault
        finally:
            self.remove(fault)

    def _install(self, faults: tuple[Fault, ...]) -> None:
        self._faults = faults

    def match(self, context: RequestContext) -> MatchedFault | None:
        """Return the effect of the faults that hit a request, or None.

        Each fault counts the requests that it matches. Of the faults that are due, the first one with an action
        applies. All due faults that only delay or throttle apply as well, regardless of their position.
        """
        return combine([fault for fault in self._faults if fault.is_due(context)])


def combine(due: Sequence[Fault]) -> MatchedFault | None:
    """Return the effect of the faults that are due for a request, or None if there are none."""
    if not due:
        return None
    first = next((fault for fault in due if fault.action is not None), None)
    hitting = [fault for fault in due if fault is first or fault.action is None]
    return MatchedFault(
        first,
        hitting,
        sum(fault.draw_delay_ms() for fault in hitting),
        max((fault.throttle_ms or 0 for fault in hitting), default=0),
        min((fault.bytes_per_second for fault in hitting if fault.bytes_per_second), default=None),
        min((fault.slice_bytes for fault in hitting if fault.slice_bytes), default=None),
    )
