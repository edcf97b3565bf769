"""Requests that are served in part, and the paths of a request to its handler."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from minibroker.cluster.routing.outcomes import Waiting
from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.security.authorization.acls import AclFilter, Operation, ResourceType
from minibroker.server.inspection.recording import recording_of
from minibroker.server.requests.dispatch import accept
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from minibroker_protocol.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest
from minibroker_protocol.messages.log_offsets import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minibroker_protocol.messages.produce import ProduceRequest
from tests.broker.coordinators.groups.driver import Members
from tests.broker.faults.tapped import Tapped
from tests.broker.harness import (
    Harness,
    Pending,
    batch,
    bytes_of,
    fetch_request,
    frame_of,
    produce_request,
    response_of,
)
from tests.broker.security.authorization.rules import AUTHORIZER, allow, guarded

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    """A broker with the topics "mine" and "theirs". alice, the client, is allowed to read and write the first."""
    made = guarded(tmp_path / "data")
    made.create("mine")
    made.create("theirs")
    made.produce(batch(b"a"), "theirs")
    allow(made, Operation.WRITE, ResourceType.TOPIC, "mine")
    allow(made, Operation.READ, ResourceType.TOPIC, "mine")
    made.user = "alice"
    yield made
    made.close()


def to_both(acks: int = -1) -> ProduceRequest:
    mine, theirs = (produce_request(batch(b"b"), name) for name in ("mine", "theirs"))
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[*mine.topic_data, *theirs.topic_data])


def produced(response: Any) -> dict[str, int]:
    return {topic.name: topic.partition_responses[0].error_code for topic in response.responses}


def ends(harness: Harness) -> dict[str, int]:
    """Return the end of each log as visible to the super user."""
    user, harness.user = harness.user, None
    found = {name: harness.fetch_one(topic=name).high_watermark for name in ("mine", "theirs")}
    harness.user = user
    return found


def test_what_may_be_written_is_written_beside_what_may_not(harness: Harness) -> None:
    assert produced(harness.ask(to_both(), 9)) == {"mine": 0, "theirs": DENIED}
    assert ends(harness) == {"mine": 1, "theirs": 1}


def test_without_acks_a_refusal_closes_the_connection_and_the_rest_is_written(harness: Harness) -> None:
    with pytest.raises(UnservedRequestError, match="TOPIC_AUTHORIZATION_FAILED"):
        harness.send(to_both(acks=0), 9)
    assert ends(harness) == {"mine": 1, "theirs": 1}
    assert harness.send(produce_request(batch(b"c"), "mine", acks=0), 9) is None


def test_an_answer_that_waits_has_its_refusals_when_it_comes(tmp_path: Path) -> None:
    made = guarded(tmp_path / "flushing", log_flush_interval_messages="1")
    made.create("mine")
    made.create("theirs")
    allow(made, Operation.WRITE, ResourceType.TOPIC, "mine")
    made.user = "alice"
    waiting = made.send(to_both(), 9)
    response = waiting.response if isinstance(waiting, Pending) else waiting
    assert produced(response) == {"mine": 0, "theirs": DENIED}
    made.close()


def test_a_repeated_produce_request_is_held_against_the_rules_of_its_moment(harness: Harness) -> None:
    session = harness.session()

    def send(topic: str) -> int:
        request = produce_request(batch(b"b"), topic)
        outcome = accept(memoryview(bytearray(frame_of(request, 9))), session)
        harness.core.writes.commit()
        assert outcome is not None
        assert not isinstance(outcome, Waiting)
        return produced(response_of(request, 9, bytes_of(outcome)))[topic]

    assert [send("mine"), send("mine")] == [0, 0]
    authorizer = harness.services.authorizer
    assert authorizer is not None
    (acl, _) = authorizer.find(AclFilter())
    authorizer.remove([acl])
    assert [send("mine"), send("mine")] == [DENIED, DENIED]
    authorizer.add([acl])
    assert send("mine") == 0
    assert ends(harness)["mine"] == 3


def test_a_session_goes_on_with_what_may_be_read(harness: Harness) -> None:
    opened = harness.fetch(("mine", 0, 0), ("theirs", 0, 0), session_epoch=0)
    assert {each.topic: each.partitions[0].error_code for each in opened.responses} == {"mine": 0, "theirs": DENIED}
    allow(harness, Operation.READ, ResourceType.TOPIC, "theirs")
    response = harness.fetch(session_id=opened.session_id, session_epoch=1)
    assert [(each.topic, each.partitions[0].error_code) for each in response.responses] == [("theirs", 0)]


def test_a_fetch_waits_though_it_may_not_read_everything(harness: Harness) -> None:
    waiting = harness.send(fetch_request(("mine", 0, 0), ("theirs", 0, 0)), 12)
    assert isinstance(waiting, Pending)
    waiting.cancel()
    assert not isinstance(harness.send(fetch_request(("theirs", 0, 0)), 12), Pending)


def test_a_topic_is_read_by_id_if_it_may_be_read(harness: Harness) -> None:
    topic = harness.core.topics.get("theirs")
    assert topic is not None
    assert harness.fetch_one(topic="theirs", version=13).error_code == DENIED
    assert harness.fetch_one(topic="mine", version=13).error_code == 0


def test_groups_are_refused_each_by_itself(harness: Harness) -> None:
    harness.user = None
    for name in ("ours", "others"):
        Members(harness, name).alone()
    harness.user = "alice"
    allow(harness, Operation.DESCRIBE, ResourceType.GROUP, "ours")
    described = harness.ask(DescribeGroupsRequest(groups=["ours", "others"], include_authorized_operations=True), 5)
    codes = {
        each.group_id: (each.error_code, each.group_state, each.authorized_operations) for each in described.groups
    }
    nothing = -(2**31)
    assert codes == {
        "ours": (0, "Stable", 1 << Operation.DESCRIBE),
        "others": (ErrorCode.GROUP_AUTHORIZATION_FAILED, "", nothing),
    }
    deleted = harness.ask(DeleteGroupsRequest(groups_names=["ours", "others"]), 2)
    assert {each.error_code for each in deleted.results} == {ErrorCode.GROUP_AUTHORIZATION_FAILED}


def test_replicas_may_ask_for_epochs_of_any_topic(harness: Harness) -> None:
    partition = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="theirs", partitions=[partition])])
    assert harness.ask(request, 4).topics[0].partitions[0].error_code == DENIED
    allow(harness, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster")
    assert harness.ask(request, 4).topics[0].partitions[0].error_code == 0


def test_a_topic_is_only_created_for_who_may_create_it(harness: Harness) -> None:
    allow(harness, Operation.READ, ResourceType.TOPIC, "new")
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
    assert harness.ask(request, 9).topics[0].error_code == DENIED
    assert harness.core.topics.get("new") is None
    allow(harness, Operation.CREATE, ResourceType.TOPIC, "new")
    assert harness.ask(request, 9).topics[0].error_code == 0
    assert harness.core.topics.get("new") is not None


def test_what_is_journalled_is_held_against_the_rules_too(tmp_path: Path) -> None:
    tapped = Tapped(str(tmp_path / "tapped"), AUTHORIZER)
    journal = recording_of(tapped.services).keep_journal()
    tapped.create("theirs")
    tapped.user = "alice"
    assert tapped.produce(batch(b"a"), "theirs").error_code == DENIED
    assert produced(list(journal)[-1].response) == {"theirs": DENIED}
    tapped.close()


def test_a_regular_expression_means_what_may_be_described(harness: Harness) -> None:
    allow(harness, Operation.READ, ResourceType.GROUP, "g")

    def beat(epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch, **fields)
        response = harness.ask(request, 1)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        assert response.error_code == 0
        return response

    def assigned(response: ConsumerGroupHeartbeatResponse) -> set[str]:
        assert response.assignment is not None
        topics = [harness.core.topics.with_id(each.topic_id) for each in response.assignment.topic_partitions]
        return {topic.name for topic in topics if topic is not None}

    joined = beat(0, rebalance_timeout_ms=1000, topic_partitions=[], subscribed_topic_regex=".*")
    resolved = beat(joined.member_epoch)
    assert assigned(resolved) == {"mine"}
    allow(harness, Operation.READ, ResourceType.TOPIC, "theirs")
    harness.clock.advance(1000)  # the assignment interval
    assert assigned(beat(resolved.member_epoch)) == {"mine", "theirs"}


def test_who_subscribes_to_a_topic_has_to_be_able_to_describe_it(harness: Harness) -> None:
    allow(harness, Operation.READ, ResourceType.GROUP, "g")
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        topic_partitions=[],
        subscribed_topic_names=["mine", "theirs"],
    )
    assert harness.ask(request, 1).error_code == DENIED
    assert harness.ask(replace(request, subscribed_topic_names=["mine"]), 1).error_code == 0


def test_a_group_is_described_to_who_may_describe_what_it_reads(harness: Harness) -> None:
    harness.user = None
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        topic_partitions=[],
        subscribed_topic_names=["theirs"],
    )
    assert harness.ask(request, 1).error_code == 0
    harness.user = "alice"
    allow(harness, Operation.DESCRIBE, ResourceType.GROUP, "g")
    described = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)
    (hidden,) = harness.ask(described, 1).groups
    assert (hidden.error_code, hidden.members) == (DENIED, [])
    allow(harness, Operation.DESCRIBE, ResourceType.TOPIC, "theirs")
    (group,) = harness.ask(described, 1).groups
    assert (group.error_code, len(group.members), group.authorized_operations) == (0, 1, 1 << Operation.DESCRIBE)


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_id_that_no_topic_has_is_unknown_and_an_empty_name_is_denied(harness: Harness, version: int) -> None:
    request = produce_request(batch(b"a"), "")
    (topic,) = harness.ask(request, version).responses
    expected = DENIED if version == 12 else ErrorCode.UNKNOWN_TOPIC_ID
    assert topic.partition_responses[0].error_code == expected


@pytest.mark.parametrize("version", [9, 10])
def test_committed_offsets_of_the_zero_topic_id_are_unknown(harness: Harness, version: int) -> None:
    allow(harness, Operation.READ, ResourceType.GROUP, "g")
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(partitions=[partition])])
    (topic,) = harness.ask(request, version).topics
    expected = DENIED if version == 9 else ErrorCode.UNKNOWN_TOPIC_ID
    assert topic.partitions[0].error_code == expected
