"""The coordinators' state goes from Kafka 3.9.1 to this broker and back: groups, offsets, open transactions.

Each broker goes on where the other one was stopped, or killed.
"""

from typing import Any, Final

import pytest

from minibroker_protocol.messages.groups import DescribeGroupsRequest
from tests.broker.coordinators.groups import offset_requests as requests
from tests.broker.coordinators.groups.member_requests import heartbeat_request
from tests.broker.coordinators.transactions.producer import Producer
from tests.broker.socket_client import Address, SocketClient, address_of
from tests.clients.broker_process import BrokerProcess
from tests.kafka.coordinators import until, with_coordinators
from tests.kafka.exchange import errors_of, hand_over
from tests.kafka.exchange_rounds import COORDINATORS, SMALL_SEGMENTS, take_turns
from tests.kafka.offset_scripts import OffsetWorld
from tests.kafka.real_kafka import RealKafka

SESSION_MS: Final = 300_000
TRANSACTION_MS: Final = 600_000


class Scene:
    """Groups that a broker is left with, under names of their own, and what each broker has to say of them.

    Their topics are those of an `OffsetWorld` and have to be there.
    """

    def __init__(self, address: Address, name: str) -> None:
        self.name = name
        world = OffsetWorld(address, name, has_topics=True)
        try:
            self._commit(world)
            self._delete(world)
            self._join(world)
            self._begin_transaction(world)
        finally:
            world.close()
        self.expected = self.look(address)

    def _commit(self, world: OffsetWorld) -> None:
        world.commit_offsets("t0 t1", 5, metadata="so far", each_committed_leader_epoch=3)
        world.commit_offsets("t0 u0", 7, version=4, retention_time_ms=100_000_000)
        world.delete_offsets("t1")

    def _delete(self, world: OffsetWorld) -> None:
        world.group_id = f"{self.name}-gone"
        world.commit_offsets("t0 t1", 5)
        world.delete()

    def _join(self, world: OffsetWorld) -> None:
        world.group_id = f"{self.name}-members"
        self.member = world.new_id("a", session_ms=SESSION_MS)
        self.generation = world.join("a", self.member, session_ms=SESSION_MS).generation_id
        world.sync("a", self.member, self.generation, {self.member: b"all"})
        world.commit_offsets("t0", 9, member_id=self.member, generation_id_or_member_epoch=self.generation)

    def _begin_transaction(self, world: OffsetWorld) -> None:
        """Three transactions: one was committed, one aborted, one is open."""
        world.group_id = f"{self.name}-transactions"
        world.commit_offsets("t0 t1 u0 u1", 1)
        producer = Producer(world.broker, self.name, timeout_ms=TRANSACTION_MS, init=False)
        until(lambda: producer.init() == 0)
        for offset, commit in ((2, True), (3, False)):
            assert producer.add_offsets(world.group_id) == 0
            assert producer.commit_offset(world.group_id, offset, topic=world.t, partition=offset % 2) == 0
            world.end(producer, commit=commit)
        until(lambda: producer.add_offsets(world.group_id) == 0)
        assert producer.commit_offset(world.group_id, 4, topic=world.u) == 0
        self.id, self.epoch = producer.id, producer.epoch

    def look(self, address: Address) -> list[Any]:
        """The groups by OffsetFetch and DescribeGroups."""
        answers: list[Any] = []
        with SocketClient(address) as client:
            for group in (self.name, *(f"{self.name}-{which}" for which in ("gone", "members", "transactions"))):
                answers += [
                    sorted(requests.fetch(client, group_id=group, stable=each).items()) for each in (False, True)
                ]
                (described,) = client.ask(DescribeGroupsRequest(groups=[group]), 5).groups
                members = [
                    (each.member_id, each.client_id, bytes(each.member_metadata), bytes(each.member_assignment))
                    for each in described.members
                ]
                answers.append((group, described.error_code, described.group_state, described.protocol_type, members))
        return answers

    def go_on(self, address: Address) -> None:
        """The member commits in its generation; the transaction that was left open is committed."""
        members, transactions = f"{self.name}-members", f"{self.name}-transactions"
        t0, u0 = (f"{self.name}-t", 0), (f"{self.name}-u", 0)
        with SocketClient(address) as client:
            assert client.ask(heartbeat_request(members, self.member, self.generation), 4).error_code == 0
            by_member = {"member_id": self.member, "generation_id_or_member_epoch": self.generation}
            assert requests.commit(client, {t0: 10}, group_id=members, version=9, **by_member) == {t0: 0}
            assert requests.fetch(client, t0, group_id=members)[t0][0] == 10
            producer = Producer(client, self.name, init=False)
            producer.id, producer.epoch = self.id, self.epoch
            assert producer.end(commit=True) == 0
            until(lambda: requests.fetch(client, u0, group_id=transactions, stable=True)[u0][0] == 4)
            until(lambda: producer.init() == 0)
            assert (producer.id, producer.epoch) == (self.id, self.epoch + 1)
        self.expected = self.look(address)


@pytest.fixture(scope="module")
def config() -> dict[str, str]:
    return {**COORDINATORS, **SMALL_SEGMENTS}


@pytest.mark.parametrize(("rounds", "seed"), [(2, 3), pytest.param(30, 7, marks=pytest.mark.torture)])
def test_brokers_that_take_turns_on_a_directory_agree_on_everything(
    kafka: RealKafka, ours: BrokerProcess, rounds: int, seed: int
) -> None:
    take_turns(kafka, ours, rounds, seed)


@pytest.mark.torture
@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_groups_offsets_and_open_transactions_go_from_kafka_to_us_and_back(
    kafka: RealKafka, ours: BrokerProcess, end: str
) -> None:
    kafka.start()
    address = with_coordinators(kafka.bootstrap)
    for name in ("theirs", "ours"):  # later Kafka's controller would not hear of new topics
        OffsetWorld(address, name).close()
    theirs = Scene(address, "theirs")

    hand_over(kafka, ours, end)
    address = address_of(ours.bootstrap)
    assert theirs.look(address) == theirs.expected
    theirs.go_on(address)
    mine = Scene(address, "ours")

    hand_over(ours, kafka, end)
    address = with_coordinators(kafka.bootstrap)
    for scene in (theirs, mine):
        assert scene.look(address) == scene.expected
    mine.go_on(address)
    assert errors_of(kafka) == []
