"""The ledger of a partition: the records that its log must hold after a crash.

A batch is pending from the moment it is sent until its place is known: from the broker's answer, or because someone
has read it. From then on it has to be there after every crash, at that offset, byte for byte or record for record. A
pending batch may be in the log or not, but only whole and only once.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import Any

from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.header import read_header
from tests.torture.workload import Facts, Sent, Topic, facts_of

_EPOCH = bytes(4)
"""The leader epoch that the broker stamps: 0, for leadership never moves."""
_LONGEST_REASON = 1000


class TortureError(AssertionError):
    """The broker lost, doubled or changed something."""


def note_circumstances(error: Exception, *notes: str) -> None:
    """Add notes to an error, and behind them its reason once more: reports of long runs are cut in the middle."""
    for note in notes:
        error.add_note(note)
    error.add_note(f"{type(error).__name__}: {str(error)[:_LONGEST_REASON]}")


class View:
    """The bytes of a log from its start offset to its end."""

    def __init__(self, start: int, end: int, chunks: list[bytes]) -> None:
        self.start = start
        self.end = end
        self._chunks = chunks

    def batches(self) -> Iterator[Any]:
        """Each whole batch; the part of one at the end of a chunk comes again in the next."""
        for chunk in self._chunks:
            yield from iter_batches(chunk)


class Ledger(ABC):
    """One partition."""

    def __init__(self, topic: Topic, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.start = 0  # where the log begins at least
        self.asked_start = 0  # up to where clients have asked to delete
        self.acked_end = 0  # one more than the largest offset that must exist
        self.counts: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """The partition's directory."""
        return f"{self.topic.name}-{self.partition}"

    def fail(self, message: str) -> TortureError:
        """The error to raise."""
        return TortureError(f"{self.name}: {message}")

    def acked(self, sent: Sent, base_offset: int) -> None:
        """The broker says that the batch is at this offset."""
        if sent.base_offset is None or (sent.base_offset != base_offset and self._is_deleted(sent)):
            self._settle(sent, base_offset)
        elif sent.base_offset != base_offset:
            raise self.fail(f"a batch that lies at offset {sent.base_offset} was answered with {base_offset}")
        else:
            self.counts["answered as duplicates or late"] += 1
        sent.is_acked = True
        self.counts["acked batches"] += 1
        self.counts["acked records"] += sent.count

    @abstractmethod
    def sent(self, sent: Sent) -> None:
        """A producer has sent a batch, for the first time."""

    @abstractmethod
    def check(self, view: View) -> None:
        """Hold the log against what is known, and learn from it what has become of pending batches.

        `TortureError`.
        """

    @abstractmethod
    def first_at(self, timestamp: int, *, start: int) -> int:
        """The first offset from `start` on whose record's timestamp is at least this; -1 without one."""

    @abstractmethod
    def timestamp_of(self, offset: int) -> int | None:
        """The timestamp of a known record."""

    @abstractmethod
    def _settle(self, sent: Sent, base_offset: int) -> None:
        """Note where a pending batch is."""

    def _is_deleted(self, sent: Sent) -> bool:
        """Whether the batch was in the log and no reader gets it any more.

        After a restart the broker, as Kafka, does not know it again then, and takes it as a new one.
        """
        return sent.base_offset is not None and sent.base_offset + sent.count <= self.start

    def _check_ends(self, view: View) -> None:
        if view.end < self.acked_end:
            raise self.fail(f"the log ends at {view.end}, but offset {self.acked_end - 1} was acknowledged")
        if view.start < self.start:
            raise self.fail(f"the log began at {self.start} and begins at {view.start} again")
        if view.start > self.asked_start and self.topic.retention_bytes is None:
            raise self.fail(f"the log begins at {view.start}, but only {self.asked_start} offsets were deleted")


