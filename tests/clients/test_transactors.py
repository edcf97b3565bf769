"""Copies through kafkajs and franz-go that happen exactly once."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final, TypeAlias

import pytest

from tests.clients.contract import Message
from tests.clients.kafka_python_client import KafkaPython, committed_offsets
from tests.clients.transactors import FRANZ_GO, KAFKAJS, Transactor, TransactorOptions, TransactorProgram
from tests.sweeps import one_in

LAST: Final = "last"
"""Produced outside of any transaction, behind everything else: readers read up to it."""
SHORT_SESSION: Final = 1_500
"""In ms, for members of groups that die."""

Start: TypeAlias = Callable[..., Transactor]

every_program = pytest.mark.parametrize("program", one_in(2, [KAFKAJS, FRANZ_GO]), ids=lambda program: program.name)


@pytest.fixture(scope="module")
def config() -> Mapping[str, str]:
    """Short sessions are allowed, and the broker looks often for late transactions."""
    return {"group.min.session.timeout.ms": "500", "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}


@pytest.fixture
def start(bootstrap: str) -> Iterator[Start]:
    """A function that starts a program; one transactional id serves for a test."""
    transactional_id = f"transactor-{uuid.uuid4().hex[:12]}"
    with ExitStack() as ends:

        def running(program: TransactorProgram, **options: Any) -> Transactor:
            transactor = Transactor(program, TransactorOptions(bootstrap, transactional_id, **options))
            ends.callback(transactor.close)
            return transactor

        yield running


@pytest.fixture
def plain(bootstrap: str, topic: str) -> KafkaPython:
    """A client without transactions; the topic exists."""
    client = KafkaPython(bootstrap)
    client.create_topic(topic, 1)
    return client


def committed(plain: KafkaPython, group: str) -> dict[int, int]:
    """The committed offset of each partition."""
    return {partition: offset for (_, partition), (offset, _) in committed_offsets(plain.bootstrap, group).items()}


@every_program
def test_copies_happen_exactly_once_through_aborts_and_kills(
    start: Start, program: TransactorProgram, plain: KafkaPython, topic: str
) -> None:
    source, group = f"{topic}-source", f"{topic}-group"
    plain.create_topic(source, 2)
    values = [f"value {number}" for number in range(10)]
    plain.produce(source, [Message(value.encode(), partition=n % 2) for n, value in enumerate(values)])
    copy = {"group": group, "source": source, "target": topic, "count": len(values)}

    copier = start(program, session_timeout_ms=SHORT_SESSION)
    assert sorted(copier.ask("copy", **copy)["values"]) == values
    copier.ask("end_copy", commit=False)
    assert committed(plain, group) == {}

    assert sorted(copier.ask("copy", **copy)["values"]) == values
    copier.kill()
    copier = start(program)
    assert sorted(copier.ask("copy", **copy)["values"]) == values
    assert committed(plain, group) == {}
    assert copier.ask("end_copy", commit=True)["committed"]
    assert committed(plain, group) == {0: 5, 1: 5}

    plain.produce(source, [Message(b"one more")])
    assert copier.ask("copy", **{**copy, "count": 1})["values"] == ["one more"]
    assert copier.ask("end_copy", commit=True)["committed"]
    plain.produce(topic, [Message(LAST.encode())])
    assert sorted(copier.values(topic, LAST)) == sorted([*values, "one more", LAST])
    assert len(copier.values(topic, LAST, "read_uncommitted")) == 3 * len(values) + 2


def test_a_member_that_slept_past_its_session_cannot_commit_what_another_has_taken_over(
    start: Start, bootstrap: str, plain: KafkaPython, topic: str
) -> None:
    source, group = f"{topic}-source", f"{topic}-group"
    plain.produce(source, [Message(b"value")])
    copy = {"group": group, "source": source, "target": topic, "count": 1}
    sleeper = start(FRANZ_GO, session_timeout_ms=SHORT_SESSION)
    sleeper.ask("copy", **copy)
    sleeper.pause()
    other = Transactor(FRANZ_GO, TransactorOptions(bootstrap, f"{topic}-other"))
    try:
        assert other.ask("copy", **copy)["values"] == ["value"]
        assert other.ask("end_copy", commit=True)["committed"]
        sleeper.resume()
        assert not sleeper.ask("end_copy", commit=True)["committed"]
        plain.produce(topic, [Message(LAST.encode())])
        assert other.values(topic, LAST) == ["value", LAST]
    finally:
        other.close()
