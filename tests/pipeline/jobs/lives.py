"""Growing logs for the tests of `compact`, which must equal the logs that a cleaner leaves."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

from minibroker_pipeline.jobs.compact import CompactSettings, compact
from minibroker_storage.cleaner import finish_cleaning, plan_cleaning
from minibroker_storage.cleaner.clean import clean
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.data_directory.offset_checkpoints import read_offset_checkpoint, write_offset_checkpoint
from minibroker_storage.files import FilePool
from minibroker_storage.log import Log
from minibroker_storage.producer_snapshot import encode_snapshot
from tests.kafka.cleaner_oracle import CleanerOracle
from tests.kafka.test_cleaner import comparable
from tests.storage.cleaning import write_segments
from tests.storage.helpers import NOW
from tests.storage.histories import History

DAY_MS: Final = 86_400_000
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
_LARGE_MAP: Final = 16 << 20


class Life:
    """A directory that grows and is cleaned repeatedly, while `compact` makes a new directory from it each time."""

    def __init__(self, home: Path, rnd: Random, *, oldest_format: int) -> None:
        self.home = home
        self.random = rnd
        self.data = home / "data"
        self.log_directory = self.data / "users-0"
        self.data.mkdir(parents=True)
        self.oldest_format = oldest_format
        self.history = History(rnd, rnd.choice([0, 0, 100]), with_gaps=True)
        self.segments = rnd.randrange(5, 17)
        self.written = 0
        self.now_ms = NOW + rnd.randrange(10**5)
        self.config = LogConfig(
            segment_bytes=rnd.choice([300, 1000, 5000, 1 << 20]),
            segment_index_bytes=rnd.choice([240, 10 << 20]),
            index_interval_bytes=rnd.choice([0, 100, 4096]),
            compact=True,
            delete=False,
            delete_retention_ms=rnd.choice([0, 1000, 10**5, DAY_MS]),
            min_compaction_lag_ms=rnd.choice([0, 0, 1000]),
        )
        self.settings = CompactSettings(
            segment_bytes=self.config.segment_bytes,
            segment_index_bytes=self.config.segment_index_bytes,
            index_interval_bytes=self.config.index_interval_bytes,
            delete_retention_ms=self.config.delete_retention_ms,
            min_compaction_lag_ms=self.config.min_compaction_lag_ms,
            memory_bytes=rnd.choice([64 << 10, 256 << 20]),
        )

    def grow(self, *, to_the_end: bool) -> None:
        rnd = self.random
        count = self.segments - self.written if to_the_end else rnd.randrange(self.segments - self.written + 1)
        for _ in range(max(count, not self.written)):
            base_offset = self.history.next_offset
            magic = min(2, self.oldest_format + self.written * 3 // self.segments)
            entries = self.history.entries(rnd.randrange(1 if self.written else 2, 8), magic)
            if self.written + 1 == self.segments and rnd.random() < 0.7:
                entries += self.history.endings()
            write_segments(self.log_directory, {base_offset: entries}, modified_ms=NOW + 50_000 * self.written)
            self.written += 1

    def open(self, data: Path, *, last_stop: LastStop = LastStop.CRASHED) -> Log:
        return Log.open(
            str(data / "users-0"),
            config=self.config,
            files=FilePool(50),
            last_stop=last_stop,
            recovery_point=0 if last_stop is LastStop.CRASHED else 2**63 - 1,
            log_start_offset=0,
            now_ms=self.now_ms,
        )

    def compact(self) -> Path:
        """Compact into a new directory and return it."""
        target = self.home / f"compacted-{self.now_ms}"
        compact([str(self.data)], str(target), replace(self.settings, now_ms=self.now_ms))
        return target

    def first_dirty(self, data: Path) -> int | None:
        return read_offset_checkpoint(f"{data}/{CLEANER_OFFSETS}").get(("users", 0))

    def set_first_dirty(self, offset: int) -> None:
        write_offset_checkpoint(f"{self.data}/{CLEANER_OFFSETS}", {("users", 0): offset})

    def clean_by_broker(self) -> bool:
        """Compare `compact` with the broker's cleaner, and return whether there was anything to clean."""
        is_first = self.first_dirty(self.data) is None
        is_recovered = not is_first or self.config.segment_index_bytes == 240 or self.random.random() < 0.5
        if is_recovered:
            self.open(self.data).close()
        target = self.compact()
        log = self.open(self.data, last_stop=LastStop.CLEAN if is_recovered else LastStop.CRASHED)
        plan = plan_cleaning(log, self.first_dirty(self.data), self.now_ms, force=True)
        if plan is not None:
            self.set_first_dirty(finish_cleaning(log, clean(plan)))
            for path in log.take_deleted_files():
                os.unlink(path)
        producers, end = dict(log.producers.active), log.log_end_offset
        log.close()
        assert self.first_dirty(target) == self.first_dirty(self.data)
        assert files_of(target) == files_of(self.data)
        ours = self.open(target, last_stop=LastStop.CLEAN)
        assert ours.log_end_offset == end
        assert encode_snapshot(dict(ours.producers.active)) == encode_snapshot(producers)
        ours.close()
        shutil.rmtree(target)
        return plan is not None

    def clean_by_kafka(self, oracle: CleanerOracle) -> bool:
        """Compare `compact` with Kafka's cleaner, and return whether there was anything to clean."""
        theirs = Path(shutil.copytree(self.log_directory, self.home / "theirs" / "users-0"))
        for path in theirs.iterdir():
            if path.suffix not in {".log", ".snapshot"}:
                path.unlink()
        self.open(self.data).close()  # Kafka also opens the log as after a crash.
        config = self.config
        cleaned = oracle.clean(
            theirs,
            first_dirty_offset=self.first_dirty(self.data),
            now_ms=self.now_ms,
            map_bytes=_LARGE_MAP,
            force=True,
            configs={
                "cleanup.policy": "compact",
                "segment.bytes": config.segment_bytes,
                "segment.index.bytes": config.segment_index_bytes,
                "index.interval.bytes": config.index_interval_bytes,
                "delete.retention.ms": config.delete_retention_ms,
                "min.compaction.lag.ms": config.min_compaction_lag_ms,
            },
        )
        target = self.compact()
        if cleaned.next_dirty_offset is not None:
            self.set_first_dirty(cleaned.next_dirty_offset)
        assert self.first_dirty(target) == self.first_dirty(self.data)
        assert comparable(target / "users-0") == comparable(theirs)
        shutil.rmtree(target)
        self.adopt_kafkas_files(theirs)
        return cleaned.next_dirty_offset is not None

    def adopt_kafkas_files(self, theirs: Path) -> None:
        """Continue with Kafka's files, since the compressed sizes of two libraries differ more and more."""
        shutil.rmtree(self.log_directory)
        self.log_directory.mkdir()
        for path in theirs.iterdir():
            if path.suffix in {".log", ".snapshot"}:
                shutil.copy2(path, self.log_directory / path.name)
        shutil.rmtree(theirs.parent)


def files_of(data: Path) -> dict[str, tuple[object, ...]]:
    """Return the files of the log by name, with the modification times that later cleanings use."""
    result: dict[str, tuple[object, ...]] = {}
    for path in (data / "users-0").iterdir():
        content = path.read_bytes()
        if path.suffix == ".log":
            result[path.name] = content, path.stat().st_mtime_ns
        elif path.suffix in {".index", ".timeindex"} or (path.suffix == ".txnindex" and content):
            result[path.name] = (content,)
    return result
