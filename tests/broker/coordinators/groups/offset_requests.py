"""Functions that make the requests for committed offsets."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from minibroker.coordinators.groups.classic.group import Group
from minibroker_protocol.coordinator_records import (
    ConsumerProtocolSubscription,
    GroupMetadataValue,
    MemberMetadata,
    encode_versioned,
)
from minibroker_protocol.messages.metadata import MetadataRequest
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from minibroker_protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.coordinators.transactions.producer import Asks
from tests.broker.harness import Harness

NOTHING: Final = (-1, -1, "", 0)
"""OffsetFetch without a committed offset: offset, leader epoch, metadata and error code."""
MEMBER: Final[dict[str, Any]] = {"member_id": "m", "generation_id_or_member_epoch": 3}
"""Request fields for commits of the member in `with_members`."""
FIRST_WITH_TOPIC_IDS: Final = 10
"""The first version of OffsetCommit and OffsetFetch with topic ids."""
Place = tuple[str, int]
Found = tuple[int, int, str, int]


def commit_request(
    offsets: Mapping[Place, int], group_id: str = "g", *, metadata: str | None = "", **fields: Any
) -> OffsetCommitRequest:
    """Return a commit of an offset for each (topic, partition). Partition fields in `fields` begin with `each_`."""
    partition_fields = {
        name.removeprefix("each_"): fields.pop(name) for name in list(fields) if name.startswith("each_")
    }
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=metadata, **partition_fields
            )
        )
    requested_topics = [
        OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()
    ]
    return OffsetCommitRequest(group_id=group_id, topics=requested_topics, **fields)


def with_ids(broker: Asks, topics: Sequence[Any]) -> dict[bytes, str]:
    """Set the topic ids in a request, and return topic names by id. A missing topic gets an id that no topic has."""
    names: dict[bytes, str] = {
        topic.topic_id: topic.name for topic in broker.ask(MetadataRequest(topics=None), 12).topics
    }
    ids = {name: topic_id for topic_id, name in names.items()}
    for each in topics:
        each.topic_id = ids.get(each.name) or each.name.encode().ljust(16, b"?")
        names[each.topic_id] = each.name
    return names


def commit(
    broker: Asks, offsets: Mapping[Place, int], group_id: str = "g", *, version: int = 9, **fields: Any
) -> dict[Place, int]:
    """Commit offsets, and return the error code of each partition."""
    request = commit_request(offsets, group_id, **fields)
    names = with_ids(broker, request.topics) if version >= FIRST_WITH_TOPIC_IDS else {}
    response = broker.ask(request, version)
    return {
        (topic.name or names[topic.topic_id], partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }


def fetch(
    broker: Asks, *places: Place, group_id: str = "g", version: int = 9, stable: bool = False
) -> dict[Place, Found]:
    """Return the committed offsets of some partitions, or of all without any. The group must not have an error."""
    code, offsets = fetch_with_error(broker, *places, group_id=group_id, version=version, stable=stable)
    assert code == 0
    return offsets


def fetch_with_error(
    broker: Asks, *places: Place, group_id: str = "g", version: int = 9, stable: bool = False
) -> tuple[int, dict[Place, Found]]:
    """Return the error code of the group, and its committed offsets."""
    topics: dict[str, list[int]] = {}
    names: dict[bytes, str] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    if version >= 8:
        requested_topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=entry) for name, entry in topics.items()
        ]
        names = with_ids(broker, requested_topics) if version >= FIRST_WITH_TOPIC_IDS else {}
        group = OffsetFetchRequestGroup(group_id=group_id, topics=requested_topics if places else None)
        (answer,) = broker.ask(OffsetFetchRequest(groups=[group], require_stable=stable), version).groups
        assert answer.group_id == group_id
    else:
        old_topics = [OffsetFetchRequestTopic(name=name, partition_indexes=entry) for name, entry in topics.items()]
        request = OffsetFetchRequest(group_id=group_id, topics=old_topics if places else None, require_stable=stable)
        answer = broker.ask(request, version)
    return answer.error_code, {
        (names[topic.topic_id] if names else topic.name, entry.partition_index): (
            entry.committed_offset,
            entry.committed_leader_epoch,
            entry.metadata,
            entry.error_code,
        )
        for topic in answer.topics
        for entry in topic.partitions
    }


def offsets_of(broker: Asks, group_id: str = "g") -> dict[Place, int]:
    """Return all committed offsets of a group."""
    return {place: values[0] for place, values in fetch(broker, group_id=group_id).items()}


def delete(broker: Asks, *places: Place, group_id: str = "g") -> tuple[int, dict[Place, int]]:
    """Send an OffsetDelete, and return the error code of the response and of each partition."""
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=partition))
    requested_topics = [OffsetDeleteRequestTopic(name=name, partitions=entry) for name, entry in topics.items()]
    response = broker.ask(OffsetDeleteRequest(group_id=group_id, topics=requested_topics), 0)
    return response.error_code, {
        (topic.name, entry.partition_index): entry.error_code for topic in response.topics for entry in topic.partitions
    }


def delete_topics(harness: Harness, *names: str) -> None:
    """Delete topics."""
    topics = [DeleteTopicState(name=name) for name in names]
    for result in harness.ask(DeleteTopicsRequest(topics=topics, timeout_ms=1000), 6).responses:
        assert result.error_code == 0


def group_of(harness: Harness, group_id: str = "g") -> Group:
    """Return a classic group, which must exist."""
    group = harness.services.groups.store.get(group_id)
    assert group is not None
    return group


def with_members(
    harness: Harness,
    group_id: str = "g",
    *,
    members: tuple[str, ...] = ("m",),
    topics: tuple[str, ...] = ("t",),
    protocol_type: str = "consumer",
    generation: int = 3,
    subscription: bytes | None = None,
) -> Group:
    """Make a stable group whose members subscribe to some topics, without sending requests."""
    if subscription is None:
        subscription = encode_versioned(ConsumerProtocolSubscription(topics=list(topics)), 0)
    group = harness.services.groups.store.get_or_create(group_id)
    for member_id in tuple(group.members):
        group.remove(member_id)
    group.restore(
        GroupMetadataValue(
            protocol_type=protocol_type,
            generation=generation,
            protocol="range" if members else None,
            leader=members[0] if members else None,
            current_state_timestamp=harness.clock.now_ms(),
            members=[
                MemberMetadata(
                    member_id=member,
                    client_id="test",
                    client_host="/127.0.0.1",
                    session_timeout=10_000,
                    subscription=memoryview(subscription),
                    assignment=memoryview(b""),
                )
                for member in members
            ],
        )
    )
    return group
