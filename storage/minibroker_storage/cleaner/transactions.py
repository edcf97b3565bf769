"""The transaction state that the cleaner tracks while it reads a log."""

from collections.abc import Iterable
from typing import Final

from minibroker_protocol.errors import CorruptRecordError
from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.header import CONTROL_KEY, TRANSACTIONAL_FLAG, BatchHeader
from minibroker_storage.transaction_index import AbortedTxn

_ABORT: Final = 0
_COMMIT: Final = 1


class CleanedTransactions:
    """Decides which transactional batches and markers can be removed (Kafka's `CleanedTransactionMetadata`).

    Every batch below the last stable offset must be passed in, in log order. Batches of aborted transactions can
    always be removed. A marker can be removed only when no batch of its transaction precedes it: a first cleaning
    removes the batches and a later one the marker. The aborted transactions whose markers were kept become the
    transaction index of the cleaned segment.
    """

    __slots__ = ("_aborted", "_next", "_ongoing_aborted", "_ongoing_committed", "_retained", "_with_batches")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._aborted = sorted(aborted, key=lambda transaction: transaction.first_offset)
        self._next = 0
        self._ongoing_aborted: dict[int, AbortedTxn] = {}
        self._ongoing_committed: set[int] = set()
        self._with_batches: set[int] = set()
        self._retained: list[AbortedTxn] = []

    def take_retained(self) -> list[AbortedTxn]:
        """Return the aborted transactions whose markers were kept since the last call."""
        retained, self._retained = self._retained, []
        return retained

    def on_batch(self, header: BatchHeader) -> bool:
        """Track a data batch, and return whether it can be removed because its transaction was aborted."""
        self._begin_transactions_up_to(header.last_offset)
        if not header.attributes & TRANSACTIONAL_FLAG:
            return False
        producer_id = header.producer_id
        if producer_id in self._ongoing_aborted:
            self._with_batches.add(producer_id)
            return True
        self._ongoing_committed.add(producer_id)
        return False

    def on_control_batch(self, header: BatchHeader, batch: bytes) -> bool:
        """Track a marker, and return whether its transaction has no batches left.

        Raises:
            DecodeError: the marker cannot be decoded.
        """
        self._begin_transactions_up_to(header.last_offset)
        for record in RecordBatch(memoryview(batch)):
            return self._on_marker(_marker_type(record.key), header.producer_id)
        return True  # The batch is empty, because an earlier pass of the cleaner has removed the marker.

    def _on_marker(self, marker_type: int, producer_id: int) -> bool:
        if marker_type == _ABORT:
            transaction = self._ongoing_aborted.pop(producer_id, None)
            if transaction is None or producer_id not in self._with_batches:
                return True
            self._with_batches.remove(producer_id)
            self._retained.append(transaction)
            return False
        if marker_type == _COMMIT:
            if producer_id not in self._ongoing_committed:
                return True
            self._ongoing_committed.remove(producer_id)
        return False

    def _begin_transactions_up_to(self, offset: int) -> None:
        while self._next < len(self._aborted) and self._aborted[self._next].first_offset <= offset:
            transaction = self._aborted[self._next]
            self._ongoing_aborted.setdefault(transaction.producer_id, transaction)
            self._next += 1


def _marker_type(key: bytes | None) -> int:
    """Return the marker type in a control record's key, which is an int16 version followed by the int16 type.

    Raises:
        CorruptRecordError: the key is too short.
    """
    if key is None or len(key) < CONTROL_KEY.size:
        raise CorruptRecordError(f"control record: a key of {0 if key is None else len(key)} bytes")
    return int(CONTROL_KEY.unpack_from(key)[1])
