"""Requests of members of share groups, as scripts for `ShareWorld`: some written by hand, others random."""

import random
from collections.abc import Callable, Container
from typing import Final

from tests.kafka.scripts import Scripts
from tests.kafka.share_group_world import Acks, Place, ShareWorld

Script = Callable[[ShareWorld], None]
SCRIPTS: Final = Scripts[ShareWorld]()
_PLACES: Final[tuple[Place, ...]] = (("t", 0), ("t", 1), ("u", 0))
_MEMBERS: Final = ("a", "b", "c")
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


def begin(world: ShareWorld, *members: str) -> None:
    """A group that reads two topics from their beginning, and its members."""
    world.create(t=2, u=1)
    world.configure(share_auto_offset_reset="earliest", share_record_lock_duration_ms="600000")
    for member in members:
        world.join(member, "t", "u")
        world.settle("t", "u")
    for place in _PLACES:
        world.produce(place, b"first")
        world.fetch(members[0], place, epoch=0, wait=True)  # the states are loaded
        world.acknowledge(members[0], {place: [(0, 0, [ACCEPT])]})
        world.fetch(members[0], epoch=-1)


@SCRIPTS.add
def a_lonely_members_life(world: ShareWorld) -> None:
    begin(world, "a")
    world.list_groups()
    world.list_groups(types=["share"])
    for place in _PLACES:
        world.produce(place, b"1", b"2", b"3")
    world.fetch("a", *_PLACES)
    world.acknowledge("a", {("t", 0): [(1, 2, [ACCEPT])]})
    world.offsets()
    world.offsets(("t", 0), ("t", 1), ("none", 0), version=0)
    world.offsets(("t", 0), ("t", 0))
    world.acknowledge("a", {("t", 0): [(0, 3, [ACCEPT, ACCEPT, ACCEPT, REJECT])]})
    world.fetch("a", acks={("t", 1): [(1, 1, [REJECT])], ("u", 0): [(1, 1, [RENEW])]})
    world.fetch("a", acks={("u", 0): [(1, 1, [RENEW])]}, is_renew_ack=True, max_records=0, min_bytes=0, max_bytes=0)
    world.fetch("a", acks={("t", 1): [(2, 2, [ACCEPT])], ("u", 0): [(1, 2, [ACCEPT])]}, epoch=-1)
    world.alter({("t", 0): 1})
    world.forget("t")
    world.delete()
    world.leave("a")
    world.share_look()
    world.list_groups()
    world.offsets()
    world.alter({("t", 0): 1, ("t", 1): 0, ("u", 3): 0, ("none", 0): 0})
    world.offsets()
    world.forget("t", "none")
    world.offsets()
    world.delete()
    world.share_look()
    world.offsets()
    world.list_groups()


@SCRIPTS.add
def requests_that_cannot_be_meant(world: ShareWorld) -> None:
    world.create(t=2, u=1)
    world.share_beat("", 0, ["t"])
    world.share_beat("a", 1)
    world.share_beat("a", -1)
    world.share_beat("a", -2)
    world.share_beat("a", 0)
    world.share_beat("a", 0, [])
    world.share_look()
    world.alter({("t", 0): 1})
    world.forget("t")
    world.join("a", "t")
    world.settle("t")
    world.share_beat("a", 77)
    world.share_beat("b", 2)
    world.share_beat("b", -1)
    world.fetch("a", ("t", 0), epoch=3)
    world.fetch("a", ("t", 0), epoch=-1)
    world.fetch("a", ("t", 0), epoch=0, acks={("t", 0): [(0, 0, [ACCEPT])]})
    world.acknowledge("a", {("t", 0): [(0, 0, [ACCEPT])]}, epoch=0)
    world.acknowledge("a", {("t", 0): [(0, 0, [ACCEPT])]}, epoch=1)
    world.fetch("", ("t", 0), epoch=0)
    world.fetch("a", ("t", 9), epoch=0)
    world.fetch("a", ("t", 0), epoch=0)
    world.fetch("a", epoch=3)
    meaningless: list[list[tuple[int, int, list[int]]]] = [
        [(1, 0, [1])],
        [(0, 1, [1, 1, 1])],
        [(0, 0, [])],
        [(0, 0, [5])],
        [(0, 0, [-1])],
        [(2, 2, [1]), (1, 1, [1])],
    ]
    for ranges in meaningless:
        world.acknowledge("a", {("t", 0): ranges})
        world.fetch("a", ("t", 0), acks={("t", 0): ranges})
    world.acknowledge("a", {("t", 0): [(0, 0, [RENEW])]}, is_renew_ack=True)
    world.acknowledge("a", {("t", 0): [(0, 0, [RENEW])]})
    world.fetch("a", acks={("t", 0): [(0, 0, [RENEW])]}, is_renew_ack=True)
    world.fetch("a", forgotten=[("t", 0), ("u", 0)])
    world.fetch("a", epoch=-1)


