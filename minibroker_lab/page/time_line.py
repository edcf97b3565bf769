"""The time line: requests and events in order, and the state of the broker at a given request.

The axis shows request numbers. An event is placed after the last request that preceded it. For a broker observed
through a proxy, the time line shows what requests and responses reveal: rebalances, groups, log offsets, and the
leaders in Metadata.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.cluster.errors import NotFoundError, OperationError
from minibroker.operations.views.consumer_offsets import past_groups
from minibroker.server.inspection.exchanges import Kind
from minibroker_lab.page.follow.sightings import response_offsets
from minibroker_lab.page.recorder import Reader
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS
from minibroker_storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from minibroker.cluster.core import Core
    from minibroker.operations.asynchronous import AsyncOperations
    from minibroker.server.inspection.exchanges import Exchange
    from minibroker_control.remote import Remote
    from minibroker_lab.page.recorder import Recorder
    from minibroker_lab.page.rows import Events
    from minibroker_lab.reading import KnownTopics, Reading


MAX_LISTED: Final = 200
"""The limit on groups, and on the members and offsets of each group."""
HEARTBEATS: Final = {
    int(ApiKey.CONSUMER_GROUP_HEARTBEAT): "consumer",
    int(ApiKey.SHARE_GROUP_HEARTBEAT): "share",
    int(ApiKey.STREAMS_GROUP_HEARTBEAT): "streams",
}
"""The heartbeat APIs that carry assignments, with the group type of each."""
_COMMITS: Final = frozenset({int(ApiKey.OFFSET_COMMIT), int(ApiKey.TXN_OFFSET_COMMIT)})
_CLASSIC_APIS: Final = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP)
MEMBER_APIS: Final = HEARTBEATS.keys() | _COMMITS | set(map(int, _CLASSIC_APIS))
"""The APIs with which members join, stay in and leave groups, and commit offsets."""
GROUP_APIS: Final = MEMBER_APIS | set(map(int, (ApiKey.END_TXN, ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE)))
"""The APIs that change groups."""

_Place = tuple[str, int]


@dataclass(slots=True)
class _Group:
    """A group. `members` maps member ids to client ids."""

    type: str = "classic"
    generation: int | None = None
    members: dict[str, str] = field(default_factory=dict[str, str])
    offsets: dict[_Place, int] = field(default_factory=dict[_Place, int])


class ObservedGroups:
    """The state of groups after all exchanges that were passed to `note` in request order.

    A member whose session has expired is kept until the group's next generation, since no request reports its removal.
    """

    def __init__(self, topics: KnownTopics) -> None:
        self._topics = topics
        self._groups: dict[str, _Group] = {}
        self._pending: dict[str, list[tuple[str, dict[_Place, int]]]] = {}

    def note(self, reading: Reading) -> None:
        """Apply what an exchange has changed. Its API is one of `GROUP_APIS`."""
        key, request, response = reading.exchange.api_key, reading.request, reading.response
        if request is None or response is None or getattr(response, "error_code", None):
            return
        if key in _COMMITS:
            self._record_commit(request, response)
        elif key == ApiKey.END_TXN:
            for group_id, offsets in self._pending.pop(request.transactional_id, ()):
                if request.committed:
                    self._group(group_id).offsets.update(offsets)
        elif key == ApiKey.DELETE_GROUPS:
            for result in response.results:
                if not result.error_code:
                    self._groups.pop(result.group_id, None)
        elif key == ApiKey.OFFSET_DELETE:
            for partition, _ in self._iterate_accepted(response, response):
                self._group(request.group_id).offsets.pop(partition, None)
        else:
            self._record_member(key, request, response, reading.client_id or "")

    def listed(self) -> list[dict[str, Any]]:
        """Return the first 200 groups by id, in the format of `operations.views.consumer_offsets`."""
        return [
            {
                "group_id": group_id,
                "type": group.type,
                "generation": group.generation,
                "members": sorted(group.members.values())[:MAX_LISTED],
                "offset_count": len(group.offsets),
                "offsets": [
                    {"topic": topic, "partition": partition, "offset": offset}
                    for (topic, partition), offset in sorted(group.offsets.items())[:MAX_LISTED]
                ],
            }
            for group_id, group in sorted(self._groups.items())[:MAX_LISTED]
        ]

    def _group(self, group_id: str) -> _Group:
        return self._groups.setdefault(group_id, _Group())

    def _record_commit(self, request: Any, response: Any) -> None:
        offsets = {partition: part.committed_offset for partition, part in self._iterate_accepted(request, response)}
        if hasattr(request, "transactional_id"):
            self._pending.setdefault(request.transactional_id, []).append((request.group_id, offsets))
        elif offsets:
            self._group(request.group_id).offsets.update(offsets)

    def _iterate_accepted(self, request: Any, response: Any) -> Iterator[tuple[_Place, Any]]:
        """Yield the topic, the index and the element of each partition in `request` that the response accepted."""
        accepted = {
            (self._name(topic), part.partition_index)
            for topic in response.topics
            for part in topic.partitions
            if not part.error_code
        }
        for topic in request.topics:
            name = self._name(topic)
            for part in topic.partitions:
                if name is not None and (name, part.partition_index) in accepted:
                    yield (name, part.partition_index), part

    def _name(self, topic: Any) -> str | None:
        if topic.name:
            return str(topic.name)
        known_topic = self._topics.with_id(bytes(topic.topic_id))
        return None if known_topic is None else known_topic.name

    def _record_member(self, key: int, request: Any, response: Any, client_id: str) -> None:
        group = self._group(request.group_id)
        if key == ApiKey.LEAVE_GROUP:
            for member_id in [member.member_id for member in request.members] or [request.member_id]:
                group.members.pop(member_id, None)
            return
        if key in HEARTBEATS:
            group.type = HEARTBEATS[key]
            member_id, generation = response.member_id or request.member_id, response.member_epoch
            if request.member_epoch < 0:  # A member leaves the group by sending a negative member epoch.
                group.members.pop(member_id, None)
                return
            group.generation = max(generation, group.generation or 0)
        else:
            source = response if key == ApiKey.JOIN_GROUP else request
            member_id, generation = source.member_id, source.generation_id
            if generation < (group.generation or 0):
                return
            if generation != group.generation:
                group.generation = generation
                group.members.clear()
        group.members[member_id] = client_id


_BUCKETS: Final = 200
_MAX_EVENTS: Final = 500
_MAX_REBALANCES: Final = 2_000
_MAX_SEARCHED: Final = 5_000
"""The number of earlier requests that are searched for log offsets and groups."""
_MAX_PARTITIONS: Final = 200
_MAX_LEADERS: Final = 10_000
_MAX_OVERLAPPING: Final = 100
"""The number of later requests that are searched for the first one that began after a request ended."""
_FAMILIES: Final = dict.fromkeys(MEMBER_APIS, "groups") | {
    int(ApiKey.PRODUCE): "produce",
    int(ApiKey.FETCH): "fetch",
    int(ApiKey.SHARE_FETCH): "fetch",
}
FAMILIES: Final[tuple[str, ...]] = ("produce", "fetch", "groups", "other")
_REBALANCING: Final = frozenset({int(ApiKey.JOIN_GROUP), *HEARTBEATS})


class _Mark(NamedTuple):
    """An event placed at a request."""

    request: int
    time_ms: int
    kind: str
    text: str


class TimeLine:
    """The time line of one recorder. Each exchange is read only once, when the page shows the time line.

    Args:
        recorder: The source of the exchanges.
        events: The broker's events, or None for a broker that is observed through a proxy.
    """

    def __init__(self, recorder: Recorder, events: Events | None) -> None:
        self._recorder = recorder
        self._events = events
        read_apis = _REBALANCING if events is not None else _REBALANCING | {int(ApiKey.METADATA)}
        self._leaders: dict[tuple[str, int], tuple[int, int]] = {}
        self._reader = Reader(
            recorder, self._note, lambda exchange: exchange.api_key in read_apis and exchange.kind is Kind.REQUEST
        )
        self._generations: deque[tuple[str, int]] = deque(maxlen=_MAX_REBALANCES)
        self._marks: deque[_Mark] = deque(maxlen=_MAX_REBALANCES)

    async def view(self) -> dict[str, Any]:
        """Return the number of requests in each bucket, and the newest 500 events."""
        recorder = self._recorder
        recorder.catch_up()
        first, last = recorder.first, recorder.last
        size = max(1, -(-(last - first + 1) // _BUCKETS))
        count = -(-(last - first + 1) // size)
        buckets: list[dict[str, int]] = [{family: 0 for family in FAMILIES} for _ in range(count)]  # noqa: C420 - pyright takes the keys of fromkeys for literals
        times: list[int] = []
        async for exchange in recorder.in_slices(first, last):
            family = _FAMILIES.get(exchange.api_key, "other")
            buckets[(exchange.number - first) // size][family] += 1
            times.append(exchange.time_ms)
        await self._reader.read_new()
        # Count back from the last exchange, because the ring may have dropped the first exchanges in the meantime.
        start = last - len(times) + 1
        marks = [mark for mark in self._marks if mark.request >= first]
        marks += [
            _Mark(start - 1 + bisect_right(times, event.time_ms), event.time_ms, event.kind, event.text)
            for event in (() if self._events is None else self._events.all())
        ]
        marks.sort(key=lambda mark: (mark.time_ms, mark.request))
        return {
            "first": first,
            "last": last,
            "bucket": size,
            "buckets": buckets,
            "events": [mark._asdict() for mark in marks[-_MAX_EVENTS:]],
            "event_count": len(marks),
            "sees_broker": self._events is not None,
        }

    def _note(self, exchange: Exchange) -> None:
        reading = self._recorder.rows.reading(exchange)
        if reading.request is None or reading.response is None or getattr(reading.response, "error_code", None):
            return
        ended = exchange.time_ms + round((exchange.ended_ms or exchange.began_ms) - exchange.began_ms)
        if exchange.api_key == ApiKey.METADATA:
            self._record_leaders(exchange.number, ended, reading.response)
        else:
            self._record_rebalance(exchange.number, ended, reading)

    def _record_rebalance(self, number: int, ended_ms: int, reading: Reading) -> None:
        response = reading.response
        group: str = reading.request.group_id
        if reading.exchange.api_key in HEARTBEATS:
            is_streams = reading.exchange.api_key == ApiKey.STREAMS_GROUP_HEARTBEAT
            if (response.active_tasks if is_streams else response.assignment) is None:
                return
            generation = int(response.member_epoch)
            text = f"Group {group}: {reading.client_id} has a new assignment in epoch {generation}."
        else:
            generation = int(response.generation_id)
            if (group, generation) in self._generations:
                return
            self._generations.append((group, generation))
            text = f"Group {group} has come to generation {generation}."
        self._marks.append(_Mark(number, ended_ms, "rebalance", text))

    def _record_leaders(self, number: int, ended_ms: int, response: Any) -> None:
        """Record leader changes. Ignore older leader epochs, because they come from brokers that lag behind."""
        for topic in response.topics:
            for part in topic.partitions:
                key = (topic.name or "", part.partition_index)
                leader = (part.leader_epoch, part.leader_id)
                previous = self._leaders.get(key)
                if previous is not None and leader[0] < previous[0]:
                    continue
                if len(self._leaders) < _MAX_LEADERS or previous is not None:
                    self._leaders[key] = leader
                if previous is None or previous[1] == leader[1]:
                    continue
                name = f"{key[0]}-{key[1]}"
                text = f"{name} has no leader" if leader[1] < 0 else f"Broker {leader[1]} leads {name} now"
                self._marks.append(_Mark(number, ended_ms, "leader", f"{text}, says Metadata."))

    async def moment(self, remote: Remote | None, number: int) -> dict[str, Any]:
        """Return the groups, offsets and logs at the time when request `number` was answered.

        Without a remote broker, the groups are reconstructed from earlier requests, and `end_now` is None.
        `was_cleaned` is true if compaction has since removed group records, so some groups may be missing.

        Raises:
            NotFoundError: The request is no longer recorded.
        """
        exchange = self._recorder.find(number)
        if exchange is None:
            raise NotFoundError(f"request {number}: it is not kept")
        ended = exchange.began_ms if exchange.ended_ms is None else exchange.ended_ms
        at_ms = self._end_of(exchange, ended)

        offsets, searched = await self._marks_at(number, ended)
        facts = {"number": number, "time": at_ms, "looked_at": searched, "was_cleaned": self._was_cleaned(at_ms)}
        if remote is None:
            past_views = await self._groups_at(number, ended)
            return {**facts, "groups": past_views, "is_whole": True, "logs": _logs(offsets, lambda _: None)}

        async def work(broker: AsyncOperations) -> dict[str, Any]:
            past = asdict(await past_groups(broker.services, at_ms))
            return {**past, "logs": _logs(offsets, partial(_end_of_log, broker.services.core))}

        try:
            return {**facts, **await remote(work)}
        except (StorageError, OSError) as error:
            raise OperationError(f"__consumer_offsets: {error}") from None

    def _was_cleaned(self, at_ms: int) -> bool:
        return self._events is not None and any(
            event.kind == "cleaning" and event.topic == CONSUMER_OFFSETS and event.time_ms > at_ms
            for event in self._events.all()
        )

    async def _groups_at(self, number: int, ended_ms: float) -> list[dict[str, Any]]:
        """Return the groups, reconstructed from the requests up to this moment."""
        recorder = self._recorder
        groups = ObservedGroups(recorder.rows.topics)
        async for exchange in recorder.in_slices(max(recorder.first, number - _MAX_SEARCHED + 1), number):
            if exchange.api_key in GROUP_APIS and exchange.ended_ms is not None and exchange.ended_ms <= ended_ms:
                groups.note(recorder.rows.reading(exchange))
        return groups.listed()

    def _end_of(self, exchange: Exchange, ended_ms: float) -> int:
        """Return the last millisecond in which the request can have had an effect.

        Later requests may have effects in the same millisecond, which are then included.
        """
        latest_ms = exchange.time_ms + int(ended_ms - exchange.began_ms) + 1
        following = self._recorder.between(exchange.number + 1, exchange.number + _MAX_OVERLAPPING)
        return min([latest_ms, *(later.time_ms for later in following if later.began_ms >= ended_ms)])

    async def _marks_at(self, number: int, ended_ms: float) -> tuple[dict[tuple[str, int], dict[str, int]], int]:
        """Return the newest offsets of each log in earlier responses, and the number of requests searched."""
        offsets: dict[tuple[str, int], dict[str, int]] = {}
        recorder = self._recorder
        lowest = max(recorder.first, number - _MAX_SEARCHED + 1)
        async for exchange in recorder.in_slices(lowest, number):
            if exchange.ended_ms is not None and exchange.ended_ms <= ended_ms:
                for partition, marks in response_offsets(exchange, recorder.rows.topics):
                    # Offsets from a later response replace those from an earlier one.
                    offsets[partition] = {**offsets.get(partition, {}), **marks, "request": exchange.number}
        return offsets, number - lowest + 1


def _logs(
    offsets: Mapping[tuple[str, int], Mapping[str, int]], end_of: Callable[[tuple[str, int]], int | None]
) -> list[dict[str, Any]]:
    """Return the first 200 logs, with their offsets at that moment and their current log end offsets."""
    return [
        {"topic": partition[0], "partition": partition[1], **marks, "end_now": end_of(partition)}
        for partition, marks in sorted(offsets.items())[:_MAX_PARTITIONS]
    ]


def _end_of_log(core: Core, key: tuple[str, int]) -> int | None:
    partition = core.topics.find_partition(*key)
    return None if partition is None else partition.log.log_end_offset
