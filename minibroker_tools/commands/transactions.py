"""kafka-transactions: shows transactions and producers, and aborts hanging transactions (`TransactionsCommand`)."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final, TypeAlias

from minibroker_protocol.error_codes import ErrorCode
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import TopicPartition, by_partition
from minibroker_tools.client.transactions import (
    Marker,
    ProducerState,
    Transactions,
    describe_producers,
    describe_transaction,
    list_transactions,
    write_abort_marker,
)
from minibroker_tools.commands.common import add_connection, cluster_of, partition_name
from minibroker_tools.failures import ApiError, ToolError, reword_failures
from minibroker_tools.options import Options, Values
from minibroker_tools.output import print_table

_REQUIRED: Final = {
    "list": (),
    "describe": ("transactional-id",),
    "describe-producers": ("topic", "partition"),
    "abort": ("topic", "partition"),
    "find-hanging": (),
}
"""The required options of each command in Kafka 3.9."""
_FORCE: Final = "forceTerminateTransaction"
_COMMANDS: Final = {**_REQUIRED, _FORCE: ("transactionalId",)}
"""The required options of all commands. Error messages list only those in `_REQUIRED`, the commands of Kafka 3.9."""
_PARTITIONS_PER_REQUEST: Final = 500
_MINUTE_MS: Final = 60_000
_DEFAULT_MINUTES: Final = 15
_LIST_COLUMNS: Final = "TransactionalId Coordinator ProducerId TransactionState"
_DESCRIBE_COLUMNS: Final = (
    "CoordinatorId TransactionalId ProducerId ProducerEpoch TransactionState TransactionTimeoutMs "
    "CurrentTransactionStartTimeMs TransactionDurationMs TopicPartitions"
)
_PRODUCER_COLUMNS: Final = (
    "ProducerId ProducerEpoch LatestCoordinatorEpoch LastSequence LastTimestamp CurrentTransactionStartOffset"
)
_HANGING_COLUMNS: Final = (
    "Topic Partition ProducerId ProducerEpoch CoordinatorEpoch StartOffset LastTimestamp Duration(min)"
)
_OpenTransaction: TypeAlias = tuple[TopicPartition, ProducerState]
"""The partition and the producer of an open transaction."""


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-transactions."""
    options = Options(
        tool,
        "This tool is used to analyze the transactional state of producers in the cluster. It can be used to detect "
        f"and recover from hanging transactions: {', '.join(_COMMANDS)}.",
    )
    add_connection(options)
    options.value("duration-filter", help="list: only transactions open longer than this", type=int, metavar="MS")
    options.value("transactional-id-pattern", help="list: only ids that match (since Kafka 4.1)", metavar="PATTERN")
    options.value("transactional-id", help="describe: the transactional id", metavar="ID")
    options.value("transactionalId", help=f"{_FORCE}: the transactional id", metavar="ID")
    options.value("topic", help="the topic of describe-producers, abort and find-hanging")
    options.value("partition", help="the partition of --topic", type=int)
    options.value("broker-id", help="describe-producers and find-hanging: the replica to ask", type=int, metavar="ID")
    options.value("start-offset", help="abort: the first offset of the transaction", type=int, metavar="OFFSET")
    options.value("producer-id", help="abort, for brokers before 3.0: the producer", type=int, metavar="ID")
    options.value("producer-epoch", help="abort, for brokers before 3.0: its epoch", type=int, metavar="EPOCH")
    options.value("coordinator-epoch", help="abort, for brokers before 3.0: the coordinator's epoch", type=int)
    options.value(
        "max-transaction-timeout", help="find-hanging: the minimum age (default: 15)", type=int, metavar="MINUTES"
    )
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Run the command given on the command line."""
    values = options.parse(arguments)
    command = _parse_command(options, values)
    if command == "find-hanging":
        _check_search(values)
    works = {
        "list": _list_transactions, "describe": _describe_transaction, "describe-producers": _describe_producers,
        "abort": _abort_transaction, "find-hanging": _find_hanging, _FORCE: _force_terminate,
    }  # fmt: skip
    with cluster_of(values) as cluster:
        works[command](cluster, values)
    return 0


def _parse_command(options: Options, values: Values) -> str:
    """Return the command given on the command line.

    Raises:
        ToolError: The command line is invalid. As in argparse4j, the usage is printed first.
    """
    word = next(iter(values.words), "")
    missing = [name for name in (*_COMMANDS.get(word, ()), "bootstrap-server") if not values.has(name)]
    if not values.words:
        problem = "too few arguments"
    elif word not in _COMMANDS:
        choices = ", ".join(f"'{command}'" for command in _REQUIRED)
        problem = f"invalid choice: '{word}' (choose from {choices})"
    elif missing:
        problem = f"argument --{missing[0]} is required"
    else:
        return word
    options.print_usage()
    raise ToolError(f"{options.tool}.sh: error: {problem}")


def _prefix_failures(message: str) -> AbstractContextManager[None]:
    """Return a context manager that prefixes the messages of failures with `message`."""
    return reword_failures(lambda error: f"{message}: {error.message}. Enable debug logging for additional detail.")


def _force_terminate(cluster: Cluster, values: Values) -> None:
    """Abort a producer's transaction and fence the producer."""
    transactional_id = values.text("transactionalId") or ""
    with _prefix_failures(f"Failed to force terminate transactionalId `{transactional_id}`"):
        Transactions(cluster, transactional_id, int(cluster.settings.milliseconds("request.timeout.ms") * 1000))


