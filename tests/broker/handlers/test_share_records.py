"""ShareFetch and ShareAcknowledge: records, sessions, delays, limits and errors."""

from typing import Any

import pytest

from minibroker.cluster.routing.slices import drain
from minibroker.config.keys import ConfigResourceType
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.log_offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from minibroker_protocol.messages.share_records import ShareFetchResponse
from tests.broker.coordinators.share_partitions.members import (
    ACCEPT,
    RELEASE,
    RENEW,
    Acks,
    ShareMember,
    acquired,
    begin,
    begin_unknown,
    values,
)
from tests.broker.coordinators.transactions.producer import Producer
from tests.broker.harness import Configured, Harness, Pending, batch
from tests.broker.logs.world import pass_time, topic_of

T0 = ("t", 0)


@pytest.fixture
def member(harness: Harness) -> ShareMember:
    """A member of a group that has started reading an empty topic."""
    begin(harness)
    return ShareMember(harness)


def configure_group(harness: Harness, **configs: str) -> None:
    texts = {name.replace("_", "."): value for name, value in configs.items()}
    harness.core.configs.put_all({(ConfigResourceType.GROUP, "g"): texts})


def code_of(member: ShareMember, *partitions: tuple[str, int], **fields: Any) -> int:
    """Return the error of a whole fetch."""
    response = member.send(member.request(*partitions, **fields))
    assert isinstance(response, ShareFetchResponse)
    return response.error_code


def test_a_group_holds_whole_batches_up_to_its_limit_and_gets_released_ones_again(
    harness: Harness, member: ShareMember
) -> None:
    configure_group(harness, share_partition_max_record_locks="100")
    for _ in range(30):
        harness.produce(batch(*[b"v"] * 9))
    assert acquired(member.one(T0)) == [(0, 107, 1)]
    other = ShareMember(harness, "n")
    assert other.fetch(T0).responses == []
    assert member.acknowledged([(45, 53, RELEASE)]) == 0
    data = other.one()
    assert (acquired(data), len(values(data))) == ([(45, 53, 2)], 9)
    assert member.acknowledged([(0, 44, ACCEPT)]) == 0
    data = other.one()
    assert (acquired(data), len(values(data))) == ([(108, 152, 1)], 45)


def test_acknowledgements_come_with_the_next_fetch(harness: Harness, member: ShareMember) -> None:
    harness.produce(batch(b"a", b"b", b"c"))
    member.fetch(T0)
    data = member.one(T0, acks=[(0, 0, ACCEPT), (1, 2, RELEASE)])
    assert data.acknowledge_error_code == 0
    assert acquired(data) == [(1, 2, 2)]
    assert values(data) == [b"a", b"b", b"c"], "the log's batch as it is"
    data = member.one(T0, acks=[(0, 0, ACCEPT)])
    assert data.acknowledge_error_code == ErrorCode.NONE, "what is done with is done with"
    data = member.one(T0, acks=[(1, 5, ACCEPT)])
    assert data.acknowledge_error_code == ErrorCode.INVALID_REQUEST


def test_records_behind_those_of_others_are_within_the_limit(harness: Harness, member: ShareMember) -> None:
    for value in (b"a", b"b", b"c", b"d", b"e"):
        harness.produce(batch(value))
    member.one(T0, max_records=1)
    other = ShareMember(harness, "n")
    other.one(T0, max_records=2)
    member.acknowledge([(0, 0, RELEASE)])
    assert acquired(other.one(T0, max_records=3)) == [(0, 0, 2), (3, 4, 1)]


def test_each_partition_has_its_turn(harness: Harness, member: ShareMember) -> None:
    places = [("four", index) for index in range(3)]
    harness.create("four", 3)
    begin(harness, "four")
    for name, index in places:
        for _ in range(4):
            harness.produce(batch(b"a"), name, index)
    served: list[tuple[bytes, int]] = []
    for number in range(9):
        (topic,) = [
            (topic, each)
            for topic in member.fetch(*places if number == 0 else (), max_records=1, share_acquire_mode=1).responses
            for each in topic.partitions
            if each.acquired_records
        ]
        served.append((topic[0].topic_id, topic[1].partition_index))
    order = dict.fromkeys(served)
    numbers = {each: number for number, each in enumerate(order)}
    assert [numbers[each] for each in served] == [0, 1, 0, 2, 0, 1, 2, 1, 0], "as in Kafka"


