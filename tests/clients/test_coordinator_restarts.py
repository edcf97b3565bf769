"""Groups and transactions of real clients go on after a restart of the broker, however it ended."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.clients.broker_process import BrokerProcess
from tests.clients.contract import Message, eventually
from tests.clients.group_members import Member, MemberOptions, wait_until
from tests.clients.librdkafka_client import Librdkafka
from tests.clients.member_programs import MEMBER_PROGRAMS
from tests.clients.transactional import TRANSACTIONAL, TransactionalProducer
from tests.sweeps import one_in

StartBroker = Callable[..., BrokerProcess]

pytestmark = pytest.mark.usefixtures("refused_connections_are_closed")
ENDS = (BrokerProcess.terminate, BrokerProcess.kill)


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as ends:
        yield ends


@pytest.mark.parametrize("name", one_in(3, ["librdkafka", "kafka-python", "aiokafka"]))
def test_members_of_a_group_keep_their_partitions_and_their_offsets(
    broker_process: StartBroker, closing: ExitStack, name: str
) -> None:
    broker = broker_process("--topic", "numbers:4")
    client = Librdkafka(broker.bootstrap)
    changed = threading.Condition()
    partitions = {("numbers", partition) for partition in range(4)}

    def start(client_id: str) -> Member:
        options = MemberOptions(broker.bootstrap, "group", ["numbers"], client_id=client_id)
        member = Member(MEMBER_PROGRAMS[name], options, changed)
        closing.callback(member.close)
        return member

    def until_delivered(value: str) -> None:
        client.produce("numbers", [Message(value.encode(), partition=partition) for partition in range(4)])

        def delivered() -> set[tuple[str, int]]:
            return {record[:2] for member in members for record in member.records if record.value == value}

        wait_until(changed, lambda: delivered() == partitions, f"the records {value!r}", members)

    members = [start("first"), start("second")]
    wait_until(changed, lambda: [len(member.holding) for member in members] == [2, 2], "a share each", members)
    until_delivered("before")
    for member in members:
        assert member.commit([(*partition, 1, "kept") for partition in member.holding]) is None
    before = [set(member.holding) for member in members]
    for end in ENDS:
        end(broker)
        broker.start()
        until_delivered(f"after {end.__name__}")
        assert [member.holding for member in members] == before
    for member in members:
        assert {offset for offset, _ in member.committed(partitions).values()} == {1}
        member.leave()
    broker.terminate()


@pytest.mark.parametrize("name", one_in(3, TRANSACTIONAL))
def test_an_open_transaction_stays_open_and_can_be_committed(
    broker_process: StartBroker, closing: ExitStack, name: str
) -> None:
    broker = broker_process("--topic", "records:2")
    client = Librdkafka(broker.bootstrap)

    def start(transactional_id: str) -> TransactionalProducer:
        producer = TRANSACTIONAL[name](broker.bootstrap, transactional_id)
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
