"""UpdateFeatures: raise or lower feature levels (KIP-584, KIP-778, KIP-1022).

Versions 0-2. All or nothing, as in Kafka 4: a feature that cannot be changed refuses them all with
INVALID_UPDATE_VERSION. The rules are those of `FeatureControlManager`. The level of metadata.version cannot be lowered
beneath one that has changed what metadata looks like, and that of kraft.version not at all.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from minibroker.cluster.features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    Features,
)
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.coordinators.java_order import hash_order, string_hash
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.cluster import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_LAST_WITH_RESULTS: Final = 1
_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2
_UNSAFE_DOWNGRADE: Final = 3
_CHANGED_METADATA: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33})
"""Levels of metadata.version with records that the level before does not have (`MetadataVersion.didMetadataChange`)."""
_METADATA_FOR_ELR: Final = 23
_MAX_HASHED: Final = 100_000
"""Characters."""


class _RefusedError(ValueError):
    """Why a feature cannot have a level."""


NEEDS: Final = on_cluster(Operation.ALTER)


def handle(request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse | DelayedResponse:
    """Check all changes, then make them."""
    features = call.core.features
    controller = f"Local controller {call.node.id}"
    levels: dict[str, int] = {}
    try:
        wished = {update.feature: update.max_version_level for update in request.feature_updates}
        for update in _in_order(request.feature_updates):
            levels[update.feature] = _level(update, features, controller)
            if update.feature == ELIGIBLE_LEADER_REPLICAS_VERSION:
                _check_dependencies(wished, features)
    except _RefusedError as error:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_UPDATE_VERSION,
            error_message=f"The update failed for all features since the following feature had an error: {error}",
        )
    changed = {name: level for name, level in levels.items() if level != features.level(name)}
    if changed and not request.validate_only:
        try:
            features.finalize(changed)
        except OSError as error:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message=f"{error.filename}: {error.strerror}"
            )
    results = (
        [
            UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.NONE, error_message=None)
            for update in request.feature_updates
        ]
        if call.api_version <= _LAST_WITH_RESULTS
        else []
    )
    return hold(UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results), request, call)


def _in_order(updates: Sequence[FeatureUpdateKey]) -> Sequence[FeatureUpdateKey]:
    """Return updates in the order of Kafka's HashMap, which decides whose error the response has."""
    # To hash megabytes of names takes long, and no feature has a long name.
    if sum(len(update.feature) for update in updates) > _MAX_HASHED:
        return updates
    return hash_order(updates, lambda update: string_hash(update.feature))


def _level(update: FeatureUpdateKey, features: Features, controller: str) -> int:
    """The level that a feature shall have."""
    name, requested = update.feature, update.max_version_level
    current = features.level(name)
    kind = update.upgrade_type  # in version 0 always a raise: Kafka does not look at `allow_downgrade` any more
    supported = features.supported.get(name)
    if kind not in {_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE}:
        raise _refused(name, requested, "The controller does not support the given upgrade type.")
    if requested < 0:
        raise _refused(name, requested, "A feature version cannot be less than 0.")
    if supported is None and requested > 0:
        raise _refused(name, requested, f"{controller} does not support this feature.")
    if supported is not None and not supported.first <= requested <= supported.last:
        raise _refused(name, requested, f"{controller} only supports versions {supported.first}-{supported.last}")
    if requested < current and kind == _UPGRADE:
        raise _refused(
            name,
            requested,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        )
    if requested > current and kind != _UPGRADE:
        raise _refused(name, requested, "Can't downgrade to a newer version.")
    if name == KRAFT_VERSION and requested < current:
        raise _refused(name, requested, "Can't downgrade the version of this feature.")
    if name == METADATA_VERSION and any(requested < level <= current for level in _CHANGED_METADATA):
        reason = (
            "Unsafe metadata downgrade is not supported in this version."
            if kind == _UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        raise _RefusedError(f"Unsupported metadata.version downgrade from {current} to {requested}. {reason}")
    return requested


def _check_dependencies(levels: Mapping[str, int], features: Features) -> None:
    """Eligible leader replicas need records that metadata has from a certain level on."""
    level = levels.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0)
    if level and levels.get(METADATA_VERSION, features.level(METADATA_VERSION)) < _METADATA_FOR_ELR:
        raise _refused(
            ELIGIBLE_LEADER_REPLICAS_VERSION,
            level,
            f"{ELIGIBLE_LEADER_REPLICAS_VERSION} could not be set to {level} because it depends on metadata.version "
            f"level {_METADATA_FOR_ELR}",
        )


def _refused(name: str, level: int, reason: str) -> _RefusedError:
    return _RefusedError(f"Invalid update version {level} for feature {name}. {reason}")
