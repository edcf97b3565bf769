"""A kill at every step of what the coordinators write: committed offsets, members of groups, transactions.

As in `steps` the broker runs in this process, and from a chosen system call on none is made any more. What was
acknowledged before has to be there afterwards. A transaction whose end was decided is ended in every partition; one
whose end was not stays open until its producer goes on, another one takes its place, or its time is up, which of them
the step's number decides.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from minibroker_protocol.messages.fetch import PartitionData
from minibroker_protocol.messages.groups import DeleteGroupsRequest
from minibroker_protocol.records.batch import iter_batches
from tests.broker.coordinators.groups import offset_requests
from tests.broker.coordinators.groups.driver import Members
from tests.broker.coordinators.groups.member_requests import join_request
from tests.broker.coordinators.transactions.producer import READ_COMMITTED, TIMEOUT_MS, Producer, committed_values
from tests.broker.coordinators.version_1 import version_1_rule
from tests.broker.harness import Harness, Pending, bytes_in
from tests.torture.copies import walk
from tests.torture.in_process import NONE, Torture
from tests.torture.steps import Guillotine, Killed, unforced
from tests.torture.transaction_reading import entry_of

TURNS: Final = 6
WAYS_ON: Final = 3
_OUT: Final = "out"
_PLACES: Final = ((_OUT, 0), (_OUT, 1))
_PLAIN, _COPIERS, _TEAM = "plain-offsets", "copied", "team-1"
_COPIER, _BRIEF = "copier-1", "brief-id"
"""Transactional ids. Version 1.0 kept all of these names in other partitions, of three, than Kafka."""
_INSTANCE: Final = "instance"
_CONCURRENT_TRANSACTIONS: Final = 51
_FENCED_INSTANCE_ID: Final = 82
_FENCED: Final = {47, 90}
"""INVALID_PRODUCER_EPOCH and PRODUCER_FENCED."""
_WITHOUT_TRANSACTION: Final = {48, 120}
"""INVALID_TXN_STATE and TRANSACTION_ABORTABLE: nothing had begun whose time could be up."""
_CONFIG: Final = {
    "log.cleaner.delete.retention.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.index.interval.bytes": "100",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.segment.bytes": "1200",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "100000",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.segment.bytes": "600",
    "transactional.id.expiration.ms": "200000",
}


@dataclass
class Attempt:
    """A transaction that has begun and is not known to have ended."""

    producer: Producer
    value: bytes
    offset: int  # that it commits for `_COPIERS`
    commits: bool
    is_ending: bool = False
    done: set[str] = field(default_factory=set[str])


class CoordinatorLife:
    """A broker's life with groups and transactions, and what has to be true after its death.

    Attributes:
        visible: the values of committed transactions, which are in each partition of the output.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        self.torture = Torture(directory, (), seed, _CONFIG)
        self.harness.create(_OUT, len(_PLACES), segment_bytes="1500", index_interval_bytes="100")
        self.visible: list[bytes] = []
        self._attempt: Attempt | None = None
        self._copied: int | None = None  # the offset of `_COPIERS`
        self._offsets: set[int | None] = {None}  # what may be committed for `_PLAIN`
        self._member: tuple[str, int, str | None] | None = None  # its id, generation and instance id
        self._producer_ids: dict[int, str] = {}
        self._number = 0

    @property
    def harness(self) -> Harness:
        """The broker."""
        return self.torture.harness

    def live(self, guillotine: Guillotine) -> bool:
        """Live until the end, True, or until killed, False."""
        try:
            with guillotine.raised():
                for turn in range(TURNS):
                    self.turn(turn)
                    if turn == TURNS // 2:
                        self.torture.reopen(clean=True)
        except Killed:
            return False
        return True

    def turn(self, turn: int) -> None:
        """Something of everything."""
        self._commit_offsets()
        self._meet(leaves=turn % 2 == 1)
        self._transact(commits=turn % 3 != 1)
        self._abandon(times_out=turn % 2 == 1)
        if turn % 3 == 2:
            self._delete_offsets()
        self._member = None  # it falls silent
        self.torture.do_chores()

    def begin_again(self) -> None:
        """Start after a kill, up to where the coordinators have read their logs."""
        self.torture.reopen(clean=False)
        self.harness.run_soon()

    def check(self, way_on: int) -> None:
        """Start again after the kill, see what is there, and go on."""
        self.begin_again()
        self._check_member()
        self._check_states()
        self._settle(way_on)
        self.verify()
        self.torture.reopen(clean=False)  # what was mended must not be mended again
        self.verify()
        self._meet(leaves=False)
        self._check_member()
        for turn in range(2):
            self.turn(turn)
            self.verify()
        self.torture.reopen(clean=True)
        self.verify()

    def verify(self) -> None:
        """Hold what clients see against what is known. No transaction is open."""
        found = offset_requests.offsets_of(self.harness, _PLAIN)
        offsets = {found.get(place) for place in _PLACES}
        assert len(offsets) == 1, f"half of a commit is there: {found}"
        assert offsets <= self._offsets, f"{offsets} is committed, not one of {self._offsets}"
        copied = offset_requests.fetch(self.harness, (_OUT, 0), group_id=_COPIERS, stable=True)[_OUT, 0]
        expected = offset_requests.NOTHING[0] if self._copied is None else self._copied
        assert (copied[0], copied[3]) == (expected, NONE), f"{copied} is committed, not {expected}"
        for topic, partition in _PLACES:
            self._check_log(topic, partition)

    def close(self) -> None:
        """Stop."""
        self.torture.close()

    # What it does

    def _commit_offsets(self) -> None:
        self._number += 1
        self._offsets.add(self._number)
        assert set(offset_requests.commit(self.harness, dict.fromkeys(_PLACES, self._number), _PLAIN).values()) == {
            NONE
        }
        self._offsets = {self._number}

    def _delete_offsets(self) -> None:
        self._offsets.add(None)
        (result,) = self.harness.ask(DeleteGroupsRequest(groups_names=[_PLAIN]), 2).results
        assert result.error_code == NONE
        self._offsets = {None}

    def _meet(self, *, leaves: bool) -> None:
        """A member joins, gets its assignment, and may leave."""
        members = Members(self.harness, _TEAM)
        self._member = None
        member_id = members.new_id()
        joined = self.harness.send(join_request(_TEAM, member_id), 9)
        if isinstance(joined, Pending):  # for members from before the kill
            while not joined.is_answered:
                self.harness.clock.advance(1000)
                self.harness.run_soon()
            joined = joined.response
        assert joined.error_code == NONE
        answer = members.sync(member_id, joined.generation_id, {member_id: b"all"})
        assert (answer.error_code, bytes(answer.assignment)) == (NONE, b"all")
        self._member = (member_id, joined.generation_id, None)
        assert self._heartbeat(*self._member) == NONE
        if leaves:
            self._member = None
            assert members.leave(member_id) == [NONE]
            self._replace(members)

    def _replace(self, members: Members) -> None:
        """A static member joins, and starts again: it gets another id, and its assignment without a rebalance."""
        first = members.join(instance=_INSTANCE)
        assert first.error_code == NONE
        given = {first.member_id: b"all"}
        answer = members.sync(first.member_id, first.generation_id, given, instance=_INSTANCE)
        assert answer.error_code == NONE
        self._member = (first.member_id, first.generation_id, _INSTANCE)
        assert self._heartbeat(*self._member) == NONE
        self._member = None
        second = members.join(instance=_INSTANCE)
        assert (second.error_code, second.generation_id) == (NONE, first.generation_id)
        self._member = (second.member_id, second.generation_id, _INSTANCE)
        assert self._heartbeat(*self._member) == NONE
        assert self._heartbeat(first.member_id, first.generation_id, _INSTANCE) == _FENCED_INSTANCE_ID

    def _heartbeat(self, member_id: str, generation: int, instance: str | None) -> int:
        return Members(self.harness, _TEAM).heartbeat(member_id, generation, instance=instance)

    def _transact(self, *, commits: bool) -> None:
        self._number += 1
        value = b"%s %d" % (b"commit" if commits else b"abort", self._number)
        producer = Producer(self.harness, _COPIER, init=False)
        self._attempt = Attempt(producer, value, self._number, commits)
        self._go_on(self._attempt)

    def _go_on(self, attempt: Attempt) -> None:
        """Take all steps of a transaction that are not taken yet: a request without an answer is sent again."""
        producer = attempt.producer

        def once(name: str, step: Callable[[], object]) -> None:
            if name not in attempt.done:
                step()
                attempt.done.add(name)

        once("init", lambda: self._init(producer))
        for topic, partition in _PLACES:
            once(f"write {partition}", lambda: producer.write(attempt.value, topic=topic, partition=partition))  # noqa: B023 - it is called at once
        once("add", lambda: _succeed(producer.add_offsets(_COPIERS)))
        once("offset", lambda: _succeed(producer.commit_offset(_COPIERS, attempt.offset, topic=_OUT)))
        attempt.is_ending = True
        _succeed(producer.end(commit=attempt.commits))
        self._end(attempt, is_visible=attempt.commits)

    def _abandon(self, *, times_out: bool) -> None:
        """A transaction without an end: another producer takes its name, or its time is up."""
        self._number += 1
        value = b"abandoned %d" % self._number
        producer = Producer(self.harness, f"{_BRIEF}-{self._number}", init=False)
        attempt = self._attempt = Attempt(producer, value, self._number, commits=False)
        self._init(producer)
        for topic, partition in _PLACES:
            producer.write(value, topic=topic, partition=partition)
        _succeed(producer.add_offsets(_COPIERS))
        _succeed(producer.commit_offset(_COPIERS, self._number, topic=_OUT))
        self._supersede(attempt, times_out=times_out)

    def _init(self, producer: Producer) -> None:
        for _ in range(2):
            code = producer.init()
            if code != _CONCURRENT_TRANSACTIONS:
                break
        _succeed(code)
        owner = self._producer_ids.setdefault(producer.id, producer.transactional_id)
        assert owner == producer.transactional_id, f"producer id {producer.id} is given twice"

    def _supersede(self, attempt: Attempt, *, times_out: bool) -> None:
        """End a transaction against the will of its producer, which is fenced then."""
        old = attempt.producer
        if times_out:
            self._member = None  # it falls silent
            self.harness.clock.advance(TIMEOUT_MS + 20_000)
            self.harness.run_soon()
        else:
            self._init(Producer(self.harness, old.transactional_id, init=False))
        if old.id >= 0 and not self._is_visible(attempt):
            refused = _FENCED | (_WITHOUT_TRANSACTION if times_out else set[int]())
            late = old.send(b"late", topic=_OUT).error_code
            assert late in refused, f"a producer that is out of time writes: {late}"
            late = old.end(commit=True)
            assert late in refused, f"a producer that is out of time commits: {late}"
        self._end(attempt, is_visible=attempt.commits and attempt.is_ending and self._is_visible(attempt))

    # What must be true afterwards

    def _check_member(self) -> None:
        """A member that has its assignment, and did nothing since, is still one."""
        if self._member is not None:
            assert self._heartbeat(*self._member) == NONE
            (described,) = Members(self.harness, _TEAM).describe().members
            assert (described.member_id, bytes(described.member_assignment)) == (self._member[0], b"all")

    def _check_states(self) -> None:
        """Finish the decisions that were found while the logs were read."""
        for known in self.harness.services.transactions.store.all():
            assert not known.state.is_prepared, f"{known} is still to be ended"

    def _settle(self, way_on: int) -> None:
        """End the transaction in the midst of which the broker died."""
        attempt = self._attempt
        if attempt is None:
            return
        if attempt.producer.transactional_id == _COPIER and way_on == 0:
            self._go_on(attempt)
        else:
            self._supersede(attempt, times_out=way_on == 2)

    def _is_visible(self, attempt: Attempt) -> bool:
        return attempt.value in self._committed(_OUT, 0)

    def _end(self, attempt: Attempt, *, is_visible: bool) -> None:
        if is_visible:
            self.visible.append(attempt.value)
            self._copied = attempt.offset
        self._attempt = None

    def _check_log(self, topic: str, partition: int) -> None:
        expected: list[bytes | None] = list(self.visible)
        assert self._committed(topic, partition) == expected
        walked = walk(
            entry_of(each)
            for data in self._fetches(topic, partition, isolation_level=0)
            for each in iter_batches(memoryview(bytes_in(data)))
        )
        assert not walked.open
        assert [record.value for record in walked.committed] == expected
        data = self.harness.fetch_one(0, topic, partition, isolation_level=READ_COMMITTED)
        assert data.last_stable_offset == data.high_watermark, "a transaction is open"

    def _committed(self, topic: str, partition: int) -> list[bytes | None]:
        fetched = self._fetches(topic, partition, isolation_level=READ_COMMITTED)
        return [value for data in fetched for value in committed_values(data)]

    def _fetches(self, topic: str, partition: int, *, isolation_level: int) -> Iterator[PartitionData]:
        """The records that a consumer gets, one fetch after the other, until nothing is left."""
        offset = 0
        while True:
            data = self.harness.fetch_one(offset, topic, partition, isolation_level=isolation_level)
            assert data.error_code == NONE
            batches = list(iter_batches(memoryview(bytes_in(data))))
            if not batches:
                return
            yield data
            offset = batches[-1].header.last_offset + 1


