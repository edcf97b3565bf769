"""The quiet partitions of a fetch session: a fetch need not read them.

The last fetch read them to their end and told its consumer nothing new. A read would find the same again until one of
these happens:

- The log calls its listeners: appends, transactions that end, another start or end, another leader or epoch, another
  configuration, closing, deletion.
- A request names the partition, or a fault has kept its response from the consumer.
- A request comes on other terms: another version or isolation level, other rights or another user.

So an idle fetch costs the same whatever the session's size, and it waits for all quiet partitions together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from minibroker.cluster.fetch_sessions import CachedPartition, FetchContext, FetchKey
    from minibroker_storage.log import Log

Terms = tuple[Any, ...]
"""All that a read depends on besides its partition: equal terms give equal results."""


class QuietPartitions:
    """The partitions of one session, those to be read apart from the quiet ones.

    Attributes:
        active: the partitions to be read.
        context: the latest fetch of the session, until it is answered. It hears of partitions that become active.
    """

    __slots__ = ("_keys", "_logs", "_partitions", "_terms", "active", "context")

    def __init__(self, partitions: Mapping[FetchKey, CachedPartition]) -> None:
        self._partitions = partitions
        self.active: dict[FetchKey, CachedPartition] = dict(partitions)
        self._logs: dict[FetchKey, Log] = {}
        self._keys: dict[Log, FetchKey] = {}
        self._terms: Terms | None = None
        self.context: FetchContext | None = None

    def __len__(self) -> int:
        return len(self._logs)

    @property
    def logs(self) -> Collection[Log]:
        """The logs of the quiet partitions."""
        return self._keys.keys()

    def count(self, terms: Terms) -> int:
        """The number of partitions to be read by a request on these terms."""
        return len(self.active if terms == self._terms else self._partitions)

    def read_on(self, terms: Terms) -> None:
        """Take the terms of the reads that follow."""
        if terms != self._terms:
            self._terms = terms
            self.activate_all()

    def in_order(self) -> list[tuple[FetchKey, CachedPartition]]:
        """The partitions to be read, in the session's order."""
        if not self._logs:
            return list(self._partitions.items())
        return sorted(self.active.items(), key=lambda item: item[1].place)

    def silence(self, key: FetchKey, log: Log) -> bool:
        """A read has reached the end of the partition; it is quiet now if the consumer knows all that was found."""
        entry = self.active.get(key)
        if (
            entry is None
            or entry.high_watermark != log.high_watermark
            or entry.log_start_offset != log.log_start_offset
        ):
            return False
        del self.active[key]
        self._logs[key] = log
        self._keys[log] = key
        log.add_append_listener(self._on_change)
        return True

    def activate(self, key: FetchKey) -> None:
        """Have a partition read that may be new or quiet."""
        log = self._logs.pop(key, None)
        if log is not None:
            del self._keys[log]
            log.remove_append_listener(self._on_change)
        self.active[key] = self._partitions[key]

    def drop(self, key: FetchKey) -> None:
        """A partition leaves the session."""
        self.activate(key)
        del self.active[key]

    def activate_all(self) -> None:
        """Have all partitions read; no log is listened to any more."""
        for log in self._keys:
            log.remove_append_listener(self._on_change)
        self._keys.clear()
        self._logs.clear()
        self.active = dict(self._partitions)

    def _on_change(self, log: Log) -> None:
        self.activate(self._keys[log])
        waiter = None if self.context is None else self.context.waiter
        if waiter is not None:
            waiter.listen((log,))
            waiter.look_soon()
