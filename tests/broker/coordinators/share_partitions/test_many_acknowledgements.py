"""Requests with many partitions, records or acknowledgements are served in steps, and count as one."""

import random
from typing import Any
from unittest.mock import Mock

import pytest

from minibroker.coordinators.share_partitions.acknowledging import Acknowledgement, split
from minibroker.coordinators.share_partitions.acquisition import Acquired, Span, merged, without
from minibroker.coordinators.share_partitions.many_acknowledgements import acknowledge_in_steps
from minibroker.coordinators.share_state.batches import MOST_BATCHES
from minibroker.requests.share import acknowledging
from minibroker.support.slices import drain
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.read_share_group_state import StateBatch
from minibroker_protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from minibroker_protocol.messages.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic
from tests.broker.coordinators.share_partitions.members import ACCEPT, RELEASE, RENEW, ShareMember, begin
from tests.broker.coordinators.share_partitions.test_share_partition import World
from tests.broker.coordinators.share_state.state_requests import initialize, only, write
from tests.broker.harness import Harness, Pending, batch
from tests.broker.logs.world import topic_of

T0 = ("t", 0)
MANY = 2_000


def one_by_one(count: int, *types: int) -> list[Acknowledgement]:
    return [Acknowledgement(at, at, (types[at % len(types)],)) for at in range(count)]


def steps_of(world: World, acknowledgements: list[Acknowledgement], member: str = "m") -> tuple[ErrorCode, int]:
    """The outcome, and the number of steps that led to it."""
    steps = acknowledge_in_steps(world.of, member, acknowledgements)
    taken = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, taken
        taken += 1


def filled(records: int = MANY) -> World:
    """A member has acquired so many records."""
    world = World()
    assert world.fetch(most=records, size=records, spans=[Span(0, records - 1)])
    return world


def answered(harness: Harness, sent: Any) -> Any:
    """The response to a request that takes more than one slice."""
    assert isinstance(sent, Pending)
    harness.run_soon()
    return sent.response


def test_many_acknowledgements_count_in_steps_as_at_once() -> None:
    world, at_once = filled(), filled()
    code, steps = steps_of(world, one_by_one(MANY, ACCEPT, RELEASE))
    assert (code, steps) == (ErrorCode.NONE, 8)
    assert at_once.of.acknowledge("m", one_by_one(MANY, ACCEPT, RELEASE)) is ErrorCode.NONE
    assert world.states() == at_once.states()


def test_of_many_acknowledgements_none_counts_if_one_is_wrong() -> None:
    world = filled()
    assert world.of.acknowledge("m", [Acknowledgement(MANY - 1, MANY - 1, (ACCEPT,))]) is ErrorCode.NONE
    before, written = world.states(), len(world.writes)
    assert steps_of(world, one_by_one(MANY, ACCEPT))[0] is ErrorCode.INVALID_RECORD_STATE
    assert steps_of(world, one_by_one(MANY, ACCEPT), "n")[0] is ErrorCode.INVALID_RECORD_STATE
    assert (world.states(), len(world.writes)) == (before, written)


def test_a_lock_that_ends_amid_many_acknowledgements_is_told() -> None:
    world = filled()
    steps = acknowledge_in_steps(world.of, "m", one_by_one(MANY, ACCEPT))
    for _ in range(5):
        next(steps)
    world.clock.advance(31_000)
    assert drain(steps) is ErrorCode.INVALID_RECORD_STATE
    assert world.of.start_offset == 500, "one part had counted"


