"""The data that a lesson's goals check: client requests and the resulting state of the broker."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from minibroker.operations.views import groups
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
    from minibroker.server.inspection.exchanges import Exchange
    from minibroker.server.services import Services
    from minibroker_lab.page.recorder import Recorder
    from minibroker_lab.page.rows import BrokerEvent
    from minibroker_lab.page.schemas import PageSchemas
    from minibroker_lab.reading import KnownTopics, Reading
    from minibroker_protocol.fields.tree import Node
    from minibroker_storage.views.snapshot import BatchView, LogView

T = TypeVar("T")

MAX_REQUESTS: Final = 2_000
_MAX_PARTITIONS: Final = 20
_MAX_BATCHES: Final = 500
_INTERNAL: Final = "__"


class LogMark(NamedTuple):
    """The log end offset and the leader epoch of a partition when a lesson was restarted."""

    end: int = 0
    leader_epoch: int = 0


class LogFacts(NamedTuple):
    """One of the learner's partitions: its log and its leader epoch.

    Attributes:
        key: The topic id and the partition.
        batches: The first batches, or after a restart of the lesson the first batches after the mark.
        first_dirty_offset: The offset up to which the log is compacted, exclusive, or None before the first cleaning.
        earlier: The first batches before the mark.
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
        """The log start offset, or the log end offset at the lesson's restart if that is larger."""
        return max(self.log.log_start_offset, self.mark.end)

    def link(self, offset: int | None = None) -> str:
        """Return a Markdown link to the log, optionally at an offset."""
        query = "" if offset is None else f"?offset={offset}"
        return f"[{self.topic}-{self.partition}](/logs/{self.topic}/{self.partition}{query})"


class ActivityMark(NamedTuple):
    """The numbers of the last request and the last event before a lesson was restarted.

    Only later requests and events count.
    """

    request: int = 0
    event: int = 0


class Facts(NamedTuple):
    """The state of the broker: its first partitions and groups.

    Attributes:
        was_killed: Whether the previous run on the same data directory was killed.
    """

    logs: tuple[LogFacts, ...]
    groups: tuple[GroupView, ...]
    was_killed: bool


async def collect_facts(broker: AsyncOperations, marks: Mapping[str, LogMark]) -> Facts:
    """Collect the facts after the logs' marks, which are given by log key. Runs on the broker's loop."""
    services = broker.services
    services.core.writes.commit()
    logs: list[LogFacts] = []
    for topic in list(services.core.topics):
        if topic.name.startswith(_INTERNAL):
            continue
        for partition in topic.partitions[: _MAX_PARTITIONS - len(logs)]:
            key = f"{topic.id.hex()}-{partition.index}"
            facts = _log_facts(services, topic.name, partition, key, marks.get(key, LogMark()))
            logs += [facts] if facts else []
    page = await groups.group_page(services)
    members = [await groups.group_view(services, group.group_id) for group in page.groups[:_MAX_PARTITIONS]]
    return Facts(tuple(logs), tuple(members), services.core.logs.was_killed)


def _log_facts(services: Services, topic: str, partition: Partition, key: str, mark: LogMark) -> LogFacts | None:
    index = partition.index
    try:
        log = snapshot.log_view(partition.log, 0)
        # If the log ends before the mark, an older snapshot was restored and the mark is invalid.
        if log.log_end_offset < mark.end:
            mark = LogMark()
        first = max(log.log_start_offset, mark.end)
        page = snapshot.batch_page(partition.log, first, _MAX_BATCHES)
        earlier: tuple[BatchView, ...] = ()
        if first > log.log_start_offset:
            earlier = snapshot.batch_page(partition.log, log.log_start_offset, _MAX_BATCHES).batches
    except (StorageError, DecodeError, OSError):  # Leave out a log that cannot be read.
        return None
    dirty = services.core.logs.first_dirty_offset((topic, index))
    batches = tuple(batch for batch in page.batches if batch.base_offset >= mark.end)
    return LogFacts(key, topic, index, log, batches, partition.leader_epoch, dirty, mark, earlier)


class Activity(NamedTuple):
    """The newest 2,000 requests, oldest first, the broker's events, the names of topics by id, and the schemas."""

    readings: list[Reading]
    events: list[BrokerEvent]
    topics: KnownTopics
    schemas: PageSchemas


def recorded_activity(recorder: Recorder, schemas: PageSchemas) -> Activity:
    """Return the requests, events and topics that a lesson checks in addition to the facts."""
    exchanges = recorder.between(recorder.last - MAX_REQUESTS + 1, recorder.last)
    return Activity(
        [recorder.rows.reading(exchange) for exchange in exchanges],
        recorder.events.all(),
        recorder.rows.topics,
        schemas,
    )


class Evidence:
    """The view of a broker that a goal checks.

    Args:
        activity: The requests, events and topics.
        facts: The state of the broker.
        mark: The last request and event to ignore.

    Attributes:
        facts: The state of the broker.
        events: The broker's events that are not requests.
        topics: The names of topics by id.
        schemas: The schemas of the broker.
    """

    def __init__(self, activity: Activity, facts: Facts, mark: ActivityMark) -> None:
        self.facts = facts
        self.events = [event for event in activity.events if event.number > mark.event]
        self._readings = [reading for reading in activity.readings if reading.exchange.number > mark.request]
        self.topics = activity.topics
        self.schemas = activity.schemas

    def readings(self, api: str) -> Iterator[Reading]:
        """Return the decodable requests of one API, oldest first."""
        return (reading for reading in self.all_readings(api) if reading.request is not None)

    def all_readings(self, *apis: str) -> Iterator[Reading]:
        """Return the requests of these APIs, including requests in unknown versions."""
        return (reading for reading in self._readings if reading.api in apis)

    def partitions(self, topics: Any) -> Iterator[Any]:
        """Yield the partitions of `orders` from the topics of a message. Newer versions identify topics by id."""
        for topic_data in topics or ():
            name = getattr(topic_data, "name", "") or getattr(topic_data, "topic", "")
            if not name:
                topic = self.topics.with_id(getattr(topic_data, "topic_id", ZERO_UUID))
                name = None if topic is None else topic.name
            if name == "orders":
                yield from topic_data.partitions

    def logs(self, topic: str | None = None) -> Iterator[LogFacts]:
        """Return the logs with records after their marks, of one topic or of all."""
        logs = (log for log in self.facts.logs if topic in (None, log.topic))
        return (log for log in logs if log.log.log_end_offset > log.mark.end)


def request_link(exchange: Exchange, name: str = "Request") -> str:
    """Return a Markdown link to a request: "Request 7"."""
    return f"[{name} {exchange.number}](/requests/{exchange.number})"


def last_of(items: Iterable[T]) -> T | None:
    """Return the last element, or None if there is none."""
    newest = deque(items, maxlen=1)
    return newest[0] if newest else None


def join_numbers(numbers: Iterable[int]) -> str:
    """Return the sorted numbers as text: "0, 3, 4"."""
    return ", ".join(map(str, sorted(numbers)))


def no_records_text(topic: str) -> str:
    """Return the sentence for a topic without records."""
    return f"`{topic}` has no record yet."


def request_nodes(exchange: Exchange) -> Iterator[Node]:
    """Return all nodes of a request's field tree, which includes its records."""
    return request_fields(bytes(exchange.request_frame)).all_nodes()