def _list_transactions(cluster: Cluster, values: Values) -> None:
    with _prefix_failures("Failed to list transactions"):
        listings = list_transactions(
            cluster, duration=values.number("duration-filter", -1), pattern=values.text("transactional-id-pattern")
        )
    print_table(_LIST_COLUMNS, sorted(listings))


def _describe_transaction(cluster: Cluster, values: Values) -> None:
    transactional_id = values.text("transactional-id") or ""
    with _prefix_failures(f"Failed to describe transaction state of transactional-id `{transactional_id}`"):
        description = describe_transaction(cluster, transactional_id)
    transaction = description.transaction
    started = transaction.transaction_start_time_ms
    times = (started, _now_ms() - started) if started >= 0 else ("None", "None")
    row = (
        description.coordinator,
        transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.transaction_state,
        transaction.transaction_timeout_ms,
        *times,
        ",".join(map(partition_name, description.partitions)),
    )
    print_table(_DESCRIBE_COLUMNS, [row])


def _describe_producers(cluster: Cluster, values: Values) -> None:
    partition, node = _parse_partition(values), values.get("broker-id")
    location = "leader" if node is None else f"broker {node}"
    with _prefix_failures(f"Failed to describe producers for partition {partition_name(partition)} on {location}"):
        producers = describe_producers(cluster, [partition], node)[partition]
    print_table(
        _PRODUCER_COLUMNS,
        [
            (
                producer.producer_id,
                producer.producer_epoch,
                producer.coordinator_epoch,
                producer.last_sequence,
                producer.last_timestamp,
                producer.current_txn_start_offset if producer.current_txn_start_offset >= 0 else "None",
            )
            for producer in producers
        ],
    )


def _abort_transaction(cluster: Cluster, values: Values) -> None:
    if not values.has("start-offset") and not values.has("producer-id"):
        raise ToolError(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    partition = _parse_partition(values)
    if values.has("start-offset"):
        marker = _marker_at(cluster, partition, values.number("start-offset", 0))
    else:
        for name in ("producer-epoch", "coordinator-epoch"):
            if not values.has(name):
                raise ToolError(f"Missing required argument --{name}")
        # The coordinator epoch is -1 before the first marker. In that case the new marker gets epoch 0.
        epoch = max(values.number("coordinator-epoch", 0), 0)
        marker = Marker(partition, values.number("producer-id", 0), values.number("producer-epoch", 0), epoch)
    with _prefix_failures(f"Failed to abort transaction {marker}"):
        write_abort_marker(cluster, marker)


def _marker_at(cluster: Cluster, partition: TopicPartition, start: int) -> Marker:
    with _prefix_failures(f"Failed to validate producer state for partition {partition_name(partition)}"):
        producers = describe_producers(cluster, [partition])[partition]
    for producer in producers:
        if producer.current_txn_start_offset == start >= 0:
            return Marker(partition, producer.producer_id, producer.producer_epoch, max(producer.coordinator_epoch, 0))
    raise ToolError(
        f"Could not find any open transactions starting at offset {start} on partition {partition_name(partition)}"
    )


def _check_search(values: Values) -> None:
    if values.has("partition") and not values.has("topic"):
        raise ToolError("The --partition argument requires --topic to be provided")
    if not values.has("topic") and not values.has("broker-id"):
        raise ToolError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )


