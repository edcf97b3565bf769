"""The two brokers on which the tools are compared."""

from collections.abc import Iterator

import pytest

from minibroker import Broker
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
