"""Work that `minibroker serve` does after its start, so that no client pays for it.

The modules of an API load with its first request. The first member of a group would hold the event loop for 50 ms or
more in that way. So a broker that runs on its own loads what most clients need a moment after it is ready: a module in
a step, between the requests. The modules of rare APIs still load with their first request: that takes 5 to 10 ms.

Python's garbage collector holds the loop, too, in proportion to all objects that there are. So it never looks again at
what the start has made, it looks at young objects less often, and at all of them while the broker is idle.

`Broker()` does neither: it shares its process, and the settings of the collector, with a test suite.
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

_AFTER_MS: Final = 100
"""So long after it is ready: the first clients come at once."""
_MODULES: Final = (
    "metadata produce fetch log_offsets groups offsets consumer_group share_group share_records "
    "streams_group_heartbeat streams_group transactions topics configs"
)
"""The modules of messages and handlers for producers, consumers and the everyday work of administrators."""
_YOUNG: Final = (5_000, 5, 200)
"""The collector's thresholds. A collection of the middle generation looks at 30,000 objects at most: 3 to 8 ms."""
_COLLECTION_MS: Final = 10_000
_IDLE_SHARE: Final = 0.01
"""The broker is idle when its thread needs less of a CPU than that."""


def warm_up(core: "Core") -> None:
    """Load modules soon, and quieten the garbage collector of this process, which has rested until now."""
    gc.freeze()
    gc.set_threshold(*_YOUNG)
    gc.enable()
    core.clock.call_later(_AFTER_MS, lambda: core.chores.run(loading(), lambda: _loaded(core)))


def _loaded(core: "Core") -> None:
    gc.freeze()
    core.chores.every("garbage", _COLLECTION_MS, _Idleness(core.clock).collection)


def loading() -> Steps[None]:
    """Load the modules, one in a step, each with those that it needs."""
    folders = ("minibroker_protocol.messages", "minibroker.server.handlers")
    of_apis = (f"{folder}.{module}" for module in _MODULES.split() for folder in folders)
    of_coordinators = (module.name for module in walk_packages(coordinators.__path__, f"{coordinators.__name__}."))
    for name in (log.__name__, *of_coordinators, *of_apis):
        # Without a descriptor left, the first request that needs the module loads it.
        with contextlib.suppress(OSError, ImportError):
            load(name)
        yield


class _Idleness:
    """Collects all garbage in periods in which the thread has had next to nothing to do."""

    def __init__(self, clock: "Clock") -> None:
        self._clock = clock
        self._looked_at_ms = clock.monotonic_ms()
        self._busy_s = time.thread_time()

    def collection(self) -> Steps[None]:
        """The chore: a full collection, if the period was idle and there may be garbage."""
        before_ms, busy_s = self._looked_at_ms, self._busy_s
        self._looked_at_ms, self._busy_s = self._clock.monotonic_ms(), time.thread_time()
        is_idle = self._busy_s - busy_s < _IDLE_SHARE * (self._looked_at_ms - before_ms) / 1000
        if is_idle and any(gc.get_count()[1:]):
            gc.collect()
        yield