class BatchLedger(Ledger):
    """A partition whose log holds the very bytes that were sent."""

    def __init__(self, topic: Topic, partition: int) -> None:
        super().__init__(topic, partition)
        self._entries: dict[int, Sent] = {}
        self._pending: dict[tuple[int, int], Sent] = {}
        self._sorted: list[int] = []

    def sent(self, sent: Sent) -> None:
        self._pending[sent.producer_id, sent.sequence] = sent

    def acked(self, sent: Sent, base_offset: int) -> None:
        super().acked(sent, base_offset)
        self._pending.pop((sent.producer_id, sent.sequence), None)

    def unanswered(self) -> list[bytes]:
        """Batches that the broker has not answered, whether they are in the log or not."""
        return [sent.data for sent in self._pending.values()]

    def note(self, batch: memoryview) -> int:
        """A batch was read, in order or not; returns the offset behind it. `TortureError` if it is not as sent."""
        header = read_header(batch)
        offset = header.base_offset
        sent = self._entries.get(offset)
        if sent is None:
            sent = self._pending.get((header.producer_id, header.base_sequence))
            if sent is None or not (sent.base_offset is None or self._is_deleted(sent)):
                raise self.fail(f"no producer sent the batch at offset {offset}, or it is there twice: {header}")
        data = sent.data
        if batch[12:16] != _EPOCH or batch[8:12] != data[8:12] or batch[16:] != data[16:]:
            raise self.fail(f"the batch at offset {offset} is not as it was sent: {header}")
        if sent.base_offset != offset:
            self._settle(sent, offset)
            self.counts["unacked batches found"] += 1
        return offset + sent.count

    def check(self, view: View) -> None:
        self._check_ends(view)
        self.start = view.start
        expected, seen = view.start, 0
        sequences: dict[int, int] = {}
        for batch in view.batches():
            header = batch.header
            if header.base_offset > expected or (header.base_offset < expected and seen):
                raise self.fail(f"offset {header.base_offset} follows, where {expected} was due")
            known = sequences.get(header.producer_id)
            if known is not None and known != header.base_sequence:
                raise self.fail(f"offset {expected}: sequence {header.base_sequence}, where {known} was due: {header}")
            expected = self.note(batch.buffer)
            sequences[header.producer_id] = header.base_sequence + header.last_offset_delta + 1
            seen += header.last_offset_delta + 1
        if expected != view.end:
            raise self.fail(f"the log ends at {view.end}, but its last batch before {expected}")
        for offset, sent in list(self._entries.items()):
            if offset + sent.count <= view.start:
                del self._entries[offset]
        lost = [offset for offset in self._entries if offset >= view.end]
        if lost:
            raise self.fail(f"the batches at {lost} are lost")
        self._sorted = sorted(self._entries)
        self.counts["verified records"] += seen

    def first_at(self, timestamp: int, *, start: int) -> int:
        for offset in self._sorted[max(0, bisect_left(self._sorted, start) - 1) :]:
            sent = self._entries[offset]
            if sent.max_timestamp >= timestamp:
                for number, facts in enumerate(sent.facts):
                    if facts.timestamp >= timestamp and offset + number >= start:
                        return offset + number
        return -1

    def timestamp_of(self, offset: int) -> int | None:
        place = bisect_left(self._sorted, offset + 1) - 1
        if place < 0:
            return None
        sent, number = self._entries[self._sorted[place]], offset - self._sorted[place]
        return sent.facts[number].timestamp if number < sent.count else None

    def _settle(self, sent: Sent, base_offset: int) -> None:
        if base_offset in self._entries:
            raise self.fail(f"two batches were answered with offset {base_offset}")
        if sent.base_offset is not None:
            self._entries.pop(sent.base_offset, None)
        sent.base_offset = base_offset
        self._entries[base_offset] = sent
        self.acked_end = max(self.acked_end, base_offset + sent.count)


