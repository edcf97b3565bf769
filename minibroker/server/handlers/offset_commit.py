"""OffsetCommit: how far a group has read.

Versions 0-10. Version 0, which older Kafkas kept in ZooKeeper and newer ones refuse, is served as any other. A
partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION, and one of an unknown topic id UNKNOWN_TOPIC_ID
(version 10 names topics by their ids); metadata beyond `offset.metadata.max.bytes` is OFFSET_METADATA_TOO_LARGE. Over
the rest the group decides: a member is held against its generation (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
ILLEGAL_GENERATION), and gets REBALANCE_IN_PROGRESS while assignments are made; a client without a generation may commit
while the group has no members. For a group that does not exist a generation is GROUP_ID_NOT_FOUND from version 9 on, as
in Kafka 4, and ILLEGAL_GENERATION otherwise. A commit counts as a heartbeat. The retention that versions 2-4 may ask
for is kept to, up to the last moment that there is; version 1 may set the time of the commit.
"""

from collections.abc import Collection
from typing import Final

from minibroker.cluster.topics import with_names
from minibroker.coordinators.groups.commits import RefusedCommitError, commit, commit_response, is_late_but_fine
from minibroker.coordinators.groups.registry import AnyGroup
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import topics_at
from minibroker.server.requests.requirements import on_each, on_group
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minibroker_protocol.schema import first_version
from minibroker_storage.data_directory.names import TopicPartition

_FIRST_WITH_UNKNOWN_GROUPS: Final = 9
_FIRST_WITH_TOPIC_IDS: Final = first_version(OffsetCommitRequestTopic, "topic_id")

NAMES: Final = topics_at("topics.name", "partitions.partition_index")
NEEDS: Final = on_group(Operation.READ) & on_each(Operation.READ, ResourceType.TOPIC)


def handle(request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    """Write the offsets to `__consumer_offsets`; they are in the file when the answer leaves."""
    core = call.core
    store = call.services.groups.store
    topics: list[OffsetCommitRequestTopic] = request.topics

    def admit(places: Collection[TopicPartition]) -> AnyGroup:
        code = store.readiness(request.group_id, call.node)
        if code:
            raise RefusedCommitError(code)
        generation = request.generation_id_or_member_epoch
        if generation >= 0 and store.find(request.group_id) is None:
            knows_groups = call.api_version >= _FIRST_WITH_UNKNOWN_GROUPS and not call.services.is_before("4.0")
            raise RefusedCommitError(ErrorCode.GROUP_ID_NOT_FOUND if knows_groups else ErrorCode.ILLEGAL_GENERATION)
        group = store.find_or_create(request.group_id)
        code = group.validate_commit(
            request.member_id,
            request.group_instance_id,
            generation,
            is_transactional=False,
            version=call.api_version,
        )
        is_before_4_3 = call.services.is_before("4.3")
        if code and not is_late_but_fine(group, code, request, places, core.topics, is_before_4_3=is_before_4_3):
            raise RefusedCommitError(code)
        group.note_activity(request.member_id)
        return group

    unknown: list[OffsetCommitRequestTopic] = []
    if call.api_version >= _FIRST_WITH_TOPIC_IDS:
        topics, unknown = with_names(core.topics, topics)
    merges = call.services.is_before("4.0")
    outcomes = commit(core, topics, admit, store.commit, merges=merges, retention_ms=request.retention_time_ms)
    responses = commit_response(outcomes, topics, unknown, OffsetCommitResponseTopic, OffsetCommitResponsePartition)
    return OffsetCommitResponse(topics=responses)
