"""Each application works on a quiet broker, and shows its bug, which its twin lacks, when the broker misbehaves."""

from typing import Final

import pytest

from tests.chaos.catalogue import APPS, BY_NAME, LATER, App
from tests.chaos.driver import drive
from tests.chaos.search import remaining, search, subject
from tests.sweeps import one_in

_TWIN_RUNS: Final = 300
_QUICK: Final = (
    "aiokafka:commit_ahead_of_tasks",
    "confluent:reordering_retries",
    "confluent:unchecked_delivery",  # It may wait for a minute.
    "kafka_python:ignored_future",
    "kafka_python:no_flush",
)
every_app = pytest.mark.parametrize("app", APPS, ids=lambda app: app.name)
every_app_and_later_ones = pytest.mark.parametrize("app", [*APPS, *LATER], ids=lambda app: app.name)


@pytest.mark.parametrize("name", one_in(3, _QUICK))
def test_a_seed_of_five_finds_the_bug_and_not_the_twin(name: str) -> None:
    verdicts = search(BY_NAME[name], range(5), fixed=False, seconds=300, profile=None)
    seed, found = verdicts.popitem()
    assert found.failures, found.text
    with subject(BY_NAME[name], fixed=True) as twin:
        verdict = twin.run(seed=seed, profile=BY_NAME[name].profile)
        assert verdict.failures == (), verdict.text


@pytest.mark.toolchain
@pytest.mark.torture
@every_app_and_later_ones
def test_a_seed_finds_the_bug(app: App) -> None:
    verdicts = search(app, range(200), fixed=False, seconds=600, profile=None)
    assert any(verdict.failures for verdict in verdicts.values())


@pytest.mark.toolchain
@pytest.mark.torture
@every_app_and_later_ones
def test_no_seed_accuses_the_twin(app: App, cache: pytest.Cache) -> None:
    with subject(app, fixed=True) as twin:
        for seed in remaining(cache, app.name.replace(":", "/"), _TWIN_RUNS):
            verdict = twin.run(seed=seed, profile=app.profile)
            assert verdict.failures == (), verdict.text


@pytest.mark.toolchain
@pytest.mark.torture
@every_app
def test_the_bug_is_hidden_on_a_quiet_broker(app: App) -> None:
    outcome = drive(app, fixed=False)
    assert (outcome.findings, outcome.exits) == ([], []), outcome.stderr


@pytest.mark.toolchain
@pytest.mark.torture
@every_app
def test_the_bug_is_found(app: App) -> None:
    outcomes = (drive(app, fixed=False, hurt=app.provoke) for _ in range(10))  # the program's threads have their part
    assert any(outcome.findings for outcome in outcomes)


@pytest.mark.toolchain
@pytest.mark.torture
@every_app
def test_the_twin_is_never_accused(app: App) -> None:
    for hurt in (None, app.provoke):
        outcome = drive(app, fixed=True, hurt=hurt)
        assert outcome.findings == [], outcome.stderr
