"""Kills within snapshots, restores, resets, seeds, deletions of topics and imports.

The broker runs in this process, as in `steps`, and dies at some system call of the operation, or within a write of it.
What the next start finds has to be the state before or the state after, as a whole. A snapshot that was cut short has
to be refused, and its directory has to be free for the next one. Nothing may be given out twice: no producer id, no
epoch of a transactional id, no leader epoch below the one before.
"""

import random
import shutil
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from minibroker.cluster.errors import OperationError
from minibroker.cluster.topics import Topic
from minibroker.operations.producing import Message
from minibroker.operations.reset import reset
from minibroker.operations.seeding import SeededRecord, SeededTopic, Seeds, load_seeds
from minibroker_protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.coordinators.groups.offset_requests import commit, offsets_of
from tests.broker.coordinators.transactions.producer import Producer, init_producer_id
from tests.broker.harness import Harness, batch, bytes_in, restore_snapshot, take_snapshot, values_in
from tests.pipeline.sink.writing import write
from tests.torture.ledger import TortureError
from tests.torture.steps import Guillotine, Killed, unforced

State = dict[str, Any]
_CONFIG: Final = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
_TINY: Final = {"segment_bytes": "400", "index_interval_bytes": "100", "segment_index_bytes": "240"}
_NO_ERROR, _CONCURRENT_TRANSACTIONS = 0, 51
_KILLS_EACH: Final = 20
"""Kills of an operation on one state, before another state is made."""


def _seeds() -> Seeds:
    records = [SeededRecord("here", Message(value=f"seed {number}", partition=number % 3)) for number in range(9)]
    topics = {name: SeededTopic("here", name, partitions=3) for name in ("seeded", "bare")}
    return Seeds("here", topics, {"seeded": records, "b": records[:1], "empty": records[:2]})


