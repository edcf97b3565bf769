"""The core of a broker: its configuration, clock, data directory, cluster, topics and logs.

`services.Services` holds it as `core` and adds everything that serves clients. Layers below `services` only use the
core.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NotRequired, TypedDict, Unpack

from minibroker.clock import Clock
from minibroker.cluster.advice import AdviceLog
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.cluster_metadata import ClusterMetadata
from minibroker.cluster.data_dir import DataDir
from minibroker.cluster.durability import Durability
from minibroker.cluster.dynamic_configs import DynamicConfigs
from minibroker.cluster.features import FEATURES, Feature, Features
from minibroker.cluster.hooks import Hooks
from minibroker.cluster.listeners import advertised_addresses
from minibroker.cluster.logs.chores import Chores
from minibroker.cluster.logs.log_manager import LogManager
from minibroker.cluster.logs.write_group import WriteGroup
from minibroker.cluster.node import Node, NodesFile
from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.slices import Slices, Steps, drain
from minibroker.cluster.topics import ProducerIds, Topics
from minibroker.config import BrokerConfig
from minibroker.config.keys import ConfigResourceType
from minibroker_storage.files import FilePool

if TYPE_CHECKING:
    from minibroker.cluster.durability import Background
    from minibroker.cluster.logs.log_cleaner import RunCleaning

_logger = logging.getLogger(__name__)


class Environment(TypedDict):
    """The environment of a core; see `Core` for each field."""

    call_soon: Callable[[Callable[[], None]], object]
    background: "Background"
    run_cleaning: "RunCleaning"
    max_open_files: int
    brokers: NotRequired[int]
    racks: NotRequired[Sequence[str]]


class Core:
    """The state at the base of a broker. `Services` adds coordinators, quotas and everything else built on it.

    Args:
        config: The configuration at the start.
        data_dir: The path of the data directory.
        clock: The broker's clock.
        features: The features that can be finalized.
        **given: The environment: `run_cleaning` cleans a log off the event loop, `brokers` is the number of nodes, and
            `racks` has the rack of each node. An empty rack, or no racks at all, stands for `broker.rack`.

    Attributes:
        config: The effective configuration; `configs` holds the dynamic changes.
        call_soon: Runs a callback once the current wake-up of the event loop has ended.
        background: Runs slow work, such as removing files, on a thread, then a callback on the event loop.
        hooks: The events that upper layers subscribe to.
        cluster: The nodes and the partition leaders.
        files: The open files of the logs.
        chores: Background work, in slices.
        durability: Holds responses until the metadata in them is on disk.
        metadata: Dynamic changes that survive a restart.
        features: The finalized feature levels.
        logs: Opens, closes, flushes, cleans and checkpoints the logs.
        writes: Appends that are written together.
        slices: Runs the work of large requests in slices, serving other requests in between.
        advice: The advice given so far (`minibroker.support.advice`).
    """

    def __init__(
        self,
        config: BrokerConfig,
        data_dir: str,
        clock: Clock,
        *,
        features: Mapping[str, Feature] = FEATURES,
        **given: Unpack[Environment],
    ) -> None:
        call_soon, background = given["call_soon"], given["background"]
        self.config = config
        self.clock = clock
        self.call_soon = call_soon
        self.background = background
        self.hooks = Hooks()
        self._data_dir = DataDir(data_dir, config.integer("node.id"), config.optional_text("minibroker.cluster.id"))
        try:
            self.cluster = Cluster(
                self._data_dir.node_id,
                given.get("brokers", 1),
                config,
                cluster_id=self._data_dir.cluster_id,
                racks=given.get("racks", ()),
                is_kraft=bool(features),
            )
            self.files = FilePool(given["max_open_files"])
            self.chores = Chores(clock, call_soon)
            self.durability = Durability(call_soon, background, is_needed=not self._data_dir.is_temporary)
            self.metadata = ClusterMetadata(data_dir, self.durability)
            self.configs = DynamicConfigs(config, self.metadata, self._data_dir.node_id, self.cluster.racks)
            config = self.config = self.configs.broker
            self.features = Features(self.metadata, features)
            self.logs = LogManager(
                config,
                self._data_dir,
                self.files,
                clock,
                self.chores,
                call_soon=call_soon,
                background=background,
                run_cleaning=given["run_cleaning"],
            )
            nodes_file = self.cluster.nodes_file = NodesFile(data_dir)
            for node_id, rack in nodes_file.racks.items():
                self.cluster.add_node(node_id, rack).is_up = True
            self.topics = self.cluster.topics = Topics(data_dir, config, self.logs, self.cluster, self.durability)
            self.logs.on_cleaned, self.logs.on_shortened = self.hooks.log_cleaned, self.hooks.log_shortened
            self.logs.start(self.topics)
            # A member's copy keeps the leaders with their epochs. Clients that have seen later ones would ignore what
            # the holder says once it is back.
            if nodes_file.holder_id == nodes_file.node_id:
                for node_id in nodes_file.racks:
                    self.cluster.stop_node(node_id)
        except BaseException:
            self._data_dir.release()
            raise
        self.configs.on_change = self._on_config_change
        self.cluster.on_leader_moved = self._on_leader_moved
        self.producer_ids = ProducerIds(self.topics)
        self.writes = WriteGroup(call_soon)
        self.slices = Slices(call_soon, self.writes.commit)
        self.advice = AdviceLog(clock)

    def _on_config_change(self, kind: ConfigResourceType) -> None:
        """Apply a changed configuration."""
        if kind is ConfigResourceType.BROKER:
            self.topics.reconfigure()
            self.logs.apply_broker_config()
            for node in self.cluster.nodes.values():
                advertise(self, node)
                if node.listener is not None:
                    node.listener.reconfigure()
        self.hooks.config_changed(kind)

    def _on_leader_moved(self, partition: Partition) -> None:
        """Notify every waiter of a partition whose leader changed."""
        if partition.opened_log is not None:
            partition.opened_log.call_listeners()
        self.hooks.leader_moved(partition)

    def close(self, *, keep: bool = True) -> None:
        """Run all steps of `close_logs` in one go."""
        drain(self.close_logs(keep=keep))

    def close_logs(self, *, keep: bool = True) -> Steps[None]:
        """Write staged appends and close all logs. `keep` is passed to `LogManager.close`."""
        self.slices.stop()
        self.writes.commit()
        if keep:
            self.durability.sync()
        try:
            self.logs.close(keep=keep)
            if keep:
                yield from self.logs.create_missing_directories()
        except OSError as error:
            _logger.error("%s", error)  # noqa: TRY400 - a disk error needs no traceback
        finally:
            self._data_dir.release()


def advertise(core: Core, node: Node) -> None:
    """Make a node advertise the addresses to which `advertised.listeners` was changed at run time."""
    altered = core.configs.of(ConfigResourceType.BROKER, str(node.id)).get("advertised.listeners", "")
    node.advertise(advertised_addresses({"advertised.listeners": altered}))
