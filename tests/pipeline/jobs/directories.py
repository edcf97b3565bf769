"""Directories for the jobs' tests: logs without a broker, of which every byte is known, and copies to be damaged."""

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
    """A partition's directory with these segments, and without indexes; returns it."""
    partition = directory / name
    partition.mkdir(parents=True)
    for base, data in ({0: segments} if isinstance(segments, bytes) else segments).items():
        (partition / f"{base:020d}.log").write_bytes(data)
    return partition


def put_indexes(
    partition: Path, base: int, offsets: Sequence[tuple[int, int]] = (), times: Sequence[tuple[int, int]] = ()
) -> None:
    """Index files with these entries, as they stand in the files."""
    (partition / f"{base:020d}.index").write_bytes(b"".join(OffsetIndex.ENTRY.pack(*entry) for entry in offsets))
    (partition / f"{base:020d}.timeindex").write_bytes(b"".join(TimeIndex.ENTRY.pack(*entry) for entry in times))


def copied(source: Path, target: Path, topic: str) -> Path:
    """A data directory with the small files of another one and a single topic of it; returns the partition's."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for path in source.iterdir():
        if path.is_file():
            shutil.copy(path, target)
    return copy_directory(source / f"{topic}-0", target / f"{topic}-0")


def some_file(partition: Path, chance: random.Random) -> Path:
    """A log file or an index that has content, logs more often than their number."""
    files = sorted(path for path in partition.iterdir() if path.suffix in SUFFIXES and path.stat().st_size)
    logs = [path for path in files if path.suffix == ".log"]
    return chance.choice(logs if chance.random() < 1 / 3 else files)


def flip_a_bit(path: Path, chance: random.Random) -> None:
    """Of the file's content."""
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def cut(path: Path, chance: random.Random) -> None:
    """Cut the file somewhere."""
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])
