"""Cleanings compared with a model: after any history, a log contains exactly the records that must remain."""

import dataclasses
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from minibroker_protocol.records.batch import Batch
from minibroker_protocol.records.record import Record
from minibroker_storage.cleaner import CleaningPlan, finish_cleaning, plan_cleaning
from minibroker_storage.cleaner.clean import clean
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.layout import create_partition_directory
from minibroker_storage.log import Log
from tests.storage.cleaning import DAY_MS, Entry, records_of
from tests.storage.helpers import NOW, TOPIC_ID, abandon, batches_of, open_log, stage_messages
from tests.storage.histories import History

HOUR_MS = 3_600_000
MINUTE_MS = 60_000


@dataclasses.dataclass
class Kept:
    """A record that must remain in the log, with its batch."""

    record: Record
    batch: int
    magic: int
    #: The producer and number of its transaction, or None.
    transaction: tuple[int, int] | None


class Model:
    """The contents of a compacted log according to Kafka's documentation."""

    def __init__(self) -> None:
        self.kept: list[Kept] = []
        self.aborted: set[tuple[int, int]] = set()
        self.horizons: dict[int, int] = {}
        self.transactions: dict[int, int] = {}

    def append(self, log_entry: Entry) -> None:
        header = log_entry.header
        number = self.transactions.setdefault(header.producer_id, 0)
        if header.magic == 2 and header.is_control:
            (record,) = records_of([log_entry])
            if record.key is not None and record.key[3] == 0:
                self.aborted.add((header.producer_id, number))
            self.transactions[header.producer_id] = number + 1
            return
        transaction = (header.producer_id, number) if header.magic == 2 and header.is_transactional else None
        self.kept += [Kept(record, header.base_offset, header.magic, transaction) for record in records_of([log_entry])]

    def clean(self, first_dirty: int, end: int, covered: int, now_ms: int, retention_ms: int) -> None:
        """Clean the records below `covered` with the keys from `first_dirty` to `end` - 1."""
        newest = {
            kept.record.key: kept.record.offset
            for kept in self.kept
            if first_dirty <= kept.record.offset < end and kept.transaction not in self.aborted
        }
        self.kept = [
            kept for kept in self.kept if kept.record.offset >= covered or self._stays(kept, newest, end, now_ms)
        ]
        for kept in self.kept:
            if kept.record.offset < covered and kept.record.value is None and kept.magic == 2:
                self.horizons.setdefault(kept.batch, now_ms + retention_ms)

    def _stays(self, kept: Kept, newest: dict[bytes | None, int], end: int, now_ms: int) -> bool:
        record = kept.record
        if kept.transaction in self.aborted:
            return False
        if record.offset >= end:
            return True
        if record.key is None or newest.get(record.key, -1) > record.offset:
            return False
        return record.value is not None or now_ms < self.horizons.get(kept.batch, now_ms + 1)


