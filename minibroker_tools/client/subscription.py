"""Which partitions a consumer reads, and from where: by itself, or as a member of a group."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from minibroker_protocol.java_text import is_true, trim
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.committed import committed_offsets
from minibroker_tools.client.membership import Membership
from minibroker_tools.client.offsets import EARLIEST, LATEST, TopicPartition
from minibroker_tools.client.reader import Reader, Received

_COMMIT_S: Final = 5.0
_LOOK_AGAIN_S: Final = 300.0
_LOOK_SOON_S: Final = 0.5


class Consumer:
    """A consumer of topics whose names match, with a group or without one.

    Without a group it reads all partitions and commits nothing, so no coordinator is asked.
    """

    def __init__(
        self, cluster: Cluster, topic: str | None, matches: Callable[[str], bool], properties: Mapping[str, str]
    ) -> None:
        """`topic` is the one topic, which the broker may create, or None where `matches` finds the topics."""
        self._cluster = cluster
        self._topic = topic
        self._matches = matches
        reset = properties.get("auto.offset.reset", "latest")
        committed_only = properties.get("isolation.level", "read_uncommitted") == "read_committed"
        self._start = EARLIEST if reset == "earliest" else LATEST
        self._reader = Reader(cluster, reset=reset, read_committed=committed_only)
        self._group = properties.get("group.id")
        self._instance = properties.get("group.instance.id") or None
        self._commits = is_true(trim(properties.get("enable.auto.commit", "true")))
        self._member: Membership | None = None
        self._names: list[str] = []
        self._look_at = 0.0
        self._commit_at = time.monotonic() + _COMMIT_S
        #: The offsets behind the records that were taken, by partition.
        self.taken: dict[TopicPartition, int] = {}

    @property
    def reader(self) -> Reader:
        """The reader of the partitions that this consumer has."""
        return self._reader

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read one partition only, from an offset or from -1, its end, or -2, its start."""
        self._reader.assign({partition: offset})
        self._look_at = float("inf")
        self._group = None

    def poll(self, seconds: float) -> list[Received]:
        """Records that have come within so many seconds, half a second at most."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look()
        if self._member is not None:
            if self._commits and now >= self._commit_at:
                self._commit(self._member)
            if self._member.must_rejoin():
                self._commit(self._member)
                self._rejoin(self._member)
        return self._reader.poll(seconds)

    def commit(self) -> None:
        """Commit what was taken as this member of the group. ApiError."""
        if self._member is not None:
            self._commit(self._member)

    def close(self) -> None:
        """Commit what was taken, and leave the group."""
        if self._member is not None:
            self._commit(self._member)
            self._member.leave()

    def _commit(self, member: Membership) -> None:
        self._commit_at = time.monotonic() + _COMMIT_S
        if self._commits:
            member.commit(self.taken)

    def _look(self) -> None:
        """Find the topics and their partitions, at the start and when they may have changed."""
        partitions = self._partitions()
        self._look_at = time.monotonic() + (_LOOK_AGAIN_S if partitions else _LOOK_SOON_S)
        names = sorted({topic for topic, _ in partitions})
        if self._group is not None:
            if self._member is None and (names or self._topic is not None):
                subscribed = names or [self._topic or ""]
                self._member = Membership(self._cluster, self._group, subscribed, self._counts, self._instance)
                self._rejoin(self._member)
            return
        known = self._reader.positions
        if set(known) == set(partitions):
            return
        # A partition that appears later is read from its start: nothing in it was there before.
        start = EARLIEST if known or self._names else self._start
        self._names = names or self._names
        self._reader.assign({each: known.get(each, start) for each in partitions})

    def _rejoin(self, member: Membership) -> None:
        member.join()
        committed = committed_offsets(self._cluster, self._group or "", member.partitions) if member.partitions else {}
        self.taken = {}
        self._reader.assign({each: committed.get(each, self._start) for each in member.partitions})

    def _partitions(self) -> list[TopicPartition]:
        asked = None if self._topic is None else [self._topic]
        found = self._cluster.metadata(asked, create=True).topics
        return [
            (topic.name, partition.partition_index)
            for topic in found
            if topic.name and (self._topic is not None or self._matches(topic.name))
            for partition in topic.partitions
        ]

    def _counts(self, names: Iterable[str]) -> Mapping[str, int]:
        return {topic.name or "": len(topic.partitions) for topic in self._cluster.metadata(names).topics}