class Replacements:
    """Kills on copies of states that are made in `directory`. All that is random comes from `seed`. `TortureError`."""

    def __init__(self, directory: Path, seed: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.counts: Counter[str] = Counter()
        self._directory = directory
        self._rng = random.Random(seed)
        self._given: set[tuple[int, int]] = set()
        self._epochs: dict[str, int] = {}
        self._operations: Mapping[str, Callable[[Harness], object]] = {
            "snapshots": lambda harness: take_snapshot(harness.services, self._path("target")),
            "restores": lambda harness: restore_snapshot(harness.services, self._path("snapshot")),
            "restores of 1.0.0": lambda harness: restore_snapshot(harness.services, self._path("unmarked")),
            "resets": lambda harness: reset(harness.services, lambda: None),
            "resets with topics": lambda harness: reset(harness.services, lambda: None, keep_topics=True),
            "seeds": lambda harness: load_seeds(harness.services, _seeds()),
            "deletions": self._delete,
        }

    def run(self, kills: int, *, each: int = _KILLS_EACH) -> Counter[str]:
        """So many kills, and `each` of an operation on one state; returns within what they were."""
        with unforced():
            for name, operation in cycle((*self._operations.items(), ("imports", None))):
                if self.counts["kills"] == kills:
                    break
                self._prepare(closes_all=operation is None)
                self._kill(name, operation, min(each, kills - self.counts["kills"]))
        return self.counts

    def _path(self, name: str) -> str:
        return str(self._directory / name)

    # The states

    def _prepare(self, *, closes_all: bool) -> None:
        """Make a state with records, groups and transactions, and a snapshot of an earlier one.

        With `closes_all` the directory is one that writers beside the broker take for closed well.
        """
        for name in ("base", "snapshot", "unmarked"):
            shutil.rmtree(self._path(name), ignore_errors=True)
        self._given.clear()
        harness = Harness(self._path("base"), _CONFIG)
        for name, partitions in (("a", 3), ("b", 1), ("empty", 2)):
            harness.create(name, partitions, **_TINY)
        self._fill(harness, "a")
        open_since = Producer(harness, "open")
        self._given.add((open_since.id, open_since.epoch))
        open_since.write(b"ended after the snapshot", topic="b")
        take_snapshot(harness.services, self._path("snapshot"))
        shutil.copytree(self._path("snapshot"), self._path("unmarked"))
        (self._directory / "unmarked" / "minibroker-snapshot.json").unlink()
        if self._rng.random() < 0.5:  # leader epochs and producer ids that were restored before
            restore_snapshot(harness.services, self._path("snapshot"))
            harness.run_soon()
        for name in ("a", "b"):
            self._fill(harness, name)
        if self._rng.random() < 0.5:
            harness.create("later", 2, **_TINY)
            self._fill(harness, "later")
        assert open_since.commit() == 0
        if self._rng.random() < 0.5:
            self._become(harness, "open")
        self._epochs = {topic.name: self._epoch(topic) for topic in harness.core.topics}
        if closes_all:
            harness.core.logs.apply_retention()  # which opens all logs
        harness.close()

    def _fill(self, harness: Harness, topic: str) -> None:
        count = len(harness.core.topics.get(topic).partitions)  # type: ignore[union-attr]  # it was just created
        for partition in range(count):
            for _ in range(self._rng.randint(1, 8)):
                value = b"%d" % self._rng.randrange(1 << 40)
                assert harness.produce(batch(value * 5), topic, partition).error_code == 0
            end = harness.fetch_one(0, topic, partition).high_watermark
            assert commit(harness, {(topic, partition): end}) == {(topic, partition): 0}
        given = init_producer_id(harness, None)
        self._note((given.producer_id, given.producer_epoch))
        producer = self._become(harness, "mine")
        producer.write(b"in a transaction", topic=topic)
        assert producer.commit() == 0

    def _become(self, harness: Harness, transactional_id: str) -> Producer:
        producer = Producer(harness, transactional_id, init=False)
        code = _CONCURRENT_TRANSACTIONS
        while code == _CONCURRENT_TRANSACTIONS:
            code = producer.init()
            harness.run_soon()
        assert code == _NO_ERROR, code
        self._note((producer.id, producer.epoch))
        return producer

    def _note(self, given: tuple[int, int]) -> None:
        if given in self._given:
            raise TortureError(f"producer id and epoch {given} were given out twice")
        self._given.add(given)

    @staticmethod
    def _epoch(topic: Topic) -> int:
        return min(partition.leader_epoch for partition in topic.partitions)

    # The kills

    def _kill(self, name: str, operation: Callable[[Harness], object] | None, kills: int) -> None:
        """Kill an operation so often, at different steps."""
        act = self._import if operation is None else self._on_harness(operation)
        before = self._outcome(lambda: None, name)
        guillotine = Guillotine(None)
        after = self._outcome(lambda: act(guillotine), name)
        steps = self._rng.sample(range(guillotine.calls), min(kills, guillotine.calls))
        for step in steps:
            try:
                found = self._outcome(partial(act, Guillotine(step, torn=step % 2 == 1)), name)
                self._judge(found, before, after)
            except Exception as error:
                error.add_note(f"{name}, killed at step {step} of {guillotine.calls}, in {self._directory}")
                raise
            self.counts["kills"] += 1
            self.counts[name] += 1
            self.counts["states before" if found == before else "states after"] += 1

    @staticmethod
    def _judge(found: State, before: State, after: State) -> None:
        if found not in (before, after):
            raise TortureError(f"neither before nor after: {found}\nbefore: {before}\nafter: {after}")

    def _outcome(self, act: Callable[[], object], name: str = "") -> State:
        """Return the state that a start finds after an operation on a copy of the base, killed or not."""
        for each in ("data", "target"):
            shutil.rmtree(self._path(each), ignore_errors=True)
        shutil.copytree(self._path("base"), self._path("data"))
        act()
        harness = Harness(self._path("data"), _CONFIG)
        harness.run_soon()
        given = set(self._given)
        try:
            found = self._state(harness)
            self._check(harness, found, name)
            if name == "deletions":  # as in Kafka, a group may keep what it has committed for a topic that is gone
                del found["offsets"]
        finally:
            self._given = given
            with _no_clean_stop(harness):
                pass
        return found

    def _on_harness(self, operation: Callable[[Harness], object]) -> Callable[[Guillotine], None]:
        def act(guillotine: Guillotine) -> None:
            harness = Harness(self._path("data"), _CONFIG)
            harness.run_soon()
            with _no_clean_stop(harness):
                try:
                    with guillotine.raised():
                        operation(harness)
                except Killed:
                    pass

        return act

    def _import(self, guillotine: Guillotine) -> None:
        rows = [{"value": b"%d" % number, "topic": "imported", "partition": number % 2} for number in range(6)]
        try:
            with guillotine.raised():
                write(self._path("data"), rows[::2], rows[1::2], batchBytes=40, segmentBytes=600)
        except Killed:
            pass

    @staticmethod
    def _delete(harness: Harness) -> None:
        harness.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1000), 6)

    # What has to be there

    @staticmethod
    def _state(harness: Harness) -> State:
        """The records of all topics, as both kinds of consumers see them, and committed offsets."""
        state: State = {}
        for topic in harness.core.topics:
            if topic.is_internal:
                continue
            partitions = []
            for partition in topic.partitions:
                log = partition.log
                place = (log.log_start_offset, log.last_stable_offset, log.high_watermark)
                offset, values = log.log_start_offset, []
                while offset < log.high_watermark:
                    data = bytes_in(harness.fetch_one(offset, topic.name, partition.index))
                    found = values_in(data)
                    values += [value for at, value in found if at >= offset]
                    offset = max([offset + 1, *(at + 1 for at, _ in found)])
                partitions.append((*place, values))
            state[topic.name] = topic.config.overrides, partitions
        return {"topics": state, "offsets": offsets_of(harness)}

    def _check(self, harness: Harness, found: State, name: str) -> None:
        """Check that the broker continues, gives out nothing twice, and can restore or replace its snapshot."""
        for topic in harness.core.topics:
            if self._epoch(topic) < (was := self._epochs.get(topic.name, 0)):
                raise TortureError(f"{topic.name} has leader epoch {self._epoch(topic)}, and had {was}")
        self._note_all(harness)
        if name != "snapshots" or not Path(self._path("target")).exists():
            return
        try:
            restore_snapshot(harness.services, self._path("target"))
        except OperationError:
            self.counts["cut snapshots refused"] += 1
            if self._state(harness) != found:
                raise TortureError("a restore that was refused has changed something") from None
            take_snapshot(harness.services, self._path("target"))
        else:
            self.counts["snapshots restored"] += 1
            harness.run_soon()
            if self._state(harness) != found:
                raise TortureError(f"a snapshot lacks something: {self._state(harness)}, not {found}")
            self._note_all(harness)

    def _note_all(self, harness: Harness) -> None:
        given = init_producer_id(harness, None)
        self._note((given.producer_id, given.producer_epoch))
        for transactional_id in ("mine", "open"):
            self._become(harness, transactional_id)


@contextmanager
def _no_clean_stop(harness: Harness) -> Generator[None]:
    """End a broker as a kill does, without a start."""
    try:
        yield
    finally:
        harness.core.logs.stop_chores()
        harness.services.close_coordinators()
        for handle in tuple(harness.core.files._open):
            handle.close()
        harness.core._data_dir.release()
