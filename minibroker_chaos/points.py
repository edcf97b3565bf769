"""The points of a run: what clients do, named so that each run of the same program meets the same names.

A name has no ids with random parts, no running numbers of clients, no ports and no times. Records are named by their
content, transactions by their count. Polls are named by their progress, as are commits: a request that moves a position
from 10 to 13 meets the points 11, 12 and 13, however the client divides its work into requests. Everything else is
counted.
"""

from __future__ import annotations

import re
from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from minibroker.server.requests.declarations import Target
from minibroker_chaos.steps import Point
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.batch import iter_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minibroker.server.faults.fault import RequestContext

MAX_COUNTED: Final = 8
"""The attempts of a counted request that are points. Later ones depend on time rather than on the program."""
_MAX_PER_REQUEST: Final = 100
"""The points of one partition in one request."""
_MAX_VALUE_BYTES: Final = 256
_MAX_SHOWN: Final = 24
_RANDOM: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F-]{22}|\d{10,}(?:\.\d+)?(?![0-9a-fA-F])|\d+\.\d{5,}"
    r"|(?<![0-9a-zA-Z])[0-9a-fA-F]{12,}(?![0-9a-zA-Z])|(?<=-)[0-9a-f]{8}(?![0-9a-zA-Z])"
)
"""UUIDs, long hexadecimal numbers, times. They differ between runs."""
_NUMBERED: Final = re.compile(r"((?:(?:kafka-python|aiokafka)-)?producer|consumer(?:-.+)?|adminclient)-\d+")
"""The client ids that Java clients, kafka-python and aiokafka number through all runs of a process."""
_TRANSACTIONAL: Final = frozenset({"AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit"})
_JOINS: Final = frozenset({"JoinGroup", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat"})
_COMMITS: Final = frozenset({"OffsetCommit", "TxnOffsetCommit"})
_BY_POSITION: Final = _COMMITS | {"Fetch", "ShareFetch", "ShareAcknowledge"}
_HEARTBEATS: Final = frozenset({"Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat"})


class Occasion(NamedTuple):
    """A point with what the request says there.

    Attributes:
        point: The point.
        target: The partition, group or transactional id.
        detail: The batch of a Produce request, the partition of another one, or None.
    """

    point: Point
    target: Target
    detail: Any = None


class Points:
    """Names the points of one run.

    Attributes:
        groups: The group that a client id was seen to join.
        transactions: The number of transactions that each transactional id has ended.
        moved_back: What the last request did if it moved a position back, or None.
    """

    moved_back: str | None = None

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}
        self._met: Counter[str] = Counter()
        self.transactions: Counter[str] = Counter()
        self._ended: set[str] = set()
        self._progress: Counter[str] = Counter()
        self.groups: dict[str, str] = {}

    def of(self, context: RequestContext, request: Any) -> Iterator[Occasion]:
        """Yield the points of a request in its order. To be called once per request."""
        client = stable_client(context.client_id or "a client")
        self.moved_back = None
        for target in context.targets:
            self._follow_transaction(context.api, target, request)
            if context.api in _JOINS and target.group:
                self.groups[context.client_id or ""] = target.group
        for text, target, detail in self._names(context, request, client):
            attempt = self._met[text]
            self._met[text] += 1
            yield Occasion(Point(text, attempt), target, detail)

    def group_of(self, target: Target, client_id: str | None) -> str | None:
        """Return the group of a target, the one that the client was seen to join, or the only one."""
        only = set(self.groups.values())
        return target.group or self.groups.get(client_id or "") or (only.pop() if len(only) == 1 else None)

    def _follow_transaction(self, api: str, target: Target, request: Any) -> None:
        """Count the transactions of a transactional id. The first request after an EndTxn begins the next one."""
        name = target.transactional_id
        if name is None:
            return
        if api == "EndTxn":
            self._ended.add(name)
        elif name in self._ended and (api in _TRANSACTIONAL or (api == "Produce" and request.transactional_id)):
            self._ended.remove(name)
            self.transactions[name] += 1

    def _names(self, context: RequestContext, request: Any, client: str) -> Iterator[tuple[str, Target, Any]]:
        api, targets = context.api, context.targets
        if api == "Produce":
            partitions = [partition for topic in request.topic_data for partition in topic.partition_data]
            for target, partition in zip(targets, partitions, strict=False):
                for label, batch in _labels(partition.records):
                    yield f"Produce of {label} to {_partition(target)} by {client}", target, batch
        elif api in _BY_POSITION:
            for target, partition in zip(targets, _partitions_of(request), strict=False):
                yield from self._points_of_partition(api, target, partition, request, client)
        elif api in _HEARTBEATS and getattr(request, "member_epoch", 1) > 0:
            group = targets[0].group or ""
            label = f"{api} of {stable_name(group)} after record"
            for position in self._pass(label, self._progress[group]):
                yield f"{label} {position}", targets[0], None
        else:
            text = f"{api} by {client}{_of_target(targets[0])}"
            name = targets[0].transactional_id
            if name is not None and api != "InitProducerId":
                text += f", transaction {self.transactions[name] + 1}"
            if self._met[text] < MAX_COUNTED:
                yield text, targets[0], None

    def _points_of_partition(
        self, api: str, target: Target, partition: Any, request: Any, client: str
    ) -> Iterator[tuple[str, Target, Any]]:
        """Yield the positions that a request of one partition passes."""
        if api == "Fetch":
            label, position = f"Fetch of {_partition(target)} by {client} at offset", partition.fetch_offset
        else:
            group = request.group_id or ""
            target = target._replace(group=group)
            if api in _COMMITS:
                label, position = (
                    f"{api} of {_partition(target)} by {stable_name(group)} at offset",
                    partition.committed_offset,
                )
                before = self._positions.get(label, 0)
                if position == before:
                    yield f"{label} {position}", target, partition  # The client commits the same offset again.
            else:
                label = f"acknowledgement of {_partition(target)} by {stable_name(group)} at record"
                before = self._positions.get(label, 0)
                batches = partition.acknowledgement_batches
                position = before + sum(batch.last_offset - batch.first_offset + 1 for batch in batches)
            self._progress[group] += max(0, position - before)
        for passed in self._pass(label, position):
            yield f"{label} {passed}", target, partition

    def _pass(self, label: str, position: int) -> range:
        """Move a position, and return the positions that it has passed. A first position is passed alone."""
        before = self._positions.get(label, position - 1)
        if position < before:
            self.moved_back = "committed a lower offset" if "Commit" in label else "went back to an earlier offset"
        self._positions[label] = position
        return range(max(before + 1, position + 1 - _MAX_PER_REQUEST), position + 1)


def stable_name(name: str) -> str:
    """Return a name without the parts that differ between runs."""
    return _RANDOM.sub("*", name)


def stable_client(client_id: str) -> str:
    """Return a client id without the parts that differ between runs. Clients of one kind then share their points."""
    numbered = _NUMBERED.fullmatch(client_id)
    return stable_name(client_id if numbered is None else numbered[1])


def _partition(target: Target) -> str:
    return f"{stable_name(target.topic or 'an unknown topic')}-{target.partition}"


def _of_target(target: Target) -> str:
    name = target.group or target.transactional_id or target.topic
    return f" of {stable_name(name)}" if name else ""


def _partitions_of(request: Any) -> list[Any]:
    return [partition for topic in request.topics for partition in topic.partitions]


def _labels(records: Any) -> Iterator[tuple[str, Any]]:
    """Yield the label of each record of a Produce request, and its batch. Broken records have none."""
    count = 0
    try:
        for batch in iter_batches(records or b""):
            for record in cast("Iterator[Any]", batch):
                yield _label(record.key, record.value), batch
                count += 1
                if count == _MAX_PER_REQUEST:
                    return
    except DecodeError:
        return


def _label(key: bytes | None, value: bytes | None) -> str:
    texts = [stable_name(bytes(part or b"")[:_MAX_VALUE_BYTES].decode("latin-1")) for part in (key, value)]
    content = blake2b("\0".join(texts).encode(), digest_size=4).hexdigest()
    shown = next((text for text in texts if 0 < len(text) <= _MAX_SHOWN and text.isprintable()), None)
    return f"record {content}" if shown is None else f"{shown!r} ({content})"
