"""Exactly once in Parquet through all kills: of the broker, the stream, or the Spark that it runs in.

A feeder writes transactions and plain records all the time; a stream reads what is committed and writes Parquet. After
each round no record may be there twice. Now and then, and at the end, everything comes to rest, and then Parquet must
hold the committed records of the topic, each of them once.
"""

import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.broker.socket_client import SocketClient
from tests.patience import PATIENCE_S
from tests.torture.broker import Broker
from tests.torture.copies import Read, walk
from tests.torture.disk import check_partition
from tests.torture.ledger import TortureError
from tests.torture.stream_feeder import StreamFeeder
from tests.torture.stream_ledger import StreamLedger
from tests.torture.stream_runs import StreamErrand, StreamProcess, StreamRun
from tests.torture.transaction_reading import ends_of, read_entries

PARTITIONS: Final = 3
REST_EVERY: Final = 10
"""Rounds from one rest to the next."""
_BUSY_S: Final = 20.0
"""The longest time that a round waits for a committed micro-batch."""
_TOPIC: Final = "segment.bytes=50000,index.interval.bytes=400"
_SETTINGS: Final = {
    "log.initial.task.delay.ms": "0",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.segment.bytes": "20000",
}


class StreamCampaign:
    """Rounds on one data directory and one folder of Parquet. What is random comes from `seed`, but for timing.

    `make_run` makes the stream; only that of a `StreamProcess` is killed together with its Spark. `run` raises
    `TortureError`; the directory then holds the files as they are.
    """

    def __init__(
        self,
        directory: Path,
        seed: int,
        make_run: Callable[[StreamErrand], StreamRun],
        *,
        on_round: Callable[[str], None] | None = None,
    ) -> None:
        self.directory = directory
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self.rounds = 0
        self._rng = random.Random(seed)
        self._make_run = make_run
        self._on_round = on_round
        self._topic = f"stream-{seed}"
        self._ledger = StreamLedger(directory / "parquet")
        options = [option for name, value in _SETTINGS.items() for option in ("--set", f"{name}={value}")]
        self._broker = Broker(directory, [*options, "--topic", f"{self._topic}:{PARTITIONS}:{_TOPIC}"])

    def run(self, rounds: int) -> Counter[str]:
        """So many rounds and a last rest; returns what was done and found."""
        os.makedirs(self.directory, exist_ok=True)
        with contextlib.ExitStack() as stack:
            try:
                self._run(rounds, stack)
            except Exception as error:
                error.add_note(f"seed {self.seed}, after {self.rounds} rounds, in {self.directory}")
                raise
        return self.counts

    def _run(self, rounds: int, stack: contextlib.ExitStack) -> None:
        stack.callback(self._broker.end)
        self._broker.start()
        bootstrap = self._broker.bootstrap
        checkpoint = str(self.directory / "checkpoint")
        self._stream = self._make_run(StreamErrand(bootstrap, self._topic, str(self._ledger.folder), checkpoint))
        stack.callback(self._stream.close)
        feeding = random.Random(self.seed)
        self._feeder = StreamFeeder(bootstrap, self._topic, PARTITIONS, self._ledger, feeding)
        stack.callback(self._feeder.close)
        self._stream.start()
        self._feeder.go_on()
        while self.rounds < rounds:
            began = time.monotonic()
            result = self._round()
            if self._on_round is not None:
                took = time.monotonic() - began
                self._on_round(
                    f"seed {self.seed}, {self.rounds} rounds: {result}; {len(self._ledger.rows)} rows; {took:.1f} s"
                )
        self._rest()
        self._feeder.rest()
        self._stream.stop()
        self._count()
        self._broker.terminate()
        for directory in sorted(self._broker.data_dir.glob(f"{self._topic}-*")):
            self.counts += check_partition(directory, is_compacted=False, was_killed=False)

    # The rounds

    def _round(self) -> str:
        ends = {self._kill_the_broker: 35, self._restart_the_stream: 25, self._restart_both: 20, self._stop_all: 5}
        if isinstance(self._stream, StreamProcess):
            ends[self._kill_spark] = 15
        (end,) = self._rng.choices(list(ends), list(ends.values()))
        self._wait_under_load()
        end()
        self.rounds += 1
        self._verify()
        if self.rounds % REST_EVERY == 0:
            self._rest()
        return end.__name__.strip("_").replace("_", " ")

    def _kill_the_broker(self) -> None:
        """Beneath a stream that goes on."""
        self._crash()
        time.sleep(self._rng.choice((0, 0, self._rng.uniform(0, 2))))
        self._broker.start()

    def _restart_the_stream(self) -> None:
        self._stop_stream()
        self._stream.start()

    def _restart_both(self) -> None:
        """The stream is stopped while there is no broker, or comes back before it."""
        self._crash()
        if self._rng.random() < 0.5:
            self._stop_stream()
            self._broker.start()
            self._stream.start()
        else:
            self._broker.start()
            self._stop_stream()
            self._crash()
            self._stream.start()
            time.sleep(self._rng.uniform(0, 1))
            self._broker.start()

    def _stop_all(self) -> None:
        """The broker cleanly, which writes more than a kill does."""
        self._broker.terminate()
        self._broker.start()
        self._restart_the_stream()

    def _kill_spark(self) -> None:
        assert isinstance(self._stream, StreamProcess)
        self._stream.kill()
        self.counts["kills of Spark"] += 1
        if self._rng.random() < 0.5:
            self._crash()
            self._broker.start()
        self._stream.start()

    # Their parts

    def _wait_under_load(self) -> None:
        """Often until a micro-batch is committed, and then into the next one; sometimes while all comes back."""
        if self._rng.random() < 0.7:
            self._ledger.look()
            before, deadline = self._ledger.files, time.monotonic() + _BUSY_S
            while self._ledger.files == before and time.monotonic() < deadline:
                time.sleep(0.02)
                self._ledger.look()
        time.sleep(self._rng.random() ** 2 * 1.5)
        self._feeder.check()
        self._stream.check()

    def _stop_stream(self) -> None:
        self._stream.stop()
        self.counts["stops of the stream"] += 1

    def _crash(self) -> None:
        self._broker.kill()
        self.counts["kills of brokers"] += 1

    def _verify(self) -> None:
        self._ledger.look()
        self._feeder.check()
        self._stream.check()
        if complaints := self._broker.complaints():
            raise TortureError(f"the broker complains: {complaints}")

    def _rest(self) -> None:
        """Write no more until all is read, and compare."""
        self._feeder.rest()
        logs = self._committed()
        expected = sum(map(len, logs.values()))
        deadline = time.monotonic() + PATIENCE_S
        while self._ledger.look() < expected and time.monotonic() < deadline:
            self._stream.check()
            time.sleep(0.05)
        self._ledger.check(logs)
        self.counts["rests"] += 1
        self._feeder.go_on()

    def _committed(self) -> dict[int, Sequence[Read]]:
        """The committed records of each partition. `TortureError` if a transaction stays open."""
        with SocketClient(self._broker.address) as client:
            logs: dict[int, Sequence[Read]] = {}
            for partition in range(PARTITIONS):
                stable, end = ends_of(client, self._topic, partition)
                if stable != end:
                    raise TortureError(f"partition {partition}: a transaction is open at {stable}, the end is {end}")
                logs[partition] = walk(read_entries(client, self._topic, partition)).committed
            return logs

    def _count(self) -> None:
        self.counts["rounds"] = self.rounds
        self.counts["rows"] = len(self._ledger.rows)
        self.counts["files that count"] = self._ledger.files
        self.counts["files that do not"] = len(list(self._ledger.folder.glob("*.parquet"))) - self._ledger.files
        self.counts["transactions aborted"] = self._feeder.aborted
