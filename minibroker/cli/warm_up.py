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
import importlib
import time
from typing import TYPE_CHECKING, Final

from minibroker.support.slices import Steps

if TYPE_CHECKING:
    from minibroker.clock import Clock
    from minibroker.core import Core

_AFTER_MS: Final = 100
"""So long after it is ready: the first clients come at once."""
_SHARED: Final = (
    "minibroker_protocol.records.record",
    "minibroker_protocol.records.batch",
    "minibroker_storage.producer_state",
    "minibroker_storage.segment",
    "minibroker_storage.recovery",
    "minibroker_storage.log",
    "minibroker.security.authorization.acls",
    "minibroker.requests.requirements",
    "minibroker.requests.declarations",
    "minibroker.requests.authorized_operations",
    "minibroker_protocol.records.log_validator",
    "minibroker.coordinators.coordinator_log",
    "minibroker.support.range_assignment",
    "minibroker.coordinators.groups.modern.topics",
    "minibroker.coordinators.groups.assignors.uniform",
    "minibroker_protocol.coordinator_records.consumer_protocol",
    "minibroker_protocol.coordinator_records.consumer_groups",
    "minibroker.coordinators.groups.consumer.group",
    "minibroker.coordinators.groups.classic.group",
    "minibroker_protocol.coordinator_records.share_groups",
    "minibroker.coordinators.groups.share.group",
    "minibroker_protocol.coordinator_records.streams_groups",
    "minibroker.coordinators.groups.streams.group",
    "minibroker.coordinators.groups.store",
    "minibroker.coordinators.groups.commits",
    "minibroker.config.group",
    "minibroker.support.regular_expressions.program",
    "minibroker.support.regular_expressions.expression",
    "minibroker.coordinators.groups.consumer.reconciliation",
    "minibroker.coordinators.groups.consumer.group_update",
    "minibroker.coordinators.groups.consumer.migration",
    "minibroker.coordinators.groups.consumer.coordinator",
    "minibroker.coordinators.groups.coordinator",
    "minibroker.coordinators.share_state.coordinator",
    "minibroker.coordinators.groups.share.coordinator",
    "minibroker.coordinators.share_partitions.share_partition",
    "minibroker.coordinators.share_partitions.manager",
    "minibroker.coordinators.groups.streams.sticky",
    "minibroker.coordinators.groups.streams.coordinator",
    "minibroker.coordinators.transactions.transaction",
    "minibroker.coordinators.transactions.coordinator",
    "minibroker.requests.configs.resources",
    "minibroker.requests.configs.changes",
    "minibroker.requests.share.reader",
    "minibroker.requests.described_groups",
)
"""Modules that several handlers share, each behind those that it needs: no step takes long."""
_APIS: Final = (
    "metadata",
    "produce",
    "fetch",
    "list_offsets",
    "find_coordinator",
    "join_group",
    "sync_group",
    "heartbeat",
    "leave_group",
    "offset_commit",
    "offset_fetch",
    "consumer_group_heartbeat",
    "share_group_heartbeat",
    "share_fetch",
    "share_acknowledge",
    "streams_group_heartbeat",
    "init_producer_id",
    "add_partitions_to_txn",
    "add_offsets_to_txn",
    "txn_offset_commit",
    "end_txn",
    "create_topics",
    "delete_topics",
    "create_partitions",
    "describe_configs",
    "incremental_alter_configs",
    "describe_groups",
    "list_groups",
    "share_group_describe",
    "streams_group_describe",
)
"""The APIs of producers, consumers and the everyday work of administrators."""
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
    """Load the modules, one in a step."""
    of_apis = (
        f"{package}.{name}" for name in _APIS for package in ("minibroker_protocol.messages", "minibroker.handlers")
    )
    for name in (*_SHARED, *of_apis):
        # Without a descriptor left, the first request that needs the module loads it.
        with contextlib.suppress(OSError, ImportError):
            importlib.import_module(name)
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
