"""Members whose clients stall, or wait for a timer, because of the moment at which an answer comes.

kafka-python 3 joins a group before it asks for the metadata of its topics. The first member of such a group leads
without knowing its topics, assigns nothing, and joins again once it knows them. If a `poll` ends while this second join
waits for its SyncGroup, the client takes itself for joined, and never fetches. So `Rebalances` holds the first
rebalance of a group until its leader has asked for its topics. And a member that joins again unasked is refused its
SyncGroup once, since that error makes the client see its join through.

sarama waits for 2 s if its SyncGroup is refused because another member has joined. It sends a heartbeat as soon as it
has its assignment. So it learns of the other member just as soon if the JoinGroup of that one is served a little later.

aiokafka opens another connection between its lookup of a group and its JoinGroup. So when members start together, the
first one often joins before the others are pending. Each lookup lets the group expect a member.
"""

from collections.abc import Callable, Iterable


class EarlyJoiner:
    """A connection of kafka-python 3.

    Attributes:
        group_ids: the groups whose coordinators it has looked up.
        topics: those of its last Metadata request, which are all that the client knows.
        on_metadata: called after each Metadata request, while a rebalance is held for one.
    """

    __slots__ = ("__weakref__", "group_ids", "on_metadata", "topics")

    def __init__(self) -> None:
        self.group_ids: set[str] = set()
        self.topics: frozenset[str] = frozenset()
        self.on_metadata: Callable[[], None] | None = None

    def note_metadata(self, topics: Iterable[str]) -> None:
        """Note the topics that are about to be described to the client."""
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
    """Return a client's name and version; before version 3 of ApiVersions its default client id has to do."""
    return (client_id or "") if software[0] == "unknown" else "-".join(software)
