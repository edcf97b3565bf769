"""Each application works on a quiet broker, and shows its bug, which its twin lacks, when the broker misbehaves."""

import pytest

from tests.chaos.catalogue import APPS, App
from tests.chaos.driver import drive

_IN_SHORT = (
    "confluent:unchecked_delivery",
    "aiokafka:checkpoint_moves_back",
    "java:retried_commit",
    "sarama:not_idempotent",
    "kafkajs:commit_before_work",
)

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.parametrize(
        "app",
        [pytest.param(app, id=app.name, marks=() if app.name in _IN_SHORT else pytest.mark.torture) for app in APPS],
    ),
]


def test_the_bug_is_hidden_on_a_quiet_broker(app: App) -> None:
    outcome = drive(app, fixed=False)
    assert (outcome.findings, outcome.exits) == ([], []), outcome.stderr


def test_the_bug_is_found(app: App) -> None:
    outcomes = (drive(app, fixed=False, hurt=app.provoke) for _ in range(10))  # the program's threads have their part
    assert any(outcome.findings for outcome in outcomes)


def test_the_twin_is_never_accused(app: App) -> None:
    for hurt in (None, app.provoke):
        outcome = drive(app, fixed=True, hurt=hurt)
        assert outcome.findings == [], outcome.stderr
