"""Exactly once through all kills: copiers, and the broker between them, are killed while they copy a topic.

A producer feeds the input all the time. Two copiers of one group share its partitions; each copies in small
transactions, of which it aborts some on purpose. After each kill what is committed of the output must be a prefix of
the input that holds at least what was acknowledged. Now and then, and at the end, everything comes to rest: then all
inputs are copied, the group's offsets are the ends of the input, and no transaction is open.
"""

import contextlib
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.broker.socket_client import SocketClient
from tests.sparse_copies import copy_directory
from tests.torture.background import await_that
from tests.torture.broker import Broker
from tests.torture.copier import DISPLACED, FENCED
from tests.torture.copier_process import CopierProcess, CopierProgram, Errand
from tests.torture.copies import CopyLedger, walk
from tests.torture.copy_clients import QUICK, CommittedReader, Feeder, abandon
from tests.torture.disk import check_partition
from tests.torture.ledger import TortureError, note_circumstances
from tests.torture.transaction_reading import ends_of, read_entries

if TYPE_CHECKING:
    from concurrent.futures import Future

PARTITIONS: Final = 3
COPIERS: Final = 2
REST_EVERY: Final = 10
"""Rounds from one rest to the next."""
DOOMED_PERCENT: Final = 15
_ABANDONED_MS: Final = 1000
_ZOMBIE_S: Final = 3.0
"""A zombie has this long to find out that it is one."""
_BUSY_S: Final = 1.5
"""The longest time that a round waits for a committed transaction."""
_SEGMENTS: Final = "segment.bytes=50000,index.interval.bytes=400"
_SETTINGS: Final = {
    "group.min.session.timeout.ms": "500",
    "log.cleaner.backoff.ms": "10",
    "log.cleaner.delete.retention.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.initial.task.delay.ms": "0",
    "log.segment.delete.delay.ms": "30",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.segment.bytes": "30000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.segment.bytes": "20000",
}
"""Properties of the broker: the topics of its coordinators are rolled and compacted all the time."""

_GroupCall = Callable[[AdminClient, ConsumerGroupTopicPartitions], Mapping[str, "Future[ConsumerGroupTopicPartitions]"]]


