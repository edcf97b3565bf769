"""What the handlers of one broker share: its configuration, its clock and all that outlives a request."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from minibroker.chores import Chores
from minibroker.clock import Clock
from minibroker.config import BrokerConfig
from minibroker.data_dir import DataDir
from minibroker.fetch_sessions import FetchSessionCache
from minibroker.log_manager import LogManager
from minibroker.producer_ids import ProducerIds
from minibroker.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, Topics
from minibroker.write_group import WriteGroup
from minibroker_storage.files import FilePool

if TYPE_CHECKING:
    from minibroker.flusher import Background, Flusher
    from minibroker.groups.coordinator import GroupCoordinator
    from minibroker.log_cleaner import RunCleaning
    from minibroker.transactions.coordinator import TransactionCoordinator


class BrokerState:
    """The state of one broker.

    Attributes:
        call_soon: runs a callback once the current wake-up of the event loop is done.
        background: runs slow work (removing files) aside from the event loop, then a callback on it.
        chores: what is done in the background, in slices.
        logs: what happens to the logs beside requests.
        cluster_id, node_id: as the data directory says.
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
    ) -> None:
        self.config = config
        self.clock = clock
        self.call_soon = call_soon
        self.background = background
        self._data_dir = DataDir(data_dir, config.integer("node.id"))
        self.cluster_id = self._data_dir.cluster_id
        self.node_id = self._data_dir.node_id
        self.files = FilePool(max_open_files)
        self.chores = Chores(clock, call_soon)
        try:
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
            self.topics = Topics(data_dir, config, self.logs)
            self.logs.start(self.topics)
        except BaseException:
            self._data_dir.release()
            raise
        self.fetch_sessions = FetchSessionCache(config.integer("max.incremental.fetch.session.cache.slots"))
        self.producer_ids = ProducerIds(self.topics)
        self.writes = WriteGroup()
        # What the hot paths ask for is looked up once.
        self.validated_records = config.integer("minibroker.validate.records.max")
        self.fetch_max_bytes = config.integer("fetch.max.bytes")
        self._closed = False
        call_soon(self._resume_coordinators)

    def _resume_coordinators(self) -> None:
        """Have the coordinators load what earlier runs have left: members have to expire, transactions to end."""
        if self._closed:
            return
        if self.topics.get(TRANSACTION_STATE) is not None:
            self.transactions.load_all()
        if self.topics.get(CONSUMER_OFFSETS) is not None:
            self.groups.load_all()

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

    @property
    def flusher(self) -> "Flusher":
        """Forces logs to disk for those who wait for it."""
        return self.logs.flusher

    def close(self, *, keep: bool = True) -> None:
        """Close all logs; `keep` says whether the data directory will be used again. See `LogManager.close`."""
        self._closed = True
        for coordinator in ("groups", "transactions"):
            if coordinator in self.__dict__:  # a cached property: there once someone has asked for it
                getattr(self, coordinator).close()
        self.writes.commit()
        self.logs.close(keep=keep)
        self._data_dir.release()
