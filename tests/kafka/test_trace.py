"""Real clients through `minibroker trace` in front of Apache Kafka."""

from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.broker.socket_client import Address
from tests.clients.conftest import CLIENTS
from tests.clients.contract import Message
from tests.clients.member_programs import MEMBER_PROGRAMS
from tests.clients.test_groups import Group
from tests.clients.trace_process import TraceProcess

PARTITIONS: Final = 2
MESSAGES: Final = [Message(b"value %d" % number, partition=number % PARTITIONS) for number in range(40)]


def test_clients_work_through_it_and_everything_is_read(kafka_address: Address, tmp_path: Path) -> None:
    to = f"{kafka_address[0]}:{kafka_address[1]}"
    with TraceProcess(to, tmp_path) as trace:
        for kind, make in CLIENTS.items():
            client, topic = make(trace.bootstrap), f"orders-{kind}"
            client.create_topic(topic, PARTITIONS)
            client.produce(topic, MESSAGES, idempotent=True)
            for partition in range(PARTITIONS):
                expected = [message.value for message in MESSAGES if message.partition == partition]
                assert [each.value for each in client.consume(topic, len(expected), partition=partition)] == expected
    entries = trace.entries()
    unread = [entry for entry in entries if "requestBytes" in entry or "responseBytes" in entry]
    assert not unread
    shown = {entry["api"] for entry in entries}
    assert {"ApiVersions", "Metadata", "Produce", "Fetch", "CreateTopics", "InitProducerId"} <= shown
    replaced = [entry["replaced"] for entry in entries if "replaced" in entry]
    assert replaced
    assert all(each == {to: trace.bootstrap} for each in replaced)


@pytest.mark.parametrize("name", ["kafka-python", "librdkafka", "java-3.9.1", "franz-go"])
def test_groups_share_partitions_through_it(kafka_address: Address, name: str, tmp_path: Path) -> None:
    with (
        TraceProcess(f"{kafka_address[0]}:{kafka_address[1]}", tmp_path) as trace,
        closing(Group(trace.bootstrap)) as group,
    ):
        first, second = (group.start(MEMBER_PROGRAMS[name]) for _ in range(2))
        group.until_shared_by(first, second)
        group.until_delivered("to both", first, second)
        first.leave()
        group.until_shared_by(second)
        second.leave()
    assert {"FindCoordinator", "JoinGroup", "SyncGroup", "LeaveGroup"} <= {entry["api"] for entry in trace.entries()}
