"""The services of a broker for its clients: coordinators, authorizer, quotas, credentials, telemetry."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Unpack

from minibroker.clock import Clock
from minibroker.cluster.core import Core, Environment
from minibroker.cluster.features import FEATURES
from minibroker.cluster.partition import Partition
from minibroker.cluster.topics import Topic
from minibroker.config import BrokerConfig
from minibroker.config.broker import RACK_AWARE_SELECTOR
from minibroker.config.keys import ConfigResourceType
from minibroker.config.releases import is_before
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS, INTERNAL_TOPICS, SHARE_GROUP_STATE, TRANSACTION_STATE
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.cluster import broker_loggers, releases, topic_admin
    from minibroker.coordinators import misplaced
    from minibroker.coordinators.groups import coordinator as groups_coordinator
    from minibroker.coordinators.share_partitions import manager as share_partitions_manager
    from minibroker.coordinators.share_state import coordinator as share_state_coordinator
    from minibroker.coordinators.transactions import coordinator as transactions_coordinator
    from minibroker.security import store
    from minibroker.security.authorization import authorizer
    from minibroker.server import quotas, schema_topic, telemetry

if TYPE_CHECKING:
    from minibroker.cluster.durability import Background

_COORDINATOR_OF: Final = {
    TRANSACTION_STATE: "transactions",
    CONSUMER_OFFSETS: "groups",
    SHARE_GROUP_STATE: "share_states",
}
"""The topics of coordinators, in the order of loading, with the attribute of `Services` for the coordinator."""
_COORDINATORS: Final = (*_COORDINATOR_OF.values(), "share_partitions")
"""The attributes of `Services` that are coordinators. Each is created by the first request for it."""
_logger = logging.getLogger(__name__)


class Services:
    """The services of one broker. Most of them are created on first use.

    Args:
        core: The core of the broker. It stays open if ConfigError is raised.
        release: The release of Kafka that the broker emulates.
        aside: Like `Core.background`, but for work that may never end. Stopping the broker does not wait for it.

    Attributes:
        core: The core of the broker.
        release: The emulated release of Kafka, or None to serve the APIs of all releases.
        served: The first and last served version by API key, or None to serve those of the dispatch table.
        authorizer: The authorizer, or None if every client may do everything.
        quotas: The quotas of clients, or None if there are none.
        recording: The recording of requests (`minibroker.server.inspection.recording`), or None while it is off.
        faults: The installed faults (`minibroker.server.faults.registry`), or None before the first one.
        chaos: The running chaos (`minibroker_chaos.engine`), or None.
        facts: What clients have done (`minibroker_chaos.check.facts`), or None if nothing keeps it.
        registry: The schema registry (`minibroker_registry.broker_log`), or None before its first use.
        registry_url: The schema registry's URL for programs on this machine, or None if there is none.
        chain_version: Counts the changes to `quotas`, `recording` and `faults`. Connections compose their
            interceptors again after a change.
        misspelt_topics: For each topic created by a client's request with a likely misspelling, the topic that was
            probably meant.
        is_detached: Whether the logs are in another process that cannot be reached (`remote.member`).
        copying: A lock that is held while a snapshot is created or restored.
        started_ms: The monotonic time of the start, in milliseconds.
        validated_records, prefers_racks, works_around_clients, fetch_max_bytes, max_elements: Settings used in hot
            paths, looked up once.

    Raises:
        ConfigError: The authorizer is not supported.
    """

    def __init__(
        self, core: Core, release: "releases.Release | None" = None, aside: "Background | None" = None
    ) -> None:
        self.core: Core = core
        config = core.config
        self._aside = core.background if aside is None else aside
        self.release = release
        self.served: Mapping[int, tuple[int, int]] | None = None if release is None else release.served
        if config.boolean("unstable.api.versions.enable"):
            self.served = releases.unstable_versions(release)
        self.authorizer: authorizer.Authorizer | None = None
        if config.text("authorizer.class.name"):
            self.authorizer = authorizer.create_authorizer(config, core.metadata)
        self.quotas: quotas.Quotas | None = None
        self.recording: Any = None
        self.faults: Any = None
        self.chaos: Any = None
        self.facts: Any = None
        self.registry: Any = None
        self.registry_url: str | None = None
        self.chain_version = 0
        self.misspelt_topics: dict[str, str] = {}
        self.is_detached = False
        self.copying = asyncio.Lock()
        self.started_ms = core.clock.monotonic_ms()
        self.validated_records = config.integer("minibroker.validate.records.max")
        self.prefers_racks = config.optional_text("replica.selector.class") == RACK_AWARE_SELECTOR
        self.works_around_clients = config.boolean("minibroker.client.workarounds.enable")
        self.fetch_max_bytes = config.integer("fetch.max.bytes")
        self.max_elements = config.integer("minibroker.request.elements.max")
        self._forgotten_groups: set[str] = set()  # The consumer groups whose members must join again.
        self._closed = False
        self._has_moved_misplaced = False
        core.metadata.replaced.subscribe(self._load_quotas)
        self._load_quotas()
        core.hooks.config_changed.subscribe(self._on_config_change)
        core.hooks.leader_moved.subscribe(self._on_leader_moved)
        core.hooks.topics_deleted.subscribe(self._on_topics_deleted)
        core.call_soon(self.resume_coordinators)

    def is_before(self, release: str) -> bool:
        """Return whether the broker emulates an earlier release than this one of `RELEASES`."""
        return self.release is not None and is_before(self.release.name, release)

    @property
    def checks_messages(self) -> bool:
        """Whether authorization or quotas inspect whole messages, so that requests cannot take the plain fast path."""
        return self.authorizer is not None or self.quotas is not None

    @property
    def is_loading_groups(self) -> bool:
        """Whether groups from `__consumer_offsets` may still be loading."""
        groups = self.made_groups
        return groups is not None and groups.store.is_loading

    def forget_visits(self) -> None:
        """Forget everything that clients have set: their telemetry and logger levels."""
        if "telemetry" in self.__dict__:
            self.telemetry.forget()
        self._restore_loggers()

    def _restore_loggers(self) -> None:
        if "loggers" in self.__dict__:
            self.loggers.restore()

    def forget_coordinators(self) -> None:
        """Forget all groups and transactions. Clients that wait in a group have to find its coordinator again."""
        if self.made_groups is not None:
            self.groups.forget_all()
        self.close_coordinators()
        for name in _COORDINATORS:
            self.__dict__.pop(name, None)

    def close_coordinators(self) -> None:
        """Stop all timers of groups and transactions, and all loading."""
        for name in _COORDINATORS:
            if name in self.__dict__:
                self.__dict__[name].close()

    def resume_coordinators(self) -> None:
        """Load the coordinators' state from earlier runs, so that members expire and transactions time out."""
        if self._closed:
            return
        for topic, name in _COORDINATOR_OF.items():
            if self.core.topics.get(topic) is not None:
                getattr(self, name).store.load_all()

    def create_topic(self, name: str) -> Topic:
        """Create a topic with the broker's defaults, or with the settings of a coordinator's own topic.

        Raises:
            TopicError: The topic cannot be created.
        """
        coordinator = _COORDINATOR_OF.get(name)
        if coordinator is not None:
            topic: Topic = getattr(self, coordinator).store.log.ensure()
            return topic
        return topic_admin.create_topics(self.core, [topic_admin.plan_topic(self.core, name)])[0]

    @cached_property
    def quota_table(self) -> "quotas.QuotaTable":
        """All quotas, loaded on startup if any are stored, otherwise on first use."""
        table = quotas.QuotaTable(self.core.metadata, lambda: self._update_quotas(table))
        self._update_quotas(table)
        return table

    @cached_property
    def host_names(self) -> "quotas.HostNames":
        """The resolver for host names in quotas and limits, created on first use."""
        return quotas.HostNames(self.core.clock, self._aside)

    def _move_misplaced(self) -> None:
        """Repair a data directory of minibroker 1.0 before the first coordinator reads it."""
        if self._has_moved_misplaced:
            return
        self._has_moved_misplaced = True
        if any(self.core.topics.get(name) is not None for name in INTERNAL_TOPICS):
            misplaced.move_misplaced(self.core)
        # Subscribe only after the move, because the markers that it writes must not create a coordinator yet.
        self.core.hooks.marker_written.subscribe(self._on_marker_written)

    @cached_property
    def groups(self) -> "groups_coordinator.GroupCoordinator":
        """The group coordinator, with committed offsets, created on first use."""
        self._move_misplaced()
        return groups_coordinator.GroupCoordinator(
            self.core, self.authorizer, lambda: self.share_states, self._forgotten_groups, self.is_before
        )

    @property
    def made_groups(self) -> "groups_coordinator.GroupCoordinator | None":
        """The group coordinator, or None before its first use."""
        return self.__dict__.get("groups")

    @property
    def made_share_partitions(self) -> "share_partitions_manager.SharePartitions | None":
        """The share-partitions in use, or None before their first use."""
        return self.__dict__.get("share_partitions")

    @cached_property
    def transactions(self) -> "transactions_coordinator.TransactionCoordinator":
        """The transaction coordinator, created on first use."""
        self._move_misplaced()
        return transactions_coordinator.TransactionCoordinator(self.core)

    @cached_property
    def share_states(self) -> "share_state_coordinator.ShareCoordinator":
        """The share coordinator, with the states of share-partitions, created on first use."""
        self._move_misplaced()
        return share_state_coordinator.ShareCoordinator(self.core)

    @cached_property
    def share_partitions(self) -> "share_partitions_manager.SharePartitions":
        """The share-partitions in use, and share sessions, created on first use."""
        return share_partitions_manager.SharePartitions(self.core, self.share_states)

    @cached_property
    def loggers(self) -> "broker_loggers.BrokerLoggers":
        """The loggers that clients can configure, created on first use."""
        return broker_loggers.BrokerLoggers()

    @cached_property
    def telemetry(self) -> "telemetry.Telemetry":
        """The metrics that clients push, created on first use."""
        return telemetry.Telemetry(self.core)

    @cached_property
    def schemas(self) -> "schema_topic.Schemas":
        """The schemas in the topic `_schemas`, created on first use."""
        return schema_topic.Schemas(self.core)

    @cached_property
    def security(self) -> "store.SecurityStore":
        """Credentials and delegation tokens, created on first use."""
        return store.SecurityStore(self.core)

    def close(self, *, keep: bool = True) -> None:
        """Close the services, then the core, see `Core.close_logs`."""
        self.stop()
        self.core.close(keep=keep)

    def stop(self) -> None:
        """Stop all work for clients, but leave `core` open."""
        self._closed = True
        self.core.slices.stop()
        self._restore_loggers()
        self.close_coordinators()

    def _load_quotas(self) -> None:
        if self.core.metadata.read("quotas"):
            _ = self.quota_table

    def _update_quotas(self, table: "quotas.QuotaTable") -> None:
        """Enforce quotas while there are any."""
        self.chain_version += 1
        if not len(table):
            self.quotas = None
        elif self.quotas is None:
            self.quotas = quotas.Quotas(self.core, table, lambda: self.host_names)

    def _on_config_change(self, kind: ConfigResourceType) -> None:
        if kind is ConfigResourceType.CLIENT_METRICS and "telemetry" in self.__dict__:
            self.telemetry.resubscribe()

    def _on_leader_moved(self, partition: Partition) -> None:
        """Update coordinators and share-partitions after another node became the leader of a partition."""
        if self.made_share_partitions is not None:
            self.share_partitions.leader_moved(partition)
        name = _COORDINATOR_OF.get(partition.topic.name)
        if name in self.__dict__:
            self.__dict__[name].store.leader_moved(partition.index)

    def _on_marker_written(self, partition: tuple[str, int], producer_id: int, commit: bool) -> None:  # noqa: FBT001 - the hook's arguments
        self.transactions.verifier.forget(partition, producer_id)
        topic, index = partition
        if topic == CONSUMER_OFFSETS:
            self.groups.store.complete_transaction(index, producer_id, commit=commit)

    def _on_topics_deleted(self, names: Collection[str]) -> None:
        """Forget the committed offsets of deleted topics. As in Kafka, nothing waits for this, and it can take long."""
        if CONSUMER_OFFSETS in names or self.core.topics.get(CONSUMER_OFFSETS) is not None:
            self.core.slices.run(self.groups.store.forget_deleted_topics(names), lambda _: None, _log_failure)
        if self.made_share_partitions is not None:
            self.share_partitions.forget_deleted_topics()
        if self.core.topics.get(SHARE_GROUP_STATE) is not None:
            self.share_states.forget_deleted_topics()
        for node in self.core.cluster.nodes.values():
            node.fetch_sessions.forget_deleted_topics()


def open_services(
    config: BrokerConfig,
    data_dir: str,
    clock: Clock,
    *,
    aside: "Background | None" = None,
    **given: Unpack[Environment],
) -> Services:
    """Open a core and return its services.

    Raises:
        ReleaseError: `minibroker.emulate` names an unknown release.
        ConfigError: The authorizer is not supported.
        Exception: The data directory cannot be opened.
    """
    name, release = config.optional_text("minibroker.emulate"), None
    if name:
        release = releases.release(name, unstable_features=config.boolean("unstable.feature.versions.enable"))
    features = FEATURES if release is None else release.features
    core = Core(config, data_dir, clock, features=features, **given)
    try:
        return Services(core, release, aside)
    except BaseException:
        core.close()
        raise


def _log_failure(error: Exception) -> None:
    _logger.error("The offsets for deleted topics are not forgotten", exc_info=error)
