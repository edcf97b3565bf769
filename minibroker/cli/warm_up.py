"""Work that `minibroker serve` does after its start, so that no client has to wait for it.

The modules of an API are loaded by the API's first request, so the first member of a group would block the event loop
for 50 ms or more. A broker in its own process therefore loads the modules that most clients need soon after it is
ready, one per step, between requests. The modules of rare APIs are still loaded by the first request, in 5 to 10 ms.

Python's garbage collector also blocks the loop, in proportion to the number of all objects. It is therefore set to
ignore the objects that exist after the start. It collects young objects less often, and collects all objects only
while the broker is idle.

`Broker()` does none of this, because it shares its process and the collector's settings with a test suite.
"""

import contextlib
import gc
import time
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Final

from minibroker import coordinators
from minibroker.cluster.routing.slices import Steps
from minibroker_protocol.lazy_imports import lazy, load

with lazy:
    from minibroker_storage import log

if TYPE_CHECKING:
    from minibroker.clock import Clock
    from minibroker.cluster.core import Core

_DELAY_MS: Final = 100
"""The delay after the broker is ready, since the first clients connect at that moment."""
_MODULES: Final = (
    "metadata produce fetch log_offsets groups offsets consumer_group share_group share_records "
    "streams_group_heartbeat streams_group transactions topics configs"
)
"""The modules of messages and handlers for producers, consumers and common administration."""
_GC_THRESHOLDS: Final = (5_000, 5, 200)
"""The collector's thresholds. A collection of the middle generation scans at most 30,000 objects, in 3 to 8 ms."""
_COLLECTION_INTERVAL_MS: Final = 10_000
_MAX_IDLE_CPU_SHARE: Final = 0.01
"""The CPU share of the broker's thread below which the broker counts as idle."""


def warm_up(core: "Core") -> None:
    """Schedule the loading of modules, and enable the garbage collector with thresholds that make it run less often.

    The collector was disabled during the start.
    """
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()
    core.clock.call_later(_DELAY_MS, lambda: core.chores.run(load_modules(), lambda: _start_collections(core)))


def _start_collections(core: "Core") -> None:
    gc.freeze()
    core.chores.every("garbage", _COLLECTION_INTERVAL_MS, _Idleness(core.clock).collect_if_idle)


def load_modules() -> Steps[None]:
    """Load the modules with their dependencies, one per step."""
    folders = ("minibroker_protocol.messages", "minibroker.server.handlers")
    of_apis = (f"{folder}.{module}" for module in _MODULES.split() for folder in folders)
    of_coordinators = (module.name for module in walk_packages(coordinators.__path__, f"{coordinators.__name__}."))
    for name in (log.__name__, *of_coordinators, *of_apis):
        # Loading fails without a free file descriptor. The first request that needs the module then loads it.
        with contextlib.suppress(OSError, ImportError):
            load(name)
        yield


class _Idleness:
    """Collects all garbage after periods in which the thread was almost idle."""

    def __init__(self, clock: "Clock") -> None:
        self._clock = clock
        self._checked_at_ms = clock.monotonic_ms()
        self._busy_s = time.thread_time()

    def collect_if_idle(self) -> Steps[None]:
        """Run a full collection if the period was idle and there can be garbage. This is a chore."""
        before_ms, busy_s = self._checked_at_ms, self._busy_s
        self._checked_at_ms, self._busy_s = self._clock.monotonic_ms(), time.thread_time()
        is_idle = self._busy_s - busy_s < _MAX_IDLE_CPU_SHARE * (self._checked_at_ms - before_ms) / 1000
        if is_idle and any(gc.get_count()[1:]):
            gc.collect()
        yield
