"""Metadata changed at run time survives a restart, and is restored by a reset.

Feature levels: those of a new cluster, what is stored, and damaged files.
"""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from minibroker import Broker
from minibroker.cluster.broker_loggers import BrokerLoggers
from minibroker.cluster.cluster_metadata import ClusterFileError, ClusterMetadata
from minibroker.cluster.features import FEATURES, Feature, Features
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
    metadata.replaced.subscribe(lambda: sections.append(metadata.read("notes")))
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


def features_of(directory: Path) -> Features:
    return Features(ClusterMetadata(str(directory)))


def test_a_fresh_cluster_runs_what_a_fresh_kafka_4_runs(tmp_path: Path) -> None:
    features = features_of(tmp_path)
    assert {name: features.level(name) for name in FEATURES} == {
        name: feature.fresh for name, feature in FEATURES.items()
    }
    assert features.level("group.version") == 1
    assert features.level("share.version") == 2


def test_a_feature_that_is_off_is_not_finalized(tmp_path: Path) -> None:
    features = features_of(tmp_path)
    assert "kraft.version" not in features.finalized
    features.finalize({"group.version": 0})
    assert "group.version" not in features.finalized


def test_what_was_finalized_outlives_the_run_and_raises_the_epoch(tmp_path: Path) -> None:
    features = features_of(tmp_path)
    features.finalize({"transaction.version": 0})
    features.finalize({"group.version": 0})
    again = features_of(tmp_path)
    assert (again.level("transaction.version"), again.level("group.version"), again.epoch) == (0, 0, 3)


def test_a_reset_takes_levels_back_in_a_later_epoch(tmp_path: Path) -> None:
    metadata = ClusterMetadata(str(tmp_path))
    features = Features(metadata)
    features.finalize({"transaction.version": 0})
    features.raise_epoch(metadata.write_first(str(tmp_path)))
    metadata.load()
    fresh = FEATURES["transaction.version"].fresh
    assert (features.level("transaction.version"), features.epoch) == (fresh, 3)
    again = features_of(tmp_path)
    assert (again.level("transaction.version"), again.epoch) == (fresh, 3)


def test_a_level_that_cannot_be_run_is_that_of_a_fresh_cluster(tmp_path: Path) -> None:
    features_of(tmp_path).finalize({"transaction.version": 0})
    newer = Features(ClusterMetadata(str(tmp_path)), {"transaction.version": Feature(1, 2, 2)})
    assert newer.level("transaction.version") == 2


@pytest.mark.parametrize("section", [{"levels": []}, {"levels": {"group.version": "high"}}, {"epoch": []}, 7])
def test_a_damaged_section_is_named(tmp_path: Path, section: object) -> None:
    (tmp_path / CLUSTER_FILE).write_text(json.dumps({"version": 1, "sections": {"features": section}}))
    with pytest.raises(ClusterFileError, match="features is damaged"):
        features_of(tmp_path)


CLEANER, MANAGER = "kafka.log.LogCleaner", "kafka.server.ReplicaManager"


def test_loggers_of_kafkas_classes_inherit_their_levels_from_that_of_kafka() -> None:
    loggers = BrokerLoggers()
    before = loggers.levels()
    try:
        loggers.set_level("kafka", "DEBUG")
        loggers.set_level(CLEANER, "ERROR")
        levels = loggers.levels()
        assert [levels[name] for name in ("kafka", "root", "minibroker", MANAGER)] == ["DEBUG"] * 4
        assert levels[CLEANER] == "ERROR"
        assert logging.getLogger("minibroker").level == logging.DEBUG
        loggers.set_level(CLEANER, None)
        assert loggers.levels()[CLEANER] == "DEBUG"
        assert not any("of_kafka" in name for name in loggers.levels())
    finally:
        loggers.restore()
    assert loggers.levels() == before
