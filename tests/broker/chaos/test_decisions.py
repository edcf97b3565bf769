"""Decisions from a seed and from stored steps."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from minibroker_chaos.decisions import MAX_PER_OPERATION, SeededSchedule, StoredSchedule
from minibroker_chaos.rows import ROWS, Row, find_row, rows_of
from minibroker_chaos.steps import ChaosError, Point, Step, from_json, parse_seed, to_json

_POINTS = [Point(f"Produce of record {number} to orders-0 by app", 0) for number in range(300)]


def _run(schedule: SeededSchedule | StoredSchedule, points: Iterable[Point], rows: list[Row]) -> list[Step]:
    happened: list[Step] = []
    for point in points:
        for step in schedule.propose(point, rows, 0)[:1]:
            schedule.record(step, point)
            happened.append(replace(step, attempt=point.attempt))
    return happened


def _seed_with_steps(rows: list[Row]) -> tuple[int, list[Step]]:
    """Return a seed whose budget outlasts the points, and its steps."""
    for seed in range(200):
        schedule = SeededSchedule(seed, rows)
        steps = _run(schedule, _POINTS, rows)
        if len(steps) > 2 and schedule.budget > 0:
            return seed, steps
    raise AssertionError("no seed has enough steps")


def test_the_order_of_the_points_changes_no_decision() -> None:
    rows = rows_of("default")
    seed, steps = _seed_with_steps(rows)
    backwards = _run(SeededSchedule(seed, rows), reversed(_POINTS), rows)
    assert sorted(step.key for step in backwards) == sorted(step.key for step in steps)


def test_a_row_left_out_changes_no_decision_about_others() -> None:
    rows = rows_of("default")
    seed, steps = _seed_with_steps(rows)
    left_out = steps[0].row
    rest = [row for row in rows if row.name != left_out]
    expected = [step.key for step in steps if step.row != left_out]
    assert set(expected) <= {step.key for step in _run(SeededSchedule(seed, rest), _POINTS, rest)}


def test_seeds_differ_in_what_is_on_and_some_have_a_single_row() -> None:
    rows = rows_of("heavy")
    chosen = {SeededSchedule(seed, rows).rows for seed in range(100)}
    assert len(chosen) > 80
    assert any(len(names) == 1 for names in chosen)


def test_an_operation_misbehaves_a_few_times_only() -> None:
    rows = [row for row in ROWS if row.act is not None]
    for seed in range(50):
        schedule = SeededSchedule(seed, rows)
        schedule.rate = 100.0
        assert schedule.propose(Point("p", 0), rows, MAX_PER_OPERATION - 1)
        assert not schedule.propose(Point("p", 0), rows, MAX_PER_OPERATION)


def test_the_budget_ends_the_run() -> None:
    rows = rows_of("default")
    for seed in range(30):
        schedule = SeededSchedule(seed, rows)
        budget = schedule.budget
        schedule.rate = 100.0
        steps = _run(schedule, _POINTS, rows)
        assert len(steps) <= budget
        assert schedule.is_over == (len(steps) == budget or not schedule.rows)


def test_parameters_are_within_their_range() -> None:
    rows = rows_of("heavy")
    for seed in range(40):
        for step in _run(SeededSchedule(seed, rows), _POINTS, rows):
            for name, value in step.parameters.items():
                low, high = find_row(step.row).parameters[name]
                assert low <= value <= high


def test_stored_steps_happen_exactly_in_any_order() -> None:
    rows = rows_of("default")
    _, steps = _seed_with_steps(rows)
    stored = StoredSchedule(steps)
    repeated = _run(stored, reversed(_POINTS), rows)
    assert sorted(step.key for step in repeated) == sorted(step.key for step in steps)
    assert (stored.exact, stored.near, stored.missed) == (len(steps), 0, 0)
    assert stored.is_over


def test_a_stored_step_happens_at_the_next_attempt_if_its_own_was_passed() -> None:
    rows = rows_of("default")
    stored = StoredSchedule([Step("answer-lost", "p", 1), Step("not-leader", "q"), Step("answer-lost", "never")])
    assert _run(stored, [Point("p", 0)], rows) == []
    assert [step.row for step in _run(stored, [Point("p", 2), Point("q", 0)], rows)] == ["answer-lost", "not-leader"]
    assert (stored.exact, stored.near, stored.missed) == (1, 1, 1)


def test_steps_survive_json() -> None:
    steps = [Step("request-late", "p", 1, {"late": 3}, 17, "tried again"), Step("answer-lost", "q")]
    document = to_json(steps, 7, "default")
    assert document["chaos"] == 1
    assert from_json(document) == steps


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"chaos": 0, "steps": []}, "version 0"),
        ({"chaos": 1}, "no document"),
        (5, "no document"),
        (["x"], "not the fields"),
        ({"chaos": 1, "steps": [{"row": "answer-lost", "place": "p"}]}, "place"),
        ([{"row": "answer-lost", "point": "p", "attempt": "1"}], "attempt: '1' is not valid"),
        ([{"row": "answer-late", "point": "p", "parameters": {"delay_ms": "5"}}], "parameters: .* is not valid"),
    ],
)
def test_other_documents_are_refused_with_a_sentence(document: object, expected: str) -> None:
    with pytest.raises(ChaosError, match=expected):
        from_json(document)


def test_a_step_reads_like_a_sentence() -> None:
    step = Step("request-late", "Produce of 'a' to orders-0 by app", 1, {"late": 3}, 17, "tried again")
    assert str(step) == (
        "request 17: request-late, late 3 at Produce of 'a' to orders-0 by app, attempt 2; the client tried again"
    )


def test_rows_are_found_by_name_and_misspellings_are_explained() -> None:
    assert [row.name for row in rows_of("default", only=["black-hole"])] == ["black-hole"]
    assert "answer-lost" not in {row.name for row in rows_of("network", without=["answer-lost"])}
    with pytest.raises(ChaosError, match="did you mean answer-lost"):
        rows_of("default", only=["answer-lots"])
    with pytest.raises(ChaosError, match="there are default, heavy"):
        rows_of("storm")


def test_every_row_names_existing_rows_and_what_is_not_shown_must_be_asked_for() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert row.milder is None or find_row(row.milder).act is not None
        assert (row.act is None) == (not row.apis)
        if row.evidence == "not shown":
            assert "default" not in row.profiles
        assert row.act is None or row.is_optional == (not row.profiles)


@pytest.mark.parametrize(("text", "expected"), [(7, (7, "default")), ("7:heavy", (7, "heavy")), (None, None)])
def test_a_seed_may_name_its_profile(text: int | str | None, expected: tuple[int, str] | None) -> None:
    assert parse_seed(text) == expected


def test_a_text_is_no_seed() -> None:
    with pytest.raises(ChaosError, match="not a seed such as 7"):
        parse_seed("default")
