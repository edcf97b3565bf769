"""The store of all transactional ids, backed by `__transaction_state` (Kafka's `TransactionStateManager`).

A partition is loaded before its transactional ids are used. A small partition is loaded immediately. A larger
partition is loaded in steps, and clients get COORDINATOR_LOAD_IN_PROGRESS until it is loaded.
"""

import logging
from collections.abc import Callable, Iterable
from itertools import takewhile

from minibroker.cluster.core import Core
from minibroker.cluster.features import TRANSACTION_VERSION
from minibroker.cluster.routing.slices import ForEach
from minibroker.coordinators.coordinator_log import CoordinatorLog, CoordinatorLogError
from minibroker.coordinators.partition_loader import PartitionLoader, PartitionReplay
from minibroker.coordinators.transactions.transaction import Transaction, encode_key, encode_value, transaction_of
from minibroker_protocol.coordinator_records import TransactionLogKey, TransactionLogValue, decode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError, EncodeError
from minibroker_protocol.internal_topics import TRANSACTION_STATE
from minibroker_protocol.records.batch import Batch
from minibroker_protocol.records.record import NewRecord

_logger = logging.getLogger(__name__)


class TransactionStore(PartitionLoader["_Replay"]):
    """The transactional ids of all loaded partitions.

    Args:
        on_loaded: Called with the index of each loaded partition.
    """

    def __init__(self, core: Core, on_loaded: Callable[[int], None]) -> None:
        log = CoordinatorLog(
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
        super().__init__(core, log)
        self._on_loaded = on_loaded
        self._transactions: dict[int, dict[str, Transaction]] = {}

    def get(self, transactional_id: str) -> Transaction | None:
        """Return the state of a transactional id, or None. Callers check `check_readiness` first."""
        return self._transactions.get(self.log.partition_of(transactional_id), {}).get(transactional_id)

    def in_partition(self, index: int) -> list[Transaction]:
        """Return the transactional ids in one partition of the topic."""
        return list(self._transactions.get(index, {}).values())

    def all(self) -> list[Transaction]:
        """Return the transactional ids in all loaded partitions."""
        self.update_topic()
        return [transaction for transactions in self._transactions.values() for transaction in transactions.values()]

    def save(self, transaction: Transaction) -> ErrorCode:
        """Write a state to the log, and then apply it. Callers check `check_readiness` first."""
        partition = self.log.partition_of(transaction.transactional_id)
        try:
            record = NewRecord(
                encode_key(transaction.transactional_id),
                encode_value(transaction, level=self._core.features.level(TRANSACTION_VERSION)),
                self.now_ms(),
            )
            self._append(partition, [record])
        except EncodeError as error:
            _logger.error("transactional id %s: %s", transaction.transactional_id, error)  # noqa: TRY400 - no traceback
            return ErrorCode.UNKNOWN_SERVER_ERROR
        except CoordinatorLogError as error:
            _logger.error("transactional id %s: %s", transaction.transactional_id, error)  # noqa: TRY400 - no traceback
            return error.client_code
        # Apply the state only after the append, because a state that could not be written must not take effect.
        self.keep(transaction)
        return ErrorCode.NONE

    def keep(self, transaction: Transaction) -> None:
        """Keep a state in memory only."""
        partition = self.log.partition_of(transaction.transactional_id)
        self._transactions.setdefault(partition, {})[transaction.transactional_id] = transaction

    def remove(self, transactions: Iterable[Transaction]) -> ForEach[None]:
        """Remove transactional ids, and write tombstones batch by batch. Stop at the first batch that the log refuses.

        Transactional ids that have changed in the meantime are kept.
        """
        by_partition: dict[int, dict[bytes, Transaction]] = {}
        for transaction in transactions:
            partition = self.log.partition_of(transaction.transactional_id)
            by_partition.setdefault(partition, {})[encode_key(transaction.transactional_id)] = transaction
        batches = (
            (partition, by_key, batch)
            for partition, by_key in by_partition.items()
            for batch in self.log.tombstone_batches(by_key)
        )
        errors: list[CoordinatorLogError] = []

        def remove(entry: tuple[int, dict[bytes, Transaction], list[bytes]]) -> None:
            partition, by_key, batch = entry
            self.update_topic()
            # A producer may have returned between two batches, so its transactional id must be kept.
            keys = [key for key in batch if self.get(by_key[key].transactional_id) is by_key[key]]
            now_ms = self.now_ms()
            try:
                if keys:
                    self.log.append(partition, [NewRecord(key, None, now_ms) for key in keys])
            except CoordinatorLogError as error:
                _logger.error("expired transactional ids: %s", error)  # noqa: TRY400 - no traceback
                errors.append(error)
                return
            for key in keys:
                del self._transactions[partition][by_key[key].transactional_id]

        return ForEach(takewhile(lambda _: not errors, batches), remove)

    def _make_replay(self, name: str) -> "_Replay":
        return _Replay(name)

    def _drop_partition(self, partition: int) -> None:
        # States that are only in memory are lost with the old coordinator. The new one starts from the log alone.
        self._transactions.pop(partition, None)

    def _on_topic_lost(self) -> None:
        self._transactions.clear()

    def _use_replay(self, partition: int, replay: "_Replay") -> None:
        self._transactions[partition] = replay.transactions
        self._on_loaded(partition)


class _Replay(PartitionReplay):
    """The replay of a partition.

    Later records overwrite most earlier ones, so keys and values are decoded only after all records are read.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._latest: dict[bytes, bytes] = {}
        self.transactions: dict[str, Transaction] = {}

    def _read(self, batch: Batch) -> None:
        for record in batch:
            if record.key is None:
                self._warn(f"the record at offset {record.offset} has no key")
            elif record.value is None:
                # The key may be missing, because compaction may have removed the records that this tombstone deletes.
                self._latest.pop(record.key, None)
            else:
                self._latest[record.key] = record.value

    def finish(self) -> ForEach[None]:
        """Decode the loaded records into `transactions`, one record at a time."""
        return ForEach(self._latest.items(), self._decode)

    def _decode(self, record: tuple[bytes, bytes]) -> None:
        try:
            key = decode_versioned(TransactionLogKey, record[0]).transactional_id
            self.transactions[key] = transaction_of(key, decode_versioned(TransactionLogValue, record[1]))
        except (DecodeError, ValueError) as error:
            self._warn(f"a record cannot be read: {error}")
