"""How brokers of several containers find the one that holds the logs."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient  # type: ignore[import-untyped] # it has no types

from minibroker import Broker
from minibroker.cluster.node import NodesFile
from minibroker.config import BrokerConfig
from minibroker.security.sasl.scram import derive_credential
from minibroker.server.remote import link
from minibroker.server.remote.holder import LinkPort
from minibroker.server.remote.link import Claim, Endpoint
from minibroker_container import zookeeper_meeting
from minibroker_container.cluster import meet
from minibroker_container.meeting import ClaimError, Place, Registrar, Voters, find_holder
from minibroker_container.zookeeper_meeting import NoZooKeeperError, ZooKeeper
from minibroker_tools.zookeeper_server import Tree
from tests.command_line_tools.runs import run_tool
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

    async def run(self, node_id: int, stop: asyncio.Event, at: int | None = None) -> None:
        """Run a broker with the directory and the addresses of broker `at`, by default its own."""
        place = node_id if at is None else at
        address = f"127.0.0.1:{self.ports[3 + place]}"
        self.brokers[place] = broker = Broker(
            listen=address,
            advertise=address,
            data_dir=str(self.directory / str(place)),
            config={"node.id": str(node_id)},
            page="127.0.0.1:0",
            timeout=PATIENCE_S,
        )
        broker.asynchronous.owns_loop = True
        held = await meet(broker, self.places, f"127.0.0.1:{self.ports[place]}", (), stop, lambda _: None)
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
async def test_the_first_voter_holds_the_logs_in_any_order_of_starts(
    tmp_path: Path, order: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    containers = Containers(tmp_path)
    for starts in (order, order[::-1]):  # The second start finds the data directories of the first one.
        stop = asyncio.Event()
        tasks = [asyncio.create_task(containers.run(node_id, stop)) for node_id in starts]
        await until(containers.are_joined)
        containers.brokers.clear()
        stop.set()
        await asyncio.gather(*tasks)
    assert "the lab is at broker 0, which holds the logs" in caplog.messages


async def test_two_holders_of_one_cluster_refuse_to_start(tmp_path: Path) -> None:
    containers = Containers(tmp_path)
    for node_id in (0, 1):
        held_in(tmp_path, node_id, node_id)
    outcomes = await asyncio.gather(
        *(containers.run(node_id, asyncio.Event()) for node_id in (0, 1)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [ClaimError] * 2
    assert "broker 0 and broker 1 both hold logs of this cluster" in str(outcomes[0])


@pytest.mark.parametrize(("first", "second"), [(0, 2), (2, 0)])
async def test_two_brokers_with_the_id_of_the_first_voter_do_not_found_two_clusters(
    tmp_path: Path, first: int, second: int
) -> None:
    containers = Containers(tmp_path)
    stop = asyncio.Event()
    earlier = asyncio.create_task(containers.run(0, stop, at=first))
    await until(lambda: is_open(containers.ports[first]))
    names = rf"127\.0\.0\.1:{containers.ports[first]} and of this one at .*:{containers.ports[second]};"
    with pytest.raises(ClaimError, match=rf"^node\.id 0 is that of the broker at {names}"):
        await containers.run(0, stop, at=second)
    stop.set()
    with contextlib.suppress(ClaimError):  # It may have seen the other one, too.
        await earlier


def is_open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@contextlib.asynccontextmanager
async def link_of(registrar: Registrar, port: int = 0) -> AsyncGenerator[int]:
    opened = LinkPort("127.0.0.1", port, registrar.serve)
    await opened.open()
    registrar.port = opened.port
    try:
        yield opened.port
    finally:
        await opened.close()


class Party:
    """The link of a broker that meets others."""

    def __init__(self, nodes_file: NodesFile, node_id: int, port: int, registrar: Registrar) -> None:
        self.nodes_file = nodes_file
        self.node_id = node_id
        self.port = port
        self.registrar = registrar
        self.reports: list[str] = []

    async def find(self, place: Place) -> link.Address | None:
        """Return the holder. If it is this broker, prepare it for members."""
        holder = await find_holder(place, self.nodes_file)
        if holder is None:
            self.registrar.claim = Claim(self.node_id, self.registrar.claim.incarnation, is_holder=True)
        return holder

    async def vote(self, *places: str, patience_s: float = PATIENCE_S) -> link.Address | None:
        return await self.find(Voters(places, self.registrar, self.reports.append, patience_s))


@contextlib.asynccontextmanager
async def party(nodes_file: NodesFile, node_id: int, port: int = 0) -> AsyncGenerator[Party]:
    registrar = Registrar(node_id, is_holder=nodes_file.is_holder)
    async with link_of(registrar, port) as opened:
        yield Party(nodes_file, node_id, opened, registrar)


async def test_controllers_give_the_logs_to_the_first_broker_and_learn_it_again(tmp_path: Path) -> None:
    async with party(NodesFile(str(tmp_path)), 1) as first, party(NodesFile(str(tmp_path)), 2) as second:
        holder = ("127.0.0.1", first.port)
        controller = Registrar(9, is_controller=True)
        async with link_of(controller) as port:
            assert await first.vote(f"9@127.0.0.1:{port}") is None
            assert await second.vote(f"9@127.0.0.1:{port}") == controller.claim.holder == holder
        controller = Registrar(9, is_controller=True)
        async with link_of(controller, port):
            voters = Voters([f"9@127.0.0.1:{port}"], first.registrar, print)
            announcing = asyncio.ensure_future(voters.announce(1, ENDPOINTS))
            await until(lambda: controller.claim.holder == holder)
            announcing.cancel()
            assert await second.vote(f"9@127.0.0.1:{port}") == holder


async def test_a_broker_that_has_lost_its_logs_gets_them_from_its_controller_again(tmp_path: Path) -> None:
    controller = Registrar(9, is_controller=True)
    async with link_of(controller) as port:
        for _ in range(2):
            async with party(NodesFile(str(tmp_path)), 1) as broker:
                assert await broker.vote(f"9@127.0.0.1:{port}") is None
        async with party(NodesFile(str(tmp_path)), 1) as one:
            assert await one.vote(f"9@127.0.0.1:{port}") is None
            async with party(NodesFile(str(tmp_path)), 1) as another:
                with pytest.raises(ClaimError, match=r"^node\.id 1 is that of the broker at 127\.0\.0\.1:"):
                    await another.vote(f"9@127.0.0.1:{port}")


async def test_a_voter_without_an_address_is_left_out_after_a_time(tmp_path: Path) -> None:
    async with party(NodesFile(str(tmp_path)), 2) as broker:
        places = "1@nowhere.invalid:1", f"2@127.0.0.1:{broker.port}"
        assert await broker.vote(*places, patience_s=0.5) is None
        assert set(broker.reports) == {"waits for nowhere.invalid:1, which decides who holds the logs of this cluster"}


@pytest.mark.parametrize("place", ["2@127.0.0.1:1", "127.0.0.1:1"])
async def test_a_broker_that_does_not_reach_itself_decides_after_a_time(tmp_path: Path, place: str) -> None:
    async with party(NodesFile(str(tmp_path)), 2) as broker:
        assert await broker.vote(place, patience_s=0.5) is None
        assert broker.reports


async def test_zookeeper_has_one_holder_and_all_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_meeting, "ANNOUNCEMENT_INTERVAL_S", 0)
    attempts: list[str] = []
    create = Tree.create

    def create_counted(tree: Tree, path: str, *others: Any) -> str:
        attempts.append(path)
        return create(tree, path, *others)

    monkeypatch.setattr(Tree, "create", create_counted)
    config = BrokerConfig.from_properties({})
    ids, controller = "/kafka/brokers/ids/1", "/kafka/controller"
    with contextlib.ExitStack() as ends:
        (port,) = free_ports(1)
        first_server = ends.enter_context(contextlib.ExitStack())
        _, server = first_server.enter_context(ours(port))

        def place(of: Party) -> ZooKeeper:
            created = ZooKeeper(f"127.0.0.1:{port}/kafka", config, of.registrar, of.reports.append)
            ends.callback(created.close)
            return created

        async with party(NodesFile(str(tmp_path / "1")), 1) as first:
            assert await first.find(place(first)) is None
            holder = ("127.0.0.1", first.port)
            async with party(NodesFile(str(tmp_path / "2")), 2) as second:
                assert await second.find(place(second)) == holder
            async with party(held_in(tmp_path, 3, 3), 3) as third:
                with pytest.raises(ClaimError, match=r"^broker 3 and broker 1 both hold logs"):
                    await third.find(place(third))
            async with party(NodesFile(str(tmp_path / "1")), 1) as same:
                with pytest.raises(ClaimError, match=r"^node\.id 1 is that of the broker at 127\.0\.0\.1:"):
                    await same.find(place(same))
        # The nodes of a killed broker last as long as its session. It has them again, with its logs or without.
        async with party(NodesFile(str(tmp_path / "new")), 1) as again:
            assert await again.find(place(again)) is None
        async with party(held_in(tmp_path, 1, 1), 1) as kept:
            meeting_place = place(kept)
            assert await kept.find(meeting_place) is None
            announcing = asyncio.ensure_future(meeting_place.announce(1, ENDPOINTS))
            await until(lambda: {ids, controller} <= set(server.tree.nodes))
            attempts.clear()
            for _ in range(100):
                await asyncio.sleep(0)
            assert attempts == []
            first_server.close()
            with ours(port) as (_, empty):
                await until(lambda: {ids, controller} <= set(empty.tree.nodes))
                assert json.loads(empty.tree.nodes[ids].data)["endpoints"] == ["PLAINTEXT://kafka:9092"]
            announcing.cancel()


async def test_brokers_wait_for_the_first_of_several_zookeepers(tmp_path: Path) -> None:
    first, second = free_ports(2)
    config = BrokerConfig.from_properties({})
    with ours(second) as (_, other), contextlib.ExitStack() as ends:
        async with party(NodesFile(str(tmp_path)), 1) as broker:
            hosts = f"127.0.0.1:{first},127.0.0.1:{second}"
            place = ZooKeeper(hosts, config, broker.registrar, broker.reports.append)
            ends.callback(place.close)
            finding = asyncio.ensure_future(broker.find(place))
            await until(lambda: broker.reports == [f"waits for ZooKeeper at {hosts}"])
            _, server = ends.enter_context(ours(first))
            assert await finding is None
            assert "/controller" in server.tree.nodes
            assert "/controller" not in other.tree.nodes


async def test_users_that_were_written_to_zookeeper_can_log_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mechanism = "SCRAM-SHA-256"
    with ours() as (port, _):
        change = ("--alter", "--add-config", f"{mechanism}=[password=secret]", "--entity-type", "users")
        servers = f"127.0.0.1:{port}"
        altered = await asyncio.to_thread(
            run_tool, "kafka-configs", "--zookeeper", servers, *change, "--entity-name", "a b"
        )
        assert altered.status == 0
        client: Any = KazooClient(servers)
        await asyncio.to_thread(client.start)
        for name, data in (("empty", b""), ("quota", b'{"version":1,"config":{"producer_byte_rate":"1"}}')):
            await asyncio.to_thread(client.create, f"/config/users/{name}", data)
        await asyncio.to_thread(client.stop)
        client.close()
        broker = Broker(listen="127.0.0.1:0", data_dir=str(tmp_path), timeout=PATIENCE_S)
        broker.asynchronous.owns_loop = True
        held = await meet(broker, [f"zookeeper://{servers}"], "127.0.0.1:0", (), asyncio.Event(), lambda _: None)
        assert held is not None
        async with broker, held:
            scram = broker.asynchronous.services.security.scram
            assert scram.users() == ["a b"]
            credential = scram.find(mechanism, "a b")
            assert credential is not None
            assert credential == derive_credential(mechanism, "secret", salt=credential.salt)
    assert "/config/users/empty in ZooKeeper has no credentials of Kafka's form" in caplog.text


async def test_a_broker_without_its_zookeeper_starts_alone_unless_it_needs_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_meeting, "_RESOLVE_S", 0.0)
    (port,) = free_ports(1)
    for connect in ("nowhere.invalid", f"127.0.0.1:{port}"):
        async with party(NodesFile(str(tmp_path)), 1) as broker:
            said: list[str] = []
            config = BrokerConfig.from_properties({})
            assert await broker.find(ZooKeeper(connect, config, broker.registrar, said.append)) is None
            (line,) = said
            assert line.startswith(f"starts alone, since zookeeper.connect={connect} ")
            config = BrokerConfig.from_properties({"offsets.topic.replication.factor": "3"})
            with pytest.raises(NoZooKeeperError, match=r"offsets.topic.replication.factor is 3"):
                await broker.find(ZooKeeper(connect, config, broker.registrar, said.append))


@pytest.mark.parametrize(
    ("node_id", "is_alone"), [(0, True), (1, True), (2, False), (4, False), (101, True), (1001, True)]
)
async def test_a_broker_whose_id_is_one_of_several_does_not_start_without_its_zookeeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node_id: int, *, is_alone: bool
) -> None:
    monkeypatch.setattr(zookeeper_meeting, "_RESOLVE_S", 0.0)
    config = BrokerConfig.from_properties({"broker.id": str(node_id)})
    async with party(NodesFile(str(tmp_path)), node_id) as broker:
        place = ZooKeeper("nowhere.invalid", config, broker.registrar, broker.reports.append)
        if is_alone:
            assert await broker.find(place) is None
        else:
            with pytest.raises(NoZooKeeperError, match=rf"the id of this broker is {node_id}, so this broker is one"):
                await broker.find(place)
            ones = BrokerConfig.from_properties({"broker.id": str(node_id), "offsets.topic.replication.factor": "1"})
            assert (
                await broker.find(ZooKeeper("nowhere.invalid", ones, broker.registrar, broker.reports.append)) is None
            )
