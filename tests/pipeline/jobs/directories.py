"""Directories for the jobs' tests: logs with known bytes, written without a broker, and copies to damage."""

import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from minibroker_storage.offset_index import OffsetIndex
from minibroker_storage.time_index import TimeIndex
from tests.sparse_copies import copy_directory

SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def put_log(directory: Path, name: str, segments: Mapping[int, bytes] | bytes) -> Path:
    """Write a partition's directory with these segments and no indexes, and return it."""
    partition = directory / name
    partition.mkdir(parents=True)
    for base, data in ({0: segments} if isinstance(segments, bytes) else segments).items():
        (partition / f"{base:020d}.log").write_bytes(data)
    return partition


def put_indexes(
    partition: Path, base: int, offsets: Sequence[tuple[int, int]] = (), times: Sequence[tuple[int, int]] = ()
) -> None:
    """Write index files with these stored entries."""
    (partition / f"{base:020d}.index").write_bytes(b"".join(OffsetIndex.ENTRY.pack(*entry) for entry in offsets))
    (partition / f"{base:020d}.timeindex").write_bytes(b"".join(TimeIndex.ENTRY.pack(*entry) for entry in times))


def copied(source: Path, target: Path, topic: str) -> Path:
    """Copy a data directory with only one of its topics, and return the partition's directory."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for path in source.iterdir():
        if path.is_file():
            shutil.copy(path, target)
    return copy_directory(source / f"{topic}-0", target / f"{topic}-0")


def some_file(partition: Path, chance: random.Random) -> Path:
    """Choose a log file or an index that is not empty. Logs are chosen more often than their share."""
    files = sorted(path for path in partition.iterdir() if path.suffix in SUFFIXES and path.stat().st_size)
    logs = [path for path in files if path.suffix == ".log"]
    return chance.choice(logs if chance.random() < 1 / 3 else files)


def flip(path: Path, position: int, mask: int = 1) -> None:
    """Invert a bit of the file, or the bits of the mask."""
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)


def flip_a_bit(path: Path, chance: random.Random) -> None:
    """Invert a random bit of the file."""
    flip(path, chance.randrange(path.stat().st_size), 1 << chance.randrange(8))


def cut(path: Path, chance: random.Random) -> None:
    """Truncate the file at a random position."""
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])
