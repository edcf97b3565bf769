"""Brokers of one cluster in several places: a holder of the logs, and members that pass their clients on to it."""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from minibroker.broker.asynchronous import AsyncBroker
from minibroker.cluster.advice import LOGGER
from minibroker.cluster.listeners import ServedListener
from minibroker.cluster.topic_admin import TopicSpec
from minibroker.config import BrokerConfig
from minibroker.security.tls.certificates import Certificates
from minibroker.server.remote import link
from minibroker.server.remote.holder import Holder, LinkPort
from minibroker.server.remote.link import ClusterState, Endpoint, Register, RegistrationError
from minibroker.server.remote.member import Member
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.groups import FindCoordinatorRequest, HeartbeatRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from minibroker_protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from minibroker_protocol.messages.transactions import InitProducerIdRequest
from minibroker_storage.data_directory.names import TOPICS_FILE
from tests.broker.harness import batch, bytes_in, create_request, fetch_request, only_partition, produce_request
from tests.broker.security.conftest import certificates
from tests.broker.security.sasl.login import TlsClient, log_in
from tests.broker.socket_client import SocketClient
from tests.kafka.real_kafka import free_ports
from tests.patience import NO_RETENTION, PATIENCE_S, eventually

__all__ = ["certificates"]

ALL = MetadataRequest(topics=None)
QUICK = {"broker.session.timeout.ms": "400", "broker.heartbeat.interval.ms": "50"}
CLIENTS = 200


class Site:
    """A holder, node 1, and members, which share one event loop in a thread."""

    def __init__(self, directory: Path, protocol: str = "PLAINTEXT", **config: str) -> None:
        self.ports = free_ports(5)  # of the link, and of the nodes by their ids
        self.data_dir = str(directory)
        self.protocol = protocol
        self.config = {"group.initial.rebalance.delay.ms": "0", **NO_RETENTION, **config}
        self.members: dict[int, asyncio.Task[None]] = {}
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)

    def bootstrap(self, node_id: int) -> str:
        return f"127.0.0.1:{self.ports[node_id]}"

    def client(self, node_id: int, **fields: Any) -> SocketClient:
        return SocketClient(("127.0.0.1", self.ports[node_id]), **fields)

    def hold(self) -> None:
        async def start() -> None:
            listeners = f"{self.protocol}://{self.bootstrap(1)}"
            config = {"node.id": "1", **self.config}
            self.broker = AsyncBroker(listeners=listeners, data_dir=self.data_dir, config=config, timeout=PATIENCE_S)
            await self.broker.start()
            self.holder = Holder(self.broker.server)
            self.link = LinkPort("127.0.0.1", self.ports[0], self.holder.serve)
            await self.link.open()

        self.run(start())

    def end_holder(self) -> None:
        async def stop() -> None:
            await self.link.close()
            await self.broker.stop()

        self.run(stop())

    def join(self, node_id: int, port: int | None = None, *topics: str) -> int:
        """Let a member join, and return its node id."""
        port = self.ports[node_id] if port is None else port

        async def find_holder() -> link.Address | None:
            return "127.0.0.1", self.ports[0]

        config = BrokerConfig.from_properties(self.config)
        listener = ServedListener(self.protocol, self.protocol, "127.0.0.1", port)
        member = Member(config, node_id, [listener], find_holder, [TopicSpec.parse(topic) for topic in topics])

        async def join() -> "asyncio.Task[None]":
            joined = asyncio.Event()
            task = asyncio.create_task(member.run(joined.set))
            task.add_done_callback(lambda _: joined.set())
            await joined.wait()
            if task.done():
                task.result()
            return task

        self.members[member.node_id] = self.run(join())
        return member.node_id

    def end_member(self, node_id: int) -> None:
        async def end(task: "asyncio.Task[None]") -> None:
            task.cancel()
            await asyncio.wait([task])

        self.run(end(self.members.pop(node_id)))

    def leaders(self, node_id: int, topic: str = "t") -> list[int]:
        """Return the leader of each partition, according to a node that may be about to drop its clients."""
        with contextlib.suppress(ConnectionError), self.client(node_id) as client:
            topics = client.ask(ALL, 9).topics
            return [
                partition.leader_id
                for found in topics
                if found.name == topic
                for partition in sorted(found.partitions, key=lambda partition: partition.partition_index)
            ]
        return []

    def connections(self, node_id: int) -> int:
        """Return how many clients the holder serves for a member."""
        listener: Any = self.broker.services.core.cluster.nodes[node_id].listener
        return max(len(listener.connections), len(listener.quotas))

    def close(self) -> None:
        with contextlib.ExitStack() as ends:  # Also after a failure, which leaves the loop's sockets open otherwise.
            ends.callback(self.loop.close)
            ends.callback(self.thread.join)
            ends.callback(self.loop.call_soon_threadsafe, self.loop.stop)
            for node_id in tuple(self.members):
                self.end_member(node_id)
            with contextlib.suppress(RuntimeError, AttributeError):
                self.end_holder()


