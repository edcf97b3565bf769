"""Many rules are made, found and removed in slices; whoever asks meanwhile meets all of a change or nothing of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker.security.authorization.acls import AclBinding, AclFilter, Operation, ResourceType
from minibroker.security.authorization.authorizer import Authorizer
from minibroker.support.slices import Steps, drain
from tests.broker.harness import Harness
from tests.broker.security.authorization.rules import guarded, rule

MANY = 1000
TOPIC = ResourceType.TOPIC


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    made = guarded(tmp_path / "data")
    made.user = "alice"
    yield made
    made.close()


@pytest.fixture
def authorizer(harness: Harness) -> Authorizer:
    assert harness.services.authorizer is not None
    return harness.services.authorizer


def rules(count: int = MANY, *, prefixed: bool = False) -> list[AclBinding]:
    return [rule(Operation.READ, TOPIC, f"t{number}", prefixed=prefixed) for number in range(count)]


def half(steps: Steps[None]) -> None:
    for _ in range(MANY // 2):
        next(steps)


def test_rules_count_when_all_of_them_are_made(harness: Harness, authorizer: Authorizer) -> None:
    adding = authorizer.adding(rules())
    half(adding)
    while next(adding, "end") is None:
        assert authorizer.find(AclFilter()) == []
        assert not authorizer.allows(harness.session(), Operation.READ, TOPIC, "t0")
    assert authorizer.find(AclFilter()) == rules()
    assert authorizer.allows(harness.session(), Operation.READ, TOPIC, "t0")


@pytest.mark.parametrize("prefixed", [False, True])
def test_rules_count_until_all_of_them_are_removed(*, harness: Harness, authorizer: Authorizer, prefixed: bool) -> None:
    authorizer.add(rules(prefixed=prefixed))
    gone = rules(prefixed=prefixed)[1:]
    removing = authorizer.removing([*gone, *gone])
    next(removing)
    while next(removing, "end") is None:
        assert authorizer.allows(harness.session(), Operation.READ, TOPIC, "t7")
    assert authorizer.find(AclFilter()) == rules(1, prefixed=prefixed)
    assert not authorizer.allows(harness.session(), Operation.READ, TOPIC, "t7")
    assert authorizer.allows(harness.session(), Operation.READ, TOPIC, "t0")


def test_a_change_from_within_the_process_is_not_lost(harness: Harness, authorizer: Authorizer) -> None:
    other = rule(Operation.WRITE, TOPIC, "other")
    adding = authorizer.adding(rules())
    half(adding)
    for _ in range(MANY // 2 + 5):
        next(adding)
    authorizer.add([other])
    drain(adding)
    assert authorizer.find(AclFilter()) == [other, *rules()]
    harness.restart()
    assert harness.services.authorizer is not None
    assert harness.services.authorizer.find(AclFilter()) == [other, *rules()]


def test_finding_takes_steps_but_for_a_filter_of_one_rule(authorizer: Authorizer) -> None:
    authorizer.add(rules())
    assert sum(1 for _ in authorizer.finding(AclFilter(TOPIC))) >= 10
    one = rules()[500]
    exact = AclFilter(*one)
    assert next(authorizer.finding(exact), "no step") == "no step"
    assert authorizer.find(exact) == [one]
    assert authorizer.find(exact._replace(resource_name="nobody's")) == []
