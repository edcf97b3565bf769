"""The small ZooKeeper, as kazoo sees it. `make torture` holds the same tests against Apache ZooKeeper."""

import asyncio
import base64
import contextlib
import json
import logging
import random
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo import exceptions  # type: ignore[import-untyped] # it has no types
from kazoo.client import KazooClient  # type: ignore[import-untyped] # the same

from minibroker import Broker
from minibroker.clock import Clock, ManualClock, SystemClock
from minibroker.security.sasl.scram import derive_credential
from minibroker_tools import zookeeper_server
from minibroker_tools.zookeeper_server import ZooKeeperServer
from tests.command_line_tools.runs import Printed, run_tool
from tests.command_line_tools.test_servers import ask_zookeeper
from tests.kafka.real_kafka import free_ports
from tests.patience import PATIENCE_S, eventually

TICK_MS = 100
SEED = 4


@contextlib.contextmanager
def ours(port: int = 0, clock: Clock | None = None) -> Iterator[tuple[int, ZooKeeperServer]]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    zookeeper = ZooKeeperServer(clock or SystemClock(loop))

    async def close(server: asyncio.Server) -> None:
        server.close()
        zookeeper.close()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks)

    with contextlib.ExitStack() as ends:  # Also if the port is taken, end the thread and close the loop's sockets.
        ends.callback(loop.close)
        ends.callback(thread.join)
        ends.callback(loop.call_soon_threadsafe, loop.stop)
        listening = asyncio.start_server(zookeeper.serve, "127.0.0.1", port)
        server = asyncio.run_coroutine_threadsafe(listening, loop).result(PATIENCE_S)
        try:
            yield server.sockets[0].getsockname()[1], zookeeper
        finally:
            asyncio.run_coroutine_threadsafe(close(server), loop).result(PATIENCE_S)


@contextlib.contextmanager
def apache(libs: Path, directory: Path) -> Iterator[int]:
    (port,) = free_ports(1)
    properties = {"tickTime": TICK_MS, "dataDir": directory, "clientPort": port, "clientPortAddress": "127.0.0.1"}
    properties |= {"admin.enableServer": "false", "4lw.commands.whitelist": "*"}
    path = directory / "zookeeper.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    command = ["java", "-cp", f"{libs}/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:

        def is_up() -> bool:
            with contextlib.suppress(OSError):  # While it starts, it may leave a request without an answer.
                return ask_zookeeper(port, b"ruok", timeout_s=1) == b"imok"
            return False

        try:
            eventually(is_up)
            yield port
        finally:
            process.kill()


