"""A look at a broker for a lesson: the requests of clients, and what they have left in the broker."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from minibroker.operations.views import groups, transactions
from minibroker_lab.page.follow.links import record_sets
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.fields.frames import request_fields
from minibroker_protocol.primitives import ZERO_UUID
from minibroker_storage.errors import StorageError
from minibroker_storage.views import snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from minibroker.cluster.partition import Partition
    from minibroker.operations.asynchronous import AsyncOperations
    from minibroker.operations.views.groups import GroupView
    from minibroker.operations.views.transactions import TransactionPage
    from minibroker.server.inspection.exchanges import Exchange
    from minibroker.server.services import Services
    from minibroker_lab.page.events import BrokerEvent
    from minibroker_lab.page.recorder import Recorder
    from minibroker_lab.trace.reading import KnownTopics, Reading
    from minibroker_protocol.fields.tree import Node
    from minibroker_storage.views.snapshot import BatchView, LogView

T = TypeVar("T")

MOST_REQUESTS: Final = 2_000
_MOST_PARTITIONS: Final = 20
_MOST_BATCHES: Final = 500
_INTERNAL: Final = "__"


class LogMark(NamedTuple):
    """Where a log was when a lesson began again: its end, and the epoch of its leader."""

    end: int = 0
    leader_epoch: int = 0


_BEGINNING: Final = LogMark()


class LogFacts(NamedTuple):
    """A partition of the learner's: its log, and the epoch of its leader.

    Attributes:
        key: the id of the topic, and the partition.
        batches: the first ones; those behind the mark, when the lesson has begun again.
        first_dirty_offset: the cleaner has compacted all below it; None before the first cleaning.
        earlier: the first ones before the mark.
    """

    key: str
    topic: str
    partition: int
    log: LogView
    batches: tuple[BatchView, ...]
    leader_epoch: int
    first_dirty_offset: int | None
    mark: LogMark
    earlier: tuple[BatchView, ...]

    @property
    def first_offset(self) -> int:
        """Of those that count."""
        return max(self.log.log_start_offset, self.mark.end)

    def link(self, offset: int | None = None) -> str:
        """A link to the log, at an offset."""
        query = "" if offset is None else f"?offset={offset}"
        return f"[{self.topic}-{self.partition}](/logs/{self.topic}/{self.partition}{query})"


class Behind(NamedTuple):
    """The numbers of the last request and the last event that do not count, since a lesson has begun again."""

    request: int = 0
    event: int = 0


_ALL: Final = Behind()


class Facts(NamedTuple):
    """The state that clients have left in the broker: the first partitions, groups and transactions.

    Attributes:
        was_killed: the run before this one, on the same data directory.
    """

    logs: tuple[LogFacts, ...]
    groups: tuple[GroupView, ...]
    transactions: TransactionPage
    was_killed: bool


async def facts_of(broker: AsyncOperations, marks: Mapping[str, LogMark]) -> Facts:
    """Collect the facts behind the marks of logs, by their keys. On the broker's loop."""
    services = broker.services
    services.core.writes.commit()
    found: list[LogFacts] = []
    for topic in list(services.core.topics):
        if topic.name.startswith(_INTERNAL):
            continue
        for partition in topic.partitions[: _MOST_PARTITIONS - len(found)]:
            key = f"{topic.id.hex()}-{partition.index}"
            facts = _log_facts(services, topic.name, partition, key, marks.get(key, _BEGINNING))
            found += [facts] if facts else []
    page = await groups.group_page(services)
    members = [await groups.group_view(services, each.group_id) for each in page.groups[:_MOST_PARTITIONS]]
    listed = await transactions.transaction_page(services)
    return Facts(tuple(found), tuple(members), listed, services.core.logs.was_killed)


