"""ListTransactions (key 66): every transactional id that the broker keeps (KIP-664)."""

from typing import Annotated

from minibroker_protocol.schema import Array, Int16, Int32, Int64, NullableString, String, message, since, structure


@message(versions="0-2", flexible="0+")
class ListTransactionsRequest:
    """Empty filters let everything through.

    `duration_filter` asks for transactions that have run longer than so many ms; below 0 for all (KIP-994).
    `transactional_id_pattern` is a regular expression of Java's for the whole transactional id (KIP-1152).
    """

    state_filters: Array[String]
    producer_id_filters: Array[Int64]
    duration_filter: Annotated[Int64, since(1)] = -1
    transactional_id_pattern: Annotated[NullableString, since(2)] = None


@structure
class TransactionState:
    """One transactional id, the producer that uses it and the name of its state."""

    transactional_id: String
    producer_id: Int64
    transaction_state: String


@message(versions="0-2", flexible="0+")
class ListTransactionsResponse:
    """The transactions that match the filters, and the unknown states among the filters."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    unknown_state_filters: Array[String]
    transaction_states: Array[TransactionState]
