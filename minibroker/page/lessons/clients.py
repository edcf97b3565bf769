"""Goals about groups, offsets and leaders: lessons 5, 6 and 10."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from minibroker.page.lessons.deliveries import read_twice
from minibroker.page.lessons.lesson import Goal
from minibroker.page.lessons.look import request_link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minibroker.page.lessons.look import Look
    from minibroker.trace.reading import Reading


def _shared(look: Look) -> str | None:
    for each in look.readings("JoinGroup"):
        if each.response is not None and not each.errors and len(each.response.members) > 1:
            count, generation = len(each.response.members), each.response.generation_id
            group = f"group {each.request.group_id!r}"
            return f"{request_link(each.exchange)}: {group} has {count} members in generation {generation}."
    return None


def _interrupted(look: Look) -> str | None:
    for each in look.readings("Heartbeat"):
        if "REBALANCE_IN_PROGRESS" in each.errors:
            return f"{request_link(each.exchange, 'Heartbeat')} got REBALANCE_IN_PROGRESS, so its member joined again."
    return None


def _new_protocol(look: Look) -> str | None:
    for each in look.readings("ConsumerGroupHeartbeat"):
        if each.response is not None and not each.errors and each.response.member_epoch > 0:
            return (
                f"{request_link(each.exchange)}: a member of {each.request.group_id!r} "
                f"has reached epoch {each.response.member_epoch}."
            )
    return None


GROUPS: Final = (
    Goal(
        "shared",
        "Have two consumers of one group share the partitions of `orders`.",
        "Start a consumer that goes on polling, wait five seconds, and start it once more in another terminal.",
        _shared,
    ),
    Goal(
        "interrupted",
        "See a member learn of the rebalance.",
        "Let the first consumer run for a while before the second one joins. Its next heartbeat brings the news.",
        _interrupted,
    ),
    Goal(
        "new-protocol",
        "Join a group with the protocol of KIP-848.",
        "Set `group.protocol` to `consumer`.",
        _new_protocol,
    ),
)


def _partitions(topics: Any) -> Iterator[Any]:
    for topic in topics or ():
        yield from topic.partitions


def _found(each: Reading) -> set[int]:
    """The committed offsets in the response to an OffsetFetch."""
    if each.response is None:
        return set()
    listed = [*_partitions(getattr(each.response, "topics", ()))]
    for group in getattr(each.response, "groups", None) or ():
        listed += _partitions(group.topics)
    return {part.committed_offset for part in listed if part.committed_offset >= 0}


def _stored(look: Look) -> str | None:
    commits = {each.request.group_id: each.exchange for each in look.readings("OffsetCommit") if not each.errors}
    for group in look.facts.groups:
        commit = commits.get(group.group_id)
        for offset in group.offsets:
            if commit is not None and offset.committed is not None and offset.topic == "orders":
                return f"{request_link(commit)}: {group.group_id!r} goes on at offset {offset.committed}."
    return None


def _resumed(look: Look) -> str | None:
    for each in look.readings("OffsetFetch"):
        for fetch in _fetches_from(look, _found(each), each.exchange.number):
            asked, began = request_link(each.exchange, "OffsetFetch"), request_link(fetch.exchange, "Fetch")
            return f"{asked} returned the offset that {began} began with."
    return None


def _fetches_from(look: Look, offsets: set[int], behind: int) -> Iterator[Reading]:
    for each in look.readings("Fetch"):
        if each.exchange.number > behind:
            starts = {part.fetch_offset for part in _partitions(each.request.topics)}
            if starts & offsets - {0}:
                yield each


def _repeated(look: Look) -> str | None:
    found = read_twice(look)
    if found is None:
        return None
    first, second = found
    return (
        f"{request_link(first.got.exchange, 'Response')} and {request_link(second.got.exchange, 'Response')} "
        f"to two consumers both begin with offset {first.got.offset}, "
        f"which nobody in {first.asked.group!r} had committed in between."
    )


OFFSETS: Final = (
    Goal(
        "stored",
        "Read ten records of `orders` in a group, and commit.",
        "Set `enable.auto.commit` to false, and call commit when you have processed the records.",
        _stored,
    ),
    Goal(
        "resumed",
        "Start another consumer of the group, which goes on after them.",
        "Close the first consumer. The second one asks for the committed offset with OffsetFetch.",
        _resumed,
    ),
    Goal(
        "repeated",
        "Read records, end without a commit, and start again: the same records come a second time.",
        "Set `enable.auto.commit` to false, since most consumers commit when they close. "
        "Read, close the consumer, and start another one.",
        _repeated,
    ),
)


def _moved(look: Look) -> str | None:
    for each in look.logs("orders"):
        if each.leader_epoch > each.mark.leader_epoch:
            return f"{each.link()} is in leader epoch {each.leader_epoch}."
    return None


def _refused(look: Look) -> str | None:
    for api in ("Produce", "Fetch"):
        for each in look.readings(api):
            if {"NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH"} & set(each.errors):
                return f"{request_link(each.exchange)}, {api}, got {each.errors[0]}: the client asked the old leader."
    return None


def _went_on(look: Look) -> str | None:
    for each in look.logs("orders"):
        epochs = {batch.leader_epoch for batch in each.batches}
        if len(epochs) > 1:
            return f"{each.link()} has records of the leader epochs {', '.join(map(str, sorted(epochs)))}."
    return None


def _recovered(look: Look) -> str | None:
    for each in look.logs("orders") if look.facts.was_killed else ():
        end = each.log.log_end_offset
        return f"The last run was killed, and {each.link()} has its records up to offset {end - 1} again."
    return None


FAILURE: Final = (
    Goal(
        "moved",
        "Write to `orders`, and move the leader of its partition to another broker.",
        "Choose Move a leader in the view Do.",
        _moved,
    ),
    Goal(
        "refused",
        "See a client ask the old leader.",
        "Keep one producer open while the leader moves. Its next Produce goes to the leader that it knows.",
        _refused,
    ),
    Goal(
        "went-on",
        "Have one log with records of two leader epochs.",
        "Let the same producer write again. It asks for the new leader by itself.",
        _went_on,
    ),
    Goal(
        "recovered",
        "Kill the lab with `kill -9`, and start it again. `orders` has its records.",
        "Start it again with the same command: `--data-dir` names the directory of its logs.",
        _recovered,
    ),
)
