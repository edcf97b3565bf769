"""The store of all transactional ids, kept in `__transaction_state` (Kafka's `TransactionStateManager`).

What a partition says is read before anything is done with its transactional ids: of a small one at once, of a larger
one in steps, while clients get COORDINATOR_LOAD_IN_PROGRESS.
"""

import logging
from collections.abc import Callable, Iterable
from itertools import takewhile

from minibroker.cluster.core import Core
from minibroker.cluster.features import TRANSACTION_VERSION
from minibroker.cluster.node import Node
from minibroker.cluster.routing.slices import ForEach
from minibroker.coordinators.coordinator_log import CoordinatorLog, CoordinatorLogError
from minibroker.coordinators.partition_loader import Complaints, PartitionLoader
from minibroker.coordinators.transactions.transaction import Transaction, encode_key, encode_value, transaction_of
from minibroker_protocol.coordinator_records import TransactionLogKey, TransactionLogValue, decode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError, EncodeError
from minibroker_protocol.internal_topics import TRANSACTION_STATE
from minibroker_protocol.records.batch import Batch
from minibroker_protocol.records.record import NewRecord

_logger = logging.getLogger(__name__)


class TransactionStore:
    """The transactional ids.

    Args:
        on_loaded: called with each partition that was read.
    """

    def __init__(self, core: Core, on_loaded: Callable[[int], None]) -> None:
        self._core = core
        self._on_loaded = on_loaded
        self.log = CoordinatorLog(
            core,
            TRANSACTION_STATE,
            partitions=core.config.integer("transaction.state.log.num.partitions"),
            factor=core.config.integer("transaction.state.log.replication.factor"),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(core.config.integer("transaction.state.log.min.isr")),
                "segment.bytes": str(core.config.integer("transaction.state.log.segment.bytes")),
                "unclean.leader.election.enable": "false",
            },
        )
        self._loader = PartitionLoader(core, self.log, _Loading, self._on_replayed, self._on_topic_lost)
        self._known: dict[int, dict[str, Transaction]] = {}

    # The transactional ids

    def get(self, transactional_id: str) -> Transaction | None:
        """The state of a transactional id, or None. Ask for `readiness` before."""
        return self._known.get(self.log.partition_of(transactional_id), {}).get(transactional_id)

    def in_partition(self, index: int) -> list[Transaction]:
        """The transactional ids of one partition of the topic."""
        return list(self._known.get(index, {}).values())

    def all(self) -> list[Transaction]:
        """The transactional ids of all partitions that are loaded."""
        self._loader.look_at_topic()
        return [transaction for known in self._known.values() for transaction in known.values()]

    @property
    def is_loading(self) -> bool:
        """Whether there are transactional ids that `all` does not have yet."""
        self._loader.look_at_topic()
        return self._loader.is_loading

    def save(self, transaction: Transaction) -> ErrorCode:
        """Write a step down; it counts once that is done. Ask for `readiness` before."""
        partition = self.log.partition_of(transaction.transactional_id)
        try:
            record = NewRecord(
                encode_key(transaction.transactional_id),
                encode_value(transaction, level=self._core.features.level(TRANSACTION_VERSION)),
                self._core.clock.now_ms(),
            )
            self.log.append(partition, [record])
        except EncodeError:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        except CoordinatorLogError as error:
            _logger.error("transactional id %s: %s", transaction.transactional_id, error)  # noqa: TRY400 - not our fault
            return error.client_code
        self._loader.look_at_topic()
        # Behind the append: a step that the disk has refused never was.
        self._known.setdefault(partition, {})[transaction.transactional_id] = transaction
        return ErrorCode.NONE

    def keep(self, transaction: Transaction) -> None:
        """Remember a step that need not be in the log."""
        partition = self.log.partition_of(transaction.transactional_id)
        self._known.setdefault(partition, {})[transaction.transactional_id] = transaction

    def remove(self, transactions: Iterable[Transaction]) -> ForEach[None]:
        """Forget transactional ids, with tombstones in the log, batch by batch. It ends with a batch that is refused.

        A transactional id that has taken another step when its turn comes stays.
        """
        by_partition: dict[int, dict[bytes, Transaction]] = {}
        for each in transactions:
            partition = self.log.partition_of(each.transactional_id)
            by_partition.setdefault(partition, {})[encode_key(each.transactional_id)] = each
        batches = (
            (partition, by_key, batch)
            for partition, by_key in by_partition.items()
            for batch in self.log.tombstone_batches(by_key)
        )
        refused: list[CoordinatorLogError] = []

        def remove(part: tuple[int, dict[bytes, Transaction], list[bytes]]) -> None:
            partition, by_key, batch = part
            self._loader.look_at_topic()
            # A producer may have come back between two batches: its transactional id must not be forgotten.
            keys = [key for key in batch if self.get(by_key[key].transactional_id) is by_key[key]]
            now_ms = self._core.clock.now_ms()
            try:
                if keys:
                    self.log.append(partition, [NewRecord(key, None, now_ms) for key in keys])
            except CoordinatorLogError as error:
                _logger.error("expired transactional ids: %s", error)  # noqa: TRY400 - the disk's fault
                refused.append(error)
                return
            for key in keys:
                del self._known[partition][by_key[key].transactional_id]

        return ForEach(takewhile(lambda _: not refused, batches), remove)

    # Loading

    def readiness(self, transactional_id: str, node: Node | None = None) -> ErrorCode:
        """May a request for this transactional id be served? See `PartitionLoader.readiness`."""
        return self._loader.readiness(transactional_id, node)

    def load_all(self) -> None:
        """Load every partition, one after the other; `is_loading` until that is done."""
        self._loader.load_all()

    def leader_moved(self, partition: int) -> None:
        """Another node coordinates the transactional ids of a partition: it reads the log."""
        # The new coordinator must know no more than the log does: unwritten states stay with the old one.
        self._known.pop(partition, None)
        self._loader.reload(partition)

    def load_failed(self) -> None:
        """Try again to load what could not be read; nothing happens when there is no such partition."""
        self._loader.load_failed()

    def close(self) -> None:
        """Read no further."""
        self._loader.close()

    def _on_topic_lost(self) -> None:
        self._known.clear()

    def _on_replayed(self, index: int, loading: "_Loading") -> None:
        self._known[index] = loading.transactions
        self._on_loaded(index)


