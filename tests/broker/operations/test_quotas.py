"""Setting quotas without a client that supports it."""

import pytest

from minibroker import Broker
from minibroker.cluster.errors import OperationError
from tests.broker.harness import batch, produce_request
from tests.broker.socket_client import SocketClient


def test_a_client_is_limited_until_the_limit_is_removed_or_the_broker_reset() -> None:
    def throttled() -> int:
        with SocketClient(broker.address) as client:
            answer = client.ask(produce_request(batch(b"x" * 20_000)), 9)
        return int(answer.throttle_time_ms)

    with Broker(topics=["t"]) as broker:
        for is_reset in (False, True):
            broker.set_quota({"client-id": "test"}, {"producer_byte_rate": 1000})
            assert throttled() > 10_000
            if is_reset:
                broker.reset()
            else:
                broker.set_quota({"client-id": "test"}, {"producer_byte_rate": None})
            assert throttled() == 0


def test_a_limit_that_there_is_not_is_refused() -> None:
    with Broker() as broker, pytest.raises(OperationError, match=r"set_quota: Invalid configuration key bytes"):
        broker.set_quota({"user": None}, {"bytes": 1})
