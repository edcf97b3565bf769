"""The brokers on which the tools run, and the tools of the newest Kafka."""

from collections.abc import Iterator

import pytest

from minibroker import Broker
from tests.command_line_tools.comparing import Comparison
from tests.command_line_tools.newest_jars import NewestTools
from tests.kafka import jars
from tests.kafka.fixtures import or_skip
from tests.kafka.oracle import Oracle
from tests.kafka.real_kafka import KEEPS_RECORDS, RealKafka
from tests.patience import NO_RETENTION


@pytest.fixture(scope="module")
def minibroker() -> Iterator[str]:
    with Broker(config={"node.id": "1", "minibroker.emulate": "3.9", **NO_RETENTION, **KEEPS_RECORDS}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(params=["minibroker", pytest.param("kafka", marks=pytest.mark.torture)])
def bootstrap(request: pytest.FixtureRequest) -> str:
    if request.param == "minibroker":
        address: str = request.getfixturevalue("minibroker")
        return address
    running: RealKafka = request.getfixturevalue("real_kafka")
    return running.bootstrap


@pytest.fixture(scope="module")
def newest() -> Iterator[NewestTools]:
    with or_skip(lambda: NewestTools(jars.find(version=jars.NEWEST))) as running:
        yield running


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with Broker() as running:
        yield running.bootstrap_servers


@pytest.fixture
def comparison(oracle: Oracle, bootstrap: str) -> Comparison:
    return Comparison(oracle, bootstrap)