class Life:
    """A log with small segments, its model, and a clock."""

    def __init__(self, directory: Path, rnd: Random) -> None:
        self.random = rnd
        self.directory = directory
        self.config = LogConfig(
            segment_bytes=rnd.choice([700, 2000, 10_000]),
            index_interval_bytes=rnd.choice([0, 200, 4096]),
            segment_index_bytes=rnd.choice([240, 1 << 20]),
            compact=True,
            delete=False,
            delete_retention_ms=rnd.choice([MINUTE_MS, HOUR_MS]),
        )
        self.map_bytes = rnd.choice([24 * 6, 24 * 20, 1 << 20])
        create_partition_directory(str(directory), TOPIC_ID)
        self.history = History(rnd)
        self.model = Model()
        self.first_dirty: int | None = None
        self.clock = NOW
        self.log = self.open()

    def open(self) -> Log:
        return open_log(self.directory, self.config, LastStop.CRASHED, self.clock)

    def append(self, entries: Iterable[Entry]) -> None:
        for log_entry in entries:
            view, header = memoryview(bytearray(log_entry.data)), log_entry.header
            if header.magic == 2:
                self.log.append(view, header, 0, self.clock)
            else:
                at = header.base_offset - self.log.next_offset
                stage_messages(self.log, view, header.max_timestamp, at, self.clock)
            self.model.append(log_entry)
        self.log.commit()

    def live(self, magic: int) -> None:
        """Run one random step: append entries, roll, clean or crash."""
        step = self.random.choice(["append", "append", "append", "clean", "clean", "roll", "crash"])
        if step == "append":
            self.append(self.history.entries(self.random.randrange(1, 6), magic))
        elif step == "roll":
            self.log.roll(self.clock)
        elif step == "clean":
            self.clean()
        else:
            abandon(self.log)
            self.log = self.open()
        self.clock += self.random.choice([0, 1000, MINUTE_MS, DAY_MS // 10])

    def clean(self) -> None:
        plan = plan_cleaning(self.log, self.first_dirty, self.clock, dedupe_buffer_bytes=self.map_bytes, force=True)
        if plan is None:
            return
        before = sequences(self.log)
        last_batches = last_batches_of_producers(self.log)
        result = clean(CleaningPlan.from_json(plan.to_json()))
        covered = [segment.base_offset for segment in plan.segments if segment.base_offset < result.next_dirty_offset]
        end = next((s.base_offset for s in plan.segments if s.base_offset > covered[-1]), plan.first_uncleanable_offset)
        assert finish_cleaning(self.log, result) == result.next_dirty_offset
        self.model.clean(
            plan.first_dirty_offset, result.next_dirty_offset, end, self.clock, self.config.delete_retention_ms
        )
        self.first_dirty = result.next_dirty_offset if self.random.random() < 0.9 else None
        assert sequences(self.log) == before
        assert last_batches <= {batch.header.last_offset for batch in batches_of(self.log)}

    def check(self) -> None:
        batches = batches_of(self.log, max_bytes=self.random.choice([300, 5000]))
        data = [batch for batch in batches if not (batch.header.magic == 2 and batch.header.is_control)]
        assert [record for batch in data for record in batch] == [kept.record for kept in self.model.kept]
        self.check_committed(data)
        self.check_lookups(batches)

    def check_committed(self, data: Sequence[Batch]) -> None:
        """Check that a read_committed consumer reads exactly the committed records."""
        stable = self.log.last_stable_offset
        aborted = self.log.aborted_transactions(0, stable)
        read = [
            record.offset
            for batch in data
            if not any(
                batch.header.is_transactional
                and batch.header.producer_id == transaction.producer_id
                and transaction.first_offset <= batch.header.base_offset <= transaction.last_offset
                for transaction in aborted
            )
            for record in batch
            if record.offset < stable
        ]
        assert read == [
            kept.record.offset
            for kept in self.model.kept
            if kept.record.offset < stable and kept.transaction not in self.model.aborted
        ]

    def check_lookups(self, batches: Sequence[Batch]) -> None:
        """Check that a read from every offset returns the batch that contains it, or the next one."""
        ends = [batch.header.last_offset for batch in batches]
        for offset in range(self.log.log_start_offset, self.log.log_end_offset):
            batches_read = batches_of(self.log, offset, max_bytes=1)
            first = batches_read[0].header.last_offset if batches_read else None
            assert first == next((end for end in ends if end >= offset), None)


def sequences(log: Log) -> dict[int, tuple[int, int]]:
    return {key: (entry.producer_epoch, entry.last_sequence) for key, entry in log.producers.active.items()}


def last_batches_of_producers(log: Log) -> set[int]:
    return {entry.batches[-1].last_offset for entry in log.producers.active.values() if entry.batches}


@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(5, 25), oldest_format=st.sampled_from([2, 2, 0]))
def test_a_cleaned_log_holds_what_the_model_says(seed: int, steps: int, oldest_format: int) -> None:
    directory = Path(tempfile.mkdtemp(prefix="cleaner-model-"))
    try:
        life = Life(directory / "orders-0", Random(seed))
        for step in range(steps):
            magic = max(oldest_format, step * 6 // steps - 1)  # The topic's format is raised twice.
            life.live(min(magic, 2))
            life.check()
        life.append(life.history.endings())
        life.log.roll(life.clock)
        life.clean()
        life.check()
        abandon(life.log)
    finally:
        shutil.rmtree(directory)
