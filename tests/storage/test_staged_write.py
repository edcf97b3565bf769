"""If a writer is killed at any moment, its change is complete, is completed by the next writer, or has not begun."""

from pathlib import Path

import pytest

from minibroker_storage.data_directory.staged_write import (
    NEW,
    UNFINISHED,
    StagedWrite,
    StagedWriteError,
    finish,
    publish,
    staging_name,
)
from minibroker_storage.layout import purge
from tests.storage.helpers import Moments

OLD = {"a-0/1.log": "old", "a-0/leader-epoch-checkpoint": "old", "b-0/1.log": "old", "b-0/2.log": "old", "points": "1"}
NEXT = {
    "a-0/1.log": "old",
    "a-0/2.index": "new",
    "a-0/2.log": "new",
    "a-0/leader-epoch-checkpoint": "new",
    "b-0/1.log": "new",
    "c-0/1.log": "new",
    "points": "2",
}
WRITE = StagedWrite(
    set_aside=["b-0"],
    directories=["b-0", "c-0"],
    files=["a-0/2.index", "a-0/leader-epoch-checkpoint", "a-0/2.log", "points"],
)


def put(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found(directory: Path) -> dict[str, str]:
    """Return the content of all files that a broker would use."""
    return {
        str(path.relative_to(directory)): path.read_text()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.relative_to(directory).parts[0].endswith("-delete")
    }


def ready(tmp_path: Path) -> tuple[Path, str]:
    """Return a data directory, and a staging directory in it with a prepared change."""
    data_dir = tmp_path / "data"
    put(data_dir, OLD)
    staging = staging_name(str(data_dir))
    put(Path(staging) / NEW, {name: text for name, text in NEXT.items() if text != "old"})
    return data_dir, staging


def test_all_steps_are_carried_out(tmp_path: Path) -> None:
    data_dir, staging = ready(tmp_path)
    publish(str(data_dir), staging, WRITE)
    assert found(data_dir) == NEXT
    assert sorted(path.name for path in data_dir.iterdir()) == ["a-0", "b-0", "c-0", "points"]
    assert not finish(str(data_dir))


def test_after_a_kill_at_any_moment_all_is_old_or_all_is_new(tmp_path: Path) -> None:
    data_dir, staging = ready(tmp_path)
    with Moments(data_dir, tmp_path / "copies") as moments:
        publish(str(data_dir), staging, WRITE)
    finished: list[bool] = []
    for moment in moments:
        finished.append(finish(str(moment)))
        assert found(moment) == (NEXT if finished[-1] or "c-0/1.log" in found(moment) else OLD)
    assert finished.count(True) == 8  # The steps are three directories, four files, and the end.


def test_a_finish_that_is_killed_is_finished_by_the_next_one(tmp_path: Path) -> None:
    data_dir, staging = ready(tmp_path)
    with Moments(data_dir, tmp_path / "copies") as moments:
        publish(str(data_dir), staging, WRITE)
    begun = next(moment for moment in moments if (moment / UNFINISHED).exists())
    with Moments(begun, tmp_path / "again") as again:
        assert finish(str(begun))
    for moment in again:
        finish(str(moment))
        assert found(moment) == NEXT


def test_what_a_killed_writer_has_made_ready_goes_like_a_deleted_partition(tmp_path: Path) -> None:
    _, staging = ready(tmp_path)
    purge(staging)
    assert not Path(staging).exists()


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2}', '{"version": 1, "else": []}'])
def test_steps_that_cannot_be_read_are_an_error_that_names_the_directory(tmp_path: Path, text: str) -> None:
    put(tmp_path, {f"{UNFINISHED}/steps.json": text})
    with pytest.raises(StagedWriteError, match=UNFINISHED):
        finish(str(tmp_path))


def test_a_directory_without_steps_is_an_error(tmp_path: Path) -> None:
    (tmp_path / UNFINISHED).mkdir()
    with pytest.raises(StagedWriteError, match=r"steps\.json"):
        finish(str(tmp_path))
