"""IncrementalAlterConfigs with as many keys as Kafka's controller writes at once, and with more."""

import pytest

from minibroker.cluster.topic_admin import MAX_RECORDS
from minibroker.config.keys import ConfigResourceType
from minibroker_protocol.error_codes import ErrorCode
from tests.broker.config.configs import BROKER, GROUP, OK, SET, TOPIC, change
from tests.broker.harness import Harness

NODE = "1"


@pytest.mark.parametrize(("kind", "name"), [(BROKER, ""), (BROKER, NODE), (TOPIC, "t"), (GROUP, "g")])
def test_more_keys_than_a_controller_writes_at_once_are_refused_unread(harness: Harness, kind: int, name: str) -> None:
    many = [(SET, f"key-{number}", "v") for number in range(MAX_RECORDS + 1)]
    refused = (ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    assert change(harness, kind, name, *many) == refused


def test_a_broker_keeps_as_many_keys_as_a_controller_writes_at_once(harness: Harness) -> None:
    many = [(SET, f"key-{number}", "v") for number in range(MAX_RECORDS)]
    assert change(harness, BROKER, NODE, *many) == OK
    assert len(harness.core.configs.of(ConfigResourceType.BROKER, NODE)) == MAX_RECORDS
