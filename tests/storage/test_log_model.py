"""A log compared with a list: after any operation, both contain the same batches."""

import random
import shutil
import tempfile
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.errors import LogWriteError, OffsetOutOfRangeError
from minibroker_storage.files import FilePool
from tests.storage.helpers import NOW, Disk, Home, sequenced, stage_messages
from tests.storage.time_search import find_by_timestamp

Held = tuple[int, int, bytes]  # The base offset, last offset and bytes.


def common_prefix(first: bytes, second: bytes) -> int:
    """Return the length of the common prefix."""
    return next(
        (at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )


class LogAgainstList(RuleBasedStateMachine):
    """Applies the same steps to both: appends, commits, failures, reads, rolls, truncations, stops and crashes."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="log-model-"))
        self.patch = pytest.MonkeyPatch()
        self.disk = Disk(self.patch)
        self.held: list[Held] = []
        self.staged: list[Held] = []
        self.start = self.end = 0
        self.next_sequence = self.committed_sequence = 0
        self.clock = NOW
        self.flushed: dict[str, bytes] = {}

    @initialize(
        segment_bytes=st.sampled_from([800, 1500, 100_000]),
        interval=st.sampled_from([0, 100, 300]),
        index_bytes=st.sampled_from([24, 60, 4800]),
        descriptors=st.sampled_from([1, 3, 50]),
    )
    def open_the_log(self, segment_bytes: int, interval: int, index_bytes: int, descriptors: int) -> None:
        config = LogConfig(
            segment_bytes=segment_bytes, index_interval_bytes=interval, segment_index_bytes=index_bytes, segment_ms=50
        )
        self.home = Home(self.directory / "orders-0", config, FilePool(descriptors))

    @property
    def staged_end(self) -> int:
        return self.staged[-1][1] + 1 if self.staged else self.end

    def take(self) -> None:
        """Add the batches that the log has committed to the list."""
        self.held += self.staged
        self.end = self.staged_end
        self.staged = []
        self.committed_sequence = self.next_sequence

    def times(self, count: int, back: int) -> list[int]:
        """Return timestamps that begin with the clock's and never exceed it."""
        return [self.clock - number * back % 50 for number in range(count)]

    @rule(
        count=st.integers(1, 3),
        size=st.sampled_from([0, 1, 20, 100]),
        later=st.integers(-30, 30),
        back=st.integers(0, 40),
    )
    def append(self, count: int, size: int, later: int, back: int) -> None:
        self.clock += later
        batch = sequenced(self.next_sequence, count, value=b"v" * size, timestamps=self.times(count, back))
        assert self.home.log.producers.check(batch.header) is None
        self.take_if_it_rolls(batch.size, count)
        (offset,) = self.home.stage(batch, now_ms=self.clock)
        assert offset == self.staged_end
        self.staged.append((offset, offset + count - 1, bytes(batch.view)))
        self.next_sequence += count

    def take_if_it_rolls(self, size: int, count: int) -> None:
        if self.staged and self.home.log._active.should_roll(  # A roll commits first.
            size, self.staged_end + count - 1, self.clock, self.home.config, self.clock
        ):
            self.take()

    @rule(
        count=st.integers(1, 8), size=st.sampled_from([0, 20, 60]), magic=st.integers(0, 1), back=st.integers(-40, 40)
    )
    def append_a_message_set(self, count: int, size: int, magic: int, back: int) -> None:
        base = self.staged_end
        times = self.times(count, back)
        records = [NewRecord(None, b"v" * size, time) for time in times]
        data = build_message_set(records, magic=magic, base_offset=base)
        self.take_if_it_rolls(len(data), count)
        timestamp = max(times) if magic else -1
        assert stage_messages(self.home.log, data, timestamp, times.index(max(times)), self.clock) == base
        self.staged += [
            (message.header.base_offset, message.header.base_offset, bytes(message.buffer))
            for message in iter_batches(data)
        ]

    @rule()
    def commit(self) -> None:
        self.home.log.commit()
        self.take()

    @precondition(lambda self: self.staged)
    @rule(room=st.integers(0, 400), most=st.sampled_from([1, 13, 1 << 30]))
    def commit_on_a_full_disk(self, room: int, most: int) -> None:
        self.disk.room, self.disk.most = room, most
        try:
            self.home.log.commit()
        except LogWriteError:
            self.staged = []
            self.next_sequence = self.committed_sequence
        else:
            self.take()
        finally:
            self.disk.room, self.disk.most = None, 1 << 30

    @rule(before=st.integers(-5, 120))
    def look_up_a_time(self, before: int) -> None:
        timestamp = self.clock - before
        records = (record for _, _, data in self.held for (batch,) in [iter_batches(data)] for record in batch)
        first = next((r for r in records if r.offset >= self.start and r.timestamp >= timestamp), None)
        found = find_by_timestamp(self.home.log, timestamp)
        assert (found and found[:2]) == (first and (first.timestamp, first.offset))

    @rule()
    def roll(self) -> None:
        self.home.log.roll(self.clock)
        self.take()

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end + 2))
        self.home.log.truncate_to(offset, self.clock)
        self.staged = []
        if offset < self.end:
            self.held = [batch for batch in self.held if batch[1] < offset]
            self.end = offset
        self.adopt_sequence()

    def adopt_sequence(self) -> None:
        """Let the producer continue after the last remaining batch, wherever a truncation left it."""
        entry = self.home.log.producers.active.get(7)
        self.next_sequence = self.committed_sequence = 0 if entry is None else entry.last_sequence + 1

    @rule(data=st.data())
    def remove_old_segments(self, data: st.DataObject) -> None:
        self.start = max(self.start, data.draw(st.integers(0, self.end)))
        self.home.log.advance_log_start_offset(self.start)
        self.home.log.delete_old_segments(self.clock)
        self.take()
        first = self.home.log.segments[0].base_offset
        assert len(self.home.log.segments) == 1 or self.home.log.segments[1].base_offset > self.start
        self.held = [batch for batch in self.held if batch[0] >= first]

    @rule(data=st.data())
    def advance_the_start(self, data: st.DataObject) -> None:
        self.start = max(self.start, data.draw(st.integers(0, self.end)))
        self.home.log.advance_log_start_offset(self.start)

    @rule()
    def stop_and_start(self) -> None:
        self.home.log.close()
        self.take()
        self.start_again(LastStop.CLEAN)

    @rule(torn=st.integers(0, 400))
    def crash_and_start(self, torn: int) -> None:
        active = self.home.log.segments[-1]
        self.home.crash()
        with open(active.log.path, "ab") as file:
            file.write(b"".join(data for _, _, data in self.staged)[:torn].ljust(torn, b"\7"))
        written = accumulate(len(data) for _, _, data in self.staged)
        self.staged = [batch for batch, size in zip(self.staged, written, strict=True) if size <= torn]
        self.take()
        self.start_again(LastStop.KILLED)

    @rule()
    def flush(self) -> None:
        self.home.log.flush()
        self.flushed = {path.name: path.read_bytes() for path in self.home.path.iterdir()}

    @rule(seed=st.integers(0, 2**32))
    def lose_power(self, seed: int) -> None:
        """Overwrite unflushed data with random bytes, from a random position above the recovery point on."""
        rng = random.Random(seed)
        point = self.home.log.recovery_point
        self.home.crash()
        logs = self.home.names(".log")
        torn = rng.randrange(len(logs))
        for path in self.home.path.iterdir():
            data = path.read_bytes()
            intact = common_prefix(data, self.flushed.get(path.name, b""))
            if path.suffix == ".log":
                number = logs.index(path.name)
                intact = max(
                    intact, len(data) if number < torn else rng.randrange(len(data) + 1) if number == torn else 0
                )
            elif path.suffix not in {".index", ".timeindex", ".snapshot"}:
                continue
            garbage = rng.choice([b"", bytes(len(data) - intact), rng.randbytes(len(data) - intact)])
            path.write_bytes(data[:intact] + garbage)
        before = self.held
        self.staged = []
        log = self.home.open(
            last_stop=LastStop.CRASHED, recovery_point=point, log_start_offset=self.start, now_ms=self.clock
        )
        self.start = log.log_start_offset
        batches = self.read_all()
        self.held = before[: len(before) - len([batch for batch in before if batch[1] >= self.start]) + len(batches)]
        assert all(batch in self.held for batch in before if batch[1] < point)
        self.adopt_end()

    def start_again(self, last_stop: LastStop) -> None:
        self.home.open(last_stop=last_stop, log_start_offset=self.start, now_ms=self.clock)
        self.adopt_end()

    def adopt_end(self) -> None:
        log = self.home.log
        # The end follows the last batch, even if a truncation in the middle of a batch had set a later end.
        self.end = max(self.held[-1][1] + 1 if self.held else 0, log.segments[-1].base_offset)
        if self.end < self.start:
            self.held = []
            self.end = self.start
        self.adopt_sequence()

    @rule(data=st.data(), max_bytes=st.sampled_from([0, 1, 100, 500, 1 << 20]), min_one_batch=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, min_one_batch: bool) -> None:  # noqa: FBT001 - drawn
        offset = data.draw(st.integers(self.start, self.end))
        end = data.draw(st.one_of(st.none(), st.integers(self.start, self.end + 1)))
        found = self.home.log.read(offset, max_bytes, min_one_batch=min_one_batch, end_offset=end).read()
        limit = self.end if end is None else min(end, self.end)
        visible = [batch[2] for batch in self.held if batch[1] >= offset and batch[1] < limit]
        if offset >= limit or not visible:
            assert found == b""
            return
        assert b"".join(visible).startswith(found)
        first = len(visible[0])
        assert len(found) <= max(max_bytes, first if min_one_batch else 0)
        assert len(found) >= (first if min_one_batch else min(max_bytes, first))

    @invariant()
    def the_log_is_the_list(self) -> None:
        if not hasattr(self, "home"):
            return
        log = self.home.log
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (self.start, self.end, self.end)
        for outside in (self.start - 1, self.end + 1):
            try:
                log.read(outside, 100)
            except OffsetOutOfRangeError:
                continue
            raise AssertionError(f"{outside} was read")
        assert len(self.home.files) <= self.home.files.capacity

    @invariant()
    def every_batch_is_read_back(self) -> None:
        if not hasattr(self, "home"):
            return
        assert self.read_all() == [batch for batch in self.held if batch[1] >= self.start]

    def read_all(self) -> list[Held]:
        batches: list[Held] = []
        offset = self.start
        while data := self.home.log.read(offset, 1 << 20).read():
            batches += [(b.header.base_offset, b.header.last_offset, bytes(b.buffer)) for b in iter_batches(data)]
            offset = batches[-1][1] + 1
        return batches

    def teardown(self) -> None:
        self.patch.undo()
        if hasattr(self, "home"):
            self.home.crash()
        shutil.rmtree(self.directory)


LogAgainstList.TestCase.settings = settings(stateful_step_count=40)
TestLogAgainstList = LogAgainstList.TestCase
