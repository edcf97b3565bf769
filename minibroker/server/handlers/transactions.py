"""Handlers for transactions: producer ids, added partitions and offsets, commits and aborts (KIP-98)."""

from collections.abc import Collection, Iterable
from functools import partial
from typing import Final

from minibroker.cluster.logs.error_mapping import downgrade_fenced_error
from minibroker.cluster.routing.routes import RefusedRequestError
from minibroker.cluster.routing.slices import ForEach, Served
from minibroker.cluster.topics import resolve_topic_ids
from minibroker.coordinators.groups.commits import check_member, commit, commit_response
from minibroker.coordinators.groups.modern.group import GroupRefusedError
from minibroker.coordinators.groups.registry import AnyGroup
from minibroker.coordinators.transactions.transaction import RAISES_EPOCHS, Marker, write_marker
from minibroker.coordinators.transactions.verification import writer_error
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, handles, topics_at
from minibroker.server.requests.elements import for_each_partition
from minibroker.server.requests.requirements import (
    asked_by_handler,
    check_right,
    on_cluster,
    on_each,
    on_group,
    on_request,
    on_transactional_id,
)
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from minibroker_protocol.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from minibroker_protocol.schema import first_version
from minibroker_storage.data_directory.names import TopicPartition

with lazy:
    from minibroker.coordinators.transactions import coordinator


_FENCED_SINCE: Final = 4


