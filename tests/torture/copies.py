"""The rules for a copy whose every record is written in a transaction: each input once, in order, and nothing else.

Each record of an input partition is copied into the output partition of the same number, as
`TOPIC-PARTITION@OFFSET VALUE` with the input's topic, partition and offset; ` doomed` ends the value of a copy whose
transaction is aborted on purpose. The committed output is then at any time a prefix of the input, after kills of
any process. Nothing here talks to a broker.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tests.torture.ledger import TortureError

DOOMED: Final = b" doomed"
_COPY: Final = re.compile(rb"(.+)-(\d+)@(\d+) (.*)", re.DOTALL)
_SHOWN: Final = 6
"""The number of records behind a wrong one that an error shows."""


class Read(NamedTuple):
    """A record that a reader got."""

    offset: int
    value: bytes


def input_value(partition: int, number: int) -> bytes:
    """The `number`-th record of a partition, from 0 on."""
    return b"%d/%d" % (partition, number)


def copy_of(topic: str, partition: int, offset: int, value: bytes) -> bytes:
    """The record that a copier writes for a record."""
    return b"%s-%d@%d %s" % (topic.encode(), partition, offset, value)


class Turns:
    """The offset that a consumer must get next of each partition, where offsets have no gaps."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}

    def begin(self) -> None:
        """Any offset may be the first of each partition: they are newly assigned."""
        self._next.clear()

    def take(self, partition: int, offset: int) -> int:
        """Take note of a record, and return the offset whose turn it was."""
        expected = self._next.get(partition, offset)
        self._next[partition] = offset + 1
        return expected


class CopyLedger:
    """One partition of the input, and its copy.

    Attributes:
        fed: how many records a producer has been given.
        delivered: how many of them the broker has acknowledged.
        promised: up to where the broker has acknowledged commits of the copy, as an offset of the input.
        copied: how many inputs a reader of committed records has found in the copy.
    """

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.fed = self.delivered = self.promised = self.copied = 0
        self._places: list[int] = []  # of each copy, in the output

    def feed(self) -> bytes:
        """The next record of the input."""
        self.fed += 1
        return input_value(self.partition, self.fed - 1)

    def deliver(self, value: bytes, offset: int | None) -> None:
        """The broker has acknowledged a record; None if it does not say where. `TortureError` at a wrong place."""
        expected = input_value(self.partition, self.delivered)
        if value != expected:
            raise self.fail(f"input {value!r} is acknowledged before {expected!r}, which was sent before it")
        if offset is not None and offset != self.delivered:
            raise self.fail(f"input {value!r} is acknowledged at offset {offset}, not {self.delivered}")
        self.delivered += 1

    def promise(self, behind: int) -> None:
        """A copier has learned that its copies of inputs below `behind` are committed; copiers report in any order."""
        self.promised = max(self.promised, behind)

    def check_copies(self, records: Sequence[Read]) -> None:
        """Read on in the committed output, where the last call ended. `TortureError` unless they are next."""
        for position, record in enumerate(records):
            number = self._input_of(record)
            if number != self.copied:
                raise self.fail(self._fault(number, records[position:]))
            if self._places and record.offset <= self._places[-1]:
                raise self.fail(f"offset {record.offset} was read after offset {self._places[-1]}")
            self._places.append(record.offset)
            self.copied += 1

    def check_promises(self) -> None:
        """Everything that was acknowledged as committed must have been read by now. `TortureError`."""
        if self.copied < self.promised:
            raise self.fail(
                f"the copies up to input {self.promised - 1} were acknowledged as committed, "
                f"but only those below {self.copied} are there"
            )

    def check_inputs(self, records: Sequence[Read]) -> None:
        """Hold the whole input against what was fed; all of it has been acknowledged. `TortureError`."""
        expected = [Read(number, input_value(self.partition, number)) for number in range(self.fed)]
        for found, fed in zip(records, expected, strict=False):
            if found != fed:
                raise self.fail(f"the input has {found.value!r} at offset {found.offset}, where {fed} belongs")
        if len(records) != self.fed or self.delivered != self.fed:
            raise self.fail(f"{self.fed} records were fed, {self.delivered} acknowledged, and {len(records)} are there")

    def check_done(self, *, group_offset: int, stable_end: int, end: int) -> None:
        """Hold everything together once the copiers have come to the end of the input. `TortureError`.

        `group_offset` is the group's committed one, `stable_end` the last stable offset of the output.
        """
        if self.copied != self.fed:
            raise self.fail(f"{self.fed} records were fed, and {self.copied} were copied")
        if group_offset != self.fed:
            raise self.fail(f"the group has committed offset {group_offset} of an input that ends at {self.fed}")
        if stable_end != end:
            raise self.fail(f"a transaction stays open: the last stable offset is {stable_end}, the log ends at {end}")

    def is_behind(self) -> bool:
        """Whether inputs are still to be copied."""
        return self.copied < self.fed

    def fail(self, message: str) -> TortureError:
        """The error to raise."""
        return TortureError(f"{self.topic}-{self.partition}: {message}")

    def _input_of(self, record: Read) -> int:
        """The offset of the input that is copied here. `TortureError` if it is none of this partition."""
        if record.value.endswith(DOOMED):
            raise self.fail(f"offset {record.offset} of an aborted transaction is visible: {record.value!r}")
        match = _COPY.fullmatch(record.value)
        if match is None or (match[1].decode(), int(match[2])) != (self.topic, self.partition):
            raise self.fail(f"offset {record.offset} is no copy of this partition: {record.value!r}")
        number = int(match[3])
        if match[4] != input_value(self.partition, number) or number >= self.fed:
            raise self.fail(f"offset {record.offset} is a copy of a record that was never fed: {record.value!r}")
        return number

    def _fault(self, number: int, records: Sequence[Read]) -> str:
        """The meaning of the copy of `number` as the first in `records`."""
        offset = records[0].offset
        if number < self.copied:
            complaint = f"the copy of input {number} is there twice, at offsets {self._places[number]} and {offset}"
        elif any(record.value.split(b" ")[0].endswith(b"@%d" % self.copied) for record in records):
            complaint = f"the copy of input {number} at offset {offset} is before that of {self.copied}: out of order"
        else:
            complaint = f"the copy of input {self.copied} is missing: offset {offset} has that of {number}"
        return f"{complaint}; from there on {[tuple(record) for record in records[:_SHOWN]]}"


