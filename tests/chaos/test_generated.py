"""The broker keeps its promises to generated clients under all kinds of chaos."""

import pytest

from tests.chaos.generated import cluster, run
from tests.chaos.search import remaining


def test_three_runs_break_no_promise() -> None:
    with cluster() as broker:
        for seed in range(3):
            violations, report = run(broker, seed, "heavy")
            assert violations == [], report


@pytest.mark.torture
def test_ten_thousand_runs_break_no_promise(cache: pytest.Cache) -> None:
    with cluster() as broker:
        for seed in remaining(cache, "generated", 10_000):
            violations, report = run(broker, seed, "heavy")
            assert violations == [], report
