"""kafka-transactions: shows transactions and producers, and aborts hanging transactions (`TransactionsCommand`)."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from minibroker_protocol.error_codes import ErrorCode
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import TopicPartition
from minibroker_tools.client.transactions import (
    Description,
    Marker,
    ProducerState,
    Transactions,
    abort,
    describe_producers,
    describe_transaction,
    list_transactions,
)
from minibroker_tools.commands.common import add_connection, cluster_of, named
from minibroker_tools.failures import ApiError, ToolError, retold
from minibroker_tools.options import Options, Values
from minibroker_tools.output import print_table

_REQUIRED: Final = {
    "list": (),
    "describe": ("transactional-id",),
    "describe-producers": ("topic", "partition"),
    "abort": ("topic", "partition"),
    "find-hanging": (),
}
"""The required options of each command."""
_FORCE: Final = "forceTerminateTransaction"
_KNOWN: Final = {**_REQUIRED, _FORCE: ("transactionalId",)}
"""The commands of Kafka 3.9, which the error messages list, and the one added in Kafka 4.3."""
_BATCH: Final = 500
_MINUTE_MS: Final = 60_000
_DEFAULT_MINUTES: Final = 15
_LIST: Final = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
_DESCRIBE: Final = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
_PRODUCERS: Final = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
_HANGING: Final = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)


class _Open(NamedTuple):
    """An open transaction in a partition."""

    partition: TopicPartition
    producer: ProducerState


def options(tool: str) -> Options:
    """Declare the options of kafka-transactions."""
    known = Options(
        tool,
        "This tool is used to analyze the transactional state of producers in the cluster. It can be used to detect "
        f"and recover from hanging transactions: {', '.join(_KNOWN)}.",
    )
    add_connection(known)
    known.value("duration-filter", help="list: only transactions open longer than this", type=int, metavar="MS")
    known.value("transactional-id-pattern", help="list: only ids that match (since Kafka 4.1)", metavar="PATTERN")
    known.value("transactional-id", help="describe: the transactional id", metavar="ID")
    known.value("transactionalId", help=f"{_FORCE}: the transactional id", metavar="ID")
    known.value("topic", help="the topic of describe-producers, abort and find-hanging")
    known.value("partition", help="the partition of --topic", type=int)
    known.value("broker-id", help="describe-producers and find-hanging: the replica to ask", type=int, metavar="ID")
    known.value("start-offset", help="abort: the first offset of the transaction", type=int, metavar="OFFSET")
    known.value("producer-id", help="abort, for brokers before 3.0: the producer", type=int, metavar="ID")
    known.value("producer-epoch", help="abort, for brokers before 3.0: its epoch", type=int, metavar="EPOCH")
    known.value("coordinator-epoch", help="abort, for brokers before 3.0: the coordinator's epoch", type=int)
    known.value(
        "max-transaction-timeout", help="find-hanging: the minimum age (default: 15)", type=int, metavar="MINUTES"
    )
    return known


def run(known: Options, arguments: Sequence[str]) -> int:
    """Run the command given on the command line."""
    values = known.parse(arguments)
    command = _command(known, values)
    if command == "find-hanging":
        _check_search(values)
    with cluster_of(values) as cluster:
        if command == "list":
            _list(cluster, values)
        elif command == "describe":
            _describe(cluster, values.text("transactional-id") or "")
        elif command == "describe-producers":
            _describe_producers(cluster, values)
        elif command == "abort":
            _abort(cluster, values)
        elif command == _FORCE:
            _terminate(cluster, values.text("transactionalId") or "")
        else:
            _find_hanging(cluster, values)
    return 0


def _command(known: Options, values: Values) -> str:
    """Return the command given on the command line.

    Raises:
        ToolError: The command line is invalid. The usage is printed first, as in argparse4j.
    """
    word = values.words[0] if values.words else None
    if word is not None and word not in _KNOWN:
        choices = ", ".join(f"'{each}'" for each in _REQUIRED)
        problem = f"invalid choice: '{word}' (choose from {choices})"
    else:
        required = (*_KNOWN.get(word or "", ()), "bootstrap-server")
        missing = [name for name in required if not values.has(name)]
        problem = f"argument --{missing[0]} is required" if missing else ""
        if word is None:
            problem = "too few arguments"
        elif not missing:
            return word
    known.print_usage()
    raise ToolError(f"{known.tool}.sh: error: {problem}")


def _explained(message: str) -> AbstractContextManager[None]:
    """Return a context manager that prefixes failures with `message`."""
    return retold(lambda error: f"{message}: {error.message}. Enable debug logging for additional detail.")


def _terminate(cluster: Cluster, transactional_id: str) -> None:
    """Abort a producer's transaction and fence the producer."""
    with _explained(f"Failed to force terminate transactionalId `{transactional_id}`"):
        Transactions(cluster, transactional_id, int(cluster.settings.milliseconds("request.timeout.ms") * 1000))


def _list(cluster: Cluster, values: Values) -> None:
    with _explained("Failed to list transactions"):
        listings = list_transactions(
            cluster, duration=values.number("duration-filter", -1), pattern=values.text("transactional-id-pattern")
        )
    print_table(_LIST, sorted(listings))


