"""Damaged, truncated, missing and misnamed files cause an error with the position, or are skipped and counted."""

import re
import shutil
from pathlib import Path

import pytest

from minibroker_pipeline.decode import DamagedLogError
from minibroker_pipeline.log_directories.partition_logs import LogNameError
from minibroker_storage.errors import CorruptCheckpointError
from minibroker_storage.layout import LOG_SUFFIX
from tests.pipeline.jobs.directories import flip
from tests.pipeline.source.directories import offsets, orders, read
from tests.storage.helpers import Home, a_batch, marker, sequenced


def closed(tmp_path: Path) -> Home:
    home = orders(tmp_path)
    home.append(sequenced(0, 2, is_transactional=True), marker(commit=False), a_batch(3))
    home.log.close()
    return home


def logs(home: Home) -> list[Path]:
    return [home.file(name) for name in home.names(LOG_SUFFIX)]


def test_a_flipped_bit_is_named_by_file_byte_and_offset(tmp_path: Path) -> None:
    home = orders(tmp_path, 3)
    home.log.roll(0)
    home.append(a_batch(1))
    path = logs(home)[0]
    size = path.stat().st_size // 3
    flip(path, size + 70)
    with pytest.raises(DamagedLogError, match=rf"{path}: byte {size}, offset 3: .*read with mode=permissive"):
        offsets(tmp_path)


def test_permissive_reading_gives_the_rest_and_tells_what_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = orders(tmp_path, 3)
    home.log.roll(0)
    home.append(a_batch(1))
    path = logs(home)[0]
    size = path.stat().st_size // 3
    flip(path, size + 70)
    rows = read(tmp_path, ("partition", "offset", "damage"), mode="permissive")
    assert [row["offset"] for row in rows] == [0, 1, 2, 6, 7, 8, None, 9]
    (damage,) = [row for row in rows if row["damage"]]
    assert damage["partition"] == 0
    assert re.fullmatch(rf"{path}: byte {size}: crc: .* \({size} bytes left out\)", damage["damage"])
    assert f"{path}: 1 damaged pieces, {size} bytes, left out; the first at byte {size}: crc: " in caplog.text
    assert offsets(tmp_path, mode="permissive") == [0, 1, 2, 6, 7, 8, 9]


def test_a_segment_that_ends_within_an_entry_is_damaged_when_another_follows(tmp_path: Path) -> None:
    home = closed(tmp_path)
    path = logs(home)[1]
    whole = offsets(tmp_path)
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(DamagedLogError, match=rf"{path}: byte \d+: the entry is cut short"):
        offsets(tmp_path)
    readable = offsets(tmp_path, mode="permissive")
    assert len(readable) == len(whole) - 3
    assert set(readable) < set(whole)


def test_a_directory_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file"):
        read(tmp_path / "file")
    assert read(tmp_path) == []


def test_an_offset_checkpoint_that_is_none_is_named(tmp_path: Path) -> None:
    orders(tmp_path, 1)
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\norders zero")
    with pytest.raises(CorruptCheckpointError, match=f"{tmp_path}/replication-offset-checkpoint"):
        read(tmp_path)


def test_an_interrupted_compaction_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = closed(tmp_path)
    monkeypatch.setattr("minibroker_pipeline.log_directories.partition_logs._SWAP_WAITS", (0, 0))
    path = logs(home)[1]
    shutil.copy(path, f"{path}.swap")
    assert offsets(tmp_path)  # Nothing has been replaced yet.
    path.unlink()
    with pytest.raises(LogNameError, match=r"a compaction was interrupted there; a broker .* completes it"):
        offsets(tmp_path)