def test_what_was_accepted_never_comes_again_after_a_crash(harness: Harness, member: ShareMember) -> None:
    harness.produce(batch(b"a", b"b", b"c"))
    harness.produce(batch(b"d"))
    member.fetch(T0)
    member.fetch(T0, acks=[(0, 1, ACCEPT), (2, 2, RELEASE)])
    harness.crash()
    data = ShareMember(harness, "n").one(T0)
    assert acquired(data) == [(2, 2, 2), (3, 3, 1)]


def test_a_fetch_waits_for_records(harness: Harness, member: ShareMember) -> None:
    pending = member.send(member.request(T0, max_wait_ms=500))
    assert isinstance(pending, Pending)
    assert not pending.is_answered
    harness.produce(batch(b"a"))
    assert acquired(pending.response.responses[0].partitions[0]) == [(0, 0, 1)]


def test_a_fetch_that_finds_nothing_ends_with_its_time(harness: Harness, member: ShareMember) -> None:
    pending = member.send(member.request(T0, max_wait_ms=500))
    pass_time(harness, 499)
    assert not pending.is_answered
    pass_time(harness, 1)
    (topic,) = pending.response.responses
    assert (topic.partitions[0].error_code, acquired(topic.partitions[0])) == (0, [])
    member.epoch += 1
    pending = member.send(member.request(max_wait_ms=500))
    pass_time(harness, 500)
    assert pending.response.responses == [], "there is nothing new to tell"


def test_a_fetch_waits_for_records_that_others_give_back(harness: Harness, member: ShareMember) -> None:
    harness.produce(batch(b"a"))
    member.fetch(T0)
    other = ShareMember(harness, "n")
    pending = other.send(other.request(T0, max_wait_ms=60_000))
    assert not pending.is_answered
    member.fetch(T0, acks=[(0, 0, RELEASE)], max_records=0)
    harness.run_soon()
    assert acquired(pending.response.responses[0].partitions[0]) == [(0, 0, 2)]


def test_a_lock_that_ends_wakes_who_waits(harness: Harness, member: ShareMember) -> None:
    harness.produce(batch(b"a"))
    assert member.fetch(T0).acquisition_lock_timeout_ms == 30_000
    other = ShareMember(harness, "n")
    pending = other.send(other.request(T0, max_wait_ms=60_000))
    pass_time(harness, 29_999)
    assert not pending.is_answered
    pass_time(harness, 1)
    assert acquired(pending.response.responses[0].partitions[0]) == [(0, 0, 2)]


def test_a_client_that_has_gone_is_not_answered(harness: Harness, member: ShareMember) -> None:
    pending = member.send(member.request(T0, max_wait_ms=500))
    pending.cancel()
    harness.produce(batch(b"a"))
    pass_time(harness, 500)
    assert not pending.is_answered
    assert acquired(ShareMember(harness, "n").one(T0)) == [(0, 0, 1)]


def test_the_first_fetch_of_a_session_acknowledges_nothing(harness: Harness, member: ShareMember) -> None:
    assert code_of(member, T0, acks=[(0, 0, ACCEPT)]) == ErrorCode.INVALID_REQUEST


def test_the_end_of_a_session_gives_back_what_the_member_has(harness: Harness, member: ShareMember) -> None:
    harness.produce(batch(b"a", b"b"))
    member.fetch(T0)
    member.epoch = -1
    response = member.send(member.request(T0, acks=[(0, 0, ACCEPT)]))
    assert response.responses[0].partitions[0].acknowledge_error_code == 0
    assert acquired(ShareMember(harness, "n").one(T0)) == [(1, 1, 2)]


def test_a_lost_connection_gives_back_what_the_member_has(harness: Harness, member: ShareMember) -> None:
    harness.produce(batch(b"a"))
    other = ShareMember(harness, "n")
    other.fetch(T0)
    member.fetch(T0)
    other.connection.close()
    assert acquired(member.one(T0)) == [(0, 0, 2)]
    member.connection.close()
    assert harness.services.share_partitions.all == {}, "nobody is left"