@SCRIPTS.add
def locks_end(world: ShareWorld) -> None:
    begin(world, "a", "b")
    world.configure(share_record_lock_duration_ms="1000", share_delivery_count_limit="3")
    world.produce(("u", 0), b"1", b"2")
    world.fetch("a", ("u", 0))
    world.fetch("b", ("u", 0), wait=True)
    world.acknowledge("b", {("u", 0): [(1, 1, [ACCEPT])]})
    world.fetch("a", ("u", 0), wait=True)
    world.fetch("b", ("u", 0))
    world.produce(("u", 0), b"3")
    world.fetch("b", ("u", 0), wait=True)
    world.offsets(("u", 0))


@SCRIPTS.add
def records_that_a_member_never_had(world: ShareWorld) -> None:
    begin(world, "a", "b")
    place = ("u", 0)
    world.produce(place, b"1", b"2", b"3")
    world.produce(place, b"4")
    world.fetch("a", place, max_records=2, share_acquire_mode=1)
    world.fetch("b", place, max_records=0, min_bytes=0, max_bytes=0)
    nobody_has: list[tuple[int, int]] = [(3, 3), (2, 3), (4, 4), (5, 9), (90, 95), (0, 0), (0, 1)]
    for first, last in nobody_has:
        for member in ("b", "a"):
            world.acknowledge(member, {place: [(first, last, [ACCEPT])]})
            world.fetch(member, acks={place: [(first, last, [REJECT])]}, forgotten=[place])
            world.fetch(member, place, max_records=0, min_bytes=0, max_bytes=0)
    world.offsets()
    world.acknowledge("a", {place: [(1, 2, [ACCEPT])], ("t", 0): [(7, 7, [ACCEPT])]})
    world.offsets()


@SCRIPTS.add
def what_a_fetch_releases_comes_again(world: ShareWorld) -> None:
    begin(world, "a", "b")
    place = ("u", 0)
    world.produce(place, b"1", b"2", b"3", b"4")
    world.fetch("a", place)
    world.fetch_until("a", place, [2], {place: [(1, 1, [ACCEPT]), (2, 2, [RELEASE]), (3, 4, [REJECT, ACCEPT])]})
    world.fetch_until("a", place, [2], {place: [(2, 2, [RELEASE])]})
    world.produce(place, b"5", b"6")
    world.fetch_until("a", place, [2, 5, 6], {place: [(2, 2, [RELEASE])]})
    world.fetch_until("a", place, [5, 6], {place: [(5, 6, [RELEASE])]})
    world.acknowledge("a", {place: [(2, 2, [RELEASE])]})
    world.offsets()
    world.acknowledge("a", {place: [(5, 6, [RELEASE])]})
    world.fetch_until("b", place, [5, 6], {})
    world.offsets()


def random_script(seed: int, steps: int = 60) -> Script:
    """A script of requests that a seed chooses, right ones and wrong ones."""

    def run(world: ShareWorld) -> None:
        chance = random.Random(seed)
        begin(world, "a", "b")
        for number in range(steps):
            _STEPS[chance.choices(range(len(_STEPS)), _WEIGHTS)[0]](world, chance, number)
        for member in [*world.epochs]:
            world.leave(member)
        world.offsets()
        world.share_look()

    return run


def _produce(world: ShareWorld, chance: random.Random, number: int) -> None:
    values = (b"%d-%d" % (number, each) for each in range(chance.randint(1, 6)))
    world.produce(chance.choice(_PLACES), *values)


