"""Groups and transactions of real clients go on after a restart of the broker, however it ended."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.clients.broker_process import BrokerProcess
from tests.clients.group_members import MEMBER_PROGRAMS, Group
from tests.clients.librdkafka_client import Librdkafka
from tests.clients.transactional import TransactionalProducer
from tests.patience import eventually

StartBroker = Callable[..., BrokerProcess]

pytestmark = pytest.mark.usefixtures("refused_connections_are_closed")
ENDS = (BrokerProcess.terminate, BrokerProcess.kill)


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as ends:
        yield ends


@pytest.mark.torture
@pytest.mark.parametrize("name", ["librdkafka", "kafka-python", "aiokafka"])
def test_members_of_a_group_keep_their_partitions_and_their_offsets(
    broker_process: StartBroker, closing: ExitStack, name: str
) -> None:
    broker = broker_process()
    group = Group(broker.bootstrap, 4)
    closing.callback(group.close)
    members = [group.start(MEMBER_PROGRAMS[name]) for _ in range(2)]
    group.until_shared_by(*members)
    group.until_delivered("before", *members)
    for member in members:
        assert member.commit([(*partition, 1, "kept") for partition in member.holding]) is None
    before = [set(member.holding) for member in members]
    for end in ENDS:
        end(broker)
        broker.start()
        group.until_delivered(f"after {end.__name__}", *members)
        assert [member.holding for member in members] == before
    for member in members:
        assert {offset for offset, _ in member.committed(group.partitions).values()} == {1}
        member.leave()
    broker.terminate()


def test_an_open_transaction_stays_open_and_can_be_committed(broker_process: StartBroker, closing: ExitStack) -> None:
    broker = broker_process("--topic", "records:2")
    client = Librdkafka(broker.bootstrap)

    def start(transactional_id: str) -> TransactionalProducer:
        producer = TransactionalProducer(broker.bootstrap, transactional_id)
        closing.callback(producer.close)
        return producer

    staying, leaving = start("staying"), start("leaving")
    for producer, group_id in ((staying, "staying"), (leaving, "leaving")):
        producer.begin()
        producer.send("records", group_id.encode(), partition=0)
        producer.send_offsets(group_id, {("records", 0): 5})
    for end in ENDS:
        end(broker)
        broker.start()
        assert client.watermarks("records", isolation="read_committed") == (0, 0)
    staying.send("records", b"after", partition=1)
    staying.commit()
    successor = start("leaving")
    successor.begin()
    successor.send("records", b"end", partition=0)
    successor.send("records", b"end", partition=1)
    successor.commit()
    for partition, values in enumerate([[b"staying", b"end"], [b"after", b"end"]]):
        records = client.consume("records", 2, partition=partition, isolation="read_committed")
        assert [record.value for record in records] == values
    eventually(lambda: client.committed("staying", "records") == 5)
    assert client.committed("leaving", "records") is None
    closing.close()
    broker.terminate()