class _Loading:
    """A partition that is being read: what its records amount to.

    Most records are overwritten by later ones, so that keys and values stay bytes until all of them are seen. A
    record that cannot be read is logged and passed over.
    """

    def __init__(self, name: str) -> None:
        self._latest: dict[bytes, bytes] = {}
        self._complaints = Complaints(name)
        self.transactions: dict[str, Transaction] = {}

    def read(self, batches: Iterable[Batch]) -> None:
        """Take in batches, in the order of the log."""
        for batch in batches:
            try:
                for record in batch:
                    if record.key is None:
                        self._complaints.add(f"the record at offset {record.offset} has no key")
                    elif record.value is None:
                        # A tombstone: compaction may have left it without the records that it deletes.
                        self._latest.pop(record.key, None)
                    else:
                        self._latest[record.key] = record.value
            except DecodeError as error:
                self._complaints.add(f"a batch cannot be read: {error}")

    def finish(self) -> ForEach[None]:
        """Fill `transactions`, record by record."""
        return ForEach(self._latest.items(), self._decode)

    def _decode(self, record: tuple[bytes, bytes]) -> None:
        try:
            key = decode_versioned(TransactionLogKey, record[0]).transactional_id
            self.transactions[key] = transaction_of(key, decode_versioned(TransactionLogValue, record[1]))
        except (DecodeError, ValueError) as error:
            self._complaints.add(f"a record cannot be read: {error}")
