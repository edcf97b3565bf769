"""The tables of docs/grade.md on the brokers of others: a run gives the same results."""

import pytest
from confluent_kafka import libversion

from benchmarks import kfake_program
from tests.broker.grade import peers
from tests.broker.grade.peers import KFAKE, MOCK
from tests.broker.grade.tables import PAGE
from tests.clients import toolchains
from tests.sweeps import one_in


@pytest.mark.parametrize("name", one_in(2, ["mock", "kfake"]))
def test_a_broker_has_the_results_of_its_table(name: str) -> None:
    if name == "kfake":
        toolchains.tool("go")
    stages = {"mock": MOCK, "kfake": KFAKE}[name]
    with {"mock": peers.mock, "kfake": peers.kfake}[name]() as target:
        assert peers.graded(target, stages) == {stage: each._replace(findings="") for stage, each in stages.items()}


def test_the_page_names_the_versions_that_are_graded() -> None:
    page = PAGE.read_text()
    assert f"kfake `{kfake_program.version()}`" in page
    assert f"librdkafka {libversion()[0]}." in page
