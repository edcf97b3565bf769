"""A well-formed answer to any request that says nothing but an error.

`error_answer` is what `AbstractRequest.getErrorResponse` makes of the same request in the newest Kafka that has its
version (4.4, or 3.9 for what 4 has dropped): the error stands at the top of the answer, or at each topic, partition,
group or id that the request names, as the API has it. `part_answer` has it at the partitions, also where Kafka's would
stand at the top: for errors of some partitions beside others that are served. `merged` brings the two together.
"""

import dataclasses
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final, cast

from minibroker.faults.cluster_error_answers import CLUSTER_ANSWERS, CLUSTER_PARTS
from minibroker.faults.config_error_answers import CONFIG_ANSWERS
from minibroker.faults.consumer_group_error_answers import CONSUMER_GROUP_ANSWERS
from minibroker.faults.declarations import Answering, alone, messages_of
from minibroker.faults.security_error_answers import SECURITY_ANSWERS
from minibroker.faults.transaction_error_answers import TRANSACTION_ANSWERS, TRANSACTION_PARTS
from minibroker.requests.pieces import identity, is_large, join, pieces_of
from minibroker.slices import Steps, drain
from minibroker_protocol.error_codes import ErrorCode

_NO_OFFSET: Final = -1
_FIRST_FETCH_WITH_IDS: Final = 13
"""Its clients look at the error of the whole."""
_FIRST_OFFSET_FETCH_WITH_TOP_LEVEL: Final = 2
_FIRST_OFFSET_FETCH_WITH_GROUPS: Final = 8
_FIRST_JOIN_WITH_NULL_PROTOCOL: Final = 7
_FIRST_COORDINATORS: Final = 4


def _named(topic: Any) -> dict[str, Any]:
    """The name of a topic, and its id in APIs that have versions with ids."""
    return {"name": topic.name, "topic_id": topic.topic_id} if hasattr(topic, "topic_id") else {"name": topic.name}