def test_there_are_only_so_many_sessions(configured: Configured) -> None:
    harness = configured({"group.share.max.share.sessions": "1"})
    begin(harness)
    ShareMember(harness).fetch(T0)
    late = ShareMember(harness, "late")
    pending = late.send(late.request(T0, max_wait_ms=500))
    pass_time(harness, 499)
    assert not pending.is_answered
    pass_time(harness, 1)
    assert pending.response.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": None}, ErrorCode.INVALID_REQUEST),
        ({"member_id": None}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "m" * 37}, ErrorCode.INVALID_REQUEST),
        ({"is_renew_ack": True}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    harness: Harness, member: ShareMember, fields: dict[str, Any], code: ErrorCode
) -> None:
    assert code_of(member, T0, **fields) == code


def test_a_cluster_without_share_groups_serves_no_member(harness: Harness, member: ShareMember) -> None:
    harness.core.features.finalize({"share.version": 0})
    assert code_of(member, T0) == ErrorCode.UNSUPPORTED_VERSION
    assert member.acknowledge([(0, 0, ACCEPT)]).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_partitions_have_errors_of_their_own(harness: Harness, member: ShareMember) -> None:
    harness.create("u")
    request = member.request(T0, ("t", 1), ("u", 0))
    request.topics[1].topic_id = b"\7" * 16
    response = member.send(request)
    codes = {
        (topic.topic_id, partition.partition_index): partition.error_code
        for topic in response.responses
        for partition in topic.partitions
    }
    topic_id = topic_of(harness).id
    assert codes == {
        (topic_id, 0): 0,
        (topic_id, 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (b"\7" * 16, 0): ErrorCode.UNKNOWN_TOPIC_ID,
    }


def test_a_partition_whose_state_nobody_has_begun_is_an_error(harness: Harness) -> None:
    assert ShareMember(harness).one(T0).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_renewal_fetches_nothing(harness: Harness, member: ShareMember) -> None:
    harness.produce(batch(b"a"))
    member.fetch(T0)
    harness.produce(batch(b"b"))
    pass_time(harness, 20_000)
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0}
    data = member.one(T0, acks=[(0, 0, RENEW)], is_renew_ack=True, **nothing)
    assert (data.acknowledge_error_code, acquired(data)) == (0, [])
    pass_time(harness, 20_000)
    assert acquired(ShareMember(harness, "n").one(T0)) == [(1, 1, 1)]
    assert member.one(T0, acks=[(0, 0, RENEW)]).acknowledge_error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("reset", "first"), [("earliest", 0), ("latest", 3), ("by_duration:PT1H", 2)])
def test_a_group_begins_where_it_is_told(harness: Harness, reset: str, first: int) -> None:
    now_ms = harness.clock.now_ms()
    harness.produce(batch(b"a", b"b", timestamp=now_ms - 7_200_000))
    harness.produce(batch(b"c", timestamp=now_ms - 1000))
    configure_group(harness, share_auto_offset_reset=reset)
    begin_unknown(harness)
    member = ShareMember(harness)
    member.fetch(T0, max_records=1)
    harness.produce(batch(b"d"))
    share_partitions = harness.services.share_partitions.all
    assert [share_partition.start_offset for share_partition in share_partitions.values()] == [first]


def test_readers_of_committed_records_get_no_others(harness: Harness) -> None:
    configure_group(harness, share_isolation_level="read_committed")
    begin(harness)
    producer = Producer(harness)
    producer.add(T0)
    producer.write(b"open")
    member = ShareMember(harness)
    assert acquired(member.one(T0)) == []
    producer.end(commit=False)
    harness.produce(batch(b"later"))
    data = member.one(T0)
    assert acquired(data) == [(1, 2, 1)], "a marker and a record"
    assert values(data)[-1] == b"later"


def test_records_that_are_deleted_hold_nobody_up(harness: Harness, member: ShareMember) -> None:
    for value in (b"a", b"b", b"c"):
        harness.produce(batch(value))
    member.fetch(T0, max_records=0)
    member.fetch(T0, max_records=1)
    partition = DeleteRecordsPartition(partition_index=0, offset=2)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[partition])], timeout_ms=1000)
    harness.ask(request, 2)
    assert member.fetch().responses == [], "as in Kafka: the next fetch goes on"
    assert acquired(member.one()) == [(2, 2, 1)]
    other = ShareMember(harness, "n")
    drain(harness.services.share_partitions.release(harness.core.cluster.first, [("g", "m")]))
    assert acquired(other.one(T0)) == [(2, 2, 2)]