def _init_authorization_error(request: InitProducerIdRequest, call: Call) -> ErrorCode:
    """Return the error for a missing right. The right to write to any topic includes idempotent writes (KIP-679)."""
    if request.transactional_id is not None:
        operations = (Operation.WRITE, Operation.TWO_PHASE_COMMIT) if request.enable2_pc else (Operation.WRITE,)
        codes = (
            check_right(call, operation, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
            for operation in operations
        )
        return next(filter(None, codes), ErrorCode.NONE)
    allowed = call.allows(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME) or call.allows_somewhere(
        Operation.WRITE, ResourceType.TOPIC
    )
    return ErrorCode.NONE if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@handles(
    ApiKey.INIT_PRODUCER_ID,
    needs=on_request(
        _init_authorization_error,
        "WRITE on the transactional id, and TWO_PHASE_COMMIT for such a transaction; without one IDEMPOTENT_WRITE on "
        "the cluster, or WRITE on any topic",
    ),
    refusal=Refusal({"producer_id": -1, "producer_epoch": -1}),
)
def init_producer_id(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    """InitProducerId: return a producer id, and fence earlier producers of a transactional id.

    Versions 0-5 are served, and 6 with `unstable.api.versions.enable`. Without a transactional id the response is a
    new producer id with epoch 0, even if the producer sends its id (version 3, KIP-360).

    With a transactional id, a new epoch fences its earlier producers. If they left a transaction open, it is
    aborted and the response is CONCURRENT_TRANSACTIONS. The second attempt succeeds. A producer that sends its id
    and epoch keeps the id unless it is fenced.

    In version 6 a transaction can be part of an external coordinator's transaction, and then never times out (KIP-939).
    This requires `transaction.two.phase.commit.enable`. A request to keep a prepared transaction gets
    UNSUPPORTED_VERSION, since no release of Kafka supports that.

    Error codes:

    - PRODUCER_FENCED: a newer producer has fenced this one. Before version 4 this is INVALID_PRODUCER_EPOCH.
    - INVALID_REQUEST: the request has a producer id without an epoch, or the reverse.
    - INVALID_TRANSACTION_TIMEOUT: the timeout is not positive, or exceeds `transaction.max.timeout.ms`.
    - TRANSACTIONAL_ID_AUTHORIZATION_FAILED: `transaction.two.phase.commit.enable` is false.
    """
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH
    if has_id is not has_epoch:
        raise RefusedRequestError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _init_transactional_id(request, call)
    try:
        producer_id = call.core.producer_ids.next()
    except OSError:
        raise RefusedRequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from None
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


def _init_transactional_id(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    if request.transactional_id:
        if request.enable2_pc and not call.core.config.boolean("transaction.two.phase.commit.enable"):
            raise RefusedRequestError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if request.keep_prepared_txn:
            raise RefusedRequestError(ErrorCode.UNSUPPORTED_VERSION)
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = coordinator.ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    code, producer_id, producer_epoch = call.services.transactions.init_producer_id(
        request.transactional_id or "",
        request.transaction_timeout_ms,
        expected,
        never_ends=request.enable2_pc,
        node=call.node,
    )
    code = downgrade_fenced_error(code, call.api_version, fenced_since=_FENCED_SINCE)
    return InitProducerIdResponse(error_code=code, producer_id=producer_id, producer_epoch=producer_epoch)


_FIRST_FROM_BROKERS: Final = first_version(AddPartitionsToTxnRequest, "transactions")


def _addition_authorization_error(request: AddPartitionsToTxnRequest, call: Call) -> ErrorCode:
    """Return the error for a missing right. Clients send versions up to 3, and brokers send later versions."""
    if call.api_version >= _FIRST_FROM_BROKERS:
        return check_right(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    transactional_id = request.v3_and_below_transactional_id
    return check_right(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


@handles(
    ApiKey.ADD_PARTITIONS_TO_TXN,
    needs=on_request(
        _addition_authorization_error, "WRITE on the transactional id; CLUSTER_ACTION on the cluster from version 4 on"
    )
    & asked_by_handler("WRITE on each topic up to version 3"),
    names=topics_at("v3_and_below_topics.name", "partitions") | topics_at("transactions.topics.name", "partitions"),
)
def add_partitions_to_txn(request: AddPartitionsToTxnRequest, call: Call) -> Served[AddPartitionsToTxnResponse]:
    """AddPartitionsToTxn: add partitions to a transaction. The first partition opens the transaction (KIP-98).

    Versions 0-5 are served. Up to version 3 a client names the partitions of one transaction. Since version 4 a broker
    names the partitions of several transactions, and with `verify_only` only checks that they are already in the
    transactions (KIP-890). Either all partitions of a transaction are added or none is. Clients cannot add internal
    topics (TOPIC_AUTHORIZATION_FAILED, as in Kafka without an authorizer).

    Error codes:

    - TRANSACTION_ABORTABLE: a partition to verify is not in the transaction.
    - UNKNOWN_TOPIC_OR_PARTITION: the partition does not exist. The other partitions get OPERATION_NOT_ATTEMPTED.
    - PRODUCER_FENCED: a newer producer has fenced this one. Before version 2 this is INVALID_PRODUCER_EPOCH.
    """
    if call.api_version >= _FIRST_FROM_BROKERS:
        return ForEach(
            request.transactions,
            lambda transaction: AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=_add_partitions(transaction, call)
            ),
            lambda results: AddPartitionsToTxnResponse(results_by_transaction=results),
        )
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_add_partitions(transaction, call))


def _add_partitions(transaction: AddPartitionsToTxnTransaction, call: Call) -> list[AddPartitionsToTxnTopicResult]:
    partitions: list[TopicPartition] = []
    refused: dict[TopicPartition, ErrorCode] = {}
    for topic in transaction.topics:
        topic_partitions = [(topic.name, index) for index in topic.partitions]
        partitions += topic_partitions
        refused |= _partition_errors(topic.name, topic_partitions, call)
    if refused:
        return _topic_results(
            (partition, refused.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED))
            for partition in dict.fromkeys(partitions)
        )
    coordinator = call.services.transactions
    producer = transaction.transactional_id, transaction.producer_id, transaction.producer_epoch
    if transaction.verify_only:
        transaction_or_error = coordinator.find(*producer, call.node)
        return _topic_results(
            (
                partition,
                transaction_or_error
                if isinstance(transaction_or_error, ErrorCode)
                else transaction_or_error.membership_error(partition),
            )
            for partition in dict.fromkeys(partitions)
        )
    # Brokers send these versions only for producers that support epochs raised by the coordinator.
    version = RAISES_EPOCHS if call.api_version >= _FIRST_FROM_BROKERS else 0
    added = coordinator.add_partitions(*producer, partitions, node=call.node, client_version=version)
    error = downgrade_fenced_error(added, call.api_version)
    return _topic_results((partition, error) for partition in partitions)  # A partition named twice has two results.


def _partition_errors(name: str, partitions: list[TopicPartition], call: Call) -> dict[TopicPartition, ErrorCode]:
    """Return the partitions of a topic that do not exist or that the client may not write to, with their errors."""
    topic = call.core.topics.get(name)
    if call.api_version < _FIRST_FROM_BROKERS and (
        (topic is not None and topic.is_internal) or not call.allows(Operation.WRITE, ResourceType.TOPIC, name)
    ):
        return dict.fromkeys(partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    unknown = (partition for partition in partitions if topic is None or topic.partition(partition[1]) is None)
    return dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _topic_results(outcomes: Iterable[tuple[TopicPartition, ErrorCode]]) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (name, index), error in outcomes:
        topic = topics.setdefault(name, AddPartitionsToTxnTopicResult(name=name, results_by_partition=[]))
        topic.results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
        )
    return list(topics.values())


@handles(ApiKey.ADD_OFFSETS_TO_TXN, needs=on_transactional_id(Operation.WRITE) & on_group(Operation.READ))
def add_offsets_to_txn(request: AddOffsetsToTxnRequest, call: Call) -> AddOffsetsToTxnResponse:
    """AddOffsetsToTxn: add a group's offsets to a transaction (KIP-98).

    Versions 0-4 are served. The group's partition of `__consumer_offsets` is added to the transaction, as by
    AddPartitionsToTxn. Before version 2, INVALID_PRODUCER_EPOCH is returned instead of PRODUCER_FENCED.
    """
    error = call.services.transactions.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [(CONSUMER_OFFSETS, call.services.groups.store.partition_of(request.group_id))],
        node=call.node,
    )
    return AddOffsetsToTxnResponse(error_code=downgrade_fenced_error(error, call.api_version))


_FIRST_WITH_LOADING: Final = 2
_FIRST_WITH_ABORTABLE: Final = 4
_FIRST_THAT_ADDS_PARTITION: Final = 5
_FIRST_WITH_TOPIC_IDS: Final = first_version(TxnOffsetCommitRequestTopic, "topic_id")


@handles(
    ApiKey.TXN_OFFSET_COMMIT,
    needs=on_transactional_id(Operation.WRITE) & on_group(Operation.READ) & on_each(Operation.READ, ResourceType.TOPIC),
    names=topics_at("topics.name", "partitions.partition_index"),
)
def txn_offset_commit(request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse:
    """TxnOffsetCommit: commit a group's offsets as part of a producer's transaction (KIP-98, KIP-447).

    Versions 0-6 are served. Offsets are written to `__consumer_offsets` and take effect when the transaction
    commits. Before version 5 AddOffsetsToTxn must have added the group's partition of `__consumer_offsets`. Since
    version 5 this request itself adds it. Version 6 names topics by id. Since version 3 the member and its
    generation are checked as in OffsetCommit, except for generation -1 without a member id. Earlier versions do not
    identify the member.

    Error codes:

    - INVALID_TXN_STATE: the group's partition was not added. In version 4 this is TRANSACTION_ABORTABLE (KIP-890).
    - UNKNOWN_TOPIC_ID, GROUP_ID_NOT_FOUND: the topic or the group does not exist (version 6).
    - COORDINATOR_NOT_AVAILABLE: the group is still loading (versions 0 and 1). Producers from the time of these
      versions can handle this error (KAFKA-7296).
    """
    store = call.services.groups.store
    topics: list[TxnOffsetCommitRequestTopic] = request.topics

    def admit(partitions: Collection[TopicPartition]) -> AnyGroup:
        code = (
            ErrorCode.INVALID_GROUP_ID if not request.group_id else store.check_readiness(request.group_id, call.node)
        )
        if not code and call.api_version >= _FIRST_WITH_TOPIC_IDS and request.generation_id_or_member_epoch >= 0:
            code = ErrorCode.NONE if store.find(request.group_id) is not None else ErrorCode.GROUP_ID_NOT_FOUND
        if code:
            raise GroupRefusedError(code)
        group = store.find_or_create(request.group_id)
        code = _verify(request, call)
        if code:
            raise GroupRefusedError(code)
        check_member(call.core, group, request, partitions, is_transactional=True, version=call.api_version)
        return group

    write = partial(store.commit, producer_id=request.producer_id, producer_epoch=request.producer_epoch)
    unknown: list[TxnOffsetCommitRequestTopic] = []
    if call.api_version >= _FIRST_WITH_TOPIC_IDS:
        topics, unknown = resolve_topic_ids(call.core.topics, topics)
    merges = call.services.is_before("4.0")
    outcomes = commit(call.core, topics, admit, write, merges=merges)
    if call.api_version < _FIRST_WITH_LOADING:
        loading, unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE
        outcomes = [
            (name, [(index, unavailable if code is loading else code) for index, code in partitions])
            for name, partitions in outcomes
        ]
    responses = commit_response(
        outcomes, topics, unknown, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition
    )
    return TxnOffsetCommitResponse(topics=responses)


def _verify(request: TxnOffsetCommitRequest, call: Call) -> ErrorCode:
    """Return an error unless the transaction has the group's partition or can add it.

    The check is skipped once the transaction has committed offsets of the group.
    """
    core = call.core
    store = call.services.groups.store
    adds = call.api_version >= _FIRST_THAT_ADDS_PARTITION
    if not adds and not core.config.boolean("transaction.partition.verification.enable"):
        return ErrorCode.NONE
    if store.has_ongoing_transaction(request.group_id, request.producer_id, request.producer_epoch):
        return ErrorCode.NONE
    verify = call.services.transactions.add_written if adds else call.services.transactions.verify
    code = verify(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        CONSUMER_OFFSETS,
        store.partition_of(request.group_id),
    )
    return writer_error(code, supports_abortable=call.api_version >= _FIRST_WITH_ABORTABLE)


_FIRST_WITH_NEXT_EPOCH: Final = first_version(EndTxnResponse, "producer_epoch")


@handles(ApiKey.END_TXN, needs=on_transactional_id(Operation.WRITE))
def end_txn(request: EndTxnRequest, call: Call) -> EndTxnResponse:
    """EndTxn: commit or abort a transaction (KIP-98).

    Versions 0-5 are served. All markers are in the logs before the response is sent, while Kafka responds when the
    outcome is decided, and writes the markers afterwards. Repeating a request is not an error. Version 5 raises the
    producer's epoch and returns it (KIP-890), with a new producer id if the old one has no epochs left. It can also
    abort a transaction that has written nothing.

    Error codes:

    - INVALID_TXN_STATE: there is no transaction, or it has already ended with the other outcome.
    - PRODUCER_FENCED: a newer producer has fenced this one. Before version 2 this is INVALID_PRODUCER_EPOCH.
    """
    error, producer_id, producer_epoch = call.services.transactions.end(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        commit=request.committed,
        raises_epoch=call.api_version >= _FIRST_WITH_NEXT_EPOCH,
        node=call.node,
    )
    code = downgrade_fenced_error(error, call.api_version)
    return EndTxnResponse(error_code=code, producer_id=producer_id, producer_epoch=producer_epoch)


@handles(
    ApiKey.WRITE_TXN_MARKERS,
    needs=on_cluster(Operation.ALTER, Operation.CLUSTER_ACTION),
    names=topics_at("markers.topics.name", "partition_indexes"),
)
def write_txn_markers(request: WriteTxnMarkersRequest, call: Call) -> ForEach[WriteTxnMarkersResponse]:
    """WriteTxnMarkers: write the markers that end transactions to logs (KIP-98).

    Versions 0-2 are served. Coordinators send this request, and administrators abort hanging transactions with it.
    A marker is written even if no transaction is open. See `write_marker` for the errors.
    """

    def write(marker: WritableTxnMarker) -> ForEach[WritableTxnMarkerResult]:
        end = Marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        return for_each_partition(
            marker.topics,
            "partition_indexes",
            lambda topic, index: WritableTxnMarkerPartitionResult(
                partition_index=index, error_code=write_marker(call.core, topic.name, index, end, node=call.node)
            ),
            lambda topic, partitions: WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions),
            lambda topics: WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics),
        )

    return ForEach(request.markers, write, lambda results: WriteTxnMarkersResponse(markers=results))
