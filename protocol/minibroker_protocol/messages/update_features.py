"""UpdateFeatures (key 57): raise or lower feature levels of the cluster (KIP-584, KIP-778, KIP-1022)."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    NullableString,
    String,
    empty,
    message,
    since,
    structure,
    versions,
)


@structure
class FeatureUpdateKey:
    """A feature and the level that it shall have; 0 turns it off.

    `upgrade_type` is 1 for a raise, 2 for lowering without loss and 3 for lowering at any price; before version 1
    `allow_downgrade` stands for 2.
    """

    feature: String
    max_version_level: Int16
    allow_downgrade: Annotated[Bool, versions("0")] = False
    upgrade_type: Annotated[Int8, since(1)] = 1


@message(versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    """The changes; `validate_only` asks whether they could be made."""

    timeout_ms: Int32 = 60000
    feature_updates: Array[FeatureUpdateKey]
    validate_only: Annotated[Bool, since(1)] = False


@structure
class UpdatableFeatureResult:
    """The outcome for one feature."""

    feature: String
    error_code: Int16
    error_message: NullableString


@message(versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    """Whether all has been changed; from version 2 on nothing is said of each feature, since it is all or nothing."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
    results: Annotated[Array[UpdatableFeatureResult], versions("0-1")] = field(default_factory=empty)