def test_a_topic_that_is_deleted_ends_the_wait(harness: Harness, member: ShareMember) -> None:
    pending = member.send(member.request(T0, max_wait_ms=60_000))
    harness.delete()
    harness.run_soon()
    assert pending.response.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert harness.services.share_partitions.all == {}


def test_an_altered_offset_counts_with_the_next_fetch(harness: Harness, member: ShareMember) -> None:
    harness.produce(batch(b"a", b"b"))
    member.fetch(T0)
    member.fetch(T0, acks=[(0, 1, ACCEPT)])
    begin(harness)
    assert acquired(member.one(T0)) == [(0, 1, 1)]


def test_only_the_leader_serves_and_another_one_goes_on(several: Harness) -> None:
    harness = several
    begin(harness)
    partition = topic_of(harness).partitions[0]
    leader = partition.leader
    assert leader is not None
    other = next(node for node in harness.core.cluster.nodes.values() if node is not leader)
    harness.asks = other.id
    data = ShareMember(harness).one(T0)
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert data.current_leader.leader_id == leader.id
    harness.asks = leader.id
    harness.produce(batch(b"a", b"b"))
    member = ShareMember(harness)
    member.fetch(T0)
    assert member.acknowledged([(0, 0, ACCEPT)]) == 0
    harness.core.cluster.move_leader("t", 0, other.id)
    harness.asks = other.id
    assert acquired(ShareMember(harness, "n").one(T0)) == [(1, 1, 1)]


def test_a_connection_that_was_lost_ends_the_sessions_of_all_its_members(harness: Harness) -> None:
    begin(harness)
    harness.produce(batch(b"a"))
    member, other = ShareMember(harness), ShareMember(harness, "n")
    other.connection = member.connection
    member.fetch(T0)
    other.fetch(T0)
    sessions = harness.services.share_partitions.sessions(harness.core.cluster.first)
    assert len(sessions) == 2
    member.connection.close()
    assert len(sessions) == 0
    assert harness.services.share_partitions.all == {}


@pytest.fixture
def holder(harness: Harness) -> ShareMember:
    """A member that has acquired three records."""
    begin(harness)
    harness.produce(batch(b"a", b"b", b"c"))
    member = ShareMember(harness)
    assert acquired(member.one(T0)) == [(0, 2, 1)]
    return member


@pytest.mark.parametrize(
    ("acks", "code"),
    [
        ([(0, 5, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(1, 0, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(2, 2, ACCEPT), (0, 0, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(0, 0, 5)], ErrorCode.INVALID_REQUEST),
        ([(0, 0, RENEW)], ErrorCode.INVALID_REQUEST),
        ([(0, 0, ACCEPT), (0, 0, ACCEPT)], ErrorCode.INVALID_RECORD_STATE),
        ([], ErrorCode.NONE),
    ],
)
def test_a_wrong_acknowledgement_changes_nothing(holder: ShareMember, acks: Acks, code: ErrorCode) -> None:
    assert holder.acknowledged(acks) == code
    assert holder.acknowledged([(0, 2, ACCEPT)]) == 0


def test_acknowledgements_take_part_in_the_epochs_of_the_session(harness: Harness, holder: ShareMember) -> None:
    holder.epoch = 0
    assert holder.acknowledge([(0, 0, ACCEPT)]).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    holder.epoch = 7
    assert holder.acknowledge([(0, 0, ACCEPT)]).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    stranger = ShareMember(harness, "stranger")
    stranger.epoch = 1
    assert stranger.acknowledge([(0, 0, ACCEPT)]).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    holder.epoch = 1
    assert holder.acknowledged([(0, 0, ACCEPT)]) == 0
    holder.fetch()


def test_what_nobody_fetches_is_not_acknowledged(harness: Harness, holder: ShareMember) -> None:
    harness.create("u")
    assert holder.acknowledged([(0, 0, ACCEPT)], topic="u") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert holder.acknowledged([(0, 0, ACCEPT)], index=1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
