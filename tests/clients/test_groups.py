"""Real clients as members of consumer groups: they share partitions, take over, come back, and go on where they were.

Every program of the registry goes through the same scenarios, eager and cooperative where it can. The members whose
session has to end have a short one; all others have a long one, so that a slow machine throws nobody out.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from tests.clients.group_members import MEMBER_PROGRAMS, Group, Member, MemberProgram, Partition, Strategy
from tests.clients.kafka_python_client import committed_offsets
from tests.patience import eventually

PARTITIONS: Final = 6
SHORT_SESSION: Final = 1_500
"""In ms, for those whose session ends."""
LONG_SESSION: Final = 30_000
STRATEGIES: Final[tuple[Strategy, ...]] = ("eager", "cooperative")

every_program = pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, id=name, marks=() if name == "librdkafka" else pytest.mark.torture)
        for name, program in MEMBER_PROGRAMS.items()
    ],
)
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


@pytest.fixture(scope="module")
def config() -> Mapping[str, str]:
    """Short sessions are allowed."""
    return {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}


def committed(group: Group) -> dict[Partition, tuple[int, str]]:
    """The group's offsets for a client that is no member: (offset, metadata) where there is one."""
    # Not with confluent-kafka, which may read beyond the end of a committed offset's metadata.
    # It commits the NUL behind its strings, too.
    return {
        partition: (offset, metadata.removesuffix("\0"))
        for partition, (offset, metadata) in committed_offsets(group.client.bootstrap, group.name).items()
    }


@pytest.fixture
def group(bootstrap: str) -> Iterator[Group]:
    running = Group(bootstrap, PARTITIONS)
    try:
        yield running
    finally:
        running.close()


@every_program
@every_strategy
def test_members_share_the_partitions_whoever_joins_leaves_dies_or_sleeps(
    group: Group, program: MemberProgram, strategy: Strategy
) -> None:
    program.require(strategy)
    steady = group.start(program, strategy=strategy)
    group.until_shared_by(steady)
    group.until_delivered("one", steady)

    joined: list[Member] = [steady]
    for number, session_ms in enumerate((SHORT_SESSION, LONG_SESSION)):  # the first one will be made to sleep
        marks = [len(member.events) for member in joined]
        newcomer = group.start(program, strategy=strategy, session_timeout_ms=session_ms)
        group.until_shared_by(*joined, newcomer)
        if strategy == "cooperative":
            moved = newcomer.holding
            for member, mark in zip(joined, marks, strict=True):
                revoked = {tuple(each) for event in member.since(mark, "revoked") for each in event["partitions"]}
                assert not member.since(mark, "lost"), member
                assert revoked <= moved, "only what moves is revoked"
        joined.append(newcomer)
        group.until_delivered(f"joined {number}", *joined)

    _, second, third = joined
    third.leave()
    group.until_shared_by(steady, second)
    group.until_delivered("one left", steady, second)

    doomed = group.start(program, strategy=strategy, session_timeout_ms=SHORT_SESSION)
    group.until_shared_by(steady, second, doomed)
    doomed.kill()
    second.pause()
    held = second.holding
    second.holding = set()
    group.until_shared_by(steady)
    group.until_delivered("alone", steady)

    second.holding |= held  # it thinks so until it is told
    second.resume()
    group.until_shared_by(steady, second)
    group.until_delivered("awake again", steady, second)
    steady.leave()
    group.until_shared_by(second)
    second.leave()


@every_program
def test_committed_offsets_are_where_the_next_member_starts(group: Group, program: MemberProgram) -> None:
    group.produce("before", 5)
    first = group.start(program)
    first.wait_for(lambda: len(first.records) == 5 * PARTITIONS, "all records")
    (partition, other, *rest) = sorted(group.partitions)
    assert first.commit([(*partition, 3, "three of five"), (*other, 5, "")]) is None
    shown = first.committed([partition, other, rest[0]])
    expected = {partition: (3, "three of five"), other: (5, ""), rest[0]: (None, None)}
    assert {each: offset for each, (offset, _) in shown.items()} == {each: at for each, (at, _) in expected.items()}
    if "metadata" not in program.cannot:
        assert {each: text or "" for each, (_, text) in shown.items()} == {
            each: text or "" for each, (_, text) in expected.items()
        }
    assert committed(group) == {partition: (3, "three of five"), other: (5, "")}
    first.leave()

    automatic = group.start(program, auto_commit=True)
    automatic.wait_for(lambda: len(automatic.records) == 5 * PARTITIONS - 3 - 5, "what was not committed")
    offsets = sorted(record.offset for record in automatic.records if record[:2] == partition)
    assert offsets == [3, 4]
    assert not [record for record in automatic.records if record[:2] == other]
    automatic.leave()
    assert {each: offset for each, (offset, _) in committed(group).items()} == dict.fromkeys(group.partitions, 5)

    last = group.start(program, auto_commit=True)
    group.until_shared_by(last)
    group.until_delivered("after", last)
    assert {(record.offset, record.value) for record in last.records} == {(5, "after")}
    # Nobody tells a member that an automatic commit has been done: one that asks the broker sees it come.
    eventually(lambda: {offset for offset, _ in last.committed(group.partitions).values()} == {6})
    last.kill()


@every_program
def test_a_static_member_that_restarts_finds_its_partitions_and_nobody_else_notices(
    group: Group, program: MemberProgram
) -> None:
    program.require("static")
    steady = group.start(program, instance_id="steady")
    restarting = group.start(program, instance_id="restarting")
    group.until_shared_by(steady, restarting)
    group.until_delivered("before", steady, restarting)
    before, held = steady.count("assigned", "revoked", "lost"), set(restarting.holding)
    restarting.kill()
    again = group.start(program, instance_id="restarting")
    group.until_shared_by(steady, again)
    assert again.holding == held
    group.until_delivered("after", steady, again)
    assert steady.count("assigned", "revoked", "lost") == before, steady