@pytest.fixture(params=["ours", pytest.param("apache", marks=[pytest.mark.torture, pytest.mark.toolchain])])
def port(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(zookeeper_server, "_MIN_TIMEOUT_MS", 2 * TICK_MS)
    if request.param == "ours":
        with ours() as (number, _):
            yield number
    else:
        with apache(request.getfixturevalue("kafka_libs"), tmp_path) as number:
            yield number


def text(data: bytes) -> bytes:
    return len(data).to_bytes(4) + data


def send(client: socket.socket, frame: bytes) -> None:
    client.sendall(text(frame))


def receive(client: socket.socket) -> bytes:
    size = int.from_bytes(client.recv(4, socket.MSG_WAITALL))
    return client.recv(size, socket.MSG_WAITALL)


@contextlib.contextmanager
def session(port: int, timeout_ms: int = 30_000) -> Iterator[socket.socket]:
    """A session that sends nothing by itself."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
        send(client, bytes(12) + timeout_ms.to_bytes(4) + bytes(8) + text(bytes(16)) + b"\0")
        assert len(receive(client)) == 37
        yield client


@pytest.fixture
def connect(port: int) -> Iterator[Callable[..., Any]]:
    """Connects a client with a session."""
    with contextlib.ExitStack() as ends:

        def run(chroot: str = "") -> Any:
            client = KazooClient(f"127.0.0.1:{port}{chroot}", timeout=PATIENCE_S)
            client.start(PATIENCE_S)
            ends.callback(client.close)
            ends.callback(client.stop)
            return client

        yield run


def test_nodes_have_data_versions_children_and_numbers(connect: Callable[..., Any]) -> None:
    client = connect()
    assert client.create("/a", b"one") == "/a"
    assert [client.create("/a/n-", sequence=True) for _ in range(2)] == ["/a/n-0000000000", "/a/n-0000000001"]
    client.delete("/a/n-0000000000")
    assert client.create("/a/n-", sequence=True, ephemeral=True) == "/a/n-0000000002"
    assert sorted(client.get_children("/a")) == ["n-0000000001", "n-0000000002"]
    assert client.set("/a", b"two", version=0).version == 1
    data, stat = client.get("/a")
    assert (data, stat.version, stat.cversion, stat.numChildren, stat.dataLength) == (b"two", 1, 4, 2, 3)
    assert client.exists("/a/n-0000000002").ephemeralOwner == client.client_id[0]
    assert client.exists("/b") is None
    refused: dict[type[Exception], list[Callable[[], object]]] = {
        exceptions.NodeExistsError: [lambda: client.create("/a"), lambda: client.create("/")],
        exceptions.NoNodeError: [lambda: client.create("/b/c"), lambda: client.get("/b"), lambda: client.delete("/b")],
        exceptions.BadVersionError: [lambda: client.set("/a", b"", version=0), lambda: client.delete("/a", version=5)],
        exceptions.NotEmptyError: [lambda: client.delete("/a")],
        exceptions.NoChildrenForEphemeralsError: [lambda: client.create("/a/n-0000000002/c")],
    }
    for error, calls in refused.items():
        for call in calls:
            with pytest.raises(error):
                call()


def test_each_watch_sees_the_next_change(connect: Callable[..., Any]) -> None:
    client, other = connect(), connect()
    seen: list[tuple[str, str]] = []

    def watch(event: Any) -> None:
        seen.append((event.type, event.path))

    client.exists("/a", watch)
    other.create("/a")
    client.get("/a", watch)
    client.get_children("/a", watch)
    other.set("/a", b"1")
    other.set("/a", b"2")
    other.create("/a/b")
    other.create("/a/c")
    client.get("/a/b", watch)
    client.get_children("/a/b", watch)
    other.delete("/a/b")
    eventually(lambda: len(seen) >= 5)
    client.sync("/a")
    # kazoo has two watches of the deleted node, and gets one event for them.
    assert seen[:3] == [("CREATED", "/a"), ("CHANGED", "/a"), ("CHILD", "/a")]
    assert seen[3:] == [("DELETED", "/a/b")] * 2


def test_ephemeral_nodes_end_with_their_session(port: int, connect: Callable[..., Any]) -> None:
    client, other = connect(), connect()
    other.create("/closed", ephemeral=True)
    other.stop()
    assert client.exists("/closed") is None
    acl = (1).to_bytes(4) + (31).to_bytes(4) + text(b"world") + text(b"anyone")
    with session(port, timeout_ms=1) as silent:
        send(silent, (1).to_bytes(4) + (1).to_bytes(4) + text(b"/expired") + bytes(4) + acl + (1).to_bytes(4))
        eventually(lambda: client.exists("/expired") is not None)
        eventually(lambda: client.exists("/expired") is None)
        while silent.recv(1000):  # The server ends the connection with the session.
            pass


def test_times_and_sessions_follow_the_clock() -> None:
    clock = ManualClock()
    with ours(clock=clock) as (port, zookeeper), session(port) as client:
        acl = (1).to_bytes(4) + (31).to_bytes(4) + text(b"world") + text(b"anyone")
        send(client, (1).to_bytes(4) + (1).to_bytes(4) + text(b"/mine") + bytes(4) + acl + (1).to_bytes(4))
        assert receive(client)[12:20] == bytes(4) + (5).to_bytes(4)
        assert zookeeper.tree.nodes["/mine"].created_ms == clock.now_ms()
        clock.advance(29_999)
        assert "/mine" in zookeeper.tree.nodes
        clock.advance(1)
        assert "/mine" not in zookeeper.tree.nodes


def test_a_session_outlives_its_connection_with_its_nodes_and_watches(connect: Callable[..., Any]) -> None:
    client, other = connect(), connect()
    client.create("/mine", ephemeral=True)
    own = client.client_id
    client._connection._socket.shutdown(socket.SHUT_RDWR)
    eventually(lambda: not client.connected)
    eventually(lambda: bool(client.connected))
    assert client.client_id == own
    assert other.exists("/mine").ephemeralOwner == own[0]


def test_watches_that_are_set_again_see_what_has_changed(port: int, connect: Callable[..., Any]) -> None:
    client = connect()
    client.create("/a")
    paths = [[b"/a", b"/gone"], [b"/b"], [b"/a"]]
    watches = b"".join(len(kind).to_bytes(4) + b"".join(map(text, kind)) for kind in paths)
    with session(port) as watcher:
        send(watcher, (-8).to_bytes(4, signed=True) + (101).to_bytes(4) + bytes(8) + watches)
        notifications = [receive(watcher)[16:] for _ in range(3)]
        assert {(frame[3], frame[12:]) for frame in notifications} == {(3, b"/a"), (2, b"/gone"), (4, b"/a")}
        assert receive(watcher)[12:] == bytes(4)
        client.create("/b")
        assert receive(watcher)[19:] == b"\1\0\0\0\3" + text(b"/b")


def test_a_chroot_hides_what_is_above_it(port: int, connect: Callable[..., Any]) -> None:
    connect().create("/kafka")
    connect("/kafka").create("/brokers/ids/1", b"x", makepath=True)
    assert connect().get("/kafka/brokers/ids/1")[0] == b"x"
    assert ask_zookeeper(port, b"ruok") == b"imok"
    assert b"Mode: standalone" in ask_zookeeper(port, b"srvr")


def test_the_tools_write_users_before_the_brokers_start_and_find_the_brokers_then(
    port: int, connect: Callable[..., Any]
) -> None:
    servers = f"127.0.0.1:{port}/kafka"

    def alter(*change: str) -> Printed:
        entity = ("--zookeeper", servers, "--alter", "--entity-type", "users", "--entity-name", "a b*")
        return run_tool("kafka-configs", *entity, *change)

    def shell(command: str, path: str) -> tuple[str, int]:
        printed = run_tool("zookeeper-shell", servers, command, path)
        return printed.out.splitlines()[-1], printed.status

    assert shell("ls", "/brokers/ids") == ("Node does not exist: /brokers/ids", 1)
    added = alter("--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret],SCRAM-SHA-512=[password=x]")
    assert (added.out, added.err, added.status) == (
        "Completed updating config for entity: user-principal 'a b*'.\n",
        "",
        0,
    )
    assert alter("--delete-config", "SCRAM-SHA-512").status == 0
    assert alter("--add-config", "SCRAM-SHA-256=[iterations=1,password=secret]").status == 1
    assert shell("ls", "/config/users") == ("[a%20b%2A]", 0)
    content = json.loads(shell("get", "/config/users/a%20b%2A")[0])
    assert (content["version"], list(content["config"])) == (1, ["SCRAM-SHA-256"])
    fields = dict(field.split("=", 1) for field in content["config"]["SCRAM-SHA-256"].split(","))
    expected = derive_credential("SCRAM-SHA-256", "secret", iterations=8192, salt=base64.b64decode(fields["salt"]))
    keys = [base64.b64decode(fields[key]) for key in ("stored_key", "server_key")]
    assert (keys, fields["iterations"]) == ([expected.stored_key, expected.server_key], "8192")
    change = "/config/changes/config_change_0000000001"
    assert json.loads(shell("get", change)[0]) == {"version": 2, "entity_path": "users/a%20b%2A"}
    with Broker(topics=["orders"]) as broker:
        registered = {
            "listener_security_protocol_map": {"OUTSIDE": "SSL", "INSIDE": "PLAINTEXT"},
            "endpoints": ["OUTSIDE://nowhere.invalid:1", f"INSIDE://{broker.bootstrap_servers}"],
        }
        connect("/kafka").create("/brokers/ids/1", json.dumps(registered).encode(), makepath=True)
        listed = run_tool("kafka-topics", "--zookeeper", servers, "--list")
        assert (listed.out, f"registered in ZooKeeper are asked: {broker.bootstrap_servers}." in listed.err) == (
            "orders\n",
            True,
        )
        assert alter("--add-config", "SCRAM-SHA-256=[password=later]").status == 0
        assert broker.services.security.scram.users() == ["a b*"]
        assert shell("ls", "/brokers/ids") == ("[1]", 0)
        assert json.loads(shell("get", "/brokers/ids/1")[0]) == registered
        assert shell("ls", "/brokers/topics") == ("[orders]", 0)


def test_hostile_bytes_leave_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(SEED)
    connected = bytes.fromhex("0000002d 00000000 0000000000000000 00007530 0000000000000000 00000010") + bytes(17)
    with caplog.at_level(logging.ERROR), ours() as (port, zookeeper):
        nodes = set(zookeeper.tree.nodes)
        for number in range(300):
            body = chance.randbytes(chance.randrange(40))
            if number % 3:
                path = chance.choice([b"/" * 99, b"/a" * 500, b"/..", b"//a", b"/a/", b"\xff", b"/zookeeper/quota"])
                operation = chance.choice([3, 4, 8, 12, 101, -11, 99])
                body = bytes(4) + operation.to_bytes(4, signed=True) + len(path).to_bytes(4) + path + b"\1" + body
            size = len(body) if number % 5 else chance.randrange(1 << 32)
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
                client.sendall((connected if number % 2 else b"") + size.to_bytes(4) + body)
                client.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionResetError):
                    while client.recv(1000):
                        pass
        assert set(zookeeper.tree.nodes) == nodes
        assert zookeeper.tree._watches == {}
    assert caplog.text == ""
