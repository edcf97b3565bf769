"""Feature levels of the cluster: supported and finalized (KIP-584, KIP-1022).

A feature has a name, a range of levels that this broker supports, and a finalized level, which the cluster uses. Level
0 means that the feature is off. Finalized levels are stored in the section "features" of the cluster metadata:

    {"epoch": 2, "levels": {"transaction.version": 1}}

The section only lists features whose level differs from that of a new cluster. The epoch counts the updates.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from minibroker.cluster.cluster_metadata import ClusterFileError, ClusterMetadata
from minibroker_storage.data_directory.names import CLUSTER_FILE

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"
_SECTION: Final = "features"
_FIRST_EPOCH: Final = 1


class Feature(NamedTuple):
    """The levels of one feature.

    Attributes:
        first: The lowest supported level.
        last: The highest supported level.
        fresh: The level in a new cluster.
    """

    first: int
    last: int
    fresh: int


FEATURES: Final[Mapping[str, Feature]] = {
    GROUP_VERSION: Feature(0, 1, 1),
    KRAFT_VERSION: Feature(0, 1, 0),  # Level 0 means a quorum with fixed voters, as with controller.quorum.voters.
    METADATA_VERSION: Feature(7, 33, 33),
    TRANSACTION_VERSION: Feature(0, 2, 2),
    ELIGIBLE_LEADER_REPLICAS_VERSION: Feature(0, 1, 1),
    SHARE_VERSION: Feature(0, 2, 2),
    STREAMS_VERSION: Feature(0, 1, 1),
}
"""The features of Kafka 4.4 (`Feature`, `MetadataVersion`)."""


class Features:
    """The finalized feature levels.

    Attributes:
        supported: The supported features.
        epoch: The number of updates so far.

    Raises:
        ClusterFileError: The stored section is damaged.
    """

    def __init__(self, metadata: ClusterMetadata, supported: Mapping[str, Feature] = FEATURES) -> None:
        self.supported = supported
        self.epoch = _FIRST_EPOCH
        self._metadata = metadata
        self._levels: dict[str, int] = {}
        self._read()
        metadata.replaced.subscribe(self._read)

    @property
    def finalized(self) -> Mapping[str, int]:
        """The enabled features with their levels."""
        return {name: level for name, level in self._levels.items() if level > 0}

    def level(self, name: str) -> int:
        """Return the level of a feature, or 0 if the feature is off or unknown."""
        return self._levels.get(name, 0)

    def finalize(self, levels: Mapping[str, int]) -> None:
        """Finalize several levels together. The caller must have validated them.

        Raises:
            OSError: The file cannot be written. Nothing has changed.
        """
        changed = {**self._levels, **levels}
        stored = {name: level for name, level in changed.items() if level != self.supported[name].fresh}
        self._metadata.write(_SECTION, {"epoch": self.epoch + 1, "levels": stored})
        self._levels = changed
        self.epoch += 1

    def raise_epoch(self, metadata: ClusterMetadata) -> None:
        """Give a later epoch to metadata that will replace the current metadata, if the levels differ.

        Clients ignore levels whose epoch is not later than the last epoch that they received.

        Raises:
            OSError: The file cannot be written.
        """
        stored: Any = metadata.read(_SECTION) or {"levels": {}}
        current: Any = self._metadata.read(_SECTION) or {"levels": {}}
        epoch = self.epoch + (stored["levels"] != current["levels"])
        if epoch > int(stored.get("epoch", _FIRST_EPOCH)):
            metadata.write(_SECTION, {**stored, "epoch": epoch})

    def _read(self) -> None:
        """Load the finalized levels from the metadata. An unsupported level is replaced by that of a new cluster."""
        stored: Any = self._metadata.read(_SECTION) or {}
        try:
            levels = {str(name): int(level) for name, level in stored.get("levels", {}).items()}
            self.epoch = max(self.epoch, int(stored.get("epoch", _FIRST_EPOCH)))
        except (AttributeError, TypeError, ValueError):
            raise ClusterFileError(f"{CLUSTER_FILE}: the section {_SECTION} is damaged") from None
        self._levels = {
            name: level
            if feature.first <= (level := levels.get(name, feature.fresh)) <= feature.last
            else feature.fresh
            for name, feature in self.supported.items()
        }