class RecordLedger(Ledger):
    """A partition whose batches the broker may write again: to compact them, or to convert them."""

    def __init__(self, topic: Topic, partition: int) -> None:
        super().__init__(topic, partition)
        self._history: dict[int, Facts] = {}
        self._pending: dict[Facts, tuple[Sent, int]] = {}
        self._gone: set[int] = set()
        self._present: list[int] = []

    def sent(self, sent: Sent) -> None:
        for number, facts in enumerate(sent.facts):
            self._pending[facts] = (sent, number)

    def check(self, view: View) -> None:
        self._check_ends(view)
        present: dict[int, Facts] = {}
        last = view.start - 1
        for batch in view.batches():
            batch.check_crc()
            for record in batch:
                if record.offset <= last:
                    raise self.fail(f"offset {record.offset} after {last}")
                last = record.offset
                present[last] = facts_of(record)
        for offset, facts in present.items():
            known = self._history.get(offset)
            if known is None:
                self._find(offset, facts, view)
            elif known != facts:
                raise self.fail(f"offset {offset} holds {facts}, not {known}")
        if self.acked_end > view.end:
            raise self.fail(f"a batch goes to offset {self.acked_end}, the log only to {view.end}")
        if self.topic.is_compacted:
            self._check_compacted(present, view)
        elif missing := [offset for offset in range(view.start, view.end) if offset not in present]:
            raise self.fail(f"offsets {missing} are missing between {view.start} and {view.end}")
        self._present = list(present)
        self.start = view.start
        self.counts["verified records"] += len(present)

    def forget(self, sent: Sent) -> None:
        """A pending batch that is not there and will not be sent again must not turn up later."""
        for facts in sent.facts:
            self._pending.pop(facts, None)

    def first_at(self, timestamp: int, *, start: int) -> int:
        for offset in self._present:
            if offset >= start and self._history[offset].timestamp >= timestamp:
                return offset
        return -1

    def timestamp_of(self, offset: int) -> int | None:
        known = self._history.get(offset)
        return None if known is None else known.timestamp

    def _find(self, offset: int, facts: Facts, view: View) -> None:
        """A record at an offset of which nothing is known: it must be of a pending batch, which then is there."""
        sent, number = self._pending.get(facts, (None, 0))
        if sent is None:
            raise self.fail(f"no producer sent the record at offset {offset}, or it is there twice: {facts}")
        if not sent.is_whole and offset - number + sent.count > view.end:
            for rest in sent.facts[view.end - offset + number :]:
                del self._pending[rest]
            del sent.facts[view.end - offset + number :]
            self.counts["message sets cut by a kill"] += 1
        self.counts["unacked batches found"] += 1
        self._settle(sent, offset - number)

    def _check_compacted(self, present: dict[int, Facts], view: View) -> None:
        if back := self._gone & present.keys():
            raise self.fail(f"offsets {sorted(back)} had been compacted away and are there again")
        newest: dict[bytes | None, int] = {}
        for offset, facts in self._history.items():
            newest[facts.key] = max(newest.get(facts.key, -1), offset)
        for key, offset in newest.items():
            if offset in present:
                continue
            known = self._history[offset]
            if known.value is not None:
                raise self.fail(f"the newest value of {key!r}, at offset {offset}, is lost")
            older = [other for other, facts in present.items() if facts.key == key]
            if older:
                raise self.fail(f"{key!r} was deleted at offset {offset} and has come back at {older}")
        self._gone.update(offset for offset in self._history if offset not in present)
        self.counts["offsets compacted away"] = len(self._gone)

    def _settle(self, sent: Sent, base_offset: int) -> None:
        sent.base_offset = base_offset
        for number, facts in enumerate(sent.facts):
            known = self._history.setdefault(base_offset + number, facts)
            if known is not facts:
                raise self.fail(f"offset {base_offset + number} was given to two records: {known}, {facts}")
            self._pending.pop(facts, None)
        self.acked_end = max(self.acked_end, base_offset + sent.count)


def new_ledger(topic: Topic, partition: int) -> Ledger:
    """The ledger of a new partition."""
    return (RecordLedger if topic.is_by_record else BatchLedger)(topic, partition)