Start = Callable[..., Site]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a holder, which is node 1, with the members 2 and 3 or with others."""
    with contextlib.ExitStack() as ends:

        def run(*nodes: int, **fields: str) -> Site:
            site = Site(tmp_path / "data", **fields)
            ends.callback(site.close)
            site.hold()
            for node_id in nodes or (2, 3):
                if node_id != 1:
                    site.join(node_id)
            return site

        yield run


def create(site: Site) -> None:
    """Create a topic "t" with replicas on all nodes, each of which leads the partition at its place."""
    admin = AdminClient({"bootstrap.servers": site.bootstrap(next(iter(site.members)))})
    nodes = [1, *site.members]
    topic = NewTopic("t", len(nodes), replica_assignment=[nodes[first:] + nodes[:first] for first in range(len(nodes))])
    admin.create_topics([topic])["t"].result(PATIENCE_S)


def produce(producer: Producer, first: int, last: int) -> None:
    for number in range(first, last):
        producer.produce("t", str(number).encode(), partition=number % 3)
    assert producer.flush(PATIENCE_S) == 0


def read(site: Site, node_id: int, count: int) -> list[int]:
    """Read the next records of a group through one node, and commit their offsets."""
    consumer = Consumer(
        {"bootstrap.servers": site.bootstrap(node_id), "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    numbers: list[int] = []
    while len(numbers) < count:
        messages = consumer.consume(count - len(numbers), PATIENCE_S)
        numbers += [int(message.value() or b"") for message in messages if message.error() is None]
    consumer.close()
    return sorted(numbers)


def test_holder_and_members_are_the_brokers_of_one_cluster(start: Start) -> None:
    site = start()
    create(site)
    # Without an advertised address, the clients of a member would get the address of that member for node 1, too.
    (endpoint,) = site.broker.services.core.cluster.first.endpoints.values()
    assert endpoint.advertised == ("127.0.0.1", site.ports[1])
    for node_id in (1, 2, 3):
        with site.client(node_id) as client:
            metadata = client.ask(ALL, 9)
        addresses = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
        assert addresses == {node: ("127.0.0.1", site.ports[node]) for node in (1, 2, 3)}
        assert site.leaders(node_id) == [1, 2, 3]
    producer = Producer({"bootstrap.servers": site.bootstrap(2), "enable.idempotence": True})
    for first, node_id in ((0, 3), (30, 2), (60, 1)):
        produce(producer, first, first + 30)
        assert read(site, node_id, 30) == list(range(first, first + 30))


def test_topics_get_their_other_replicas_and_leaders_as_brokers_join(start: Start) -> None:
    def create(node_id: int, name: str, factor: int) -> int:
        with site.client(node_id) as client:
            topic = CreatableTopic(name=name, num_partitions=3, replication_factor=factor)
            return int(client.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code)

    def replicas(topic: str) -> list[int]:
        found = site.broker.services.core.topics.get(topic)
        assert found is not None
        return [len(partition.replicas) for partition in found.partitions]

    site = start(1)
    assert (create(1, "three", 3), create(1, "one", 1)) == (ErrorCode.NONE, ErrorCode.NONE)
    site.join(2, None, "of-2:2:replication.factor=3", "one:3")
    assert (replicas("three"), replicas("of-2"), site.leaders(1, "three")) == ([2] * 3, [2] * 2, [2, 1, 2])
    assert create(2, "early", 3) == ErrorCode.INVALID_REPLICATION_FACTOR
    site.join(3)
    assert (replicas("three"), replicas("of-2"), replicas("one")) == ([3] * 3, [3] * 2, [1] * 3)
    assert sorted(site.leaders(3, "three")) == [1, 2, 3]
    with pytest.raises(RegistrationError, match=r"topic 'bad': .*Unknown topic config name: no\.such\.key"):
        site.join(4, None, "bad:1:no.such.key=1")


def test_leaders_of_a_member_move_while_it_is_away(start: Start) -> None:
    site = start()
    create(site)
    producer = Producer({"bootstrap.servers": site.bootstrap(3), "enable.idempotence": True})
    produce(producer, 0, 30)
    site.end_member(2)
    eventually(lambda: 2 not in site.leaders(3))
    produce(producer, 30, 60)
    site.join(2)
    eventually(lambda: site.leaders(2) == [1, 2, 3])
    produce(producer, 60, 90)
    assert read(site, 2, 90) == list(range(90))


def test_each_node_id_belongs_to_one_member(start: Start) -> None:
    site = start(2)
    with pytest.raises(RegistrationError, match=r"^node.id 2 is registered by 127\.0\.0\.1:\d+; each broker must"):
        site.join(2, site.ports[3])
    with pytest.raises(RegistrationError, match=r"^node\.id 1 is that of the broker with the logs"):
        site.join(1, site.ports[3])
    assert site.join(-1, site.ports[3]) == 1001
    assert site.leaders(2) == site.leaders(3) == []


def test_a_broker_without_an_id_gets_the_same_one_if_the_answer_was_lost(start: Start) -> None:
    site = start(2)

    async def register() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.ports[0])
        writer.write(link.GREETING + link.encode(Register(-1, None, {}, "one process")))
        state = await link.read_message(reader)
        assert isinstance(state, ClusterState)
        writer.close()
        return state.node_id

    assert [site.run(register()) for _ in range(2)] == [1001, 1001]


def test_a_member_advertises_the_port_that_it_has_got_and_keeps_it(start: Start) -> None:
    site = start(3)
    site.join(2, port=0)
    addresses: list[tuple[str, int]] = []

    def is_known() -> bool:
        with site.client(3) as client:
            brokers = client.ask(ALL, 9).brokers
        addresses[:] = [(broker.host, broker.port) for broker in brokers if broker.node_id == 2 and broker.port]
        return bool(addresses)

    eventually(is_known)
    create(site)
    site.end_holder()
    with SocketClient(addresses[0]) as client:
        assert client.ask(ApiVersionsRequest(), 2).error_code == 0
    site.hold()
    eventually(lambda: site.leaders(1) == [1, 3, 2])
    with SocketClient(addresses[0]) as client:
        assert (addresses[0][1], 2) in {(broker.port, broker.node_id) for broker in client.ask(ALL, 9).brokers}


def test_a_member_gets_files_that_were_replaced_by_a_snapshot(start: Start) -> None:
    site = start(2, **{"broker.heartbeat.interval.ms": "50"})

    def has_later_topic() -> bool:
        return "later" in site.holder._registered[2].sent[TOPICS_FILE]

    create(site)
    site.run(site.broker.snapshot(site.data_dir + "-snapshot"))
    site.run(site.broker.create_topic("later"))
    eventually(has_later_topic)
    site.run(site.broker.restore(site.data_dir + "-snapshot"))
    eventually(lambda: not has_later_topic())
    site.end_holder()
    eventually(lambda: site.leaders(2) == [-1, -1])
    assert site.leaders(2, "later") == []


def test_while_the_holder_is_away_clients_get_errors_after_which_they_try_again(start: Start) -> None:
    site = start()
    create(site)
    producer = Producer({"bootstrap.servers": site.bootstrap(2), "enable.idempotence": True})
    produce(producer, 0, 30)
    site.end_holder()
    eventually(lambda: site.leaders(2) == [-1, -1, -1])
    with site.client(2) as client:
        metadata = client.ask(ALL, 9)
        assert {broker.node_id for broker in metadata.brokers} == {1, 2, 3}
        errors = {partition.error_code for topic in metadata.topics for partition in topic.partitions}
        assert errors == {ErrorCode.LEADER_NOT_AVAILABLE}
        assert client.ask(ApiVersionsRequest(), 2).error_code == 0
        assert client.ask(FindCoordinatorRequest(key="g"), 2).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        produced = client.ask(produce_request(batch(b"a")), 8).responses[0].partition_responses[0]
        assert produced.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert only_partition(client.ask(fetch_request(("t", 0, 0)), 11)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert client.ask(create_request("u"), 5).topics[0].error_code == ErrorCode.NOT_CONTROLLER
        init = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        assert client.ask(init, 4).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        assert client.ask(beat, 3).error_code == ErrorCode.NOT_COORDINATOR
    for number in range(30, 60):
        producer.produce("t", str(number).encode(), partition=number % 3)
    site.hold()
    assert producer.flush(PATIENCE_S) == 0
    eventually(lambda: site.leaders(3) == [1, 2, 3])
    assert read(site, 3, 60) == list(range(60))


def test_a_member_without_its_holder_does_not_call_a_topic_missing(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", LOGGER)
    site = start()
    site.end_holder()

    def ask() -> MetadataResponse | None:
        with contextlib.suppress(ConnectionError), site.client(2) as client:
            topics = [MetadataRequestTopic(name="new")]
            metadata: MetadataResponse = client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 9)
            return metadata
        return None

    eventually(lambda: (metadata := ask()) is not None and metadata.controller_id == -1)
    metadata = ask()
    assert metadata is not None
    assert [topic.error_code for topic in metadata.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [each.getMessage() for each in caplog.records if each.name == LOGGER] == []


def test_a_silent_holder_counts_as_away(start: Start) -> None:
    site = start(2, **QUICK)
    create(site)
    state: list[ClusterState] = []

    async def take_state(*_: object) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.ports[0])
        request = Register(3, None, {"PLAINTEXT": Endpoint("127.0.0.1", site.ports[3], "PLAINTEXT")}, "i")
        writer.write(link.GREETING + link.encode(request))
        message = await link.read_message(reader)
        assert isinstance(message, ClusterState)
        state.append(message)
        assert isinstance(await reader.read(-1), bytes)  # The holder ends the connection of a silent member.
        writer.close()

    site.run(take_state())
    eventually(lambda: 3 not in site.leaders(2))
    site.end_holder()

    async def be_silent(_: object, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(link.encode(state[0]))
        await reader.read(-1)

    silent = LinkPort("127.0.0.1", site.ports[0], be_silent)
    site.run(silent.open())
    site.join(3)
    eventually(lambda: site.leaders(3) == [-1, -1])

    site.end_member(3)
    site.run(silent.close())


def test_the_holder_knows_the_certificate_that_a_client_has_sent_to_a_member(
    start: Start, certificates: Certificates
) -> None:
    stores = {"keystore": certificates.server_keystore, "truststore": certificates.ca}
    settings = {f"ssl.{name}.{key}": value for name, path in stores.items() for key, value in
                (("type", "PEM"), ("location", path))}  # fmt: skip
    rights = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:CN=client",
    }
    site = start(2, protocol="SSL", **settings, **rights, **{"ssl.client.auth": "requested"})
    context = ssl.create_default_context(cafile=certificates.ca)
    for code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE):
        with TlsClient(("127.0.0.1", site.ports[2]), context) as client:
            assert client.ask(create_request("u"), 5).topics[0].error_code == code
        context.load_cert_chain(certificates.client_certificate, certificates.client_key)


def test_logins_are_the_same_with_and_without_the_holder(start: Start) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = {"listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{module} required user_alice="secret";'}
    site = start(2, protocol="SASL_PLAINTEXT", **login, **{"sasl.enabled.mechanisms": "PLAIN"})
    for end in (site.end_holder, lambda: None):
        with site.client(2) as client:
            assert log_in(client).error_code == 0
            assert client.ask(ALL, 9).brokers
        with site.client(2) as client:
            assert log_in(client, password="wrong").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        end()
        eventually(lambda: set(site.leaders(2)) == set())


def test_bytes_wait_where_the_slower_side_is(start: Start) -> None:
    site = start(2)
    create(site)
    with site.client(2) as client:
        for _ in range(30):
            request = produce_request(batch(bytes(1_000_000)), partition=1)
            assert client.ask(request, 8).responses[0].partition_responses[0].error_code == 0
    with site.client(2, receive_buffer=1 << 14) as slow:
        slow.send(fetch_request(("t", 1, 0), partition_max_bytes=1 << 25, max_bytes=1 << 25), 11)
        listener: Any = site.broker.services.core.cluster.nodes[2].listener

        def is_blocked() -> bool:
            return any(connection._outbox.is_blocked for connection in tuple(listener.connections))

        eventually(is_blocked)
        assert len(bytes_in(only_partition(slow.receive()[1]))) > 30_000_000


def test_clients_leave_nothing_behind(start: Start) -> None:
    site = start(2)

    async def visit(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.ports[2])
        if number % 4:  # The others leave before the holder is reached.
            writer.write(bytes.fromhex("0000000c 0012 0000 00000001 0002 7465"))
        if number % 4 == 2:  # A part of a second request.
            writer.write(b"\0\0\0\x63\0")
        if number % 4:
            await reader.readexactly(100)
        writer.close()

    async def visit_all() -> None:
        await asyncio.gather(*map(visit, range(CLIENTS)))

    site.run(visit_all())
    eventually(lambda: site.connections(2) == 0)