def test_more_runs_than_a_state_can_tell_are_refused() -> None:
    records = 3 * MOST_BATCHES
    world = filled(records)
    several = list(split(Acknowledgement(0, records - 1, [ACCEPT, RELEASE] * (records // 2))))
    assert len(several) == records
    assert steps_of(world, several) == (ErrorCode.INVALID_REQUEST, 0)
    assert steps_of(world, [Acknowledgement(0, records - 1, (ACCEPT,))])[0] is ErrorCode.NONE


def test_equal_types_are_one_acknowledgement() -> None:
    assert list(split(Acknowledgement(5, 1_004, [ACCEPT] * 1_000))) == [(5, 1_004, (ACCEPT,))]
    few = Acknowledgement(5, 6, [ACCEPT, RELEASE])
    assert list(split(few)) == [few]


def test_what_was_aborted_is_left_out_of_what_was_acquired() -> None:
    chosen = random.Random(5)
    for _ in range(300):
        bounds = sorted(chosen.sample(range(60), 2 * chosen.randint(0, 8)))
        acquired = [Acquired(a, b - 1, 1) for a, b in zip(bounds[::2], bounds[1::2], strict=True)]
        bounds = sorted(chosen.sample(range(60), 2 * chosen.randint(0, 8)))
        spans = [Span(a, b - 1) for a, b in zip(bounds[::2], bounds[1::2], strict=True)]
        left = {at for each in acquired for at in range(each.first, each.last + 1)}
        left -= {at for span in spans for at in range(span.first, span.last + 1)}
        found = without(acquired, spans)
        assert [at for each in found for at in range(each.first, each.last + 1)] == sorted(left)
        assert without(acquired, merged(spans)) == found


def test_many_aborted_batches_are_taken_back_at_once() -> None:
    spans = [Span(at, at) for at in range(MANY)]
    world = World()
    acquired = world.fetch(most=MANY, size=MANY, spans=spans)
    assert world.of.archive(acquired, spans[::2]) == [Acquired(at, at, 1) for at in range(1, MANY, 2)]
    assert len(world.states()) == MANY


def test_a_record_that_is_renewed_again_and_again_is_renewed_once(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(harness)
    harness.produce(batch(b"a"))
    member = ShareMember(harness)
    member.fetch(T0)
    renewal = AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[RENEW])
    partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=[renewal] * 20_000)
    request = ShareAcknowledgeRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=1,
        is_renew_ack=True,
        topics=[AcknowledgeTopic(topic_id=topic_of(harness).id, partitions=[partition])],
    )
    acknowledge = Mock(wraps=acknowledge_in_steps)
    monkeypatch.setattr(acknowledging, "acknowledge_in_steps", acknowledge)
    (topic,) = member.send(request).responses
    assert topic.partitions[0].error_code == 0
    (_, _, several), _ = acknowledge.call_args
    assert several == [Acknowledgement(0, 0, [RENEW])]


def test_a_session_of_many_partitions_is_opened_and_ended_in_slices(harness: Harness) -> None:
    harness.core.slices.slice_s = 0.0
    member = ShareMember(harness)
    named = [FetchPartition(partition_index=index, acknowledgement_batches=[]) for index in range(MANY)]
    request = member.request(topics=[FetchTopic(topic_id=bytes(15) + b"x", partitions=named)])
    (topic,) = answered(harness, member.send(request)).responses
    assert {each.error_code for each in topic.partitions} == {ErrorCode.UNKNOWN_TOPIC_ID}
    member.epoch = -1
    assert answered(harness, member.send(member.request())).error_code == 0


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


def test_a_state_has_so_many_batches_and_no_more(harness: Harness) -> None:
    def batches(begin: int, count: int) -> list[StateBatch]:
        return [
            StateBatch(first_offset=at, last_offset=at, delivery_state=0, delivery_count=1)
            for at in range(begin, begin + 2 * count, 2)
        ]

    initialize(harness)
    refused = only(write(harness, *batches(10, MOST_BATCHES + 1)))
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "A share partition has at most 10,000 state batches.",
    )
    assert only(write(harness, *batches(10, MOST_BATCHES))).error_code == 0
    assert only(write(harness, *batches(10 + 2 * MOST_BATCHES, 1))).error_code == ErrorCode.INVALID_REQUEST
    assert only(write(harness, start=30)).error_code == 0
