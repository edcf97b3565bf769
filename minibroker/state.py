"""What the handlers of one broker share: its configuration, its clock and all that outlives a request."""

from collections.abc import Callable

from minibroker.clock import Clock
from minibroker.config import BrokerConfig
from minibroker.data_dir import DataDirLock
from minibroker.fetch_sessions import FetchSessionCache
from minibroker.producer_ids import ProducerIds
from minibroker.topics import Topics
from minibroker.write_group import WriteGroup
from minibroker_storage.files import FilePool

DEFAULT_NODE_ID = 1


class BrokerState:
    """The state of one broker.

    Attributes:
        call_soon: runs a callback once the current wake-up of the event loop is done.
        background: runs slow work (removing files) aside from the event loop.
    """

    def __init__(
        self,
        config: BrokerConfig,
        data_dir: str,
        clock: Clock,
        *,
        call_soon: Callable[[Callable[[], None]], object],
        background: Callable[[Callable[[], None]], object],
        max_open_files: int,
    ) -> None:
        self.config = config
        self.clock = clock
        self.call_soon = call_soon
        self.background = background
        self._lock = DataDirLock(data_dir)
        self.files = FilePool(max_open_files)
        try:
            self.topics = Topics(data_dir, config, self.files, clock.now_ms)
        except BaseException:
            self._lock.release()
            raise
        self.fetch_sessions = FetchSessionCache(config.integer("max.incremental.fetch.session.cache.slots"))
        self.producer_ids = ProducerIds(self.topics)
        self.writes = WriteGroup()
        configured = config.integer("node.id")
        self.node_id = configured if configured >= 0 else DEFAULT_NODE_ID
        # What the hot paths ask for is looked up once.
        self.validated_records = config.integer("minibroker.validate.records.max")
        self.fetch_max_bytes = config.integer("fetch.max.bytes")

    def close(self) -> None:
        """Close all logs."""
        self.writes.commit()
        self.topics.close()
        self._lock.release()
