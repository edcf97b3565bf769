"""Transactional ids for the lab's page."""

from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from minibroker.coordinators.transactions.transaction import Transaction
from minibroker.operations.views.groups import TRANSACTION, StateMachine
from minibroker.server.services import Services
from minibroker_protocol.internal_topics import TRANSACTION_STATE
from minibroker_storage.data_directory.names import TopicPartition

MAX_ELEMENTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class TransactionView:
    """A transactional id with its latest transaction.

    Attributes:
        state: one of the states in `TRANSACTION`.
        partitions: the partitions that still need a marker, at most 1,000 of `partition_count`.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    partition_count: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class TransactionPage:
    """The first 1,000 transactional ids in sorted order.

    Attributes:
        states: all states of a transaction, each with its possible successors.
        is_loading: whether more transactional ids are still being loaded from `__transaction_state`.
    """

    transactions: tuple[TransactionView, ...]
    states: StateMachine
    is_loading: bool


async def transaction_page(services: Services) -> TransactionPage:
    """Return at most 1,000 transactional ids."""
    if services.core.topics.get(TRANSACTION_STATE) is None:  # Without this topic, no transaction has ever existed.
        return TransactionPage((), TRANSACTION, is_loading=False)
    services.transactions.store.load_all()
    store = services.transactions.store
    lowest = nsmallest(MAX_ELEMENTS, store.all(), key=lambda transaction: transaction.transactional_id)
    return TransactionPage(tuple(map(_describe_transaction, lowest)), TRANSACTION, is_loading=store.is_loading)


def _describe_transaction(transaction: Transaction) -> TransactionView:
    return TransactionView(
        transactional_id=transaction.transactional_id,
        state=transaction.state.wire_name,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partition_count=len(transaction.partitions),
        partitions=tuple(nsmallest(MAX_ELEMENTS, transaction.partitions)),
    )
