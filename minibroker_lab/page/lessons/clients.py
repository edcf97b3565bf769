"""Goals about groups, offsets and leaders, for lessons 5, 6 and 10, and the records that each consumer received."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker.operations.wording import format_count
from minibroker_lab.page.lessons.evidence import join_numbers, last_of, no_records_text, request_link
from minibroker_lab.page.lessons.lesson import Finding, Goal, reached, report_open

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minibroker.server.inspection.exchanges import Exchange
    from minibroker_lab.page.lessons.evidence import Evidence
    from minibroker_lab.reading import Reading


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


def _find_commits(evidence: Evidence) -> list[tuple[int, str, int, int]]:
    """Return the request number, group, partition and offset of each commit."""
    return [
        (reading.exchange.number, reading.request.group_id, part.partition_index, part.committed_offset)
        for reading in evidence.readings("OffsetCommit")
        if reading.response is not None and not reading.errors
        for part in evidence.partitions(reading.request.topics)
    ]


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


def _check_shared(evidence: Evidence) -> Finding:
    newest = "No JoinGroup has been answered."
    for reading in evidence.readings("JoinGroup"):
        if reading.response is not None and reading.response.members:
            count, generation = len(reading.response.members), reading.response.generation_id
            group = f"group {reading.request.group_id!r} has {format_count(count, 'member')} in generation {generation}"
            newest = f"{request_link(reading.exchange)}: {group}."
            if count > 1:
                return reached(newest)
    group_ids = {reading.request.group_id for reading in evidence.readings("ConsumerGroupHeartbeat")}
    for view in (group for group in evidence.facts.groups if group.type == "consumer" and group.group_id in group_ids):
        readers = [member for member in view.members if any(topic == "orders" for topic, _ in member.partitions or ())]
        newest = f"Group {view.group_id!r} has {format_count(len(readers), 'member')} in epoch {view.generation}."
        if len(readers) > 1:
            return reached(newest)
    return report_open(newest)


def _check_interrupted(evidence: Evidence) -> Finding:
    count = 0
    for reading in evidence.readings("Heartbeat"):
        if "REBALANCE_IN_PROGRESS" in reading.errors:
            link = request_link(reading.exchange, "Heartbeat")
            return reached(f"{link} got REBALANCE_IN_PROGRESS, so its member joined again.")
        count += 1
    if not count:
        return report_open("No Heartbeat has come.")
    return report_open(f"{format_count(count, 'heartbeat')}, and no REBALANCE_IN_PROGRESS in a response.")


def _check_new_protocol(evidence: Evidence) -> Finding:
    newest = "No ConsumerGroupHeartbeat has come."
    for reading in evidence.readings("ConsumerGroupHeartbeat"):
        link = request_link(reading.exchange)
        if reading.response is not None and not reading.errors and reading.response.member_epoch > 0:
            member = f"a member of {reading.request.group_id!r}"
            return reached(f"{link}: {member} has reached epoch {reading.response.member_epoch}.")
        newest = f"{link}, the last ConsumerGroupHeartbeat, got {', '.join(reading.errors) or 'no epoch yet'}."
    return report_open(newest)


GROUPS: Final = (
    Goal(
        "shared",
        "Have two consumers of one group share the partitions of `orders`.",
        "Start a consumer that keeps polling, wait five seconds, and start another one in a second terminal.",
        _check_shared,
    ),
    Goal(
        "interrupted",
        "See a Heartbeat request answered with REBALANCE_IN_PROGRESS.",
        "Let the first consumer run for a while before the second one joins. Its next heartbeat gets the error.",
        _check_interrupted,
    ),
    Goal(
        "new-protocol",
        "Join a group with the protocol of KIP-848.",
        "Set `group.protocol` to `consumer`.",
        _check_new_protocol,
    ),
)


def _committed_offsets(reading: Reading) -> set[int]:
    """Return the committed offsets in an OffsetFetch response."""
    groups = getattr(reading.response, "groups", None) or ()
    topics = [
        *(getattr(reading.response, "topics", None) or ()),
        *(topic for group in groups for topic in group.topics),
    ]
    return {part.committed_offset for topic in topics for part in topic.partitions if part.committed_offset >= 0}


def _check_stored(evidence: Evidence) -> Finding:
    accepted = (reading for reading in evidence.readings("OffsetCommit") if not reading.errors)
    commits = {reading.request.group_id: reading.exchange for reading in accepted}
    for group in evidence.facts.groups:
        commit = commits.get(group.group_id)
        for offset in group.offsets:
            if commit is not None and offset.committed is not None and offset.topic == "orders":
                return reached(f"{request_link(commit)}: {group.group_id!r} goes on at offset {offset.committed}.")
    newest = last_of(evidence.readings("OffsetCommit"))
    if newest is None:
        return report_open("No OffsetCommit has come.")
    result = f"got {newest.errors[0]}" if newest.errors else "names no offset of `orders`"
    return report_open(f"{request_link(newest.exchange)}, the last OffsetCommit, {result}.")


def _check_resumed(evidence: Evidence) -> Finding:
    newest = "No OffsetFetch has come."
    for reading in evidence.readings("OffsetFetch"):
        link, offsets = request_link(reading.exchange, "OffsetFetch"), _committed_offsets(reading)
        for fetch in evidence.readings("Fetch"):
            starts = {part.fetch_offset for topic in fetch.request.topics for part in topic.partitions}
            if fetch.exchange.number > reading.exchange.number and starts & offsets - {0}:
                return reached(f"{link} returned the offset that {request_link(fetch.exchange, 'Fetch')} began with.")
        offset = f"returned the offset {join_numbers(offsets)}" if offsets else "found no committed offset"
        newest = f"{link} {offset}, and no Fetch has gone on from a committed one."
    return report_open(newest)


def _check_repeated(evidence: Evidence) -> Finding:
    consumers = find_repeated_read(evidence)
    if consumers is None:
        offsets = [consumer.delivery.offset for consumer in consumer_starts(evidence)]
        if not offsets:
            return report_open("No consumer of a group has got records.")
        began = f"{format_count(len(offsets), 'consumer')} of a group got records, beginning at {join_numbers(offsets)}"
        return report_open(f"{began}: none came twice without a commit in between.")
    first, second = consumers
    return reached(
        f"{request_link(first.delivery.exchange, 'Response')} and {request_link(second.delivery.exchange, 'Response')} "
        f"to two consumers both begin with offset {first.delivery.offset}, "
        f"which no member of {first.offset_fetch.group!r} had committed in between."
    )


OFFSETS: Final = (
    Goal(
        "stored",
        "Read ten records of `orders` in a group, and commit.",
        "Set `enable.auto.commit` to false, and call commit when you have processed the records.",
        _check_stored,
    ),
    Goal(
        "resumed",
        "Start another consumer of the group, which continues after these records.",
        "Close the first consumer. The second one requests the committed offset with OffsetFetch.",
        _check_resumed,
    ),
    Goal(
        "repeated",
        "Read records, stop the consumer without a commit, and start it again: "
        "it reads the same records a second time.",
        "Set `enable.auto.commit` to false, since most consumers commit when they close. "
        "Read, close the consumer, and start another one.",
        _check_repeated,
    ),
)


def _check_moved(evidence: Evidence) -> Finding:
    for log in evidence.logs("orders"):
        if log.leader_epoch > log.mark.leader_epoch:
            return reached(f"{log.link()} is in leader epoch {log.leader_epoch}.")
    for log in evidence.logs("orders"):
        return report_open(f"{log.link()} has records, and is still in leader epoch {log.leader_epoch}.")
    return report_open(no_records_text("orders"))


def _check_refused(evidence: Evidence) -> Finding:
    count = 0
    for reading in evidence.all_readings("Produce", "Fetch"):
        if {"NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH"} & set(reading.errors):
            link = request_link(reading.exchange)
            return reached(f"{link}, {reading.api}, got {reading.errors[0]}: the client asked the old leader.")
        count += 1
    if not count:
        return report_open("No Produce or Fetch has come.")
    return report_open(
        f"{format_count(count, 'Produce or Fetch request')}, and none to a broker that is not the leader."
    )


def _check_went_on(evidence: Evidence) -> Finding:
    newest = no_records_text("orders")
    for log in evidence.logs("orders"):
        epochs = {batch.leader_epoch for batch in log.batches}
        if len(epochs) > 1:
            return reached(f"{log.link()} has records of the leader epochs {join_numbers(epochs)}.")
        newest = f"{log.link()} has records of leader epoch {join_numbers(epochs)} alone, and is in {log.leader_epoch}."
    return report_open(newest)


def _check_recovered(evidence: Evidence) -> Finding:
    if not evidence.facts.was_killed:
        return report_open("No run before this one was killed.")
    for log in evidence.logs("orders"):
        end = log.log.log_end_offset
        return reached(f"The last run was killed, and {log.link()} has its records up to offset {end - 1} again.")
    return report_open(f"The last run was killed. {no_records_text('orders')}")


FAILURE: Final = (
    Goal(
        "moved",
        "Write to `orders`, and move the leader of its partition to another broker.",
        "Choose Move a leader in the Do view.",
        _check_moved,
    ),
    Goal(
        "refused",
        "Watch a client send a request to the old leader.",
        "Keep one producer open while the leader moves. Its next Produce goes to the old leader.",
        _check_refused,
    ),
    Goal(
        "went-on",
        "Write records in two leader epochs, so that one log has both.",
        "Let the same producer write again. It finds the new leader by itself.",
        _check_went_on,
    ),
    Goal(
        "recovered",
        "Kill the lab with `kill -9`, and start it again. `orders` must still have its records.",
        "Start it again with the same command: `--data-dir` names the directory of its logs.",
        _check_recovered,
    ),
)
