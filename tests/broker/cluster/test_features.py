"""Feature levels: what a fresh cluster has, what is kept, and what a damaged file says."""

import json
from pathlib import Path

import pytest

from minibroker.cluster.features import FEATURES, Feature, Features
from minibroker.cluster.section_store import ClusterFileError, ClusterMetadata
from minibroker_storage.data_directory.names import CLUSTER_FILE


def features_of(directory: Path) -> Features:
    return Features(ClusterMetadata(str(directory)))


def test_a_fresh_cluster_runs_what_a_fresh_kafka_4_runs(tmp_path: Path) -> None:
    features = features_of(tmp_path)
    assert {name: features.level(name) for name in FEATURES} == {name: each.fresh for name, each in FEATURES.items()}
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
    features.outlast(metadata.write_first(str(tmp_path)))
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
