"""The requests and bytes of planning, counted where files are read."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from minibroker_pipeline.filesystem import RemoteFileSystem
from minibroker_pipeline.jobs.verify import verify
from minibroker_storage.config import LogConfig
from tests.pipeline.source.directories import offsets, orders, plan
from tests.pipeline.source.test_stream import ALL, at, rows, stream
from tests.storage.helpers import Home, a_batch

KAFKAS = LogConfig()
"""Indexes of 10 MiB, as Kafka preallocates them."""


@pytest.fixture
def live(tmp_path: Path) -> Home:
    """A log of 2 MB that a broker is writing."""
    home = orders(tmp_path / "data", 0, config=KAFKAS)
    add(home, 400)
    return home


def add(home: Home, count: int) -> None:
    for _ in range(count):
        home.append(a_batch(1, value=b"x" * 5000))


def record_sizes(monkeypatch: pytest.MonkeyPatch, owner: Any, *names: str) -> list[int]:
    """Return a list that receives the length of each result of these functions from now on."""
    sizes: list[int] = []
    for name, read in [(name, getattr(owner, name)) for name in names]:

        def record(*arguments: Any, read: Callable[..., Any] = read, **options: Any) -> Any:
            result = read(*arguments, **options)
            sizes.append(len(result) if isinstance(result, bytes) else 0)
            return result

        monkeypatch.setattr(owner, name, record)
    return sizes


def test_of_a_live_log_the_used_parts_of_its_indexes_are_read(live: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    assert live.file("00000000000000000000.index").stat().st_size > 10_000_000
    sizes = record_sizes(monkeypatch, os, "pread")
    ((log_range,),) = plan(live.path.parent, startingOffsets='{"orders": {"0": 390}}')
    assert log_range.position > 1_900_000
    assert sum(sizes) < 32 * 1024


def test_more_index_entries_than_usual_are_read_to_their_end(tmp_path: Path) -> None:
    home = orders(tmp_path, 0, config=LogConfig(index_interval_bytes=1))
    for _ in range(5000):
        home.append(a_batch(1))
    ((log_range,),) = plan(tmp_path, startingOffsets='{"orders": {"0": 4990}}')
    assert log_range.end_position - log_range.position < 20 * a_batch(1).size
    assert offsets(tmp_path, startingOffsets='{"orders": {"0": 4990}}') == list(range(4990, 5000))


@pytest.mark.parametrize(("batches", "requests"), [(5, 2), (400, 3)])
def test_in_a_store_a_live_partition_takes_few_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: int, requests: int
) -> None:
    add(orders(tmp_path / "data", 0, config=KAFKAS), batches)
    system = fsspec.filesystem("memory")
    system.put(f"{tmp_path}/data/", f"{tmp_path}/", recursive=True)
    sizes = record_sizes(monkeypatch, RemoteFileSystem, "entries", "read", "read_range")
    assert plan(f"memory://{tmp_path}")
    system.rm(str(tmp_path), recursive=True)
    assert len(sizes) == 1 + requests  # The first lists the data directory.
    assert sum(sizes) < 64 * 1024


def test_a_micro_batch_reads_what_was_added(live: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = stream(live.path.parent, startingOffsets="latest")
    assert reader.latestOffset(reader.initialOffset(), ALL) == at(400)
    sizes = record_sizes(monkeypatch, os, "pread")
    assert reader.latestOffset(at(400), ALL) == at(400)
    assert not sizes
    add(live, 3)
    assert reader.latestOffset(at(400), ALL) == at(403)
    assert len(reader.partitions(at(400), at(403))) == 1
    assert sum(sizes) < 16 * 1024
    assert rows(reader, at(400), at(403)) == [400, 401, 402]


def test_verify_reads_the_used_parts_of_live_indexes(live: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = record_sizes(monkeypatch, os, "pread")
    assert verify([str(live.path.parent)]).is_sound
    assert sum(sizes) < live.log.segments[0].size + 64 * 1024
