"""How brokers of several containers find the one that holds the logs."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from minibroker import Broker
from minibroker.cluster.nodes_file import NodesFile
from minibroker.config import BrokerConfig
from minibroker.server.remote import link
from minibroker.server.remote.holder import LinkPort
from minibroker.server.remote.link import Claim, Endpoint
from minibroker_container import zookeeper_meeting
from minibroker_container.cluster import meet
from minibroker_container.meeting import ClaimError, Meeting, Process, Registrar
from minibroker_container.zookeeper_meeting import NoZooKeeperError, ZooKeeperMeeting
from tests.command_line_tools.test_zookeeper_server import ours
from tests.kafka.real_kafka import free_ports
from tests.patience import PATIENCE_S

ENDPOINTS = {"PLAINTEXT": Endpoint("kafka", 9092, "PLAINTEXT")}


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - a condition has no event
            await asyncio.sleep(0)


def held_in(directory: Path, holder_id: int, node_id: int) -> NodesFile:
    """Return the file of a broker that has been in a cluster before."""
    nodes_file = NodesFile(str(directory / str(node_id)))
    nodes_file.keep_holder(holder_id, node_id)
    return nodes_file


class Containers:
    """Brokers with the ids 0 to 2 that meet at the ports of their links."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = free_ports(6)
        self.places = [f"{node_id}@127.0.0.1:{self.ports[node_id]}" for node_id in (0, 1, 2)]
        self.brokers: dict[int, Broker] = {}

    async def run(self, node_id: int, stop: asyncio.Event) -> None:
        address = f"127.0.0.1:{self.ports[3 + node_id]}"
        self.brokers[node_id] = broker = Broker(
            listen=address,
            advertise=address,
            data_dir=str(self.directory / str(node_id)),
            config={"node.id": str(node_id)},
            timeout=PATIENCE_S,
        )
        broker.asynchronous.owns_loop = True
        held = await meet(broker, self.places, f"127.0.0.1:{self.ports[node_id]}", stop)
        if held is not None:
            async with broker, held:
                await stop.wait()

    def are_joined(self) -> bool:
        """Return whether all brokers know their holder, and this one, broker 0, has all nodes."""
        with contextlib.suppress(RuntimeError, KeyError):
            nodes = self.brokers[0].asynchronous.services.core.cluster.up
            files = [NodesFile(str(self.directory / str(node_id))) for node_id in range(3)]
            return [file.holder_id for file in files] == [0, 0, 0] and [node.id for node in nodes] == [0, 1, 2]
        return False


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
async def test_the_first_voter_holds_the_logs_in_any_order_of_starts(tmp_path: Path, order: tuple[int, ...]) -> None:
    containers = Containers(tmp_path)
    for starts in (order, order[::-1]):  # The second start finds the data directories of the first one.
        stop = asyncio.Event()
        tasks = [asyncio.create_task(containers.run(node_id, stop)) for node_id in starts]
        await until(containers.are_joined)
        containers.brokers.clear()
        stop.set()
        await asyncio.gather(*tasks)


