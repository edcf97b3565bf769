"""UpdateFeatures (key 57): TODO."""

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
    """TODO."""

    feature: String
    max_version_level: Int16
    allow_downgrade: Annotated[Bool, versions("0")] = False
    upgrade_type: Annotated[Int8, since(1)] = 1


@message(versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    """TODO."""

    timeout_ms: Int32 = 60000
    feature_updates: Array[FeatureUpdateKey]
    validate_only: Annotated[Bool, since(1)] = False


@structure
class UpdatableFeatureResult:
    """TODO."""

    feature: String
    error_code: Int16
    error_message: NullableString


@message(versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
    results: Annotated[Array[UpdatableFeatureResult], versions("0-1")] = field(default_factory=empty)
