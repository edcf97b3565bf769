"""Chaos over HTTP: as often as one likes on a running broker, with one broker and with three."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from minibroker import Broker
from minibroker_chaos.steps import VERSION
from tests.broker.check.applications import consumer, fill, producer, read
from tests.broker.control.http import Control
from tests.patience import PATIENCE_S
from tests.sweeps import one_in

TOPICS: Final = ["in:2", "out:2"]
SUBJECT: Final = {"inputs": ["in"], "outputs": ["out"], "group": "g"}
CLUSTER: Final = {"default.replication.factor": 3, "min.insync.replicas": 2}


@pytest.fixture(scope="module", params=one_in(2, [3, 1]))
def target(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker with a control plane, or three."""
    config = CLUSTER if request.param == 3 else {}
    with Broker(control="127.0.0.1:0", brokers=request.param, topics=TOPICS, config=config) as broker:
        yield broker


def _copy(broker: Broker, count: int) -> None:
    """Copy inputs, and commit each once its output is confirmed."""
    outputs = producer(broker, enable_idempotence=True, reconnect_backoff_max_ms=200)
    with consumer(broker, reconnect_backoff_max_ms=200) as inputs:
        for message in read(inputs, count):
            outputs.produce("out", message.value(), message.key())
            assert outputs.flush(PATIENCE_S) == 0
            inputs.commit(message=message, asynchronous=False)


@contextmanager
def _chaos(control: Control, **fields: Any) -> Iterator[Control]:
    assert control.post("/chaos", fields, 201)["steps"] == []
    yield control
    control.delete("/chaos", 200)


def test_it_goes_from_seed_to_seed_with_a_reset_between(target: Broker) -> None:
    control = Control(target.control_url)
    felt = 0
    for seed in range(5):
        with _chaos(control, seed=seed, only=["answer-lost", "not-leader"]):
            fill(target, 6)
            _copy(target, 6)
            run = control.get("/chaos")
            felt += run["is_felt"]
            assert run["report"][0].startswith(
                f"chaos {VERSION}: seed {seed}, profile default, {len(target.brokers)} broker"
            )
            assert control.post("/chaos/settle")["steps"] == run["steps"]
            assert control.post("/check", {"check": "no_loss", **SUBJECT})["outcome"] == "passed"
            assert control.post("/check", {"check": "no_commit_ahead", **SUBJECT})["outcome"] == "passed"
        control.post("/reset", status=204)
        assert target.records("out") == []
    assert felt
    assert control.get("/chaos", 404)["message"].startswith("there is no chaos")


def _produce(broker: Broker) -> None:
    client = producer(broker, enable_idempotence=True)
    for number in range(10):
        client.produce("out", str(number), f"k{number}")
        assert client.flush(PATIENCE_S) == 0


def test_a_run_is_repeated_from_its_answer_and_begins_again_at_a_reset(target: Broker) -> None:
    control = Control(target.control_url)
    for seed in range(50):
        control.post("/chaos", {"seed": seed, "profile": "network", "only": ["answer-late"]}, 201)
        _produce(target)
        first = control.get("/chaos")
        if first["steps"]:
            break
    control.post("/reset", status=204)
    assert control.get("/chaos")["steps"] == []
    _produce(target)
    assert _places(control.delete("/chaos", 200)) == _places(first)
    for steps in (first, first["steps"]):
        control.post("/reset", status=204)
        with _chaos(control, steps=steps):
            _produce(target)
            again = control.get("/chaos")
            assert (again["seed"], _places(again)) == (None, _places(first))
            assert again["met"] == [len(first["steps"]), 0, 0]


def _places(run: Any) -> list[Any]:
    return [(step["row"], step["point"], step["attempt"], step["parameters"]) for step in run["steps"]]


def test_mistakes_are_refused_and_leave_the_chaos_that_is_running(target: Broker) -> None:
    control = Control(target.control_url)
    assert control.delete("/chaos", 404)["error"] == "not_found"
    with _chaos(control, seed=7, profile="failovers"):
        for fields, message in (
            ({}, "either a seed or steps"),
            ({"seed": 1, "profile": "storm"}, "there is no 'storm'"),
            ({"seed": 1, "only": ["answer-lots"]}, "did you mean answer-lost"),
            ({"seed": 1, "sed": 2}, "sed: there is no such field"),
            ({"steps": {"chaos": 0, "steps": []}}, "version 0"),
            ({"steps": [{"row": "answer-late", "point": "p", "parameters": {"drop": 1}}]}, "'answer-late'"),
        ):
            assert message in control.post("/chaos", fields, 400)["message"]
        run = control.get("/chaos")
        assert (run["seed"], run["profile"]) == (7, "failovers")
