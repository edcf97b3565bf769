"""Goals about groups, offsets and leaders, for lessons 5, 6 and 10."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from minibroker.operations.wording import counted
from minibroker_lab.page.lessons.deliveries import begun, read_twice
from minibroker_lab.page.lessons.lesson import Finding, Goal, not_yet, reached
from minibroker_lab.page.lessons.look import last, listed, nothing_in, request_link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minibroker_lab.page.lessons.look import Look
    from minibroker_lab.trace.reading import Reading


def _shared(look: Look) -> Finding:
    newest = "No JoinGroup has been answered."
    for each in look.readings("JoinGroup"):
        if each.response is not None and each.response.members:
            count, generation = len(each.response.members), each.response.generation_id
            group = f"group {each.request.group_id!r} has {counted(count, 'member')} in generation {generation}"
            newest = f"{request_link(each.exchange)}: {group}."
            if count > 1:
                return reached(newest)
    asked = {each.request.group_id for each in look.readings("ConsumerGroupHeartbeat")}
    for view in (each for each in look.facts.groups if each.type == "consumer" and each.group_id in asked):
        reading = [each for each in view.members if any(topic == "orders" for topic, _ in each.partitions or ())]
        newest = f"Group {view.group_id!r} has {counted(len(reading), 'member')} in epoch {view.generation}."
        if len(reading) > 1:
            return reached(newest)
    return not_yet(newest)


def _interrupted(look: Look) -> Finding:
    count = 0
    for each in look.readings("Heartbeat"):
        if "REBALANCE_IN_PROGRESS" in each.errors:
            link = request_link(each.exchange, "Heartbeat")
            return reached(f"{link} got REBALANCE_IN_PROGRESS, so its member joined again.")
        count += 1
    if not count:
        return not_yet("No Heartbeat has come.")
    return not_yet(f"{counted(count, 'heartbeat')}, and no REBALANCE_IN_PROGRESS in a response.")


def _new_protocol(look: Look) -> Finding:
    newest = "No ConsumerGroupHeartbeat has come."
    for each in look.readings("ConsumerGroupHeartbeat"):
        link = request_link(each.exchange)
        if each.response is not None and not each.errors and each.response.member_epoch > 0:
            member = f"a member of {each.request.group_id!r}"
            return reached(f"{link}: {member} has reached epoch {each.response.member_epoch}.")
        newest = f"{link}, the last ConsumerGroupHeartbeat, got {', '.join(each.errors) or 'no epoch yet'}."
    return not_yet(newest)


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
    """Return the committed offsets in an OffsetFetch response."""
    if each.response is None:
        return set()
    listed = [*_partitions(getattr(each.response, "topics", ()))]
    for group in getattr(each.response, "groups", None) or ():
        listed += _partitions(group.topics)
    return {part.committed_offset for part in listed if part.committed_offset >= 0}


def _stored(look: Look) -> Finding:
    commits = {each.request.group_id: each.exchange for each in look.readings("OffsetCommit") if not each.errors}
    for group in look.facts.groups:
        commit = commits.get(group.group_id)
        for offset in group.offsets:
            if commit is not None and offset.committed is not None and offset.topic == "orders":
                return reached(f"{request_link(commit)}: {group.group_id!r} goes on at offset {offset.committed}.")
    newest = last(look.readings("OffsetCommit"))
    if newest is None:
        return not_yet("No OffsetCommit has come.")
    got = f"got {newest.errors[0]}" if newest.errors else "names no offset of `orders`"
    return not_yet(f"{request_link(newest.exchange)}, the last OffsetCommit, {got}.")


def _resumed(look: Look) -> Finding:
    newest = "No OffsetFetch has come."
    for each in look.readings("OffsetFetch"):
        asked, found = request_link(each.exchange, "OffsetFetch"), _found(each)
        for fetch in _fetches_from(look, found, each.exchange.number):
            return reached(f"{asked} returned the offset that {request_link(fetch.exchange, 'Fetch')} began with.")
        offset = f"returned the offset {listed(found)}" if found else "found no committed offset"
        newest = f"{asked} {offset}, and no Fetch has gone on from a committed one."
    return not_yet(newest)


def _fetches_from(look: Look, offsets: set[int], behind: int) -> Iterator[Reading]:
    for each in look.readings("Fetch"):
        if each.exchange.number > behind:
            starts = {part.fetch_offset for part in _partitions(each.request.topics)}
            if starts & offsets - {0}:
                yield each


def _repeated(look: Look) -> Finding:
    found = read_twice(look)
    if found is None:
        offsets = [each.got.offset for each in begun(look)]
        if not offsets:
            return not_yet("No consumer of a group has got records.")
        began = f"{counted(len(offsets), 'consumer')} of a group got records, beginning at {listed(offsets)}"
        return not_yet(f"{began}: none came twice without a commit in between.")
    first, second = found
    return reached(
        f"{request_link(first.got.exchange, 'Response')} and {request_link(second.got.exchange, 'Response')} "
        f"to two consumers both begin with offset {first.got.offset}, "
        f"which no member of {first.asked.group!r} had committed in between."
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


def _moved(look: Look) -> Finding:
    for each in look.logs("orders"):
        if each.leader_epoch > each.mark.leader_epoch:
            return reached(f"{each.link()} is in leader epoch {each.leader_epoch}.")
    for each in look.logs("orders"):
        return not_yet(f"{each.link()} has records, and is still in leader epoch {each.leader_epoch}.")
    return not_yet(nothing_in("orders"))


def _refused(look: Look) -> Finding:
    count = 0
    for each in look.all_readings("Produce", "Fetch"):
        if {"NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH"} & set(each.errors):
            link = request_link(each.exchange)
            return reached(f"{link}, {each.api}, got {each.errors[0]}: the client asked the old leader.")
        count += 1
    if not count:
        return not_yet("No Produce or Fetch has come.")
    return not_yet(f"{counted(count, 'Produce or Fetch request')}, and none to a broker that is not the leader.")


def _went_on(look: Look) -> Finding:
    newest = nothing_in("orders")
    for each in look.logs("orders"):
        epochs = {batch.leader_epoch for batch in each.batches}
        if len(epochs) > 1:
            return reached(f"{each.link()} has records of the leader epochs {listed(epochs)}.")
        newest = f"{each.link()} has records of leader epoch {listed(epochs)} alone, and is in {each.leader_epoch}."
    return not_yet(newest)


def _recovered(look: Look) -> Finding:
    if not look.facts.was_killed:
        return not_yet("No run before this one was killed.")
    for each in look.logs("orders"):
        end = each.log.log_end_offset
        return reached(f"The last run was killed, and {each.link()} has its records up to offset {end - 1} again.")
    return not_yet(f"The last run was killed. {nothing_in('orders')}")


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
