"""The APIs and versions that each release of Apache Kafka advertises, for `--emulate`.

With `--emulate 2.0` the broker serves exactly what Kafka 2.0 serves, so clients behave as they would there. Brokers
before 0.10 do not support ApiVersions, and close the connection when they receive it.

Up to 3.2 an emulated release uses ZooKeeper, from 3.3 on KRaft, like most deployments. Tests compare the version
histories of the routes with `ApiKeys` of each release, and those of inter-broker requests in 0.8.2 with its
`RequestKeys`. The client metrics APIs (71 and 72) are listed while a subscription requests any metrics.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from minibroker.cluster import features
from minibroker.cluster.routing.routes import ROUTES
from minibroker.config.releases import RELEASES, is_before, release_name
from minibroker_protocol.api_keys import ApiKey

# fmt: off
_FEATURES: Final[Mapping[str, str]] = {
    features.METADATA_VERSION:
        "3.3: 1-7, 3.4: 1-8, 3.5: 1-11, 3.6: 1-14, 3.7: 1-19, 3.8: 1-20, 3.9: 1-21, 4.0: 7-25, 4.1: 7-27, 4.2: 7-29, "
        "4.3: 7-30, 4.4: 7-33",
    features.KRAFT_VERSION: "3.9: 0-1",
    features.TRANSACTION_VERSION: "4.0: 0-2",
    features.GROUP_VERSION: "4.0: 0-1",
    features.ELIGIBLE_LEADER_REPLICAS_VERSION: "4.0: 0-1",
    features.SHARE_VERSION: "4.1: 0-1, 4.4: 0-2",
    features.STREAMS_VERSION: "4.2: 0-1",
}
# fmt: on
_UNSTABLE_FEATURES: Final[Mapping[str, str]] = {
    features.METADATA_VERSION: "3.8: 1-21, 3.9: 1-23, 4.0: 7-26, 4.1: 7-29, 4.2: 7-30, 4.3: 7-31, 4.4: 7-34",
    features.TRANSACTION_VERSION: "3.9: 0-2",
    features.STREAMS_VERSION: "4.1: 0-1",
}
"""The levels with `unstable.feature.versions.enable`. They do not change the levels of new clusters."""
_FIRST_FRESH: Final = {features.ELIGIBLE_LEADER_REPLICAS_VERSION: "4.1", features.SHARE_VERSION: "4.2"}
"""Features that were initially off in new clusters, with the first release that turns them on."""
_FIRST_WITHOUT_OLD_PRODUCE: Final = "4.0"
"""From this release on Produce is listed from version 0, although not all versions are served.

Otherwise some clients would not start.
"""


_Name = TypeVar("_Name", int, str)
_ALL: Final = {int(route.key): (route.first, route.last) for route in ROUTES}


class ReleaseError(ValueError):
    """The error for a Kafka release that cannot be emulated. The message lists those that can."""


class Release(NamedTuple):
    """A minor release of Kafka.

    Attributes:
        name: The name in `RELEASES`.
        served: API key -> first and last version.
        features: The features that can be finalized. Empty for a release without KRaft.
    """

    name: str
    served: Mapping[int, tuple[int, int]]
    features: Mapping[str, features.Feature]


def release(text: str, *, unstable_features: bool = False) -> Release:
    """Return the release that a user names, such as "2.0", "2.0.1" or "v3.9.x".

    "0.10" stands for its last minor release.

    Raises:
        ReleaseError: The release is unknown.
    """
    name = release_name(text)
    if name is None:
        raise ReleaseError(f"emulate: {text!r} is not a known release of Kafka; known are {', '.join(RELEASES)}")
    index = RELEASES.index(name)
    served = _ranges_at({int(route.key): route.history for route in ROUTES}, index)
    levels = _ranges_at(_FEATURES, index)
    fresh_levels = {feature: _new_cluster_level(feature, last, index) for feature, (_, last) in levels.items()}
    if unstable_features:
        levels |= _ranges_at(_UNSTABLE_FEATURES, index)
    own_features = {feature: features.Feature(*span, fresh_levels.get(feature, 0)) for feature, span in levels.items()}
    return Release(name, served, own_features)


def advertised_versions(
    served: Mapping[int, tuple[int, int]], release: Release | None
) -> Mapping[int, tuple[int, int]]:
    """Return the versions that ApiVersions advertises. Only Produce differs from the served versions (KIP-896)."""
    if release is None or is_before(release.name, _FIRST_WITHOUT_OLD_PRODUCE):
        return served
    return {**served, ApiKey.PRODUCE: (0, served[ApiKey.PRODUCE][1])}


def unstable_versions(release: Release | None) -> Mapping[int, tuple[int, int]]:
    """Return the versions that a release serves with `unstable.api.versions.enable`, by API key.

    If `release` is None, these are the versions of the dispatch table and the unstable ones of the newest release.
    """
    index = RELEASES.index(RELEASES[-1] if release is None else release.name)
    result = dict(_ALL if release is None else release.served)
    for key, (_, unstable) in _ranges_at({int(route.key): route.unstable for route in ROUTES}, index).items():
        first, last = result.get(key, (0, 0))
        result[key] = first, max(last, unstable)
    return result


def _new_cluster_level(feature: str, last: int, release_index: int) -> int:
    """Return the level of a feature in a new cluster of a release."""
    begins_at_zero = feature in _FIRST_FRESH and release_index < RELEASES.index(_FIRST_FRESH[feature])
    return 0 if feature == features.KRAFT_VERSION or begins_at_zero else last


def _ranges_at(histories: Mapping[_Name, str], release_index: int) -> dict[_Name, tuple[int, int]]:
    """Return the range of each API or feature in one release. Those that the release lacks are left out."""
    ranges = ((name, _range_at(history, release_index)) for name, history in histories.items())
    return {name: span for name, span in ranges if span is not None}


def _range_at(history: str, release_index: int) -> tuple[int, int] | None:
    """Return the first and last version of an API in one release, according to the API's history, or None."""
    versions_range = None
    for entry in filter(None, history.split(", ")):
        since, _, versions = entry.partition(": ")
        if RELEASES.index(since) > release_index:
            break
        first, _, last = versions.partition("-")
        versions_range = (int(first), int(last or first)) if first else None
    return versions_range
