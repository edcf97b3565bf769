"""Groups reconstructed from requests and responses, for a proxy that has no access to the broker's state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from minibroker_protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        """Apply the changes made by an exchange of one of the APIs in `GROUP_APIS`."""
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