def _find_hanging(cluster: Cluster, values: Values) -> None:
    node: int | None = values.get("broker-id")
    oldest = _now_ms() - values.number("max-transaction-timeout", _DEFAULT_MINUTES) * _MINUTE_MS
    partitions = _partitions_to_search(cluster, values, node)
    candidates: list[_OpenTransaction] = []
    for start in range(0, len(partitions), _PARTITIONS_PER_REQUEST):
        batch = partitions[start : start + _PARTITIONS_PER_REQUEST]
        with _prefix_failures(
            f"Failed to describe producers for {len(batch)} partitions on broker {_java_optional(node)}"
        ):
            producers_by_partition = describe_producers(cluster, batch, node)
        candidates += [
            (partition, producer)
            for partition, producers in producers_by_partition.items()
            for producer in producers
            if producer.current_txn_start_offset >= 0 and producer.last_timestamp < oldest
        ]
    now = _now_ms()
    print_table(
        _HANGING_COLUMNS,
        [
            (
                *partition,
                producer.producer_id,
                producer.producer_epoch,
                producer.coordinator_epoch,
                producer.current_txn_start_offset,
                producer.last_timestamp,
                (now - producer.last_timestamp) // _MINUTE_MS,
            )
            for partition, producer in (_find_unended(cluster, candidates) if candidates else ())
        ],
    )


def _partitions_to_search(cluster: Cluster, values: Values, node: int | None) -> list[TopicPartition]:
    if values.has("topic") and values.has("partition"):
        return [_parse_partition(values)]
    topic = values.text("topic")
    with _prefix_failures("Failed to list topics" if topic is None else "Failed to describe 1 topics"):
        topics = cluster.metadata().topics if topic is None else cluster.topics([topic])
    partitions = by_partition(topics).items()
    return [key for key, partition in partitions if node is None or node in partition.replica_nodes]


def _find_unended(cluster: Cluster, candidates: Sequence[_OpenTransaction]) -> list[_OpenTransaction]:
    """Return the open transactions that no coordinator will complete."""
    producers = sorted({producer.producer_id for _, producer in candidates})
    with _prefix_failures(f"Failed to list transactions for {len(producers)} producers"):
        listings = list_transactions(cluster, producer_ids=producers)
    ids = {listing.producer_id: listing.transactional_id for listing in listings}
    with _prefix_failures(f"Failed to describe {len(ids)} transactions"):
        unwritten = {producer: _partitions_without_marker(cluster, name) for producer, name in ids.items()}
    ordered = sorted(candidates, key=lambda candidate: (candidate[0], candidate[1].producer_id))
    return [
        (partition, producer)
        for partition, producer in ordered
        if partition not in unwritten.get(producer.producer_id, ())
    ]


def _partitions_without_marker(cluster: Cluster, transactional_id: str) -> Sequence[TopicPartition]:
    """Return the partitions to which the coordinator has yet to write a marker."""
    try:
        return describe_transaction(cluster, transactional_id).partitions
    except ApiError as error:
        if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return ()
        raise


def _parse_partition(values: Values) -> TopicPartition:
    return values.text("topic") or "", values.number("partition", 0)


def _java_optional(node: int | None) -> str:
    """Format a broker id like a Java Optional."""
    return "Optional.empty" if node is None else f"Optional[{node}]"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
