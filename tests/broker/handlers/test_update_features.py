"""UpdateFeatures: what may be raised and lowered; codes and sentences compared with Kafka 4.4.0."""

import os
from typing import Any, Final

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.harness import Harness

RAISE: Final = 1
LOWER: Final = 2
LOWER_AT_ANY_PRICE: Final = 3
FIRST_WORDS: Final = "The update failed for all features since the following feature had an error: "


def update(harness: Harness, *changes: tuple[str, int, int], version: int = 2, validate_only: bool = False) -> Any:
    keys = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in changes]
    return harness.ask(UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only), version)


def refusal(response: Any) -> str:
    """Why nothing was changed."""
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert response.results == []
    message: str = response.error_message
    assert message.startswith(FIRST_WORDS)
    return message.removeprefix(FIRST_WORDS)


@pytest.mark.parametrize("version", [1, 2])
def test_a_level_is_lowered_and_raised_again(harness: Harness, version: int) -> None:
    for level, kind in ((0, LOWER), (1, RAISE), (0, LOWER_AT_ANY_PRICE)):
        response = update(harness, ("group.version", level, kind), version=version)
        assert (response.error_code, response.error_message) == (0, None)
        assert [(each.feature, each.error_code) for each in response.results] == [("group.version", 0)] * (version < 2)
        assert harness.core.features.level("group.version") == level
    assert harness.core.features.epoch == 4


def test_a_level_outlives_the_run(harness: Harness) -> None:
    update(harness, ("group.version", 0, LOWER))
    harness.restart()
    assert harness.core.features.level("group.version") == 0


def test_a_question_changes_nothing(harness: Harness) -> None:
    assert update(harness, ("group.version", 0, LOWER), validate_only=True).error_code == 0
    assert harness.core.features.level("group.version") == 1


def test_a_level_that_is_in_force_is_no_change(harness: Harness) -> None:
    assert update(harness, ("group.version", 1, RAISE), ("nope", 0, RAISE)).error_code == 0
    assert harness.core.features.epoch == 1


def test_all_features_change_or_none_does(harness: Harness) -> None:
    why = refusal(update(harness, ("group.version", 0, LOWER), ("nope", 1, RAISE)))
    assert why == "Invalid update version 1 for feature nope. Local controller 1 does not support this feature."
    assert harness.core.features.level("group.version") == 1


@pytest.mark.parametrize(
    ("level", "kind", "reason"),
    [
        (-1, LOWER, "A feature version cannot be less than 0."),
        (2, RAISE, "Local controller 1 only supports versions 0-1"),
        (
            0,
            RAISE,
            (
                "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
                "downgrade."
            ),
        ),
        (0, 0, "The controller does not support the given upgrade type."),
        (0, 9, "The controller does not support the given upgrade type."),
    ],
)
def test_a_change_that_cannot_be_is_refused(harness: Harness, level: int, kind: int, reason: str) -> None:
    why = refusal(update(harness, ("group.version", level, kind)))
    assert why == f"Invalid update version {level} for feature group.version. {reason}"


def test_a_raise_is_not_called_lowering(harness: Harness) -> None:
    update(harness, ("group.version", 0, LOWER))
    why = refusal(update(harness, ("group.version", 1, LOWER)))
    assert why.endswith("Can't downgrade to a newer version.")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (LOWER, "Refusing to perform the requested downgrade because it might delete metadata information."),
        (LOWER_AT_ANY_PRICE, "Unsafe metadata downgrade is not supported in this version."),
    ],
)
def test_metadata_is_not_lowered_where_that_would_lose_something(harness: Harness, kind: int, reason: str) -> None:
    why = refusal(update(harness, ("metadata.version", 29, kind)))
    assert why == f"Unsupported metadata.version downgrade from 33 to 29. {reason}"


def test_the_version_of_raft_is_raised_for_good(harness: Harness) -> None:
    assert update(harness, ("kraft.version", 0, LOWER)).error_code == 0
    assert update(harness, ("kraft.version", 1, RAISE)).error_code == 0
    assert update(harness, ("kraft.version", 1, LOWER)).error_code == 0
    why = refusal(update(harness, ("kraft.version", 0, LOWER)))
    assert why == "Invalid update version 0 for feature kraft.version. Can't downgrade the version of this feature."


def test_version_0_only_raises_whatever_it_allows(harness: Harness) -> None:
    key = FeatureUpdateKey(feature="group.version", max_version_level=0, allow_downgrade=True)
    why = refusal(harness.ask(UpdateFeaturesRequest(feature_updates=[key]), 0))
    assert "Can't downgrade" in why


def test_a_disk_that_refuses_leaves_the_levels_as_they_were(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, os.strerror(28), "minibroker-cluster.json")

    monkeypatch.setattr(harness.core.metadata, "write", refuse)
    response = update(harness, ("group.version", 0, LOWER))
    assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (harness.core.features.level("group.version"), harness.core.features.epoch) == (1, 1)
