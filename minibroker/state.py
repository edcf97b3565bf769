"""What the handlers of one broker share: its configuration, its clock and all that outlives a request."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from minibroker.clock import Clock
from minibroker.config import BrokerConfig
from minibroker.data_dir import DataDir
from minibroker.fetch_sessions import FetchSessionCache
from minibroker.log_manager import LogManager
from minibroker.producer_ids import ProducerIds
from minibroker.topics import Topics
from minibroker.write_group import WriteGroup
from minibroker_storage.files import FilePool

if TYPE_CHECKING:
    from minibroker.flusher import Background, Flusher
    from minibroker.log_cleaner import RunCleaning


class BrokerState:
    """The state of one broker.

    Attributes:
        call_soon: runs a callback once the current wake-up of the event loop is done.
        background: runs slow work (removing files) aside from the event loop, then a callback on it.
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
        try:
            self.logs = LogManager(
                config,
                self._data_dir,
                self.files,
                clock,
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

    @property
    def flusher(self) -> "Flusher":
        """Forces logs to disk for those who wait for it."""
        return self.logs.flusher

    def close(self, *, keep: bool = True) -> None:
        """Close all logs; `keep` says whether the data directory will be used again. See `LogManager.close`."""
        self.writes.commit()
        self.logs.close(keep=keep)
        self._data_dir.release()
