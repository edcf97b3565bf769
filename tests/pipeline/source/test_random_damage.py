"""A single random fault in a log: readers report it or return correct rows, and `verify` finds it.

Seeds are fixed. `DAMAGE_CASES=1000` runs more cases than `make test`.
"""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from minibroker_pipeline.decode import DamagedLogError
from minibroker_pipeline.jobs.verify import VerifySettings, verify
from minibroker_pipeline.log_directories.partition_logs import LogNameError
from minibroker_pipeline.source.reading import DataLossError
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec, read_header
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.config import LogConfig
from minibroker_storage.errors import CorruptCheckpointError, CorruptIndexError
from tests.pipeline.jobs.directories import cut, flip_a_bit
from tests.pipeline.source.directories import close, read
from tests.storage.helpers import NOW, Batch, Home, marker, sequenced

CASES = int(os.environ.get("DAMAGE_CASES", "40"))
CLEAR = (DamagedLogError, LogNameError, DataLossError, CorruptIndexError, CorruptCheckpointError)
LEVELS = ("read_uncommitted", "read_committed")
COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers")


def append_legacy(home: Home, magic: int, codec: CompressionCodec) -> None:
    """Append three messages of v0 or v1, or a wrapper of them if there is a codec."""
    first, time = home.log.log_end_offset, NOW if magic else -1
    records = [NewRecord(b"k", b"old %d" % number, time) for number in range(3)]
    data = memoryview(build_message_set(records, magic=magic, base_offset=first, codec=codec))
    home.log.append_message_set(
        data, last_offset=first + 2, max_timestamp=time, offset_of_max_timestamp=first, now_ms=NOW
    )
    home.log.commit()


def fill(home: Home, rolls: random.Random) -> None:
    """Write all formats and codecs, headers, null keys, and transactions of two producers, some across segments."""
    for magic in (0, 1):
        for codec in (CompressionCodec.NONE, CompressionCodec.GZIP, CompressionCodec.SNAPPY):
            append_legacy(home, magic, codec)
    sequences = {7: 0, 8: 0}
    is_open = {7: False, 8: False}
    for number in range(70):
        codec = rolls.choice(list(CompressionCodec))
        producer = rolls.choice([0, 0, 7, 7, 8])
        times = [NOW + 40 * number + index for index in range(3)]
        if not producer:
            headers = (("trace", b"%d" % number), ("null", None))
            records = [NewRecord(b"k", rolls.randbytes(30) + bytes(30), time, headers) for time in times]
            view = memoryview(build_batch(records, codec=codec))
            home.append(Batch(view, read_header(view)))
        elif is_open[producer] and rolls.random() < 0.4:
            home.append(marker(producer_id=producer, commit=rolls.random() < 0.5))
            is_open[producer] = False
        else:
            value = b"%d of %d, and more of it" % (number, producer)
            fields: dict[str, Any] = {"timestamps": times, "codec": codec, "is_transactional": True}
            home.append(sequenced(sequences[producer], 3, producer_id=producer, value=value, **fields))
            sequences[producer] += 3
            is_open[producer] = True
    for producer, still in is_open.items():
        if still:
            home.append(marker(producer_id=producer, commit=False))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undamaged data directory."""
    data = tmp_path_factory.mktemp("whole") / "data"
    data.mkdir()
    home = Home(data / "orders-0", LogConfig(segment_bytes=3000, index_interval_bytes=200, segment_index_bytes=1200))
    fill(home, random.Random(3))
    assert len(home.log.segments) > 3
    close(home)
    return data


def rename(path: Path, rolls: random.Random) -> None:
    """Rename a file as people and tools might do."""
    stem, suffix = path.name[:20], path.suffix
    names = [
        f"{stem[1:]}{suffix}",
        f"copy of {path.name}",
        f"{stem}.old{suffix}",
        f"{int(stem) + rolls.randint(1, 30):020d}{suffix}",
    ]
    path.rename(path.with_name(rolls.choice(names)))


def remove(path: Path, rolls: random.Random) -> None:
    path.unlink()


def zero(path: Path, rolls: random.Random) -> None:
    """Fill a range with zeros, like bytes that were never written."""
    data = bytearray(path.read_bytes())
    position = rolls.randrange(len(data))
    end = min(position + rolls.choice([1, 8, 50, 5000]), len(data))
    data[position:end] = bytes(end - position) if rolls.random() < 0.8 else b""
    path.write_bytes(data)


def damage(partition: Path, rolls: random.Random) -> str:
    """Damage a file and return a description."""
    files = sorted(path for path in partition.iterdir() if path.name[:20].isdecimal() and path.stat().st_size)
    logs = [path for path in files if path.suffix == ".log"]
    path = rolls.choice(logs if rolls.random() < 0.4 else files)
    kind = rolls.choice([flip_a_bit, flip_a_bit, cut, zero, rename, remove])
    kind(path, rolls)
    return f"{kind.__name__} {path.name}"


@pytest.mark.parametrize("seed", range(CASES))
def test_damage_anywhere_is_told_or_does_no_harm(whole: Path, tmp_path: Path, seed: int) -> None:
    data = Path(shutil.copytree(whole, tmp_path / "data"))
    description = damage(data / "orders-0", random.Random(seed))
    report = verify([str(data)], VerifySettings(), processes=1)
    for level in LEVELS:
        right = read(whole, COLUMNS, isolation=level)
        error, result = outcome(data, level, "failfast")
        assert str(data) in error, description
        assert all(row in right for row in result), description
        if not report.damage:
            assert result == right, description
        error, result = outcome(data, level, "permissive", "damage")
        assert error == str(data), description
        reported = [row.pop("damage") for row in result]
        is_ambiguous = any("one of the two is wrong" in damage for damage in reported if damage)
        rows = [row for row, damage in zip(result, reported, strict=True) if damage is None]
        assert is_ambiguous or all(row in right for row in rows), description


def outcome(data: Path, level: str, mode: str, *more: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the warnings and the rows, or the error."""
    try:
        return str(data), read(data, (*COLUMNS, *more), isolation=level, mode=mode)
    except CLEAR as error:
        return str(error), []
