"""Metadata that was altered at run time outlives the run, and goes back where it was."""

import json
from pathlib import Path
from typing import Any

import pytest

from minibroker import Broker
from minibroker.cluster.section_store import ClusterFileError, ClusterMetadata
from minibroker_storage.data_directory.names import CLUSTER_FILE


def test_a_section_is_there_after_a_restart(tmp_path: Path) -> None:
    ClusterMetadata(str(tmp_path)).write("acls", [{"name": "a"}])
    assert ClusterMetadata(str(tmp_path)).read("acls") == [{"name": "a"}]


def test_nothing_is_written_before_something_was_altered(tmp_path: Path) -> None:
    metadata = ClusterMetadata(str(tmp_path))
    metadata.write_first(str(tmp_path))
    metadata.load()
    assert metadata.read("acls") is None
    assert not (tmp_path / CLUSTER_FILE).exists()


def test_none_removes_a_section(tmp_path: Path) -> None:
    metadata = ClusterMetadata(str(tmp_path))
    metadata.write("acls", [])
    metadata.write("acls", None)
    assert ClusterMetadata(str(tmp_path)).read("acls") is None


def test_reset_goes_back_to_the_start_and_tells_those_who_asked(tmp_path: Path) -> None:
    ClusterMetadata(str(tmp_path)).write("notes", {"a": 1})
    metadata = ClusterMetadata(str(tmp_path))
    sections: list[object] = []
    metadata.subscribe("notes", lambda: sections.append(metadata.read("notes")))
    metadata.write("notes", {"a": 2})
    assert sections == []
    metadata.write_first(str(tmp_path))
    metadata.load()
    assert sections == [{"a": 1}]
    assert ClusterMetadata(str(tmp_path)).read("notes") == {"a": 1}


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 2}', '{"version": 1, "sections": 3}'])
def test_a_file_that_means_nothing_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / CLUSTER_FILE).write_text(text)
    with pytest.raises(ClusterFileError, match=CLUSTER_FILE):
        ClusterMetadata(str(tmp_path))


def test_a_snapshot_holds_what_was_altered_before_it() -> None:
    with Broker() as broker:
        metadata = broker.asynchronous.services.core.metadata
        with broker.snapshot() as before:
            metadata.write("notes", {"a": 1})
            with broker.snapshot() as after:
                broker.restore(before)
                assert metadata.read("notes") is None
                broker.restore(after)
                assert metadata.read("notes") == {"a": 1}
        broker.reset()
        assert metadata.read("notes") is None


def test_nobody_else_on_the_machine_may_read_it_nor_its_copy_in_a_snapshot(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path / "data")) as broker:
        broker.services.core.metadata.write("scram", {"SCRAM-SHA-256": {}})
        broker.snapshot(str(tmp_path / "snapshot"))
        broker.services.core.metadata.write("scram", None)
        broker.restore(str(tmp_path / "snapshot"))
        assert broker.services.core.metadata.read("scram") is not None
    modes = [(tmp_path / name / CLUSTER_FILE).stat().st_mode & 0o777 for name in ("data", "snapshot")]
    assert modes == [0o600, 0o600]


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        3,
        {"epoch": 1, "levels": {"metadata.version": 20}},
        {"SCRAM-SHA-256": {"us\u00e9r": {"salt": "x", "iterations": 4096}}},
        [{"id": "t", "owner": ("User", "alice"), "renewers": (("User", "bob"), ("User", "carol"))}],
    ],
)
def test_a_section_is_read_as_it_was_written(tmp_path: Path, value: Any) -> None:
    metadata = ClusterMetadata(str(tmp_path))
    metadata.write("a", value)
    metadata.write("b", [1])
    assert ClusterMetadata(str(tmp_path)).read("a") == json.loads(json.dumps(value))


def test_a_change_encodes_only_the_entries_that_are_new(tmp_path: Path) -> None:
    entries: list[dict[str, Any]] = [{"id": number} for number in range(3)]
    metadata = ClusterMetadata(str(tmp_path))
    metadata.write("a", entries)
    entries[0]["id"] = -1  # would be seen if it were encoded again
    metadata.write("a", [*entries[:2], {"id": "new"}])
    assert ClusterMetadata(str(tmp_path)).read("a") == [{"id": 0}, {"id": 1}, {"id": "new"}]
