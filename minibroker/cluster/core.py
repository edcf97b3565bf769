"""Core: the state without which no broker runs. Configuration, clock, data directory, cluster, topics and their logs.

`services.Services` has it as `core`, and adds what serves clients. Code below `services` knows the core alone.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NotRequired, TypedDict, Unpack

from minibroker.clock import Clock
from minibroker.cluster.advice import Advised
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.data_dir import DataDir
from minibroker.cluster.durability import Durability
from minibroker.cluster.dynamic_configs import DynamicConfigs
from minibroker.cluster.features import FEATURES, Feature, Features
from minibroker.cluster.hooks import Hooks
from minibroker.cluster.listeners import advertised_addresses
from minibroker.cluster.logs.chores import Chores
from minibroker.cluster.logs.log_manager import LogManager
from minibroker.cluster.logs.write_group import WriteGroup
from minibroker.cluster.node import Node
from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.slices import Slices, Steps, drain
from minibroker.cluster.section_store import ClusterMetadata
from minibroker.cluster.topics import ProducerIds, Topics
from minibroker.config import BrokerConfig
from minibroker.config.keys import ConfigResourceType
from minibroker_storage.files import FilePool

if TYPE_CHECKING:
    from minibroker.cluster.durability import Background
    from minibroker.cluster.logs.log_cleaner import RunCleaning

_logger = logging.getLogger(__name__)


class Surroundings(TypedDict):
    """The process around a core; see `Core` for each field."""

    call_soon: Callable[[Callable[[], None]], object]
    background: "Background"
    run_cleaning: "RunCleaning"
    max_open_files: int
    brokers: NotRequired[int]
    racks: NotRequired[Sequence[str]]


class Core:
    """The ground of one broker. Coordinators, quotas and whatever else builds on it is in `Services`.

    Args:
        run_cleaning: cleans a log aside from the event loop.
        brokers: how many nodes there are.
        racks: the rack of each node, empty for `broker.rack`; none for `broker.rack` at all of them.
        features: those that can be finalized.

    Attributes:
        config: what counts now; `configs` has what was altered at run time.
        call_soon: runs a callback once the current wake-up of the event loop is done.
        background: runs slow work (removing files) on a thread, then a callback on the event loop.
        hooks: the events that upper floors subscribe to.
        cluster: the nodes, and who leads what.
        files: the open files of the logs.
        chores: background work, in slices.
        durability: holds responses until the metadata that they report is on disk.
        metadata: what was altered at run time, and outlives the run.
        features: the feature levels in force.
        logs: opens, closes, flushes, cleans and checkpoints the logs.
        writes: appends that are written together.
        slices: does the work of large requests, so that others are served in between.
        advised: the advice that was given (`minibroker.support.advice`).
    """

    def __init__(
        self,
        config: BrokerConfig,
        data_dir: str,
        clock: Clock,
        *,
        features: Mapping[str, Feature] = FEATURES,
        **given: Unpack[Surroundings],
    ) -> None:
        call_soon, background = given["call_soon"], given["background"]
        self.config = config
        self.clock = clock
        self.call_soon = call_soon
        self.background = background
        self.hooks = Hooks()
        self._data_dir = DataDir(data_dir, config.integer("node.id"), config.optional_text("minibroker.cluster.id"))
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
        try:
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
            self.topics = self.cluster.topics = Topics(data_dir, config, self.logs, self.cluster, self.durability)
            self.logs.on_cleaned, self.logs.on_shortened = self.hooks.log_cleaned, self.hooks.log_shortened
            self.logs.start(self.topics)
        except BaseException:
            self._data_dir.release()
            raise
        self.configs.on_change = self._on_config_change
        self.cluster.on_leader_moved = self._on_leader_moved
        self.producer_ids = ProducerIds(self.topics)
        self.writes = WriteGroup(call_soon)
        self.slices = Slices(call_soon, self.writes.commit)
        self.advised = Advised(clock)

    def _on_config_change(self, kind: ConfigResourceType) -> None:
        """Act on what was altered."""
        if kind is ConfigResourceType.BROKER:
            self.topics.reconfigure()
            self.logs.broker_reconfigured()
            for node in self.cluster.nodes.values():
                advertise(self, node)
                if node.listener is not None:
                    node.listener.reconfigure()
        self.hooks.config_changed(kind)

    def _on_leader_moved(self, partition: Partition) -> None:
        """Have those look again who wait for a partition."""
        if partition.opened_log is not None:
            partition.opened_log.call_listeners()
        self.hooks.leader_moved(partition)

    def close(self, *, keep: bool = True) -> None:
        """All steps of `closing` at once."""
        drain(self.closing(keep=keep))

    def closing(self, *, keep: bool = True) -> Steps[None]:
        """Write what is staged and close all logs; see `LogManager.close` for `keep`."""
        self.slices.stop()
        self.writes.commit()
        if keep:
            self.durability.sync()
        try:
            self.logs.close(keep=keep)
            for make_directory in self.logs.missing_directories() if keep else ():
                make_directory()
                yield
        except OSError as error:
            _logger.error("%s", error)  # noqa: TRY400 - the disk's fault, not ours: the message says all
        finally:
            self._data_dir.release()


def advertise(core: Core, node: Node) -> None:
    """Have a node advertise the addresses that `advertised.listeners` was altered to while it ran."""
    altered = core.configs.of(ConfigResourceType.BROKER, str(node.id)).get("advertised.listeners", "")
    node.advertise(advertised_addresses({"advertised.listeners": altered}))
