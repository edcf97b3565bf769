"""The committed files of a stream's folder, from logs in Spark's format."""

import json
import os
from pathlib import Path

import pytest

from minibroker_pipeline.sink_log import SinkLogError, committed_files


def write(folder: Path, name: str, *entries: tuple[str, str], version: str = "v1") -> None:
    log = folder / "_spark_metadata"
    log.mkdir(exist_ok=True)
    lines = [json.dumps({"path": f"file://{folder}/{path}", "size": 1, "action": action}) for path, action in entries]
    (log / name).write_text("\n".join([version, *lines]))


def names(folder: Path) -> list[str]:
    return [os.path.relpath(path, folder) for path in committed_files(str(folder))]


def test_before_the_first_micro_batch_no_file_counts(tmp_path: Path) -> None:
    (tmp_path / "part-0.parquet").touch()
    assert names(tmp_path) == []


def test_files_count_in_the_order_of_micro_batches(tmp_path: Path) -> None:
    for number in (10, 9, 2, 0):
        write(tmp_path, str(number), (f"part-{number}", "add"))
    (tmp_path / "_spark_metadata" / ".0.crc").touch()
    assert names(tmp_path) == ["part-0", "part-2", "part-9", "part-10"]


def test_a_compact_file_says_all_of_those_before_it(tmp_path: Path) -> None:
    write(tmp_path, "1", ("gone-for-long", "add"))
    write(tmp_path, "2", ("b", "add"))
    write(tmp_path, "2.compact", ("a", "add"), ("b", "add"))
    write(tmp_path, "3", ("c", "add"), ("a", "delete"))
    assert names(tmp_path) == ["b", "c"]


def test_names_with_blanks_come_back_as_they_are_on_disk(tmp_path: Path) -> None:
    write(tmp_path, "0", ("day=a%20b/part", "add"))
    assert names(tmp_path) == ["day=a b/part"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [("v2\n", "the version is 'v2', not v1"), ("v1\n{", "not as Spark"), ("v1\n[]", "not as Spark"), ("", "version")],
)
def test_a_log_that_is_not_sparks_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    write(tmp_path, "0")
    (tmp_path / "_spark_metadata" / "0").write_text(text)
    with pytest.raises(SinkLogError, match=fault):
        committed_files(str(tmp_path))
