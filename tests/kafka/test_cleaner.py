"""Our cleaner beside Kafka's, on copies of the same directories: the same offsets, entries and transaction indexes."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.header import CompressionCodec
from minibroker_storage.cleaner import CleaningPlan, find_cleanable, finish_cleaning, plan_cleaning
from minibroker_storage.cleaner.clean import clean
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.files import FilePool
from minibroker_storage.log import Log
from tests.kafka.cleaner_oracle import CleanerOracle
from tests.kafka.fixtures import or_skip
from tests.storage.cleaning import Entry, entries_of, write_segments
from tests.storage.helpers import NOW, abandon
from tests.storage.histories import History
from tests.sweeps import one_in

HISTORIES = 15
CLEANINGS = 4
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def cleaner_oracle(kafka_libs: Path) -> Iterator[CleanerOracle]:
    """Return Kafka's cleaner."""
    with or_skip(lambda: CleanerOracle(kafka_libs)) as running:
        yield running


class Twins:
    """A directory that Kafka cleans and a copy of it that we clean; both get the same segments more and more."""

    def __init__(self, home: Path, rnd: Random, *, oldest_format: int) -> None:
        self.random = rnd
        self.theirs, self.ours = home / "theirs-0", home / "ours-0"
        self.oldest_format = oldest_format
        self.history = History(rnd, rnd.choice([0, 0, 100]), with_gaps=True)
        self.written = 0
        self.segments = rnd.randrange(5, 17)
        self.first_dirty: int | None = None
        self.now_ms = NOW + rnd.randrange(10**5)
        self.map_bytes = rnd.choice([16 << 20, 24 * 6, 24 * 20])
        self.config = LogConfig(
            segment_bytes=rnd.choice([300, 1000, 5000, 1 << 20]),
            segment_index_bytes=rnd.choice([240, 10 << 20]),
            index_interval_bytes=rnd.choice([0, 100, 4096]),
            compact=True,
            delete=False,
            delete_retention_ms=rnd.choice([0, 1000, 10**5, DAY_MS]),
            min_cleanable_dirty_ratio=rnd.choice([0.01, 0.3]),
            min_compaction_lag_ms=rnd.choice([0, 0, 1000]),
            max_compaction_lag_ms=rnd.choice([2**63 - 1, 2**63 - 1, 5000]),
        )

    def grow(self, *, to_the_end: bool) -> None:
        """Write some more segments into both directories."""
        rnd = self.random
        count = self.segments - self.written if to_the_end else rnd.randrange(self.segments - self.written + 1)
        for _ in range(max(count, not self.written)):
            base_offset = self.history.next_offset
            magic = min(2, self.oldest_format + self.written * 3 // self.segments)
            entries = self.history.entries(rnd.randrange(1 if self.written else 2, 8), magic)
            if self.written + 1 == self.segments and rnd.random() < 0.7:
                entries += self.history.endings()
            for directory in (self.theirs, self.ours):
                write_segments(directory, {base_offset: entries}, modified_ms=NOW + 50_000 * self.written)
            self.written += 1

    def clean(self, oracle: CleanerOracle) -> bool:
        """Let both clean, and compare all that can be compared. Whether there was anything to do."""
        force = self.random.random() < 0.6
        config = self.config
        theirs = oracle.clean(
            self.theirs,
            first_dirty_offset=self.first_dirty,
            now_ms=self.now_ms,
            map_bytes=self.map_bytes,
            force=force,
            configs={
                "cleanup.policy": "compact",
                "segment.bytes": config.segment_bytes,
                "segment.index.bytes": config.segment_index_bytes,
                "index.interval.bytes": config.index_interval_bytes,
                "delete.retention.ms": config.delete_retention_ms,
                "min.cleanable.dirty.ratio": config.min_cleanable_dirty_ratio,
                "min.compaction.lag.ms": config.min_compaction_lag_ms,
                "max.compaction.lag.ms": config.max_compaction_lag_ms,
            },
        )
        log = self.open()
        try:
            assert find_cleanable(log, self.first_dirty, self.now_ms)[:5] == theirs[:5]
            plan = plan_cleaning(log, self.first_dirty, self.now_ms, dedupe_buffer_bytes=self.map_bytes, force=force)
            assert (plan is None) == (theirs.next_dirty_offset is None)
            if plan is not None:
                # Which producers have expired is a matter of recovery, and not of this test.
                result = clean(CleaningPlan.from_json(plan._replace(producers=theirs.producers).to_json()))
                self.first_dirty = finish_cleaning(log, result)
                assert self.first_dirty == theirs.next_dirty_offset
                for path in log.take_deleted_files():
                    os.unlink(path)
                if self.random.random() < 0.2:
                    self.first_dirty = None
        finally:
            abandon(log)
        assert comparable(self.ours) == comparable(self.theirs)
        self.take_over()
        return plan is not None

    def open(self) -> Log:
        return Log.open(
            str(self.ours),
            config=self.config,
            files=FilePool(50),
            last_stop=LastStop.CRASHED,
            recovery_point=0,
            log_start_offset=0,
            now_ms=self.now_ms,
        )

    def take_over(self) -> None:
        """Go on with Kafka's files: codecs of two libraries give different sizes, which would add up."""
        shutil.rmtree(self.ours)
        self.ours.mkdir()
        for path in self.theirs.iterdir():
            if path.name.endswith((".log", ".snapshot")):
                shutil.copy2(path, self.ours / path.name)


def comparable(directory: Path) -> dict[str, list[object]]:
    """Return by name what is in the files of a log: bytes, of compressed entries header and records."""
    found: dict[str, list[object]] = {}
    for path in directory.iterdir():
        data = path.read_bytes()
        if path.name.endswith(".log"):
            found[path.name] = [comparable_entry(one) for one in entries_of(data)]
        elif path.name.endswith(".txnindex") and data:
            found[path.name] = [data]
    return found


def comparable_entry(one: Entry) -> object:
    if one.header.codec is CompressionCodec.NONE:
        return one.data
    (opened,) = iter_batches(one.data)
    return one.header._replace(crc=0, batch_length=0), list(opened)


@pytest.mark.parametrize("oldest_format", one_in(2, [0, 2]), ids=["v0, v1 and v2", "v2"])
def test_our_cleaner_leaves_what_kafkas_leaves(
    cleaner_oracle: CleanerOracle, tmp_path: Path, oldest_format: int
) -> None:
    cleanings = 0
    for seed in range(HISTORIES):
        home = tmp_path / f"{seed}"
        home.mkdir()
        twins = Twins(home, Random(seed), oldest_format=oldest_format)
        for number in range(CLEANINGS):
            twins.grow(to_the_end=number == CLEANINGS - 1)
            cleanings += twins.clean(cleaner_oracle)
            twins.now_ms += twins.random.choice([0, 500, 10**5 + 1, DAY_MS + 1])
        shutil.rmtree(home)
    assert cleanings > HISTORIES