def _succeed(code: int) -> None:
    assert code == NONE, code


@unforced()
def steps_of(directory: Path, seed: int) -> Guillotine:
    """A whole life without a kill, for its number of steps."""
    guillotine = Guillotine(None)
    life = CoordinatorLife(directory, seed)
    assert life.live(guillotine)
    life.verify()
    life.close()
    return guillotine


@unforced()
def kill_at(directory: Path, seed: int, step: int, *, torn: bool) -> None:
    """A life that ends at one step, and what comes after it. `AssertionError`."""
    life = CoordinatorLife(directory, seed)
    try:
        assert not life.live(Guillotine(step, torn=torn))
        life.check(step % WAYS_ON)
    except Exception as error:
        error.add_note(f"seed {seed}, killed at step {step}{' within the write' if torn else ''}, in {directory}")
        raise
    life.close()


@unforced()
def steps_of_move(directory: Path, seed: int, left_at: int) -> int:
    """The steps of a start that moves what version 1.0 has left when it was killed at one of its own steps."""
    life = _left_by_version_1(directory, seed, left_at)
    guillotine = Guillotine(None)
    with guillotine.raised():
        life.begin_again()
    life.check(0)
    life.close()
    return guillotine.calls


@unforced()
def kill_move_at(directory: Path, seed: int, left_at: int, step: int, *, torn: bool) -> None:
    """Kill the start that moves what version 1.0 has left, and see what comes after it. `AssertionError`."""
    life = _left_by_version_1(directory, seed, left_at)
    try:
        with Guillotine(step, torn=torn).raised(), suppress(Killed):
            life.begin_again()
        life.check(step % WAYS_ON)
    except Exception as error:
        error.add_note(f"seed {seed}, left at {left_at}, killed at step {step}, torn: {torn}, in {directory}")
        raise
    life.close()


def _left_by_version_1(directory: Path, seed: int, left_at: int) -> CoordinatorLife:
    with version_1_rule():
        life = CoordinatorLife(directory, seed)
        assert not life.live(Guillotine(left_at))
    return life
