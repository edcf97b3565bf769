"""A look at a broker for a lesson: the requests of clients, and what they have left in the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.errors import NotFoundError, OperationError
from minibroker.operations.views import groups, logs, transactions
from minibroker.page.follow.links import record_sets
from minibroker_protocol.fields.frames import request_fields
from minibroker_protocol.steps import drain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from minibroker.operations.asynchronous import AsyncOperations
    from minibroker.operations.views.groups import GroupView
    from minibroker.operations.views.transactions import TransactionPage
    from minibroker.page.events import BrokerEvent
    from minibroker.page.source import Source
    from minibroker.services import Services
    from minibroker.trace.exchange import Exchange
    from minibroker.trace.reading import Reading
    from minibroker_protocol.fields.tree import Node
    from minibroker_storage.views.snapshot import BatchView, LogView

MOST_REQUESTS: Final = 2_000
_MOST_PARTITIONS: Final = 20
_MOST_BATCHES: Final = 500
_INTERNAL: Final = "__"


class LogFacts(NamedTuple):
    """A partition of the learner's: its log, its first batches, and the epoch of its leader.

    Attributes:
        first_dirty_offset: the cleaner has compacted all below it; None before the first cleaning.
    """

    topic: str
    partition: int
    log: LogView
    batches: tuple[BatchView, ...]
    leader_epoch: int
    first_dirty_offset: int | None


class Facts(NamedTuple):
    """The state that clients have left in the broker: the first partitions, groups and transactions.

    Attributes:
        was_killed: the run before this one, on the same data directory.
    """

    logs: tuple[LogFacts, ...]
    groups: tuple[GroupView, ...]
    transactions: TransactionPage
    was_killed: bool


async def facts_of(broker: AsyncOperations) -> Facts:
    """Collect the facts. On the broker's loop."""
    services = broker.services
    found: list[LogFacts] = []
    for topic in list(services.core.topics):
        if topic.name.startswith(_INTERNAL):
            continue
        for partition in topic.partitions[: _MOST_PARTITIONS - len(found)]:
            facts = await _log_facts(services, topic.name, partition.index, partition.leader_epoch)
            found += [facts] if facts else []
    page = await groups.group_page(services)
    members = [await groups.group_view(services, each.group_id) for each in page.groups[:_MOST_PARTITIONS]]
    listed = await transactions.transaction_page(services)
    return Facts(tuple(found), tuple(members), listed, services.core.logs.was_killed)


async def _log_facts(services: Services, topic: str, index: int, epoch: int) -> LogFacts | None:
    try:
        log = await logs.log_view(services, topic, index)
        page = await logs.batches(services, topic, index, log.log_start_offset, most=_MOST_BATCHES)
    except (NotFoundError, OperationError):  # it was deleted meanwhile
        return None
    return LogFacts(topic, index, log, page.batches, epoch, services.core.logs.first_dirty_offset((topic, index)))


class Look:
    """A broker as a goal sees it.

    Attributes:
        facts: the state of the broker.
        events: what has happened to its logs and leaders.
    """

    def __init__(self, source: Source, facts: Facts, events: Sequence[BrokerEvent]) -> None:
        self.facts = facts
        self.events = events
        self._source = source
        self._readings: list[Reading] | None = None

    def readings(self, api: str) -> Iterator[Reading]:
        """The requests of one API that can be decoded, the oldest first."""
        return (each for each in self.all_readings(api) if each.request is not None)

    def all_readings(self, api: str) -> Iterator[Reading]:
        """The requests of one API, also those in versions that nobody knows; of the newest 2,000 requests."""
        if self._readings is None:
            source = self._source
            kept = source.between(max(source.first, source.last - MOST_REQUESTS + 1), source.last)
            self._readings = [source.rows.reading(each) for each in kept]
        return (each for each in self._readings if each.api == api)

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of a topic; None for an id that is not known."""
        topic = self._source.rows.topics.with_id(topic_id)
        return None if topic is None else str(topic.name)

    def record_sets(self, exchange: Exchange) -> list[dict[str, Any]]:
        """The places of the records of a Produce or Fetch in their logs, in the order of its fields."""
        return record_sets(exchange, self._source.rows.topics)

    def logs(self, topic: str | None = None) -> Iterator[LogFacts]:
        """The logs of a topic that are not empty."""
        return (each for each in self.facts.logs if each.log.log_end_offset and topic in (None, each.topic))


def fields(exchange: Exchange) -> Node:
    """The fields of a request, with its records."""
    return drain(request_fields(bytes(exchange.request)))


def values(root: Node, name: str) -> list[Any]:
    """The values of all fields with a name."""
    return [node.value for node in root.all_nodes() if node.name == name]