def _describe(cluster: Cluster, transactional_id: str) -> None:
    with _explained(f"Failed to describe transaction state of transactional-id `{transactional_id}`"):
        found = describe_transaction(cluster, transactional_id)
    is_open = found.started >= 0
    started: object = found.started if is_open else "None"
    duration: object = _now_ms() - found.started if is_open else "None"
    partitions = ",".join(named(each) for each in sorted(found.partitions))
    print_table(_DESCRIBE, [(*found[:6], started, duration, partitions)])


def _describe_producers(cluster: Cluster, values: Values) -> None:
    partition, node = _partition(values), values.get("broker-id")
    place = "leader" if node is None else f"broker {node}"
    with _explained(f"Failed to describe producers for partition {named(partition)} on {place}"):
        found = describe_producers(cluster, [partition], node)[partition]
    print_table(
        _PRODUCERS,
        [
            (
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.last_sequence,
                each.last_timestamp,
                each.current_txn_start_offset if each.current_txn_start_offset >= 0 else "None",
            )
            for each in found
        ],
    )


def _abort(cluster: Cluster, values: Values) -> None:
    if not values.has("start-offset") and not values.has("producer-id"):
        raise ToolError(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    partition = _partition(values)
    if values.has("start-offset"):
        marker = _marker_at(cluster, partition, values.number("start-offset", 0))
    else:
        for name in ("producer-epoch", "coordinator-epoch"):
            if not values.has(name):
                raise ToolError(f"Missing required argument --{name}")
        epoch = max(values.number("coordinator-epoch", 0), 0)  # It is -1 before the coordinator's first marker.
        marker = Marker(partition, values.number("producer-id", 0), values.number("producer-epoch", 0), epoch)
    with _explained(f"Failed to abort transaction {marker}"):
        abort(cluster, marker)


def _marker_at(cluster: Cluster, partition: TopicPartition, start: int) -> Marker:
    with _explained(f"Failed to validate producer state for partition {named(partition)}"):
        found = describe_producers(cluster, [partition])[partition]
    for each in found:
        if each.current_txn_start_offset == start >= 0:
            return Marker(partition, each.producer_id, each.producer_epoch, max(each.coordinator_epoch, 0))
    raise ToolError(f"Could not find any open transactions starting at offset {start} on partition {named(partition)}")


def _check_search(values: Values) -> None:
    if not values.has("topic") and not values.has("broker-id"):
        if values.has("partition"):
            raise ToolError("The --partition argument requires --topic to be provided")
        raise ToolError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if values.has("partition") and not values.has("topic"):
        raise ToolError("The --partition argument requires --topic to be provided")


def _find_hanging(cluster: Cluster, values: Values) -> None:
    node: int | None = values.get("broker-id")
    oldest = _now_ms() - values.number("max-transaction-timeout", _DEFAULT_MINUTES) * _MINUTE_MS
    partitions = _partitions_to_search(cluster, values, node)
    candidates: list[_Open] = []
    for start in range(0, len(partitions), _BATCH):
        batch = partitions[start : start + _BATCH]
        with _explained(f"Failed to describe producers for {len(batch)} partitions on broker {_optional(node)}"):
            found = describe_producers(cluster, batch, node)
        candidates += [
            _Open(partition, producer)
            for partition, producers in found.items()
            for producer in producers
            if producer.current_txn_start_offset >= 0 and producer.last_timestamp < oldest
        ]
    _print_hanging(_hanging(cluster, candidates) if candidates else [])


def _partitions_to_search(cluster: Cluster, values: Values, node: int | None) -> list[TopicPartition]:
    if values.has("topic") and values.has("partition"):
        return [_partition(values)]
    topic = values.text("topic")
    with _explained("Failed to list topics" if topic is None else "Failed to describe 1 topics"):
        topics = cluster.metadata().topics if topic is None else cluster.topics([topic])
    return [
        (each.name or "", partition.partition_index)
        for each in topics
        for partition in each.partitions
        if node is None or node in partition.replica_nodes
    ]


def _hanging(cluster: Cluster, candidates: Sequence[_Open]) -> list[_Open]:
    """Return the open transactions that no coordinator will end."""
    producers = sorted({each.producer.producer_id for each in candidates})
    with _explained(f"Failed to list transactions for {len(producers)} producers"):
        listings = list_transactions(cluster, producer_ids=producers)
    ids = {each.producer_id: each.transactional_id for each in listings}
    with _explained(f"Failed to describe {len(ids)} transactions"):
        described = {producer: _description(cluster, each) for producer, each in ids.items()}
    ordered = sorted(candidates, key=lambda each: (each.partition, each.producer.producer_id))
    return [each for each in ordered if not _awaits_marker(each, described)]


def _awaits_marker(each: _Open, described: Mapping[int, Description | None]) -> bool:
    found = described.get(each.producer.producer_id)
    return found is not None and each.partition in found.partitions


def _description(cluster: Cluster, transactional_id: str) -> Description | None:
    try:
        return describe_transaction(cluster, transactional_id)
    except ApiError as error:
        if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        raise


def _print_hanging(found: Iterable[_Open]) -> None:
    now = _now_ms()
    print_table(
        _HANGING,
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
            for partition, producer in found
        ],
    )


def _partition(values: Values) -> TopicPartition:
    return values.text("topic") or "", values.number("partition", 0)


def _optional(node: int | None) -> str:
    """Return a broker id in the format of a Java Optional."""
    return "Optional.empty" if node is None else f"Optional[{node}]"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