def _log_facts(services: Services, topic: str, partition: Partition, key: str, mark: LogMark) -> LogFacts | None:
    index = partition.index
    try:
        log = snapshot.log_view(partition.log, 0)
        if log.log_end_offset < mark.end:  # a snapshot was restored
            mark = _BEGINNING
        first = max(log.log_start_offset, mark.end)
        page = snapshot.batch_page(partition.log, first, _MOST_BATCHES)
        earlier: tuple[BatchView, ...] = ()
        if first > log.log_start_offset:
            earlier = snapshot.batch_page(partition.log, log.log_start_offset, _MOST_BATCHES).batches
    except (StorageError, DecodeError, OSError):  # the log cannot be read
        return None
    dirty = services.core.logs.first_dirty_offset((topic, index))
    batches = tuple(each for each in page.batches if each.base_offset >= mark.end)
    return LogFacts(key, topic, index, log, batches, partition.leader_epoch, dirty, mark, earlier)


class Seen(NamedTuple):
    """The newest 2,000 requests, the oldest first, the events besides them, and the topics by their ids."""

    readings: list[Reading]
    events: list[BrokerEvent]
    topics: KnownTopics


def seen_by(recorder: Recorder) -> Seen:
    """All that a lesson looks at besides facts."""
    kept = recorder.between(recorder.last - MOST_REQUESTS + 1, recorder.last)
    return Seen([recorder.rows.reading(each) for each in kept], recorder.events.all(), recorder.rows.topics)


class Look:
    """A broker as a goal sees it.

    Args:
        behind: what does not count.

    Attributes:
        facts: the state of the broker.
        events: what happened besides requests.
    """

    def __init__(self, seen: Seen, facts: Facts, behind: Behind = _ALL) -> None:
        self.facts = facts
        self.events = [each for each in seen.events if each.number > behind.event]
        self._readings = [each for each in seen.readings if each.exchange.number > behind.request]
        self._topics = seen.topics

    def readings(self, api: str) -> Iterator[Reading]:
        """The requests of one API that can be decoded, the oldest first."""
        return (each for each in self.all_readings(api) if each.request is not None)

    def all_readings(self, *apis: str) -> Iterator[Reading]:
        """The requests of these APIs, also those in unknown versions."""
        return (each for each in self._readings if each.api in apis)

    def partitions(self, topics: Any) -> Iterator[Any]:
        """The partitions of `orders` in the topics of a message, which newer versions name by its id."""
        for each in topics or ():
            name = getattr(each, "name", "") or getattr(each, "topic", "")
            if not name:
                topic = self._topics.with_id(getattr(each, "topic_id", ZERO_UUID))
                name = None if topic is None else topic.name
            if name == "orders":
                yield from each.partitions

    def record_sets(self, exchange: Exchange) -> list[dict[str, Any]]:
        """The places of the records of a Produce or Fetch in their logs, in the order of its fields."""
        return record_sets(exchange, self._topics)

    def logs(self, topic: str | None = None) -> Iterator[LogFacts]:
        """The logs of a topic that have records which count."""
        found = (each for each in self.facts.logs if topic in (None, each.topic))
        return (each for each in found if each.log.log_end_offset > each.mark.end)


def request_link(exchange: Exchange, name: str = "Request") -> str:
    """A link to a request: "Request 7"."""
    return f"[{name} {exchange.number}](/requests/{exchange.number})"


def last(found: Iterable[T]) -> T | None:
    """The last one; None for none."""
    kept = deque(found, maxlen=1)
    return kept[0] if kept else None


def listed(numbers: Iterable[int]) -> str:
    """Numbers in order: "0, 3, 4"."""
    return ", ".join(map(str, sorted(numbers)))


def nothing_in(topic: str) -> str:
    """The sentence on a topic without records."""
    return f"`{topic}` has no record yet."


def fields(exchange: Exchange) -> Node:
    """The fields of a request, with its records."""
    return request_fields(bytes(exchange.request_frame))


def values(root: Node, name: str) -> list[Any]:
    """The values of all fields with a name."""
    return [node.value for node in root.all_nodes() if node.name == name]
