"""Dynamic configurations of brokers, groups and client metrics. Those of topics are stored with the topics.

The configurations are stored in the section `configs` of the cluster metadata:

    {"brokers": {"": {"log.retention.ms": "60000"}, "1": {}}, "groups": {}, "client_metrics": {}}

The broker with the empty name stands for all brokers.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from minibroker.cluster.cluster_metadata import ClusterFileError, ClusterMetadata
from minibroker.config import BrokerConfig, ConfigError
from minibroker.config.broker import RunTime
from minibroker.config.keys import ConfigResourceType
from minibroker.config.releases import is_before
from minibroker_protocol.lazy_imports import lazy
from minibroker_storage.data_directory.names import CLUSTER_FILE

with lazy:
    from minibroker.config import client_metrics
    from minibroker.config import group as config_group

if TYPE_CHECKING:
    from minibroker.config.group import GroupConfig

Texts = Mapping[str, str]
Section = Mapping[str, Mapping[str, Texts]]

ALL_BROKERS: Final = ""
_SECTION: Final = "configs"
_SECTION_KEYS: Final = {
    ConfigResourceType.BROKER: "brokers",
    ConfigResourceType.CLIENT_METRICS: "client_metrics",
    ConfigResourceType.GROUP: "groups",
}
MIN_ISR: Final = "min.insync.replicas"
_FIRST_WITH_ELR: Final = "4.1"
_NOTHING: Final[Texts] = {}
_logger = logging.getLogger(__name__)


class DynamicConfigs:
    """The dynamic configurations of one cluster.

    Nodes share their topics, so only the configuration for all brokers and that of the first node take effect.

    Attributes:
        broker: The effective configuration, always the same object.
        has_own_min_isr: Whether the controller sets min.insync.replicas for all brokers, as emulated releases with
            eligible leader replicas do in a new cluster (KIP-966).
        on_change: Called when the configuration of a resource has changed.

    Raises:
        ClusterFileError: The stored section is damaged. Settings that can be parsed but are no longer allowed do
            not cause an error; they are left out.
    """

    def __init__(
        self, given: BrokerConfig, metadata: ClusterMetadata, first_node: int, racks: Mapping[int, str]
    ) -> None:
        self._given = given
        self._metadata = metadata
        self._first = str(first_node)
        self._racks = racks
        self.broker = given.altered(RunTime(_NOTHING, _NOTHING))
        self.has_own_min_isr = given.release is not None and not is_before(given.release, _FIRST_WITH_ELR)
        self.on_change: Callable[[ConfigResourceType], None] = lambda _: None
        self._section: Section = {}
        self._read()
        metadata.replaced.subscribe(self._reload)

    def of(self, kind: ConfigResourceType, name: str) -> Texts:
        """Return the dynamic configuration of one resource. The mapping never changes and can be kept."""
        return self.all_of(kind).get(name, _NOTHING)

    def all_of(self, kind: ConfigResourceType) -> Mapping[str, Texts]:
        """Return the dynamic configurations of a kind of resource, by resource name."""
        resources = self._section.get(_SECTION_KEYS[kind], {})
        if kind is ConfigResourceType.BROKER and self.has_own_min_isr:
            cluster_texts = {MIN_ISR: str(self._given.integer(MIN_ISR)), **resources.get(ALL_BROKERS, _NOTHING)}
            return {**resources, ALL_BROKERS: cluster_texts}
        return resources

    def of_node(self, node_id: int) -> BrokerConfig:
        """Return the configuration that a node reports for itself."""
        name = str(node_id)
        node_texts = {"node.id": name, "broker.id": name}
        if node_id in self._racks:
            node_texts["broker.rack"] = self._racks[node_id]
        try:
            return self._given.altered(self._run_time(name), node_texts)
        except ConfigError:  # The error was already logged, so the dynamic changes are just ignored here.
            return self._given.altered(RunTime(_NOTHING, _NOTHING), node_texts)

    def with_broker(self, name: str, texts: Texts) -> BrokerConfig:
        """Return the configuration that a broker, or all brokers, would have with these dynamic settings.

        Raises:
            ConfigError: A value is invalid.
        """
        others = self.of(ConfigResourceType.BROKER, self._first)
        cluster = self.of(ConfigResourceType.BROKER, ALL_BROKERS)
        return self._given.altered(RunTime(texts, others) if name == ALL_BROKERS else RunTime(cluster, texts))

    def put_all(self, altered: Mapping[tuple[ConfigResourceType, str], Texts]) -> None:
        """Store the dynamic configurations of several resources together, and apply them.

        Raises:
            OSError: The file cannot be written. Nothing has changed.
        """
        section = {section_key: dict(resources) for section_key, resources in self._section.items()}
        for (kind, name), texts in altered.items():
            resources = section.setdefault(_SECTION_KEYS[kind], {})
            resources.pop(name, None)
            if texts:
                resources[name] = dict(texts)
        self._metadata.write(_SECTION, section)
        self._section = section
        kinds = {kind for kind, _ in altered}
        if ConfigResourceType.BROKER in kinds:
            self._apply()
        for kind in kinds:
            self.on_change(kind)

    def change_static(self, texts: Mapping[str, str | None]) -> None:
        """Change settings that Kafka reads only when it starts, until the process ends. None restores the default.

        Raises:
            ConfigError: A value is invalid. Nothing has changed.
        """
        given = {name: text for name, text in {**self._given.given, **texts}.items() if text is not None}
        self._given = BrokerConfig(given, self._given.unknown)
        self._apply()
        self.on_change(ConfigResourceType.BROKER)

    def group(self, group_id: str) -> "GroupConfig":
        """Return the effective configuration of a group. Callers must not keep it, since it can change at any time."""
        return config_group.GroupConfig(self.broker, self.of(ConfigResourceType.GROUP, group_id)).apply_limits()

    def _run_time(self, name: str) -> RunTime:
        brokers = self.all_of(ConfigResourceType.BROKER)
        return RunTime(brokers.get(ALL_BROKERS, _NOTHING), brokers.get(name, _NOTHING))

    def _apply(self) -> None:
        try:
            self.broker.adopt_values_of(self._given.altered(self._run_time(self._first)))
        # The start-up configuration may have been edited, so the stored changes may no longer fit it.
        except ConfigError as error:
            _logger.error("What was altered for brokers does not count: %s", error)  # noqa: TRY400 - no traceback
            self.broker.adopt_values_of(self._given.altered(RunTime(_NOTHING, _NOTHING)))

    def _read(self) -> None:
        self._section = read_section(self._metadata)
        self._apply()
        for kind, section_key in _SECTION_KEYS.items():
            if section_key in self._section and kind is not ConfigResourceType.BROKER:
                valid = {name: texts for name, texts in self.all_of(kind).items() if self._is_valid(kind, name, texts)}
                self._section = {**self._section, section_key: valid}

    def _is_valid(self, kind: ConfigResourceType, name: str, texts: Texts) -> bool:
        try:
            if kind is ConfigResourceType.GROUP:
                config_group.GroupConfig(self.broker, texts)
            else:
                client_metrics.ClientMetricsConfig(texts)
        except ConfigError as error:
            _logger.error("What was altered for %s does not count: %s", name, error)  # noqa: TRY400 - no traceback
            return False
        return True

    def _reload(self) -> None:
        self._read()
        for kind in _SECTION_KEYS:
            self.on_change(kind)


def read_section(metadata: ClusterMetadata) -> Section:
    """Return the stored dynamic configurations.

    Raises:
        ClusterFileError: They are damaged.
    """
    stored: Section | None = metadata.read(_SECTION)
    if stored is not None and not _is_section(stored):
        raise ClusterFileError(f"{CLUSTER_FILE}: the section {_SECTION} is damaged")
    return stored or {}


def _is_section(value: Any, depth: int = 3) -> bool:
    """Return whether a JSON value has the form of the section: strings by key, by resource, by kind."""
    if not depth:
        return isinstance(value, str)
    return isinstance(value, dict) and all(
        _is_section(child, depth - 1) for child in cast("dict[str, Any]", value).values()
    )
