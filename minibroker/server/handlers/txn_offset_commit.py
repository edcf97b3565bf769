"""TxnOffsetCommit: offsets that count once the producer's transaction is committed (KIP-98, KIP-447).

Versions 0-6. The group's partition of `__consumer_offsets` must have been added to the transaction with
AddOffsetsToTxn, else INVALID_TXN_STATE (version 4: TRANSACTION_ABORTABLE, KIP-890); from version 5 on the request
itself adds it. Version 6 names topics by their ids (UNKNOWN_TOPIC_ID), and knows GROUP_ID_NOT_FOUND. From version 3 on
a member is held against its generation as in OffsetCommit; below, and with generation -1 and no member id, nothing is
known of the committing member. Versions 0 and 1 return COORDINATOR_NOT_AVAILABLE while the group is loaded, which
producers of their time can bear (KAFKA-7296).
"""

from collections.abc import Collection
from functools import partial
from typing import Final

from minibroker.cluster.topics import with_names
from minibroker.coordinators.groups.commits import RefusedCommitError, commit, commit_response, is_late_but_fine
from minibroker.coordinators.groups.registry import AnyGroup
from minibroker.coordinators.transactions.verification import as_writers_know_it
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import topics_at
from minibroker.server.requests.requirements import on_each, on_group, on_transactional_id
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS
from minibroker_protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from minibroker_protocol.schema import first_version
from minibroker_storage.data_directory.names import TopicPartition

_FIRST_WITH_LOADING: Final = 2
_FIRST_WITH_ABORTABLE: Final = 4
_FIRST_THAT_ADDS: Final = 5
_FIRST_WITH_TOPIC_IDS: Final = first_version(TxnOffsetCommitRequestTopic, "topic_id")

NAMES: Final = topics_at("topics.name", "partitions.partition_index")
NEEDS: Final = (
    on_transactional_id(Operation.WRITE) & on_group(Operation.READ) & on_each(Operation.READ, ResourceType.TOPIC)
)


def handle(request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse:
    """Write the offsets to `__consumer_offsets`, as part of the producer's transaction."""
    store = call.services.groups.store
    topics: list[TxnOffsetCommitRequestTopic] = request.topics

    def admit(places: Collection[TopicPartition]) -> AnyGroup:
        code = ErrorCode.INVALID_GROUP_ID if not request.group_id else store.readiness(request.group_id, call.node)
        if not code and call.api_version >= _FIRST_WITH_TOPIC_IDS and request.generation_id_or_member_epoch >= 0:
            code = ErrorCode.NONE if store.find(request.group_id) is not None else ErrorCode.GROUP_ID_NOT_FOUND
        if code:
            raise RefusedCommitError(code)
        group = store.find_or_create(request.group_id)
        code = _verify(request, call)
        if code:
            raise RefusedCommitError(code)
        generation = request.generation_id_or_member_epoch
        code = group.validate_commit(
            request.member_id,
            request.group_instance_id,
            generation,
            is_transactional=True,
            version=call.api_version,
        )
        is_before_4_3 = call.services.is_before("4.3")
        if code and not is_late_but_fine(group, code, request, places, call.core.topics, is_before_4_3=is_before_4_3):
            raise RefusedCommitError(code)
        return group

    write = partial(store.commit, producer_id=request.producer_id, producer_epoch=request.producer_epoch)
    unknown: list[TxnOffsetCommitRequestTopic] = []
    if call.api_version >= _FIRST_WITH_TOPIC_IDS:
        topics, unknown = with_names(call.core.topics, topics)
    merges = call.services.is_before("4.0")
    outcomes = commit(call.core, topics, admit, write, merges=merges)
    if call.api_version < _FIRST_WITH_LOADING:
        outcomes = [
            (name, [(index, _reported(code, call.api_version)) for index, code in partitions])
            for name, partitions in outcomes
        ]
    responses = commit_response(
        outcomes, topics, unknown, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition
    )
    return TxnOffsetCommitResponse(topics=responses)


def _verify(request: TxnOffsetCommitRequest, call: Call) -> ErrorCode:
    """Whether the transaction has the group's partition, or may have it; not asked again once it has written there."""
    core = call.core
    store = call.services.groups.store
    adds = call.api_version >= _FIRST_THAT_ADDS
    if not adds and not core.config.boolean("transaction.partition.verification.enable"):
        return ErrorCode.NONE
    if store.has_ongoing_transaction(request.group_id, request.producer_id, request.producer_epoch):
        return ErrorCode.NONE
    ask = call.services.transactions.add_written if adds else call.services.transactions.verify
    code = ask(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        CONSUMER_OFFSETS,
        store.partition_of(request.group_id),
    )
    return as_writers_know_it(code, knows_abortable=call.api_version >= _FIRST_WITH_ABORTABLE)


def _reported(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _FIRST_WITH_LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