def _produce(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("produce")
    return m.ProduceResponse(
        responses=[
            m.TopicProduceResponse(
                **_named(topic),
                partition_responses=[
                    m.PartitionProduceResponse(index=each.index, error_code=code, base_offset=_NO_OFFSET)
                    for each in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _fetch(request: Any, version: int, code: ErrorCode) -> Any:
    m = messages_of("fetch")
    if version >= _FIRST_FETCH_WITH_IDS:
        return m.FetchResponse(error_code=code, session_id=request.session_id, responses=[])
    return m.FetchResponse(
        error_code=code,
        session_id=request.session_id,
        responses=[
            m.FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[fetch_error(each.partition, code) for each in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def fetch_error(partition: int, code: ErrorCode) -> Any:
    """What a fetch is told of one partition."""
    data = messages_of("fetch").PartitionData
    return data(
        partition_index=partition, error_code=code, high_watermark=_NO_OFFSET, aborted_transactions=[], records=b""
    )


def _list_offsets(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("list_offsets")
    return m.ListOffsetsResponse(
        topics=[
            m.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    m.ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _metadata(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("metadata")
    return m.MetadataResponse(
        error_code=code,
        brokers=[],
        topics=[
            m.MetadataResponseTopic(error_code=code, name=each.name or "", topic_id=each.topic_id, partitions=[])
            for each in request.topics or ()
        ],
    )


def _offset_fetch(request: Any, version: int, code: ErrorCode) -> Any:
    m = messages_of("offset_fetch")
    if version >= _FIRST_OFFSET_FETCH_WITH_GROUPS:
        groups = [m.OffsetFetchResponseGroup(group_id=g.group_id, topics=[], error_code=code) for g in request.groups]
        return m.OffsetFetchResponse(groups=groups)
    if version >= _FIRST_OFFSET_FETCH_WITH_TOP_LEVEL:
        return m.OffsetFetchResponse(error_code=code)
    return _offset_fetch_parts(request, version, code)


def _offset_fetch_parts(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("offset_fetch")

    def parts(topics: Any, topic_class: Any, partition_class: Any) -> list[Any]:
        return [
            topic_class(
                **_named(topic),
                partitions=[
                    partition_class(partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in topics or ()
        ]

    return m.OffsetFetchResponse(
        topics=parts(request.topics, m.OffsetFetchResponseTopic, m.OffsetFetchResponsePartition),
        groups=[
            m.OffsetFetchResponseGroup(
                group_id=group.group_id,
                topics=parts(group.topics, m.OffsetFetchResponseTopics, m.OffsetFetchResponsePartitions),
            )
            for group in request.groups
        ],
    )


def _find_coordinator(request: Any, version: int, code: ErrorCode) -> Any:
    m = messages_of("find_coordinator")
    if version < _FIRST_COORDINATORS:
        return m.FindCoordinatorResponse(error_code=code, error_message=code.meaning, node_id=-1, host="", port=-1)
    return m.FindCoordinatorResponse(
        coordinators=[
            m.Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=code.meaning)
            for key in request.coordinator_keys
        ]
    )


def _join_group(_request: Any, version: int, code: ErrorCode) -> Any:
    return messages_of("join_group").JoinGroupResponse(
        error_code=code,
        protocol_name="" if version < _FIRST_JOIN_WITH_NULL_PROTOCOL else None,
        leader="",
        member_id="",
        members=[],
    )


def _describe_groups(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("describe_groups")
    return m.DescribeGroupsResponse(
        groups=[
            m.DescribedGroup(
                error_code=code, group_id=group, group_state="", protocol_type="", protocol_data="", members=[]
            )
            for group in request.groups
        ]
    )


def _api_versions(_request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("api_versions")
    keys: list[Any] = []
    if code is ErrorCode.UNSUPPORTED_VERSION:  # what the client may ask with instead (KIP-511)
        from minibroker.dispatch import endpoint  # noqa: PLC0415 - dispatch is what calls
        from minibroker_protocol.api_keys import ApiKey  # noqa: PLC0415 - the same

        route = endpoint(ApiKey.API_VERSIONS).route
        keys = [m.ApiVersion(api_key=route.key, min_version=route.first, max_version=route.last)]
    return m.ApiVersionsResponse(error_code=code, api_keys=keys)


def _create_topics(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("create_topics")
    return m.CreateTopicsResponse(
        topics=[m.CreatableTopicResult(name=each.name, error_code=code, configs=[]) for each in request.topics]
    )


def _delete_topics(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("delete_topics")
    states = [*request.topics, *(SimpleNamespace(name=name, topic_id=bytes(16)) for name in request.topic_names)]
    return m.DeleteTopicsResponse(
        responses=[m.DeletableTopicResult(name=each.name, topic_id=each.topic_id, error_code=code) for each in states]
    )


def _create_partitions(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("create_partitions")
    return m.CreatePartitionsResponse(
        results=[m.CreatePartitionsTopicResult(name=each.name, error_code=code) for each in request.topics]
    )


def _delete_groups(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("delete_groups")
    results = [m.DeletableGroupResult(group_id=group, error_code=code) for group in request.groups_names]
    return m.DeleteGroupsResponse(results=results)


def _describe_client_quotas(_request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("describe_client_quotas")
    return m.DescribeClientQuotasResponse(error_code=code, error_message=None, entries=None)


def _alter_client_quotas(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("alter_client_quotas")
    entries = [
        m.AlteredEntryData(error_code=code, error_message=code.meaning, entity=entry.entity)
        for entry in request.entries
    ]
    return m.AlterClientQuotasResponse(entries=entries)


def _of_partitions(module: str, response: str, topic: str, partition: str) -> Answering:
    """Answers to requests for topics with partitions that say a number and a code of each."""

    def answer(request: Any, _version: int, code: ErrorCode) -> Any:
        m = messages_of(module)
        one, all_of_it = getattr(m, partition), getattr(m, topic)
        topics = [
            all_of_it(
                **_named(each),
                partitions=[one(partition_index=p.partition_index, error_code=code) for p in each.partitions],
            )
            for each in request.topics
        ]
        return getattr(m, response)(topics=topics)

    return answer


def _offset_for_leader_epoch(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("offset_for_leader_epoch")
    topics = [
        m.OffsetForLeaderTopicResult(
            topic=each.topic,
            partitions=[m.EpochEndOffset(partition=p.partition, error_code=code) for p in each.partitions],
        )
        for each in request.topics
    ]
    return m.OffsetForLeaderEpochResponse(topics=topics)


def _offset_delete_parts(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("offset_delete")
    topics = [
        m.OffsetDeleteResponseTopic(
            name=each.name,
            partitions=[
                m.OffsetDeleteResponsePartition(partition_index=p.partition_index, error_code=code)
                for p in each.partitions
            ],
        )
        for each in request.topics
    ]
    return m.OffsetDeleteResponse(error_code=0, topics=topics)


def _create_acls(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("create_acls")
    results = [m.AclCreationResult(error_code=code, error_message=None) for _ in request.creations]
    return m.CreateAclsResponse(results=results)


def _delete_acls(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("delete_acls")
    return m.DeleteAclsResponse(
        filter_results=[
            m.DeleteAclsFilterResult(error_code=code, error_message=None, matching_acls=[]) for _ in request.filters
        ]
    )


_ANSWERS: Final[dict[str, Answering]] = {
    **TRANSACTION_ANSWERS,
    "Produce": _produce,
    "Fetch": _fetch,
    "ListOffsets": _list_offsets,
    "Metadata": _metadata,
    "OffsetCommit": _of_partitions(
        "offset_commit", "OffsetCommitResponse", "OffsetCommitResponseTopic", "OffsetCommitResponsePartition"
    ),
    "OffsetFetch": _offset_fetch,
    "FindCoordinator": _find_coordinator,
    "JoinGroup": _join_group,
    "Heartbeat": alone("heartbeat", "HeartbeatResponse"),
    "LeaveGroup": alone("leave_group", "LeaveGroupResponse"),
    "SyncGroup": alone("sync_group", "SyncGroupResponse", assignment=bytes),
    "DescribeGroups": _describe_groups,
    "ListGroups": alone("list_groups", "ListGroupsResponse", groups=list),
    "ApiVersions": _api_versions,
    "CreateTopics": _create_topics,
    "DeleteTopics": _delete_topics,
    "DeleteRecords": _of_partitions(
        "delete_records", "DeleteRecordsResponse", "DeleteRecordsTopicResult", "DeleteRecordsPartitionResult"
    ),
    "OffsetForLeaderEpoch": _offset_for_leader_epoch,
    "AddOffsetsToTxn": alone("add_offsets_to_txn", "AddOffsetsToTxnResponse"),
    "EndTxn": alone("end_txn", "EndTxnResponse"),
    "TxnOffsetCommit": _of_partitions(
        "txn_offset_commit",
        "TxnOffsetCommitResponse",
        "TxnOffsetCommitResponseTopic",
        "TxnOffsetCommitResponsePartition",
    ),
    "DescribeAcls": alone("describe_acls", "DescribeAclsResponse", resources=list),
    "CreateAcls": _create_acls,
    "DeleteAcls": _delete_acls,
    "CreatePartitions": _create_partitions,
    "DeleteGroups": _delete_groups,
    "OffsetDelete": alone("offset_delete", "OffsetDeleteResponse", topics=list),
    "ListTransactions": alone(
        "list_transactions", "ListTransactionsResponse", unknown_state_filters=list, transaction_states=list
    ),
    "DescribeClientQuotas": _describe_client_quotas,
    "AlterClientQuotas": _alter_client_quotas,
    "AlterPartition": alone("alter_partition", "AlterPartitionResponse", topics=list),
    "Envelope": alone("envelope", "EnvelopeResponse"),
    "AllocateProducerIds": alone(
        "allocate_producer_ids", "AllocateProducerIdsResponse", producer_id_start=int, producer_id_len=int
    ),
    **CONSUMER_GROUP_ANSWERS,
    **CONFIG_ANSWERS,
    **SECURITY_ANSWERS,
    **CLUSTER_ANSWERS,
}
_PARTS: Final[dict[str, Answering]] = {
    **CLUSTER_PARTS,
    **TRANSACTION_PARTS,
    "OffsetFetch": _offset_fetch_parts,
    "OffsetDelete": _offset_delete_parts,
}


def error_answer(api: str, request: Any, version: int, code: ErrorCode) -> Any:
    """The response that refuses a whole request."""
    return _ANSWERS[api](request, version, code)


def part_answer(api: str, request: Any, version: int, code: ErrorCode) -> Any:
    """The response that refuses each partition, or topic, of a request."""
    return _PARTS.get(api, _ANSWERS[api])(request, version, code)


def refusal(api: str, request: Any, version: int, code: ErrorCode) -> Any:
    """`error_answer`, or the steps that lead to it if the request is large."""
    return (
        _refusal_in_slices(api, request, version, code)
        if is_large(request)
        else error_answer(api, request, version, code)
    )


def _refusal_in_slices(api: str, request: Any, version: int, code: ErrorCode) -> Steps[Any]:
    whole: Any = None
    for piece in pieces_of(request):
        part = error_answer(api, piece, version, code)
        if whole is None:
            whole = part
        else:
            join(whole, part)
        yield
    return whole


def merged(served: Any, refused: Any) -> Any:
    """`served` with the topics, partitions and so on of `refused` in its lists; both answer the same API."""
    return drain(merged_in_slices(served, refused))


def merged_in_slices(served: Any, refused: Any) -> Steps[Any]:
    """`merged`, with steps."""
    for field in dataclasses.fields(served):
        here, there = getattr(served, field.name), getattr(refused, field.name)
        if isinstance(there, list) and there:
            lists = yield from _merged_lists(here or [], cast("Sequence[Any]", there))
            setattr(served, field.name, lists)
    return served


def _merged_lists(here: list[Any], there: Sequence[Any]) -> Steps[list[Any]]:
    known: dict[Any, Any] = {}
    for each in here:
        known[identity(each)] = each
        yield
    for each in there:
        same = known.get(identity(each))
        if same is None or identity(each) is None:
            here.append(each)
        else:
            yield from merged_in_slices(same, each)
        yield
    return here
