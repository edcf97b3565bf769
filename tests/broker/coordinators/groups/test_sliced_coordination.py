"""Groups whose assignments, or whose regular expressions, take more than a slice of the event loop."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from minibroker.coordinators.groups.assignors import pace
from minibroker.routing.outcomes import Answer
from minibroker.support.regular_expressions import expression
from minibroker.support.slices import drain
from minibroker_protocol.error_codes import ErrorCode
from tests.broker.coordinators.groups.consumers import Consumers, Owned
from tests.broker.harness import Harness

HALVES = ({"four": [0, 1]}, {"four": [2, 3]})


class Slow(Consumers):
    """The members of a group whose work does not end within the first slice."""

    def beat_first(
        self,
        member: str,
        epoch: int = 0,
        owned: Owned | None = None,
        topics: Sequence[str] | None = None,
        **fields: Any,
    ) -> Any:
        """Send a heartbeat whose work goes on behind it; the answer."""
        slices = self.harness.core.slices
        slices.slice_s = -1.0
        answer = self.harness.accept(self.request(member, epoch, owned, topics, **fields), 1)
        slices.slice_s = math.inf
        assert isinstance(answer, Answer)
        return answer.response


@pytest.fixture
def slow(harness: Harness) -> Slow:
    harness.create("four", 4)
    harness.create("five", 5)
    return Slow(harness)


def test_the_first_member_waits_in_an_epoch_of_its_own(slow: Slow) -> None:
    joined = slow.beat_first("a", topics=["four"])
    assert (joined.error_code, joined.member_epoch, slow.given(joined)) == (0, 1, {})
    waiting = slow.describe()
    assert (waiting.group_state, waiting.group_epoch, waiting.assignment_epoch) == ("Assigning", 2, 1)
    slow.harness.run_soon()
    response = slow.beat("a", 1, {})
    assert (response.member_epoch, slow.given(response)) == (2, {"four": [0, 1, 2, 3]})
    assert slow.describe().group_state == "Stable"


def test_members_keep_the_present_target_until_another_one_is_made(slow: Slow) -> None:
    slow.beat("a", topics=["four"])
    joined = slow.beat_first("b", topics=["four"])
    assert (joined.member_epoch, slow.given(joined)) == (2, {})
    still = slow.beat_first("a", 2, {"four": [0, 1, 2, 3]})
    assert (still.member_epoch, slow.given(still)) == (2, None)
    slow.harness.run_soon()
    assert slow.describe().assignment_epoch == 3
    assert tuple(slow.settle("a", "b").values()) == HALVES


def test_who_goes_meanwhile_is_given_nothing(slow: Slow) -> None:
    slow.beat("a", topics=["four"])
    slow.beat_first("b", topics=["four"])
    slow.beat_first("b", -1)
    slow.harness.run_soon()
    group = slow.harness.services.groups.store.get_consumer("g")
    assert group is not None
    assert list(group.target) == ["a"]
    assert (group.assignment_epoch, group.epoch) == (3, 4)
    assert slow.settle("a") == {"a": {"four": [0, 1, 2, 3]}}


def test_a_target_that_is_made_for_a_group_that_was_emptied_is_dropped(slow: Slow) -> None:
    slow.beat("a", topics=["four"])
    slow.beat_first("b", topics=["four"])
    for member in "ab":
        slow.beat_first(member, -1)
    slow.harness.run_soon()
    assert (slow.describe().group_epoch, slow.describe().assignment_epoch) == (5, 5)
    slow.beat("c", topics=["four"])
    assert slow.settle("c") == {"c": {"four": [0, 1, 2, 3]}}


def test_nobody_is_given_a_topic_that_it_does_not_subscribe_to_any_more(slow: Slow) -> None:
    slow.beat("a", topics=["four"])
    slow.beat_first("b", topics=["four", "five"])
    slow.beat_first("b", 2, {}, topics=["four"])
    slow.harness.run_soon()
    (member,) = [each for each in slow.describe().members if each.member_id == "b"]
    assert "five" not in slow.named(member.target_assignment.topic_partitions)
    assert tuple(slow.settle("a", "b").values()) == HALVES


def test_a_static_member_that_comes_back_meanwhile_is_given_its_part(slow: Slow) -> None:
    slow.beat("a", topics=["four"])
    slow.beat("b", topics=["four"], instance_id="i")
    slow.settle("a", "b")
    slow.beat_first("c", topics=["four"])
    slow.beat_first("b", -2, instance_id="i")
    slow.beat_first("d", topics=["four"], instance_id="i")
    slow.harness.run_soon()
    assert slow.describe().assignment_epoch == slow.describe().group_epoch
    assigned = slow.settle("a", "c", "d")
    assert sorted(index for each in assigned.values() for index in each["four"]) == [0, 1, 2, 3]
    assert set(assigned) == {"a", "c", "d"}


def test_a_group_that_is_gone_is_not_written_again(slow: Slow) -> None:
    slow.beat("a", topics=["four"])
    slow.beat_first("b", topics=["four"])
    slow.beat_first("a", -1)
    slow.beat_first("b", -1)
    group = slow.harness.services.groups.store.find("g")
    assert group is not None
    assert drain(slow.harness.services.groups.store.remove(group)) == ErrorCode.NONE
    slow.harness.run_soon()
    slow.harness.crash()
    assert slow.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_assignment_that_was_under_way_is_made_after_a_crash(slow: Slow) -> None:
    slow.beat("a", topics=["four"])
    slow.beat_first("b", topics=["four"])
    slow.harness.crash()
    assert (slow.describe().group_epoch, slow.describe().assignment_epoch) == (3, 2)
    assert tuple(slow.settle("a", "b").values()) == HALVES


def test_a_target_that_cannot_be_stored_is_made_again(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    slow.beat("a", topics=["four"])
    slow.beat_first("b", topics=["four"])
    store = slow.harness.services.groups.store

    def refuse(*_: object) -> ErrorCode:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE

    with monkeypatch.context() as patch:
        patch.setattr(store, "save_target", refuse)
        slow.harness.run_soon()
    assert slow.describe().assignment_epoch == 2
    assert tuple(slow.settle("a", "b").values()) == HALVES


def test_a_group_has_its_target_although_others_are_served_after_each_piece_of_it(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "_UNITS", 1)
    slow.harness.core.slices.slice_s = 0.0
    joined = slow.beat("a", topics=["four"])
    assert (joined.member_epoch, slow.given(joined)) == (1, {})
    assert slow.given(slow.beat("a", 1, {})) == {"four": [0, 1, 2, 3]}
    slow.beat("b", topics=["four", "five"])
    slow.harness.core.slices.slice_s = math.inf
    assert slow.settle("a", "b") == {"a": {"four": [0, 1, 2, 3]}, "b": {"five": [0, 1, 2, 3, 4]}}


def test_the_meaning_of_an_expression_comes_with_a_later_heartbeat(slow: Slow) -> None:
    joined = slow.beat_first("a", subscribed_topic_regex="fo.*")
    assert (joined.error_code, slow.given(joined)) == (0, {})
    slow.harness.run_soon()
    assert slow.settle("a") == {"a": {"four": [0, 1, 2, 3]}}
    changed = slow.beat_first("a", slow.describe().members[0].member_epoch, subscribed_topic_regex="fi.*")
    assert changed.error_code == 0
    slow.harness.run_soon()
    assert slow.settle("a") == {"a": {"five": [0, 1, 2, 3, 4]}}


def test_a_member_is_assigned_what_its_expression_means_although_the_topics_are_known(slow: Slow) -> None:
    slow.beat("a", topics=["four"])
    slow.beat_first("b", subscribed_topic_regex="fo.*")
    slow.harness.run_soon()
    assert tuple(slow.settle("a", "b").values()) == HALVES


def test_topics_that_come_while_an_expression_is_matched_are_found(slow: Slow) -> None:
    slow.beat_first("a", subscribed_topic_regex="fo.*")
    slow.harness.create("fork", 1)
    slow.harness.run_soon()
    assert slow.settle("a") == {"a": {"fork": [0], "four": [0, 1, 2, 3]}}


def test_an_expression_that_takes_too_much_work_means_no_topic(
    slow: Slow, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(expression, "_VISITS", 0)
        patch.setattr(expression, "_VISITS_BY_TEXT", 0)
        patch.setattr(expression, "_SLICE", 100)
        joined = slow.beat("a", topics=["five"], subscribed_topic_regex="(?:.?){900}")
    assert slow.given(joined) == {"five": [0, 1, 2, 3, 4]}
    assert "is ignored: matching the expression takes too much work" in caplog.text
