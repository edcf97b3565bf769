"""The rounds: start a broker, see that nothing is lost, load it, end it at a random moment."""

import contextlib
import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.broker.socket_client import SocketClient
from tests.patience import PATIENCE_S
from tests.sparse_copies import copy_directory
from tests.torture.broker import Broker
from tests.torture.disk import check_partition
from tests.torture.ledger import BatchLedger, Ledger, TortureError, new_ledger, note_circumstances
from tests.torture.producers import Consumer, Producer, Trimmer, await_answers, drive
from tests.torture.reading import check_times, new_producer_id, read_log
from tests.torture.workload import SETTINGS, TOPICS, Mint, Topic

TORN: Final = 0.2
"""The share of logs with unanswered batches that get a torn one at their end after a kill."""
DISK_EVERY: Final = 3
"""The number of starts between two checks of the files."""

_GLIMPSE_S: Final = 0.2
_MOVED: Final = "verifications of a log whose start had moved"
_HOUR_MS: Final = 60 * 60 * 1000


class Campaign:
    """Rounds on one data directory. All that is random comes from `seed`, but for what the machine's clock decides.

    `run` raises `TortureError`; with `keep_crashed` the directory then holds `crashed`, the files as the broker had
    left them before the start after which it failed.
    """

    def __init__(
        self,
        directory: Path,
        seed: int,
        topics: Sequence[Topic] = TOPICS,
        *,
        keep_crashed: bool = False,
        on_round: Callable[[str], None] | None = None,
    ) -> None:
        self.seed = seed
        self._on_round = on_round
        self._keep_crashed = keep_crashed
        self.directory = directory
        self.counts: Counter[str] = Counter()
        self.kills = 0
        self._rng = random.Random(seed)
        self._topics = topics
        self._broker = Broker(directory, options_for(topics))
        self._first_timestamp = int(time.time() * 1000) // 2 * 2 - _HOUR_MS
        self._mint = Mint(self._rng, self._first_timestamp)
        self._ledgers = [new_ledger(topic, partition) for topic in topics for partition in range(topic.partitions)]
        self._producers: list[Producer] = []
        plain = [ledger for ledger in self._ledgers if isinstance(ledger, BatchLedger)]
        self._consumer = Consumer(self._rng, plain)
        self._trimmer = Trimmer(self._rng, [ledger for ledger in plain if ledger.topic.is_trimmed])
        self._was_killed = False
        self._torn = set[Ledger]()
        self._starts = 0

    def run(self, kills: int, *, signs: Sequence[str] = ()) -> Counter[str]:
        """So many kills and a last look at everything; returns what was done and found.

        `signs` are counts that have to rise: more rounds follow until each has, for `PATIENCE_S`. On a busy machine a
        round may be too short for what it is to show.
        """
        os.makedirs(self.directory, exist_ok=True)
        number = 0
        try:
            while self.kills < kills:
                number += 1
                result = self._round()
                if self._on_round is not None:
                    self._on_round(f"seed {self.seed}, round {number}, {self.kills} kills: {result}")
            deadline = time.monotonic() + PATIENCE_S
            while not all(self._tally()[sign] for sign in signs) and time.monotonic() < deadline:
                self._play(self._kill_under_load)
            self._start()
            self._verify()
            self._await_chores()
            self._stop()
            self._look_at_files()
        except Exception as error:
            note_circumstances(
                error,
                f"the broker said: {self._broker.stderr.read_text()[-4000:]}",
                f"seed {self.seed}, round {number}, in {self.directory}",
            )
            raise
        finally:
            self._broker.end()
        self.counts = self._tally()
        self.counts["kills"] = self.kills
        return self.counts

    def _tally(self) -> Counter[str]:
        """The counts of the rounds and of all ledgers."""
        return sum((ledger.counts for ledger in self._ledgers), self.counts)

    # The ends that a round can have

    def _round(self) -> str:
        ends = {
            self._kill_under_load: 60,
            self._kill_while_starting: 12,
            self._kill_while_opening: 12,
            self._kill_while_stopping: 8,
            self._stop_under_load: 8,
        }
        (end,) = self._rng.choices(list(ends), list(ends.values()))
        return self._play(end)

    def _play(self, end: Callable[[], None]) -> str:
        end()
        if complaints := self._broker.complaints():
            raise TortureError(f"the broker complains: {complaints}")
        return end.__name__.strip("_").replace("_", " ")

    def _kill_under_load(self) -> None:
        self._begin()
        with self._later(self._delay(0.6), signal.SIGKILL):
            drive([*self._producers, self._consumer, self._trimmer])
        self._killed()

    def _stop_under_load(self) -> None:
        self._begin()
        with self._later(self._delay(0.4), signal.SIGTERM):
            drive([*self._producers, self._consumer, self._trimmer])
        self._stopped()

    def _kill_while_stopping(self) -> None:
        self._begin()
        with self._later(self._delay(0.3), signal.SIGTERM):
            drive([*self._producers, self._consumer, self._trimmer])
        if self._broker.wait(self._rng.uniform(0, 0.05)) is None:
            self._broker.send_signal(signal.SIGKILL)
        if self._broker.wait() == 0:
            self._stopped()
        else:
            self._killed()

    def _kill_while_starting(self) -> None:
        self._spawn()
        if self._broker.wait(self._rng.uniform(0, 0.5)) is not None:
            raise TortureError("the broker did not start")
        self._broker.send_signal(signal.SIGKILL)
        self._killed()

    def _kill_while_opening(self) -> None:
        """The logs are opened, and what is unanswered is sent again; then it dies before anyone has looked."""
        self._start()
        with SocketClient(self._broker.address) as client, self._later(self._delay(0.15), signal.SIGKILL):
            with contextlib.suppress(ConnectionError):
                self._connect([producer for producer in self._producers if producer.is_idempotent])
                for ledger in self._rng.sample(self._ledgers, len(self._ledgers)):
                    read_log(client, ledger)
            for producer in self._producers:
                producer.disconnect()
        self._killed()

    # Their parts

    def _begin(self) -> None:
        """A broker that runs, verified, with all producers at work."""
        self._start()
        if not self._producers:
            self._make_producers()
        if self._rng.random() < 0.3:
            idempotent = [producer for producer in self._producers if producer.is_idempotent]
            self._connect(idempotent)
            await_answers(idempotent)
        self._verify()
        self._connect(self._producers)
        self._consumer.connect(self._broker.address)
        self._trimmer.connect(self._broker.address)

    def _make_producers(self) -> None:
        rng = self._rng
        modern = [ledger for ledger in self._ledgers if ledger.topic.feed == (2,)]
        old = [ledger for ledger in self._ledgers if ledger.topic.feed != (2,)]
        with SocketClient(self._broker.address) as client:
            self._producers = [Producer(rng, self._mint, modern, new_producer_id(client)) for _ in range(3)]
        if old:
            self._producers.append(Producer(rng, self._mint, old, -1))

    def _connect(self, producers: Sequence[Producer]) -> None:
        for producer in producers:
            if producer.link is None:
                self.counts["batches sent again"] += sum(len(work.batches) for work in producer.unanswered)
                producer.connect(self._broker.address)

    def _spawn(self) -> None:
        self._starts += 1
        if self._broker.data_dir.exists():
            if self._keep_crashed:
                crashed = self.directory / "crashed"
                shutil.rmtree(crashed, ignore_errors=True)
                with contextlib.suppress(shutil.Error):  # a cleaning that ends with its broker takes its files with it
                    copy_directory(self._broker.data_dir, crashed)
            if self._starts % DISK_EVERY == 0 or not self._was_killed:
                self._look_at_files()
        self._broker.spawn()

    def _start(self) -> None:
        self._spawn()
        if (line := self._broker.ready_line()) is not None:
            raise TortureError(f"the broker did not start: {line}")  # a note has the reason

    def _verify(self) -> None:
        self.counts["verifications"] += 1
        with SocketClient(self._broker.address) as client:
            for ledger in self._ledgers:
                ledger.check(read_log(client, ledger))
                check_times(client, ledger, self._rng, self._first_timestamp, self._mint.clock)
                self._check_retention(ledger.topic, ledger.name, ledger.start)
        for producer in self._producers:
            if not producer.is_idempotent:
                producer.settle()
        self._torn.clear()

    def _await_chores(self) -> None:
        """Load the broker until the cleaner and retention have been seen: on a busy machine, rounds are too short."""
        deadline = time.monotonic() + PATIENCE_S
        while not (self._has_seen_cleaning() and self._has_seen_retention()) and time.monotonic() < deadline:
            if not self._producers:
                self._make_producers()
            self._connect(self._producers)
            enough = threading.Event()
            timer = threading.Timer(_GLIMPSE_S, enough.set)
            timer.start()
            drive(self._producers, enough)
            timer.join()
            self._disconnect()
            self._verify()

    def _has_seen_cleaning(self) -> bool:
        compacted = [ledger for ledger in self._ledgers if ledger.topic.is_compacted]
        return not compacted or any(ledger.counts["offsets compacted away"] for ledger in compacted)

    def _has_seen_retention(self) -> bool:
        return all(topic.retention_bytes is None for topic in self._topics) or self.counts[_MOVED] > 0

    def _look_at_files(self) -> None:
        for ledger in self._ledgers:
            directory = self._broker.data_dir / ledger.name
            if not ledger.acked_end and not any(log.stat().st_size for log in directory.glob("*.log")):
                continue  # a kill or a refusal can come between the directory, which the first record makes, and files
            found = check_partition(directory, is_compacted=ledger.topic.is_compacted, was_killed=self._was_killed)
            self.counts += found

    def _check_retention(self, topic: Topic, name: str, start: int) -> None:
        if topic.retention_bytes is not None and start > 0:
            self.counts[_MOVED] += 1
            kept = _size_of_logs(self._broker.data_dir / name)
            if kept < topic.retention_bytes:
                raise TortureError(f"{name}: only {kept} bytes are left of the {topic.retention_bytes} to be kept")

    @contextlib.contextmanager
    def _later(self, delay: float, number: signal.Signals) -> Iterator[None]:
        """Send the broker a signal once the block has gone on for `delay` seconds, in whatever either of them does."""
        timer = threading.Timer(delay, self._broker.send_signal, (number,))
        timer.start()
        try:
            yield
        except BaseException:
            timer.cancel()
            raise
        finally:
            timer.join()

    def _delay(self, most: float) -> float:
        """Mostly short: the first moments, when logs are opened and files rolled, are as dangerous as any others."""
        return self._rng.random() ** 2 * most

    def _killed(self) -> None:
        status = self._broker.wait()
        if status != -signal.SIGKILL:
            raise TortureError(f"the broker ended with status {status} before it was killed")
        self.kills += 1
        self._was_killed = True
        self._disconnect()
        self._tear()

    def _tear(self) -> None:
        """Now and then leave what a kill within a write leaves: the beginning of a batch that was not acknowledged.

        Writes take microseconds, so that a kill alone hits one in thousands.
        """
        for ledger in self._ledgers:
            if not isinstance(ledger, BatchLedger) or ledger in self._torn or self._rng.random() > TORN:
                continue
            files = sorted((self._broker.data_dir / ledger.name).glob("*.log"))
            for data in ledger.unanswered()[:1] if files else ():
                with files[-1].open("ab") as log:
                    log.write(data[: self._rng.randrange(1, len(data))])
                self._torn.add(ledger)
                self.counts["ends torn"] += 1

    def _stop(self) -> None:
        self._broker.send_signal(signal.SIGTERM)
        self._stopped()

    def _stopped(self) -> None:
        status = self._broker.wait()
        if status != 0:
            raise TortureError(f"after SIGTERM the broker ended with status {status}")
        self.counts["clean stops"] += 1
        self._was_killed = False
        self._disconnect()

    def _disconnect(self) -> None:
        for producer in self._producers:
            producer.disconnect()
        self._consumer.disconnect()
        self._trimmer.disconnect()


def _size_of_logs(directory: Path) -> int:
    """Bytes of all segments of a partition, while retention may take some away."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return sum(file.stat().st_size for file in directory.glob("*.log"))


def options_for(topics: Sequence[Topic]) -> list[str]:
    """Of a broker that has these topics, and does its chores all the time."""
    options = [option for name, value in SETTINGS.items() for option in ("--set", f"{name}={value}")]
    return [*options, *(option for topic in topics for option in ("--topic", topic.spec))]
