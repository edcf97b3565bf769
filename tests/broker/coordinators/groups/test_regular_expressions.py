"""Consumer groups whose regular expressions need several time slices of the event loop."""

import math
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest

from minibroker.cluster.routing.outcomes import Answer
from minibroker.config.names import regular_expressions
from minibroker_protocol.error_codes import ErrorCode
from tests.broker.coordinators.groups.consumers import Consumers, Owned
from tests.broker.coordinators.groups.driver import FULL_DISK
from tests.broker.harness import Harness

HALVES = ({"four": [0, 1]}, {"four": [2, 3]})


class Slow(Consumers):
    """The members of a group whose work needs several time slices."""

    def beat_first(
        self,
        member: str,
        epoch: int = 0,
        owned: Owned | None = None,
        topics: Sequence[str] | None = None,
        **fields: Any,
    ) -> Any:
        """Send a heartbeat whose work continues after the response, and return the response."""
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


def test_matched_topics_are_assigned_by_a_later_heartbeat(slow: Slow) -> None:
    joined = slow.beat_first("a", subscribed_topic_regex="fo.*")
    assert (joined.error_code, slow.given(joined)) == (0, {})
    slow.harness.run_soon()
    assert slow.settle("a") == {"a": {"four": [0, 1, 2, 3]}}
    changed = slow.beat_first("a", slow.describe().members[0].member_epoch, subscribed_topic_regex="fi.*")
    assert changed.error_code == 0
    slow.harness.run_soon()
    assert slow.settle("a") == {"a": {"five": [0, 1, 2, 3, 4]}}


def test_matched_topics_are_assigned_even_if_they_are_already_known(slow: Slow) -> None:
    slow.beat("a", topics=["four"])
    slow.beat_first("b", subscribed_topic_regex="fo.*")
    slow.harness.run_soon()
    assert tuple(slow.settle("a", "b").values()) == HALVES


def test_matched_topics_survive_a_heartbeat_that_cannot_be_written(slow: Slow) -> None:
    slow.beat("a", topics=["four"])
    joined = slow.beat_first("b", subscribed_topic_regex="fo.*")
    slow.harness.run_soon()
    with FULL_DISK:
        assert slow.beat("b", joined.member_epoch).error_code == ErrorCode.NOT_COORDINATOR
    assert tuple(slow.settle("a", "b").values()) == HALVES


def test_topics_created_during_a_match_are_found(slow: Slow) -> None:
    slow.beat_first("a", subscribed_topic_regex="fo.*")
    slow.harness.create("fork", 1)
    slow.harness.run_soon()
    assert slow.settle("a") == {"a": {"fork": [0], "four": [0, 1, 2, 3]}}


def test_an_expression_that_takes_too_much_work_matches_no_topic(slow: Slow, caplog: pytest.LogCaptureFixture) -> None:
    with patch.multiple(regular_expressions, _VISITS=0, _VISITS_PER_TEXT=0, _VISITS_PER_SLICE=100):
        joined = slow.beat("a", topics=["five"], subscribed_topic_regex="(?:.?){900}")
    assert slow.given(joined) == {"five": [0, 1, 2, 3, 4]}
    assert "is ignored: matching the expression takes too much work" in caplog.text