def _fetch(world: ShareWorld, chance: random.Random, number: int) -> None:
    """A fetch from one partition: which of several come first when not all fit depends on what Kafka has cached.

    Nothing is released with it: whether Kafka gives that out again at once depends on how soon its state is written.
    """
    del number
    member = chance.choice(_MEMBERS)
    before = world.reads.get(member)
    place = before if before is not None and chance.random() < 0.7 else chance.choice(_PLACES)
    in_session = world.session_epochs.get(member, 0) > 0
    acks: Acks = {}
    if in_session and place == before and chance.random() < 0.4:
        acks = _acks(world, chance, member, (ACCEPT, REJECT), {place})
    world.reads[member] = place
    world.fetch(
        member, place, acks=acks, forgotten=[before] if in_session and before is not None and before != place else (),
        max_records=chance.choice((1, 2, 3, 5, 500)), batch_size=chance.choice((1, 2, 500)),
        share_acquire_mode=chance.choice((0, 0, 1)),
    )  # fmt: skip


def _wrong_fetch(world: ShareWorld, chance: random.Random, number: int) -> None:
    del number
    member = chance.choice(_MEMBERS)
    place = world.reads.setdefault(member, _PLACES[0])
    world.fetch(member, place, epoch=chance.choice((1, 2, 50)))


def _acknowledge(world: ShareWorld, chance: random.Random, number: int) -> None:
    del number
    member = chance.choice(_MEMBERS)
    world.acknowledge(member, _acks(world, chance, member, (ACCEPT, RELEASE, REJECT), _PLACES))


def _acks(
    world: ShareWorld, chance: random.Random, member: str, kinds: tuple[int, ...], places: Container[Place]
) -> Acks:
    """Acknowledgements of what a member has acquired, or has had once, in some partitions."""
    held = world.acquired.get(member, [])
    found: dict[Place, list[tuple[int, int, list[int]]]] = {}
    for _ in range(chance.randint(1, 3)):
        if not held:
            break
        at = chance.randrange(len(held))
        place, first, end = held[at]
        if place in found or place not in places:
            continue
        last = chance.randint(first, end) if chance.random() < 0.3 else end
        types = [chance.choice((*kinds, *kinds, GAP, RENEW))]
        if chance.random() < 0.3:
            types = [chance.choice(kinds) for _ in range(first, last + 1)]
        found[place] = [(first, last, types)]
        if RENEW not in types and chance.random() < 0.8:  # else it comes once more, though it is done with
            held[at : at + 1] = [(place, last + 1, end)] if last < end else []
    return found


def _come_or_go(world: ShareWorld, chance: random.Random, number: int) -> None:
    del number
    member = chance.choice(_MEMBERS)
    if member in world.epochs and len(world.epochs) > 1 and chance.random() < 0.5:
        world.leave(member)
    else:
        world.join(member, *chance.choice((("t",), ("u",), ("t", "u"), ("t", "u"))))
    world.settle()


def _hang_up(world: ShareWorld, chance: random.Random, number: int) -> None:
    """Close a session, and the connection, of a member that holds nothing: Kafka releases that in its own time.

    When it was the last session of the group, Kafka loads the states again. Its answers are empty until it has them.
    """
    member = chance.choice(_MEMBERS)
    if world.acquired.get(member):
        return
    world.fetch(member, epoch=-1)
    world.hang_up(member)
    for place in _PLACES:
        world.produce(place, b"%d" % number)
        world.fetch(member, place, epoch=0, wait=True, max_records=1, share_acquire_mode=1)
        acquired = world.acquired.pop(member)
        world.acknowledge(member, {place: [(first, last, [ACCEPT]) for _, first, last in acquired]})
        world.fetch(member, epoch=-1)


def _look(world: ShareWorld, chance: random.Random, number: int) -> None:
    del number
    chance.choice((world.offsets, world.share_look, world.list_groups))()


def _administer(world: ShareWorld, chance: random.Random, number: int) -> None:
    del number
    chance.choice((lambda: world.alter({chance.choice(_PLACES): 0}), lambda: world.forget("t"), world.delete))()


_STEPS: Final = (_produce, _fetch, _acknowledge, _wrong_fetch, _come_or_go, _hang_up, _look, _administer)
_WEIGHTS: Final = (6, 10, 8, 2, 1, 1, 3, 1)
