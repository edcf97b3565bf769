"""Workarounds for clients that stall, or wait for a timer, depending on when a response arrives.

kafka-python 3 joins a group before it fetches the metadata of its topics. The first member of a group becomes its
leader without metadata of its topics, assigns nothing, and joins again after it has the metadata. If a `poll` ends
while this second join waits for its SyncGroup, the client considers the join complete, and never fetches. `Rebalances`
therefore holds the first rebalance of a group until its leader has fetched the metadata. Also, the SyncGroup of a
member that joins again without a rebalance is rejected once, because that error makes the client complete its join.

sarama waits for 2 s if its SyncGroup is rejected because another member has joined. It sends a heartbeat immediately
after it has its assignment. If the JoinGroup of the other member is served a little later, the heartbeat reports
the rebalance to sarama, without the delay.

aiokafka opens another connection between its lookup of a group and its JoinGroup. When members start together, the
first one therefore often joins before the others are pending. After each lookup, the first generation of the group is
delayed briefly, to wait for the JoinGroup of the client.
"""

from collections.abc import Callable, Iterable


class EarlyJoiner:
    """A connection of kafka-python 3.

    Attributes:
        group_ids: The groups whose coordinators the client has looked up.
        topics: The topics in the client's last Metadata request. The client has no metadata of other topics.
        on_metadata: Called after each Metadata request while a rebalance is held.
    """

    __slots__ = ("__weakref__", "group_ids", "on_metadata", "topics")

    def __init__(self) -> None:
        self.group_ids: set[str] = set()
        self.topics: frozenset[str] = frozenset()
        self.on_metadata: Callable[[], None] | None = None

    def note_metadata(self, topics: Iterable[str]) -> None:
        """Record the topics in a Metadata response that is about to be sent."""
        self.topics = frozenset(topics)
        if self.on_metadata is not None:
            self.on_metadata()


def joins_early(software: tuple[str, str], client_id: str | None) -> bool:
    """Return whether a client is kafka-python 3."""
    return _name(software, client_id).startswith("kafka-python-3.")


def backs_off(software: tuple[str, str], client_id: str | None) -> bool:
    """Return whether a client is sarama."""
    return _name(software, client_id).startswith("sarama")


def joins_after_lookup(software: tuple[str, str], client_id: str | None) -> bool:
    """Return whether a client is aiokafka."""
    return _name(software, client_id).startswith("aiokafka")


def _name(software: tuple[str, str], client_id: str | None) -> str:
    """Return a client's name and version, or its client id if the client does not use version 3 of ApiVersions."""
    return (client_id or "") if software[0] == "unknown" else "-".join(software)