class Entry(NamedTuple):
    """A batch of a log: records of a producer, or the marker that ends its transaction.

    `records` is None for a marker; `is_commit` is only meant for markers.
    """

    offset: int
    producer_id: int
    epoch: int
    is_transactional: bool
    records: Sequence[Read] | None
    is_commit: bool = False


class Walked(NamedTuple):
    """The transactions of a log.

    Attributes:
        committed: the records that a reader of committed ones gets, in order of their offsets.
        open: the first offset of each transaction that has not ended, by producer id.
        ended: how many transactions ended.
        idle_markers: how many markers ended nothing: retried ones, and partitions without writes.
    """

    committed: list[Read]
    open: dict[int, int]
    ended: int
    idle_markers: int


def walk(entries: Iterable[Entry]) -> Walked:
    """Go through a log from its start. `TortureError` for what no producer may do, such as to write when fenced."""
    committed: list[Read] = []
    pending: dict[int, list[Entry]] = {}
    epochs: dict[int, int] = {}
    ended = idle = 0
    behind = 0
    for entry in entries:
        if entry.offset < behind:
            raise TortureError(f"offset {entry.offset} follows offset {behind - 1}")
        behind = (entry.records[-1].offset if entry.records else entry.offset) + 1
        if not entry.is_transactional:
            committed += entry.records or ()
            continue
        epoch = epochs.get(entry.producer_id, entry.epoch)
        if entry.epoch < epoch:
            kind = "a marker" if entry.records is None else "records"
            raise TortureError(
                f"producer {entry.producer_id} was fenced at epoch {epoch}, "
                f"but {kind} of its epoch {entry.epoch} came at offset {entry.offset}"
            )
        epochs[entry.producer_id] = entry.epoch
        if entry.records is not None:
            batches = pending.setdefault(entry.producer_id, [])
            if batches and batches[0].epoch != entry.epoch:
                raise TortureError(
                    f"producer {entry.producer_id} writes with epoch {entry.epoch} at offset {entry.offset}, "
                    f"but its transaction of epoch {batches[0].epoch} has not ended"
                )
            batches.append(entry)
            continue
        transaction = pending.pop(entry.producer_id, [])
        ended += bool(transaction)
        idle += not transaction
        if entry.is_commit:
            committed += [record for batch in transaction for record in batch.records or ()]
    first_of_open = {producer: batches[0].offset for producer, batches in pending.items()}
    stable = min(first_of_open.values(), default=behind)
    return Walked(sorted(record for record in committed if record.offset < stable), first_of_open, ended, idle)
