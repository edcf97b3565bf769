"""Shrinking of failing steps, and the choice of new ones."""

import random
from collections.abc import Callable, Sequence

from minibroker_chaos.shrinking import REPEATS, Novelty, Trial, confidence, shrink, signature, weaker_steps
from minibroker_chaos.steps import Step

_ROWS = ("answer-lost", "request-lost", "not-leader", "answer-late", "request-late")


def _steps(count: int = 24) -> list[Step]:
    return [Step(_ROWS[number % len(_ROWS)], f"point {number}", number=number + 1) for number in range(count)]


def _fails_with(*points: str) -> Callable[[Sequence[Step]], Trial]:
    """Return a program that fails if all these points misbehave."""

    def run(steps: Sequence[Step]) -> Trial:
        return Trial("lost" if set(points) <= {step.point for step in steps} else None)

    return run


def test_only_the_needed_steps_remain() -> None:
    for needed in (["point 5"], ["point 3", "point 17"], ["point 0", "point 11", "point 23"]):
        result = shrink(_steps(), _fails_with(*needed))
        assert sorted(step.point for step in result.steps) == sorted(needed)
        assert (result.failed, result.repeats, result.failed_without) == (REPEATS, REPEATS, 0)
        assert result.is_complete
        assert all(not step.number for step in result.steps)


def test_a_failure_that_needs_no_step_is_reported_as_such() -> None:
    result = shrink(_steps(), _fails_with())
    assert result.needs_no_chaos
    assert "without any misbehaviour" in str(result)


def test_a_failure_that_does_not_recur_leaves_the_steps_as_they_are() -> None:
    result = shrink(_steps(3), lambda _: Trial(None))
    assert (result.steps, result.runs) == ([step.pending() for step in _steps(3)], REPEATS)
    assert str(result) == f"it did not fail again in {REPEATS} runs; nothing was shrunk"


def test_a_flaky_failure_is_tried_again_before_a_step_is_kept() -> None:
    chance = random.Random(3)
    needed = _fails_with("point 3", "point 17")

    def run(steps: Sequence[Step]) -> Trial:
        return needed(steps) if chance.random() < 0.6 else Trial(None)

    result = shrink(_steps(), run)
    assert {step.point for step in result.steps} == {"point 3", "point 17"}
    assert 0 < result.failed < REPEATS


def test_another_failure_is_counted_and_not_followed() -> None:
    def run(steps: Sequence[Step]) -> Trial:
        points = {step.point for step in steps}
        return Trial("lost" if "point 3" in points else "duplicate" if "point 4" in points else None)

    result = shrink(_steps(), run, failure="lost")
    assert [step.point for step in result.steps] == ["point 3"]
    assert result.others["duplicate"]


def test_steps_that_did_not_happen_are_left_out() -> None:
    def run(steps: Sequence[Step]) -> Trial:
        met = [step for step in steps if step.point in {"point 3", "point 4"}]
        return Trial("lost" if any(step.point == "point 3" for step in met) else None, met)

    result = shrink(_steps(), run)
    assert [step.point for step in result.steps] == ["point 3"]
    assert result.runs < 3 * REPEATS + 8


def test_the_steps_become_milder() -> None:
    def run(steps: Sequence[Step]) -> Trial:
        return Trial("lost" if any(step.parameters.get("late", 0) >= 2 for step in steps) else None)

    result = shrink([Step("request-late", "p", 0, {"late": 4})], run)
    assert [(step.row, step.parameters) for step in result.steps] == [("request-late", {"late": 2})]
    result = shrink([Step("request-late", "p", 0, {"late": 4})], _fails_with("p"))
    assert [step.row for step in result.steps] == ["request-lost"]


def test_weaker_forms_end() -> None:
    steps = [Step("throttled", "p", 0, {"throttle_ms": 60})]
    seen = 0
    while steps:
        steps = [weaker for step in steps for weaker in weaker_steps(step)][:1]
        seen += 1
    assert 1 < seen < 10


def test_a_search_without_time_returns_the_steps_as_they_are() -> None:
    result = shrink(_steps(), _fails_with("point 3"), deadline_s=0)
    assert len(result.steps) == 24
    assert not result.is_complete
    assert "the time was up" in str(result)


def test_eight_of_ten_is_about_a_half_to_nine_tenths() -> None:
    low, high = confidence(8, 10)
    assert (round(low, 2), round(high, 2)) == (0.49, 0.94)


def test_a_run_is_new_once() -> None:
    novelty = Novelty()
    steps = [Step("answer-lost", "p", number=1, felt="tried again"), Step("not-leader", "q", number=2, felt="nothing")]
    assert novelty.add(steps)
    assert not novelty.add(steps)
    assert signature(steps) == {("answer-lost", "tried again"), ("not-leader", "nothing")}
    assert novelty.kept == [[step.pending() for step in steps]]


def test_mutations_stay_among_the_steps_that_were_seen() -> None:
    novelty = Novelty(seed=1)
    assert novelty.mutate() is None
    novelty.add(_steps(4))
    novelty.add([Step("answer-lost", "elsewhere", felt="reconnected"), Step("not-leader", "elsewhere")])
    known = {(step.row, step.point) for run in novelty.kept for step in run}
    mutations = [steps for _ in range(100) if (steps := novelty.mutate()) is not None]
    assert 20 < len(mutations) < 80
    assert all({(step.row, step.point) for step in steps} <= known for steps in mutations)
    assert all(steps not in novelty.kept for steps in mutations)
