"""A broker shared by all checks of the grader."""

from collections.abc import Iterator

import pytest

from minibroker import Broker
from minibroker_grade.runner import Target

CONFIG = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "log.cleaner.backoff.ms": "200",
    "minibroker.client.workarounds.enable": "false",  # One check measures how long a fetch waits.
}


@pytest.fixture(scope="module")
def graded() -> Iterator[Target]:
    with Broker(config=CONFIG) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        yield Target((host, int(port)), broker.data_dir)
