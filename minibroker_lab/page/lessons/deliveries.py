"""Finds the records of `orders` that each consumer of a group received, for the goals of lesson 6."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minibroker.server.inspection.exchanges import Exchange
    from minibroker_lab.page.lessons.evidence import Evidence

_NO_OFFSET = -1


class _OffsetFetch(NamedTuple):
    """A member's OffsetFetch for one partition. `offset` is -1 if the group has no committed offset."""

    number: int
    client_id: str | None
    group: str
    partition: int
    offset: int


class _Delivery(NamedTuple):
    """A response with records, starting at `offset`."""

    exchange: Exchange
    client_id: str | None
    partition: int
    offset: int


class ConsumerStart(NamedTuple):
    """A consumer's OffsetFetch and the first response with records after it."""

    offset_fetch: _OffsetFetch
    delivery: _Delivery


def find_repeated_read(evidence: Evidence) -> tuple[ConsumerStart, ConsumerStart] | None:
    """Return two consumers of a group that started with the same record without a commit in between, or None."""
    commits = list(_find_commits(evidence))
    for first, second in combinations(consumer_starts(evidence), 2):
        group_partition = first.offset_fetch.group, first.offset_fetch.partition
        is_repeated = (
            group_partition == (second.offset_fetch.group, second.offset_fetch.partition)
            and first.delivery.offset == second.delivery.offset
            and first.delivery.exchange.client != second.delivery.exchange.client
        )
        if is_repeated and not any(
            (group, partition) == group_partition
            and first.offset_fetch.number < number < second.delivery.exchange.number
            and offset > first.delivery.offset
            for number, group, partition, offset in commits
        ):
            return first, second
    return None


def consumer_starts(evidence: Evidence) -> Iterator[ConsumerStart]:
    """Yield the start of each consumer that received records from the committed offset or without one.

    The records must arrive before the next consumer of the group sends OffsetFetch.
    """
    deliveries = list(_find_deliveries(evidence))
    next_numbers: dict[tuple[str, int], int] = {}
    starts: list[ConsumerStart] = []
    for offset_fetch in reversed(list(_offset_fetches(evidence))):
        group_partition = offset_fetch.group, offset_fetch.partition
        end = next_numbers.get(group_partition)
        next_numbers[group_partition] = offset_fetch.number
        for delivery in deliveries:
            if (
                offset_fetch.number < delivery.exchange.number
                and (end is None or delivery.exchange.number < end)
                and (delivery.client_id, delivery.partition) == (offset_fetch.client_id, offset_fetch.partition)
            ):
                if offset_fetch.offset in {_NO_OFFSET, delivery.offset}:
                    starts.append(ConsumerStart(offset_fetch, delivery))
                break
    yield from reversed(starts)


def _offset_fetches(evidence: Evidence) -> Iterator[_OffsetFetch]:
    for reading in evidence.readings("OffsetFetch"):
        if reading.response is None:
            continue
        groups = getattr(reading.response, "groups", None) or ()
        by_group = {group.group_id: group.topics for group in groups} or {
            reading.request.group_id: reading.response.topics
        }
        number, client_id = reading.exchange.number, reading.client_id
        for group, topics in by_group.items():
            for part in evidence.partitions(topics):
                yield _OffsetFetch(number, client_id, group, part.partition_index, part.committed_offset)


def _find_commits(evidence: Evidence) -> Iterator[tuple[int, str, int, int]]:
    """Yield the request number, group, partition and offset of each commit."""
    for reading in evidence.readings("OffsetCommit"):
        if reading.response is not None and not reading.errors:
            for part in evidence.partitions(reading.request.topics):
                yield reading.exchange.number, reading.request.group_id, part.partition_index, part.committed_offset


def _find_deliveries(evidence: Evidence) -> Iterator[_Delivery]:
    """Yield the Fetch responses with records.

    In a fetch session, a request names only the partitions that have changed, so older fetch offsets still apply.
    """
    fetch_offsets: dict[tuple[str, int], int] = {}
    for reading in evidence.readings("Fetch"):
        client = reading.exchange.client
        for part in evidence.partitions(reading.request.topics):
            fetch_offsets[client, part.partition] = part.fetch_offset
        for part in evidence.partitions(reading.response.responses) if reading.response is not None else ():
            offset = fetch_offsets.get((client, part.partition_index))
            if offset is not None and part.records:
                yield _Delivery(reading.exchange, reading.client_id, part.partition_index, offset)
