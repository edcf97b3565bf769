"""ShareAcknowledge: the outcome for each partition, in a member's session."""

from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from tests.broker.coordinators.share_partitions.members import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Acks,
    ShareMember,
    acquired,
    begin,
)
from tests.broker.harness import Harness, batch

T0 = ("t", 0)


@pytest.fixture
def member(harness: Harness) -> ShareMember:
    """A member that has acquired three records."""
    begin(harness)
    harness.produce(batch(b"a", b"b", b"c"))
    made = ShareMember(harness)
    assert acquired(made.one(T0)) == [(0, 2, 1)]
    return made


def test_records_are_accepted_given_back_and_rejected(harness: Harness, member: ShareMember) -> None:
    assert member.acknowledged([(0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, REJECT)]) == 0
    harness.crash()
    other = ShareMember(harness, "n")
    assert acquired(other.one(T0)) == [(1, 1, 2)]


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
def test_a_wrong_acknowledgement_changes_nothing(member: ShareMember, acks: Acks, code: ErrorCode) -> None:
    assert member.acknowledged(acks) == code
    assert member.acknowledged([(0, 2, ACCEPT)]) == 0


def test_only_the_member_that_has_a_record_acknowledges_it(harness: Harness, member: ShareMember) -> None:
    other = ShareMember(harness, "n")
    other.fetch(T0)
    assert other.acknowledged([(0, 0, ACCEPT)]) == ErrorCode.INVALID_RECORD_STATE
    harness.clock.advance(30_000)
    assert member.acknowledged([(0, 0, ACCEPT)]) == ErrorCode.INVALID_RECORD_STATE, "its lock has ended"


def test_a_lock_is_renewed(harness: Harness, member: ShareMember) -> None:
    harness.clock.advance(20_000)
    response = member.acknowledge([(0, 1, RENEW)], is_renew_ack=True)
    assert (response.error_code, response.acquisition_lock_timeout_ms) == (0, 30_000)
    harness.clock.advance(20_000)
    assert member.acknowledged([(0, 1, ACCEPT)]) == 0


def test_acknowledgements_take_part_in_the_epochs_of_the_session(harness: Harness, member: ShareMember) -> None:
    member.epoch = 0
    assert member.acknowledge([(0, 0, ACCEPT)]).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    member.epoch = 7
    assert member.acknowledge([(0, 0, ACCEPT)]).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    stranger = ShareMember(harness, "stranger")
    stranger.epoch = 1
    assert stranger.acknowledge([(0, 0, ACCEPT)]).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    member.epoch = 1
    assert member.acknowledged([(0, 0, ACCEPT)]) == 0
    member.fetch()


def test_the_last_acknowledgement_ends_the_session(harness: Harness, member: ShareMember) -> None:
    member.epoch = -1
    assert member.acknowledged([(0, 0, ACCEPT)]) == 0
    assert acquired(ShareMember(harness, "n").one(T0)) == [(1, 2, 2)]
    member.epoch = 2
    assert member.acknowledge([]).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_what_nobody_fetches_is_not_acknowledged(harness: Harness, member: ShareMember) -> None:
    harness.create("u")
    assert member.acknowledged([(0, 0, ACCEPT)], topic="u") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert member.acknowledged([(0, 0, ACCEPT)], index=1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("fields", [{"group_id": None}, {"member_id": ""}, {"member_id": "m" * 37}])
def test_a_request_that_makes_no_sense_is_refused(member: ShareMember, fields: dict[str, Any]) -> None:
    assert member.acknowledge([(0, 0, ACCEPT)], **fields).error_code == ErrorCode.INVALID_REQUEST


def test_a_record_that_is_renewed_again_and_again_is_renewed_once(harness: Harness, member: ShareMember) -> None:
    assert member.acknowledged([(0, 0, RENEW)] * 1_000, is_renew_ack=True) == 0
    assert harness.services.share_partitions.measured.acknowledged == {RENEW: 1}
