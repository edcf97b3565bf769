"""Alterations are made in slices, all of a request at once, and lose nothing that somebody else alters meanwhile."""

from collections.abc import Callable

from minibroker.config.resources import ConfigResourceType
from minibroker.quotas.entities import Entity
from minibroker.security.principals import USER, Principal
from minibroker.security.sasl.scram import ScramCredential
from minibroker.support.slices import Steps, drain
from tests.broker.harness import Harness
from tests.broker.security.tokens import SECRET

MANY = 1000
STEPS = 5
CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 4096)


def check(steps: Steps[None], alter_other: Callable[[], None], names: Callable[[], set[str]]) -> None:
    """Take some steps, alter something else, take the others."""
    taken = 0
    while taken < STEPS and next(steps, "end") is None:
        taken += 1
        assert names() == set()
    assert taken == STEPS, "it has taken few steps"
    alter_other()
    drain(steps)
    assert names() == {"other", *(f"n{number}" for number in range(MANY))}


def test_quotas(harness: Harness) -> None:
    table = harness.services.quota_table

    def entity(kind: str, name: str) -> Entity:
        return frozenset({(kind, name)})

    def names() -> set[str]:
        return {str(name) for each, _ in table.items() for _, name in each}

    many = {entity("ip", f"n{number}"): {"connection_creation_rate": 5.0} for number in range(MANY)}
    other = {entity("user", "other"): {"request_percentage": 5.0}}
    check(table.altering(many), lambda: table.alter(other), names)
    assert len(table.hosts) == MANY
    table.alter({entity("ip", "n0"): {"connection_creation_rate": None}})
    assert "n0" not in table.hosts
    assert len(table.hosts) == MANY - 1
    harness.restart()
    assert len(harness.services.quota_table) == MANY


def test_credentials(harness: Harness) -> None:
    stored = harness.services.security.scram
    many = {("SCRAM-SHA-256", f"n{number}"): CREDENTIAL for number in range(MANY)}
    check(
        stored.altering(many),
        lambda: stored.alter({("SCRAM-SHA-512", "other"): CREDENTIAL}),
        lambda: set(stored.users()),
    )
    harness.restart()
    assert len(harness.services.security.scram.users()) == MANY + 1


def test_configurations(harness: Harness) -> None:
    configs = harness.core.configs
    group = ConfigResourceType.GROUP
    texts = {"consumer.session.timeout.ms": "50000"}
    many = {(group, f"n{number}"): dict(texts) for number in range(MANY)}
    check(configs.putting_all(many), lambda: configs.put(group, "other", texts), lambda: set(configs.all_of(group)))
    harness.restart()
    assert len(harness.core.configs.all_of(group)) == MANY + 1


def test_delegation_tokens(configured: Callable[[dict[str, str]], Harness]) -> None:
    harness = configured(SECRET)
    tokens = harness.services.security.tokens
    alice = Principal(USER, "alice")
    old = [drain(tokens.create(alice, alice, (), 1000)) for _ in range(10)]
    renewers = [Principal(USER, f"n{number}") for number in range(MANY * 3)]
    creating = tokens.create(alice, alice, renewers, -1)
    for _ in range(STEPS):
        next(creating)
    other = drain(tokens.create(alice, alice, (), -1))
    harness.clock.advance(1001)
    made = drain(creating)
    assert [tokens.with_hmac(tokens.hmac_of(each)) for each in (*old, other, made)] == [*[None] * 10, other, made]
    drain(tokens.expire(other, -1))
    assert [tokens.with_hmac(tokens.hmac_of(each)) for each in (*old, other, made)] == [*[None] * 11, made]
    harness.restart()
    assert harness.services.security.tokens.all() == [made]
