"""The ledger of a stream to Parquet: each committed record of its topic, once. Nothing here talks to a broker."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from minibroker_pipeline.sink_log import committed_files
from tests.torture.copies import DOOMED, Read
from tests.torture.ledger import TortureError

_SHOWN: Final = 6
"""The number of records that an error shows."""


class StreamLedger:
    """A topic, and the folder that a stream of it fills.

    Attributes:
        acknowledged: values that the broker has said it has, committed.
        rows: the value of each (partition, offset) that files hold which count.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.acknowledged: set[bytes] = set()
        self.rows: dict[tuple[int, int], bytes] = {}
        self._seen: dict[str, int] = {}

    @property
    def files(self) -> int:
        """The number of records that count, as far as they were looked at."""
        return len(self._seen)

    def look(self) -> int:
        """Read the files that have come since; return how many rows there are. `TortureError` for one that is twice."""
        files = committed_files(str(self.folder))
        if gone := self._seen.keys() - set(files):
            raise TortureError(f"{self.folder}: {sorted(gone)[:_SHOWN]} counted, and do so no more")
        for file in files:
            if file not in self._seen:
                self._seen[file] = self._read(file)
        return len(self.rows)

    def check(self, logs: Mapping[int, Sequence[Read]]) -> None:
        """Hold the rows against the committed records of each partition. `TortureError` unless they are the same."""
        expected = {(partition, read.offset): read.value for partition, log in logs.items() for read in log}
        self._check_input(expected)
        if missing := sorted(expected.keys() - self.rows.keys()):
            raise self._fail(f"{len(missing)} records are missing", missing)
        if strange := sorted(self.rows.keys() - expected.keys()):
            raise self._fail(f"{len(strange)} rows are of no committed record", strange)
        if other := sorted(place for place, value in expected.items() if self.rows[place] != value):
            raise self._fail(f"{len(other)} rows have another value than their records", other)

    def _check_input(self, expected: Mapping[tuple[int, int], bytes]) -> None:
        """The topic itself holds what was acknowledged, once, and nothing of what was aborted."""
        places: dict[bytes, tuple[int, int]] = {}
        for place, value in sorted(expected.items()):
            if value.endswith(DOOMED):
                raise self._fail("a record of an aborted transaction is committed", [place])
            if value in places:
                raise self._fail(f"the topic has {value!r} twice", [places[value], place])
            places[value] = place
        if lost := self.acknowledged - places.keys():
            raise TortureError(f"{len(lost)} values were acknowledged and are gone: {sorted(lost)[:_SHOWN]}")

    def _read(self, file: str) -> int:
        table = pq.ParquetFile(file).read(["partition", "offset", "value"]).to_pydict()
        found = list(zip(table["partition"], table["offset"], table["value"], strict=True))
        for partition, offset, value in found:
            if (partition, offset) in self.rows:
                raise self._fail(f"a row is twice, the second time in {file}", [(partition, offset)])
            self.rows[partition, offset] = value
        return len(found)

    def _fail(self, complaint: str, places: Sequence[tuple[int, int]]) -> TortureError:
        listing = ", ".join(f"offset {offset} of partition {partition}" for partition, offset in places[:_SHOWN])
        return TortureError(f"{self.folder}: {complaint}: {listing}")
