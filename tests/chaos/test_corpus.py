"""Each application works on a quiet broker, and shows its bug, which its twin lacks, when the broker misbehaves."""

import pytest

from tests.chaos.catalogue import APPS, App
from tests.chaos.driver import drive

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.torture,
    pytest.mark.parametrize("app", APPS, ids=lambda app: app.name),
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