class CopyCampaign:
    """Rounds on one data directory, each with a kill. What is random comes from `seed`, but for the machine's timing.

    With `bootstrap`, the address of any other broker, only copiers are killed. `run` raises `TortureError`; with
    `keep_crashed` the directory then holds `crashed`, the files as the last kill of a broker had left them.
    """

    def __init__(
        self,
        directory: Path,
        seed: int,
        program: CopierProgram,
        *,
        bootstrap: str | None = None,
        keep_crashed: bool = False,
        on_round: Callable[[str], None] | None = None,
    ) -> None:
        self.directory = directory
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self.kills = 0
        self._rng = random.Random(seed)
        # Copiers start when the machine's timing has displaced one, which must not change what the rounds are.
        self._rng_of_copiers = random.Random(f"copiers {seed}")
        self._program = program
        self._keep_crashed = keep_crashed
        self._on_round = on_round
        self._is_static = self._rng.random() < 0.5 and program.can_be_static
        self._source, self._target, self._group = (f"{role}-{seed}" for role in ("input", "output", "copiers"))
        self._ledgers = [CopyLedger(self._source, partition) for partition in range(PARTITIONS)]
        self._bootstrap = bootstrap or ""
        topics = [f"{self._source}:{PARTITIONS}:{_SEGMENTS}", f"{self._target}:{PARTITIONS}:{_SEGMENTS}"]
        options = [option for name, value in _SETTINGS.items() for option in ("--set", f"{name}={value}")]
        options += [option for topic in topics for option in ("--topic", topic)]
        self._broker = None if bootstrap else Broker(directory, options)
        self._copiers: list[CopierProcess] = []
        self._retired: list[CopierProcess] = []

    def run(self, kills: int) -> Counter[str]:
        """So many kills and a last rest; returns what was done and found."""
        os.makedirs(self.directory, exist_ok=True)
        with contextlib.ExitStack() as stack:
            try:
                self._run(kills, stack)
            except Exception as error:
                where = f"seed {self.seed}, after {self.kills} kills, in {self.directory}"
                note_circumstances(error, self._tails(), where)
                raise
        return self.counts

    def _run(self, kills: int, stack: contextlib.ExitStack) -> None:
        stack.callback(self._end_processes)
        self._begin()
        if not self._program.looks_up_offsets:
            self._commit_the_starts()
        self._feeder = Feeder(self._bootstrap, self._source, self._ledgers, random.Random(self.seed))
        stack.callback(self._feeder.close)
        self._reader = CommittedReader(self._bootstrap, self._target, self._ledgers)
        stack.callback(self._reader.close)
        self._copiers = [self._start_copier(slot) for slot in range(COPIERS)]
        for copier in self._copiers:
            copier.wait_until_ready()
        self._feeder.go_on()
        while self.kills < kills:
            began = time.monotonic()
            result = self._round()
            if self._on_round is not None:
                copied = sum(ledger.copied for ledger in self._ledgers)
                took = time.monotonic() - began
                self._on_round(f"seed {self.seed}, {self.kills} kills: {result}; {copied} copied; {took:.1f} s")
        await_that(lambda: self._check_copiers() or any(self._promised()), lambda: "no copier has committed anything")
        self._rest()
        self._feeder.rest()
        self._count()
        if self._broker is not None:
            self._stop()
            self._look_at_files(self._broker.data_dir)

    # The ends that a round can have

    def _round(self) -> str:
        ends = {self._kill_a_copier: 15, self._wake_a_zombie: 8}
        if self._broker is not None:
            ends |= {self._kill_the_broker: 50, self._kill_the_broker_twice: 10, self._kill_all: 12}
            ends |= {self._stop_the_broker: 5}
        (end,) = self._rng.choices(list(ends), list(ends.values()))
        leaves_one_open = self._rng.random() < 0.1
        if leaves_one_open:
            name = f"abandoned-{self.seed}-{self.kills}"
            topics = (self._source, self._target)
            self.counts["transactions abandoned"] += abandon(self._bootstrap, topics, PARTITIONS, name, _ABANDONED_MS)
        end()
        self.kills += 1
        self._verify()
        if self.kills % REST_EVERY == 0:
            self._rest()
        return end.__name__.strip("_").replace("_", " ")

    def _kill_the_broker(self) -> None:
        self._wait_under_load()
        self._crash()
        time.sleep(self._rng.choice((0, 0, self._rng.uniform(0, 0.2))))
        self._start_broker()

    def _kill_the_broker_twice(self) -> None:
        """The second time while it starts, or while its coordinators load and clients come back to it."""
        self._wait_under_load()
        self._crash()
        assert self._broker is not None
        self._broker.spawn()
        if self._broker.wait(self._rng.uniform(0, 0.5)) is not None:
            raise TortureError("the broker did not start")
        self._crash()
        self._start_broker()

    def _stop_the_broker(self) -> None:
        """Cleanly, which writes more than a kill does; no round is without a kill."""
        self._wait_under_load()
        self._stop()
        self._start_broker()
        self._kill_the_broker()

    def _kill_all(self) -> None:
        self._wait_under_load()
        chosen = [slot for slot in range(COPIERS) if self._rng.random() < 0.7]
        for slot in chosen:
            self._retire(slot)
        self._crash()
        self._start_broker()
        for slot in chosen:
            self._copiers[slot] = self._start_copier(slot)

    def _kill_a_copier(self) -> None:
        self._wait_under_load()
        slot = self._rng.randrange(COPIERS)
        self._retire(slot)
        self._copiers[slot] = self._start_copier(slot)

    def _wake_a_zombie(self) -> None:
        """A copier stands still, another one takes its transactional id, and then the first goes on."""
        self._wait_under_load()
        slot = self._rng.randrange(COPIERS)
        zombie = self._copiers[slot]
        zombie.wait_until_ready()  # else it could be the one that takes the transactional id later
        zombie.pause()
        self._copiers[slot] = self._start_copier(slot)
        self._copiers[slot].wait_until_ready()
        zombie.resume()
        status = zombie.wait(_ZOMBIE_S if self._program.ends_when_fenced else self._rng.uniform(0, 0.3))
        if status is None:
            zombie.close()  # it has nothing to copy, and so does not know; or it would take the name back
        elif status in {FENCED, DISPLACED} and self._program.ends_when_fenced:
            self.counts["zombies fenced"] += 1
        else:
            raise TortureError(f"a zombie ended with status {status}; see {zombie.log}")
        self._retired.append(zombie)

    # Their parts

    def _begin(self) -> None:
        if self._broker is not None:
            self._broker.start()
            self._bootstrap = self._broker.bootstrap
            return
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        for future in admin.create_topics(
            [NewTopic(name, PARTITIONS, 1) for name in (self._source, self._target)]
        ).values():
            future.result()

    def _commit_the_starts(self) -> None:
        """The group has committed the start of each input, so that no copier has to look for it."""
        starts = [TopicPartition(self._source, ledger.partition, 0) for ledger in self._ledgers]
        self._of_group(lambda admin, group: admin.alter_consumer_group_offsets([group]), starts)

    def _wait_under_load(self) -> None:
        """Often until transactions are committed again, and sometimes while the clients come back."""
        if self._rng.random() < 0.6:
            before, deadline = self._promised(), time.monotonic() + _BUSY_S
            while self._promised() == before and time.monotonic() < deadline:
                time.sleep(0.005)
        time.sleep(self._rng.random() ** 2 * 0.5)
        self._check_copiers()
        self._feeder.check()

    def _crash(self) -> None:
        assert self._broker is not None
        self._broker.kill()
        self.counts["kills of brokers"] += 1
        if self._keep_crashed:
            crashed = self.directory / "crashed"
            shutil.rmtree(crashed, ignore_errors=True)
            with contextlib.suppress(shutil.Error):  # a cleaning that ends with its broker takes its files with it
                copy_directory(self._broker.data_dir, crashed)

    def _stop(self) -> None:
        assert self._broker is not None
        self._broker.terminate()
        self.counts["clean stops"] += 1

    def _start_broker(self) -> None:
        assert self._broker is not None
        self._broker.start()

    def _check_copiers(self) -> bool:
        """Start those again that are displaced. False; `TortureError` if one has ended."""
        for slot, copier in enumerate(self._copiers):
            if copier.is_displaced():
                self.counts["static members displaced"] += 1
                self._retire(slot)
                self._copiers[slot] = self._start_copier(slot)
        return False

    def _retire(self, slot: int) -> None:
        self._copiers[slot].close()
        self._retired.append(self._copiers[slot])

    def _start_copier(self, slot: int) -> CopierProcess:
        self.counts["starts of copiers"] += 1
        errand = Errand(
            self._bootstrap,
            self._group,
            self._source,
            self._target,
            transactional_id=f"copier-{self.seed}-{slot}",
            doomed_percent=DOOMED_PERCENT,
            seed=self._rng_of_copiers.randrange(1 << 30),
            instance_id=f"copier-{slot}" if self._is_static else None,
        )
        return CopierProcess(self._program, errand, self.directory / f"copier-{slot}.log", self._ledgers)

    def _verify(self) -> None:
        """The acknowledged records, and no others."""
        promised = self._promised()
        self._reader.read_until(
            lambda: all(ledger.copied >= least for ledger, least in zip(self._ledgers, promised, strict=True)),
            lambda: f"acknowledged as committed are {promised}, but there are {self._copied()}; {self._transactions()}",
        )
        self.counts["verifications"] += 1
        if self._broker is not None and (complaints := self._broker.complaints()):
            raise TortureError(f"the broker complains: {complaints}")

    def _rest(self) -> None:
        """Feed no more until everything is copied, and look at all there is."""
        self._feeder.rest()
        self._reader.read_until(
            lambda: self._check_copiers() or not any(ledger.is_behind() for ledger in self._ledgers),
            lambda: f"fed are {[each.fed for each in self._ledgers]}, copied {self._copied()}; {self._transactions()}",
        )
        with self._client() as client:
            await_that(
                lambda: all(stable == end for stable, end in [*self._ends(client), *self._ends_of_offsets(client)]),
                lambda: f"transactions stay open: {self._transactions()}",
            )
            committed = self._group_offsets()
            for ledger, (stable, end) in zip(self._ledgers, self._ends(client), strict=True):
                ledger.check_promises()
                ledger.check_done(group_offset=committed.get(ledger.partition, -1), stable_end=stable, end=end)
                inputs = [entry.records or () for entry in read_entries(client, self._source, ledger.partition)]
                ledger.check_inputs([record for records in inputs for record in records])
                self._check_log(client, ledger)
        self.counts["rests"] += 1
        self._feeder.go_on()

    def _look_at_files(self, data_dir: Path) -> None:
        for directory in sorted(data_dir.iterdir()):
            if directory.is_dir():
                is_internal = directory.name.startswith("__")
                self.counts += check_partition(directory, is_compacted=is_internal, was_killed=False)

    def _check_log(self, client: SocketClient, ledger: CopyLedger) -> None:
        """The log itself says the same as the client that has read it."""
        walked = walk(read_entries(client, self._target, ledger.partition))
        fresh = CopyLedger(ledger.topic, ledger.partition)
        fresh.fed = ledger.fed
        fresh.check_copies(walked.committed)
        if walked.open or fresh.copied != ledger.copied:
            raise ledger.fail(f"a reader got {ledger.copied} records, the log has {fresh.copied}; open: {walked.open}")

    def _copied(self) -> list[int]:
        return [ledger.copied for ledger in self._ledgers]

    def _promised(self) -> list[int]:
        return [ledger.promised for ledger in self._ledgers]

    def _ends(self, client: SocketClient) -> list[tuple[int, int]]:
        return [ends_of(client, self._target, ledger.partition) for ledger in self._ledgers]

    def _ends_of_offsets(self, client: SocketClient) -> list[tuple[int, int]]:
        """Of the topic in which groups have their offsets; nothing of another broker's, which serves others, too."""
        count = 0 if self._broker is None else int(_SETTINGS["offsets.topic.num.partitions"])
        return [ends_of(client, "__consumer_offsets", partition) for partition in range(count)]

    def _transactions(self) -> str:
        """For an error: what is open in the output."""
        with self._client() as client:
            logs = [read_entries(client, self._target, ledger.partition) for ledger in self._ledgers]
            open_ = [walk(log).open for log in logs]
            offsets = self._ends_of_offsets(client)
            return f"open (producer: offset) {open_}, ends {self._ends(client)}, of the groups' offsets {offsets}"

    def _group_offsets(self) -> dict[int, int]:
        partitions = [TopicPartition(self._source, ledger.partition) for ledger in self._ledgers]
        found = self._of_group(
            lambda admin, group: admin.list_consumer_group_offsets([group], require_stable=True), partitions
        )
        return {each.partition: each.offset for each in found}

    def _of_group(self, call: _GroupCall, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Call about the group's offsets until that succeeds or fails for good; returns what is answered."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap, **QUICK})
        while True:
            futures = call(admin, ConsumerGroupTopicPartitions(self._group, partitions))
            try:
                return futures[self._group].result().topic_partitions or []
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    raise

    @contextlib.contextmanager
    def _client(self) -> Iterator[SocketClient]:
        host, _, port = self._bootstrap.rpartition(":")
        with SocketClient((host, int(port))) as client:
            yield client

    def _count(self) -> None:
        self.counts["kills"] = self.kills
        self.counts["records copied"] = sum(self._copied())
        for copier in (*self._copiers, *self._retired):
            self.counts.update(f"{event['event']} (by copiers)" for event in copier.events)
        with self._client() as client:
            for ledger in self._ledgers:
                walked = walk(read_entries(client, self._target, ledger.partition))
                self.counts["transactions in the output"] += walked.ended
                self.counts["markers that ended nothing"] += walked.idle_markers

    def _end_processes(self) -> None:
        for copier in self._copiers:
            copier.close()
        if self._broker is not None:
            self._broker.end()

    def _tails(self) -> str:
        """The last lines of all programs, without those that librdkafka writes for COPIER_DEBUG."""
        logs = sorted(self.directory.glob("copier-*"))
        if self._broker is not None:
            logs.append(self._broker.stderr)
        texts = {
            log.name: "".join(line for line in log.read_text().splitlines(keepends=True) if not line.startswith("%7|"))
            for log in logs
            if log.exists()
        }
        return "\n".join(f"== {name}\n{text[-1500:]}" for name, text in texts.items())
