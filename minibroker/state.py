"""What the handlers of one broker share: its configuration, its clock and all that outlives a request."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from minibroker.advice import Advised
from minibroker.clock import Clock
from minibroker.config import BrokerConfig
from minibroker.config.resources import ConfigResourceType
from minibroker.data_dir import DataDir
from minibroker.dynamic_config.configs import DynamicConfigs
from minibroker.logs.chores import Chores
from minibroker.logs.log_manager import LogManager
from minibroker.logs.write_group import WriteGroup
from minibroker.metadata.cluster import Cluster
from minibroker.metadata.cluster_metadata import ClusterMetadata
from minibroker.metadata.durability import Durability
from minibroker.metadata.features import FEATURES, Features
from minibroker.metadata.partition import Partition
from minibroker.metadata.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, Topics
from minibroker.producer_ids import ProducerIds
from minibroker.slices import Slices
from minibroker_storage.files import FilePool

if TYPE_CHECKING:
    from minibroker.background import Background
    from minibroker.dynamic_config.loggers import BrokerLoggers
    from minibroker.faults.registry import FaultRegistry
    from minibroker.groups.coordinator import GroupCoordinator
    from minibroker.inspection.journal import Journal
    from minibroker.logs.flusher import Flusher
    from minibroker.logs.log_cleaner import RunCleaning
    from minibroker.quotas.entities import QuotaTable
    from minibroker.quotas.host_names import HostNames
    from minibroker.quotas.manager import Quotas
    from minibroker.releases import Release
    from minibroker.security.authorization.authorizer import Authorizer
    from minibroker.security.store import SecurityStore
    from minibroker.taps import Taps
    from minibroker.telemetry.clients import Telemetry
    from minibroker.transactions.coordinator import TransactionCoordinator


class BrokerState:
    """The state of one broker.

    Attributes:
        call_soon: runs a callback once the current wake-up of the event loop is done.
        background: runs slow work (removing files) aside from the event loop, then a callback on it.
        host_names: looks up hosts that are named.
        durability: holds answers until the metadata that they tell of is on disk.
        chores: what is done in the background, in slices.
        logs: what happens to the logs beside requests.
        cluster_id, node_id: as the data directory says; `node_id` is that of the first node.
        cluster: the nodes, and who leads what.
        slices: does the work of large requests, so that others are served in between.
        metadata: what was altered at run time, and outlives the run.
        features: the feature levels in force.
        started_ms: when that was, on the clock's monotonic time.
        configs: what was altered of configurations; `config` is what counts now.
    """

    def __init__(
        self,
        config: BrokerConfig,
        data_dir: str,
        clock: Clock,
        *,
        call_soon: Callable[[Callable[[], None]], object],
        background: "Background",
        run_cleaning: "RunCleaning",
        max_open_files: int,
        brokers: int = 1,
    ) -> None:
        #: The release of Kafka that it is taken for; None for one that serves whatever there ever was.
        self.release = release = _emulated(config.optional_text("minibroker.emulate"))
        self.config = config
        self.clock = clock
        self.call_soon = call_soon
        self.started_ms = clock.monotonic_ms()
        self.background = background
        #: As `background`, for work that may never end: nothing waits for it when the broker stops.
        self.aside = background
        self._data_dir = DataDir(data_dir, config.integer("node.id"), config.optional_text("minibroker.cluster.id"))
        self.cluster_id = self._data_dir.cluster_id
        self.node_id = self._data_dir.node_id
        self.cluster = Cluster(self.node_id, brokers, config)
        self.files = FilePool(max_open_files)
        self.chores = Chores(clock, call_soon)
        self.durability = Durability(call_soon, background, is_needed=not self._data_dir.is_temporary)
        try:
            self.metadata = ClusterMetadata(data_dir, self.durability)
            self.configs = DynamicConfigs(config, self.metadata, self.node_id)
            config = self.config = self.configs.broker
            self.features = Features(self.metadata, FEATURES if release is None else release.features)
            #: Who may do what; None where everybody may do everything.
            self.authorizer = _authorizer(config, self.metadata)
            self.logs = LogManager(
                config,
                self._data_dir,
                self.files,
                clock,
                self.chores,
                call_soon=call_soon,
                background=background,
                run_cleaning=run_cleaning,
            )
            self.topics = self.cluster.topics = Topics(data_dir, config, self.logs, self.cluster, self.durability)
            self.logs.start(self.topics)
            self.configs.on_change = self._on_config_change
        except BaseException:
            self._data_dir.release()
            raise
        self.cluster.on_leader_moved = self._on_leader_moved
        self.producer_ids = ProducerIds(self.topics)
        self.writes = WriteGroup()
        self.slices = Slices(call_soon, self.writes.commit)
        #: What looks into requests: the journal and the faults (`minibroker.taps`); None without them.
        self.taps: Taps | None = None
        # What the hot paths ask for is looked up once.
        self.validated_records = config.integer("minibroker.validate.records.max")
        self.fetch_max_bytes = config.integer("fetch.max.bytes")
        #: Holds clients against their quotas; None while there are none.
        self.quotas: Quotas | None = None
        self.metadata.subscribe("quotas", self._look_for_quotas)
        self._look_for_quotas()
        #: API key -> its first and last version, where a broker serves less than the dispatch table has.
        self.served: Mapping[int, tuple[int, int]] | None = None if release is None else release.served
        #: Groups of the consumer protocol that were forgotten on purpose; their members have to join anew.
        self.forgotten_groups: set[str] = set()
        #: What was said to help (`minibroker.advice`).
        self.advised = Advised(clock)
        #: Topics that were created because a client has asked for them, with the topic that was probably meant.
        self.misspelt_topics: dict[str, str] = {}
        self._closed = False
        call_soon(self.resume_coordinators)

    def forget_visits(self) -> None:
        """No client has sent anything of itself, or set the level of a logger."""
        # Cached properties: there once someone has asked for them.
        if "telemetry" in self.__dict__:
            self.telemetry.forget()
        if "loggers" in self.__dict__:
            self.loggers.restore()

    def forget_coordinators(self) -> None:
        """All groups and transactions are gone. Whoever waits in a group has to ask again who coordinates it."""
        # Cached properties: there once someone has asked for them.
        groups: GroupCoordinator | None = self.__dict__.pop("groups", None)
        transactions: TransactionCoordinator | None = self.__dict__.pop("transactions", None)
        if groups is not None:
            groups.forget_all()
        if transactions is not None:
            transactions.close()

    def resume_coordinators(self) -> None:
        """Have the coordinators load what earlier runs have left: members have to expire, transactions to end."""
        if self._closed:
            return
        if self.topics.get(TRANSACTION_STATE) is not None:
            self.transactions.load_all()
        if self.topics.get(CONSUMER_OFFSETS) is not None:
            self.groups.load_all()

    def _on_config_change(self, kind: ConfigResourceType) -> None:
        """Act on what was altered."""
        if kind is ConfigResourceType.BROKER:
            self.topics.reconfigure()
            self.logs.broker_reconfigured()
            for node in self.cluster.nodes.values():
                if node.listener is not None:
                    node.listener.reconfigure()
        elif kind is ConfigResourceType.CLIENT_METRICS and "telemetry" in self.__dict__:  # a cached property
            self.telemetry.resubscribe()

    def _on_leader_moved(self, partition: Partition) -> None:
        """Have those look again who wait for a partition, or have another node coordinate what is in it."""
        if partition.opened_log is not None:
            partition.opened_log.call_listeners()
        # Cached properties: there once someone has asked for them.
        if partition.topic.name == CONSUMER_OFFSETS and "groups" in self.__dict__:
            self.groups.leader_moved(partition.index)
        elif partition.topic.name == TRANSACTION_STATE and "transactions" in self.__dict__:
            self.transactions.leader_moved(partition.index)

    def _look_for_quotas(self) -> None:
        if self.metadata.read("quotas"):
            _ = self.quota_table

    @cached_property
    def quota_table(self) -> "QuotaTable":
        """All quotas; read when there are any, or the first request asks for them."""
        from minibroker.quotas.manager import attach  # noqa: PLC0415 - most brokers have none

        return attach(self)

    @cached_property
    def host_names(self) -> "HostNames":
        """Looks up the hosts that quotas and limits name; made when there is one."""
        from minibroker.quotas.host_names import HostNames  # noqa: PLC0415 - most brokers have none

        return HostNames(self.clock, self.aside)

    @cached_property
    def groups(self) -> "GroupCoordinator":
        """Consumer groups and committed offsets; made when the first request asks for them."""
        from minibroker.groups.coordinator import GroupCoordinator  # noqa: PLC0415 - a start needs none

        return GroupCoordinator(self)

    @cached_property
    def transactions(self) -> "TransactionCoordinator":
        """Transactional ids and their transactions; made when the first request asks for them."""
        from minibroker.transactions.coordinator import TransactionCoordinator  # noqa: PLC0415 - a start needs none

        return TransactionCoordinator(self)

    @cached_property
    def loggers(self) -> "BrokerLoggers":
        """The loggers as clients see them; made when the first request asks for them."""
        from minibroker.dynamic_config.loggers import BrokerLoggers  # noqa: PLC0415 - a start needs none

        return BrokerLoggers()

    @cached_property
    def telemetry(self) -> "Telemetry":
        """What clients measure of themselves; made when the first request asks for it."""
        from minibroker.telemetry.clients import Telemetry  # noqa: PLC0415 - a start needs none

        return Telemetry(self)

    @cached_property
    def security(self) -> "SecurityStore":
        """Credentials and delegation tokens; made when someone asks for them."""
        from minibroker.security.store import SecurityStore  # noqa: PLC0415 - most brokers let everybody in

        return SecurityStore(self)

    @property
    def journal(self) -> "Journal | None":
        """The journal of requests, while one is kept."""
        return self.taps.journal if self.taps is not None else None

    @property
    def faults(self) -> "FaultRegistry | None":
        """The faults that are installed, if any are."""
        return self.taps.faults if self.taps is not None else None

    @property
    def flusher(self) -> "Flusher":
        """Forces logs to disk for those who wait for it."""
        return self.logs.flusher

    def close(self, *, keep: bool = True) -> None:
        """Close all logs; `keep` says whether the data directory will be used again. See `LogManager.close`."""
        self._closed = True
        self.slices.stop()
        if "loggers" in self.__dict__:
            self.loggers.restore()
        for coordinator in ("groups", "transactions"):
            if coordinator in self.__dict__:  # a cached property: there once someone has asked for it
                getattr(self, coordinator).close()
        self.writes.commit()
        if keep:
            self.durability.sync()
        self.logs.close(keep=keep)
        self._data_dir.release()


def _emulated(text: str | None) -> "Release | None":
    """The release that the configuration names. ReleaseError."""
    if not text:
        return None
    from minibroker.releases import release  # noqa: PLC0415 - most brokers are none of them

    return release(text)


def _authorizer(config: BrokerConfig, metadata: ClusterMetadata) -> "Authorizer | None":
    """What the configuration wants to decide who may do what. ConfigError."""
    if not config.text("authorizer.class.name"):
        return None
    from minibroker.security.authorization.authorizer import authorizer_of  # noqa: PLC0415 - most brokers let everybody do everything

    return authorizer_of(config, metadata)
