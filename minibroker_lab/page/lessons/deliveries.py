"""Deliveries of `orders` records to the consumers of a group, for the goals of lesson 6."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minibroker.server.inspection.exchanges import Exchange
    from minibroker_lab.page.lessons.look import Look

_NO_OFFSET = -1


class _Asked(NamedTuple):
    """A member's OffsetFetch for one partition. `offset` is -1 if the group has no committed offset."""

    number: int
    client_id: str | None
    group: str
    partition: int
    offset: int


class _Got(NamedTuple):
    """A response with records, starting at `offset`."""

    exchange: Exchange
    client_id: str | None
    partition: int
    offset: int


class Begun(NamedTuple):
    """A consumer's OffsetFetch and the first response with records after it."""

    asked: _Asked
    got: _Got


def read_twice(look: Look) -> tuple[Begun, Begun] | None:
    """Return two consumers of a group that started with the same record without a commit in between, or None."""
    commits = list(_commits(look))
    for first, second in combinations(begun(look), 2):
        where = first.asked.group, first.asked.partition
        is_repeated = (
            where == (second.asked.group, second.asked.partition)
            and first.got.offset == second.got.offset
            and first.got.exchange.client != second.got.exchange.client
        )
        if is_repeated and not any(
            (group, partition) == where
            and first.asked.number < number < second.got.exchange.number
            and offset > first.got.offset
            for number, group, partition, offset in commits
        ):
            return first, second
    return None


def begun(look: Look) -> Iterator[Begun]:
    """Yield the consumers of groups.

    Each sends OffsetFetch and receives records from that offset before the next consumer sends OffsetFetch.
    """
    got = list(_got(look))
    following: dict[tuple[str, int], int] = {}
    found: list[Begun] = []
    for asked in reversed(list(_asked(look))):
        where = asked.group, asked.partition
        end = following.get(where)
        following[where] = asked.number
        for each in got:
            if (
                asked.number < each.exchange.number
                and (end is None or each.exchange.number < end)
                and (each.client_id, each.partition) == (asked.client_id, asked.partition)
            ):
                if asked.offset in {_NO_OFFSET, each.offset}:
                    found.append(Begun(asked, each))
                break
    yield from reversed(found)


def _asked(look: Look) -> Iterator[_Asked]:
    for each in look.readings("OffsetFetch"):
        if each.response is None:
            continue
        groups = getattr(each.response, "groups", None) or ()
        listed = [(group.group_id, group.topics) for group in groups] or [(each.request.group_id, each.response.topics)]
        for group, topics in listed:
            for part in look.partitions(topics):
                yield _Asked(each.exchange.number, each.client_id, group, part.partition_index, part.committed_offset)


def _commits(look: Look) -> Iterator[tuple[int, str, int, int]]:
    """Yield the request number, group, partition and offset of each commit."""
    for each in look.readings("OffsetCommit"):
        if each.response is not None and not each.errors:
            for part in look.partitions(each.request.topics):
                yield each.exchange.number, each.request.group_id, part.partition_index, part.committed_offset


def _got(look: Look) -> Iterator[_Got]:
    """Yield the Fetch responses with records.

    In a fetch session, a request names only the partitions that have changed.
    """
    places: dict[tuple[str, int], int] = {}
    for each in look.readings("Fetch"):
        client = each.exchange.client
        for part in look.partitions(each.request.topics):
            places[client, part.partition] = part.fetch_offset
        for part in look.partitions(each.response.responses) if each.response is not None else ():
            offset = places.get((client, part.partition_index))
            if offset is not None and part.records:
                yield _Got(each.exchange, each.client_id, part.partition_index, offset)