async def test_two_holders_of_one_cluster_refuse_to_start(tmp_path: Path) -> None:
    containers = Containers(tmp_path)
    for node_id in (0, 1):
        held_in(tmp_path, node_id, node_id)
    outcomes = await asyncio.gather(
        *(containers.run(node_id, asyncio.Event()) for node_id in (0, 1)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [ClaimError] * 2
    assert "broker 0 and broker 1 both hold logs of this cluster" in str(outcomes[0])


@contextlib.asynccontextmanager
async def controller(port: int = 0) -> AsyncGenerator[tuple[int, Registrar]]:
    registrar = Registrar(9, is_controller=True)

    async def answer(message: link.Message, _: object, writer: asyncio.StreamWriter) -> None:
        writer.write(link.encode(registrar.answer(message, "127.0.0.1")))
        await writer.drain()

    opened = LinkPort("127.0.0.1", port, answer)
    await opened.open()
    try:
        yield opened.port, registrar
    finally:
        await opened.close()


async def test_controllers_give_the_logs_to_the_first_broker_and_learn_it_again(tmp_path: Path) -> None:
    def meeting(node_id: int, port: int) -> Meeting:
        nodes_file = NodesFile(str(tmp_path / str(node_id)))
        return Meeting(node_id, nodes_file, [Process(("127.0.0.1", port), 9)], 1000 + node_id, print)

    async with controller() as (port, registrar):
        first = meeting(1, port)
        assert await first.find_holder() == Claim(1, holder_id=1)
        expected = Claim(9, True, 1, ("127.0.0.1", 1001))
        assert await meeting(2, port).find_holder() == registrar.claim == expected
    held_in(tmp_path, 1, 1)
    async with controller(port) as (_, registrar):
        announcing = asyncio.ensure_future(meeting(1, port).announce(1, ENDPOINTS))
        await until(lambda: registrar.claim == expected)
        announcing.cancel()
        assert await meeting(2, port).find_holder() == expected


async def test_a_voter_without_an_address_is_left_out_after_a_time(tmp_path: Path) -> None:
    waits: list[str] = []
    processes = [Process(("nowhere.invalid", 1), 1), Process(("127.0.0.1", 1), 2)]
    meeting = Meeting(2, NodesFile(str(tmp_path)), processes, 1002, waits.append, left_out_after_s=0.5)
    assert await meeting.find_holder() == Claim(2, holder_id=2)
    assert set(waits) == {"waits for nowhere.invalid:1, which decides who holds the logs of this cluster"}


async def test_zookeeper_has_one_holder_and_all_brokers(tmp_path: Path) -> None:
    config = BrokerConfig.from_properties({})
    made: list[ZooKeeperMeeting] = []

    def meeting(zookeeper_port: int, nodes_file: NodesFile, node_id: int, link_port: int) -> ZooKeeperMeeting:
        connect = f"127.0.0.1:{zookeeper_port}/kafka"
        made.append(ZooKeeperMeeting(connect, node_id, config, nodes_file, link_port, print))
        return made[-1]

    with ours() as (port, zookeeper):
        first = meeting(port, NodesFile(str(tmp_path / "1")), 1, 1001)
        assert await first.find_holder() == Claim(1, holder_id=1)
        claim = await meeting(port, NodesFile(str(tmp_path / "2")), 2, 1002).find_holder()
        assert claim == Claim(1, holder_id=1, address=("127.0.0.1", 1001))
        # The nodes of a killed broker last as long as its session. It has them again at once, with its logs or without.
        for nodes_file in (held_in(tmp_path, 1, 1), NodesFile(str(tmp_path / "new"))):
            assert await meeting(port, nodes_file, 1, 1001).find_holder() == Claim(1, holder_id=1)
        with pytest.raises(ClaimError, match=r"^broker 3 and broker 1 both hold logs"):
            await meeting(port, held_in(tmp_path, 3, 3), 3, 1003).find_holder()
        holder = meeting(port, held_in(tmp_path, 1, 1), 1, 1001)
        await holder.find_holder()
        announcing = asyncio.ensure_future(holder.announce(1, ENDPOINTS))
        ids, controllers = "/kafka/brokers/ids/1", "/kafka/controller"
        await until(lambda: ids in zookeeper.tree.nodes)
        assert json.loads(zookeeper.tree.nodes[ids].data)["endpoints"] == ["PLAINTEXT://kafka:9092"]
        for path in (ids, controllers):  # ZooKeeper has been restarted, and has lost its nodes.
            zookeeper.tree.delete(path)
        await until(lambda: {ids, controllers} <= set(zookeeper.tree.nodes))
        announcing.cancel()
        for each in made:
            await asyncio.to_thread(each.close)


async def test_a_broker_without_its_zookeeper_starts_alone_unless_it_needs_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_meeting, "_RESOLVE_S", 0.0)
    (port,) = free_ports(1)
    for connect in ("nowhere.invalid", f"127.0.0.1:{port}"):
        said: list[str] = []
        nodes_file = NodesFile(str(tmp_path))
        alone = ZooKeeperMeeting(connect, 1, BrokerConfig.from_properties({}), nodes_file, 1001, said.append)
        assert await alone.find_holder() == Claim(1, holder_id=1)
        (line,) = said
        assert line.startswith(f"starts alone, since zookeeper.connect={connect} ")
        config = BrokerConfig.from_properties({"offsets.topic.replication.factor": "3"})
        with pytest.raises(NoZooKeeperError, match=r"offsets.topic.replication.factor is 3"):
            await ZooKeeperMeeting(connect, 1, config, nodes_file, 1001, said.append).find_holder()
