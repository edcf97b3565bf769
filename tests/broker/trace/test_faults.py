"""Faults of the proxy: what clients see of them, and what the broker has done meanwhile."""

import asyncio
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import Producer

from minibroker import Broker
from minibroker.cli.main import main
from minibroker.clock import ManualClock
from minibroker.server.faults.fault import Corruption, Fault
from minibroker_chaos.rows import find_row
from minibroker_chaos.steps import VERSION
from minibroker_lab.trace.faults import FaultyConnection, ProxyFaults
from minibroker_lab.trace.lines import LineWriter
from minibroker_lab.trace.proxy import Proxy
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import encode
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from tests.broker.harness import batch, frame_of, produce_request
from tests.broker.socket_client import SocketClient, address_of, framed
from tests.clients.trace_process import TraceProcess
from tests.patience import PATIENCE_S

PRODUCE = 9
SURVIVED: list[dict[str, Any]] = [
    {"disconnect": "after"},
    {"disconnect": "before"},
    {"error": "NOT_LEADER_OR_FOLLOWER"},
    {"error": "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "applied": True},
    {"truncate": 6},
    {"delay_ms": 30},
    {"throttle_ms": 30},
    {"bytes_per_second": 500, "jitter_ms": 20},
    {"late": 1},
]
"""Faults that an idempotent producer gets over."""


@pytest.fixture
def line_writer() -> Iterator[LineWriter]:
    complaints: list[str] = []
    writer = LineWriter(ManualClock(), None, str, str, complaints.append, None)
    yield writer
    writer.close()
    assert complaints == []


@pytest.fixture(scope="module")
def behind() -> Iterator[Broker]:
    # The first check of retention, after 30 s, would delete the records, whose timestamps are old.
    with Broker(topics=["t"], journal=True, config={"log.retention.ms": "-1"}) as broker:
        yield broker


def trace(behind: Broker, folder: Path, *faults: dict[str, Any]) -> TraceProcess:
    behind.reset()
    path = folder / "faults.json"
    path.write_text(json.dumps(list(faults)))
    return TraceProcess(behind.bootstrap_servers, folder, ["--faults", str(path)])


def values(behind: Broker) -> list[bytes | None]:
    return [record.value for record in behind.records("t")]


def test_an_idempotent_producer_gets_over_them(tmp_path: Path) -> None:
    faults = {f"t{number}": fault for number, fault in enumerate(SURVIVED)}
    rows = [{"api": "Produce", "topic": topic, "times": 2, **fault} for topic, fault in faults.items()]
    with Broker(topics=list(faults), journal=True) as behind, trace(behind, tmp_path, *rows) as proxy:
        for topic, fault in faults.items():
            check_survival(behind, proxy.bootstrap, topic, fault)


def check_survival(behind: Broker, bootstrap: str, topic: str, fault: dict[str, Any]) -> None:
    config = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "client.id": topic, "log_level": 0}
    producer = Producer({**config, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 10, "linger.ms": 0})
    for number in range(4):
        producer.produce(topic, str(number))
        assert producer.flush(PATIENCE_S) == 0, fault
    assert [record.value for record in behind.records(topic)] == [b"0", b"1", b"2", b"3"], fault
    produced = [entry for entry in behind.requests if entry.api == "Produce" and entry.client_id == topic]
    is_applied = "error" not in fault or "applied" in fault
    repeats = (
        2
        if is_applied
        and not {"delay_ms", "throttle_ms", "jitter_ms"} & fault.keys()
        and fault.get("disconnect") != "before"
        else 0
    )
    assert len(produced) == 4 + repeats, fault


def test_a_late_request_is_applied_after_another_of_its_partition(behind: Broker, tmp_path: Path) -> None:
    with trace(behind, tmp_path, {"api": "Produce", "late": 1, "times": 1}) as proxy:
        with SocketClient(address_of(proxy.bootstrap)) as first:
            first.send(produce_request(batch(b"late")), PRODUCE)
            assert first.is_closed()
        assert values(behind) == []
        with SocketClient(address_of(proxy.bootstrap)) as second:
            second.ask(produce_request(batch(b"early")), PRODUCE)
        behind.wait_for("t", 2)
        assert values(behind) == [b"early", b"late"]


@pytest.mark.parametrize(("when", "written"), [("before", []), ("after", [b"a"])])
def test_a_dropped_response_leaves_the_connection_open(
    behind: Broker, tmp_path: Path, when: str, written: list[bytes]
) -> None:
    with (
        trace(behind, tmp_path, {"api": "Produce", "drop": when, "times": 1}) as proxy,
        SocketClient(address_of(proxy.bootstrap)) as client,
    ):
        client.send(produce_request(batch(b"a")), PRODUCE)
        assert client.ask(MetadataRequest(topics=None), 12).topics[0].name == "t"
        assert values(behind) == written
    losses = {entry["api"]: entry["failure"] for entry in proxy.entries()}
    assert losses == {"Produce": "lost by a fault" if when == "before" else None, "Metadata": None}


@pytest.mark.parametrize("fault", [{"disconnect": "before"}, {"late": 9}])
def test_what_follows_a_request_that_closes_the_connection_is_lost_with_it(
    behind: Broker, tmp_path: Path, fault: dict[str, Any]
) -> None:
    with trace(behind, tmp_path, {"api": "Produce", "times": 2, **fault}) as proxy:
        for sent in ((b"a", b"b"), (b"c",)):
            with SocketClient(address_of(proxy.bootstrap)) as client:
                frames = [frame_of(produce_request(batch(value)), PRODUCE, 1) for value in sent]
                client.send_bytes(b"".join(map(framed, frames)))
                assert client.is_closed()
        with SocketClient(address_of(proxy.bootstrap)) as last:
            last.ask(produce_request(batch(b"d")), PRODUCE)
    assert values(behind) == [b"d"]


def test_a_late_request_waits_for_answers() -> None:
    """Two connections to a broker have no order: it may serve what is sent last first."""

    async def run() -> None:
        sent: list[bytes] = []
        faults = ProxyFaults([Fault(api="Produce", late=1, nth=2)])
        frames = [framed(frame_of(produce_request(batch(value)), PRODUCE, 7)) for value in (b"before", b"late", b"b")]
        clients = [Mock(is_closing=False) for _ in frames]
        clients[1].detach_broker.return_value = sent.append
        connections = [FaultyConnection(faults, client) for client in clients]
        for connection, frame in zip(connections, frames, strict=True):
            connection.feed_requests(frame)
        answer = struct.pack(">ii", 4, 7)
        connections[0].feed_responses(answer)
        assert sent == []
        connections[2].feed_responses(answer)
        assert sent == [frames[1]]

    asyncio.run(run())


def test_a_response_in_pieces_blocks_those_after_it() -> None:
    async def run() -> None:
        faults = ProxyFaults([Fault(api="Produce", slice_bytes=3, jitter_ms=1, throttle_ms=1, nth=1)])
        sent: list[bytes] = []
        answers = [struct.pack(">iii", 8, number, 0) for number in (1, 2)]
        client = Mock(write=sent.append, is_closing=False)
        client.conversation.response.side_effect = [*answers]
        connection = FaultyConnection(faults, client)
        for number in (1, 2):
            connection.feed_requests(framed(frame_of(produce_request(batch(b"a")), 0, number)))
        connection.feed_responses(answers[0] + answers[1])
        async with asyncio.timeout(PATIENCE_S):
            while not client.release.called:  # noqa: ASYNC110 - nothing tells that all has been sent
                await asyncio.sleep(0)
        assert sent == [*(answers[0][start : start + 3] for start in range(0, 12, 3)), answers[1]]

    asyncio.run(run())


async def _open(behind: Broker, sink: LineWriter, **fault: Any) -> Proxy:
    behind.reset()
    faults = ProxyFaults([Fault(api="Produce", times=1, **fault)])
    proxy = Proxy(address_of(behind.bootstrap_servers), ("127.0.0.1", 0), None, sink, faults)
    await proxy.start()
    return proxy


async def _send(proxy: Proxy) -> asyncio.StreamWriter:
    """Send a Produce request, and return the connection when the proxy has taken the request."""
    reader, writer = await asyncio.open_connection(*proxy.address)
    writer.write(framed(frame_of(produce_request(batch(b"a")), PRODUCE, 1)))
    assert await reader.read() == b""
    return writer


@pytest.mark.parametrize("limit_s", [0.0, 3600.0])
def test_a_late_request_that_is_never_due_holds_no_connection(
    behind: Broker, line_writer: LineWriter, monkeypatch: pytest.MonkeyPatch, limit_s: float
) -> None:
    monkeypatch.setattr("minibroker_lab.trace.faults.MAX_LATE_S", limit_s)

    async def run() -> None:
        proxy = await _open(behind, line_writer, late=9)
        (await _send(proxy)).close()
        if limit_s:
            assert len(proxy.detached) == 1
            proxy.close()
        async with asyncio.timeout(PATIENCE_S):
            while proxy.detached:  # noqa: ASYNC110 - nothing tells that a connection is lost
                await asyncio.sleep(0)
        proxy.close()

    asyncio.run(run())
    assert values(behind) == ([] if limit_s else [b"a"])


class _ChaosProcess(TraceProcess):
    """A proxy under chaos, which reports it when it ends."""

    harmless = re.compile(r"chaos \d+: |request \d+: |not exercised")


@pytest.fixture
def three_brokers() -> Iterator[Broker]:
    with Broker(brokers=3, topics=["t"], config={"log.retention.ms": "-1"}) as broker:
        yield broker


@pytest.mark.torture
def test_an_idempotent_producer_gets_over_chaos_in_the_proxy(three_brokers: Broker, tmp_path: Path) -> None:
    reports: list[str] = []
    for seed in range(1, 6):
        three_brokers.reset()
        address, *_ = three_brokers.bootstrap_servers.split(",")
        with _ChaosProcess(address, tmp_path, ["--chaos", f"{seed}:failovers"]) as proxy:
            config = {"bootstrap.servers": proxy.bootstrap, "enable.idempotence": True, "log_level": 0}
            producer = Producer({**config, "client.id": "app", "reconnect.backoff.max.ms": 100, "linger.ms": 0})
            for number in range(20):
                producer.produce("t", str(number))
                assert producer.flush(PATIENCE_S) == 0
        assert values(three_brokers) == [str(number).encode() for number in range(20)]
        reports.append(proxy.stderr.read_text())
        assert reports[-1].startswith(f"chaos {VERSION}: seed {seed}, profile failovers, in the proxy\n")
    steps = re.findall(r"^request \d+: (\S+).* at .* by app.*; the client (.*)$", "".join(reports), re.MULTILINE)
    assert len({row for row, _ in steps}) > 1, reports


def test_metadata_that_cannot_be_read_passes() -> None:
    sent: list[bytes | bytearray] = []
    frame = framed(struct.pack(">ib", 7, 0) + b"\x7f" * 9)
    client = Mock(write=sent.append, is_closing=False)
    client.conversation.response.return_value = frame
    connection = FaultyConnection(ProxyFaults([]), client)
    connection.feed_requests(framed(frame_of(MetadataRequest(topics=None), 12, 7)))
    connection.feed_responses(frame)
    assert sent == [frame]


def test_a_request_of_an_api_that_only_controllers_serve_passes() -> None:
    frame = framed(struct.pack(">hhih", ApiKey.VOTE, 0, 1, -1))
    assert ProxyFaults([]).read(frame) is None


def test_bytes_change_only_where_a_fault_says_so(behind: Broker, tmp_path: Path) -> None:
    faults = [{"api": "Produce", "throttle_ms": 7, "after": 1}, {"api": "ApiVersions", "throttle_ms": 8}]
    with (
        trace(behind, tmp_path, *faults) as proxy,
        SocketClient(address_of(proxy.bootstrap)) as client,
        SocketClient(address_of(behind.bootstrap_servers)) as direct,
    ):
        for version, throttle_ms in ((3, 0), (8, 7), (PRODUCE, 7)):
            answer = client.ask(produce_request(batch(b"a")), version)
            assert answer.throttle_time_ms == throttle_ms
            assert answer.responses[0].partition_responses[0].error_code == 0
        versions = client.ask(ApiVersionsRequest(), 2)
        assert versions.throttle_time_ms == 8
        assert versions.api_keys == direct.ask(ApiVersionsRequest(), 2).api_keys


def test_metadata_is_shown_as_it_was_some_changes_ago(behind: Broker, tmp_path: Path) -> None:
    behind.reset()
    stale = [{"api": "Metadata", "stale_metadata": changes, "nth": nth} for changes, nth in ((1, 4), (9, 5))]
    with trace(behind, tmp_path, *stale) as proxy, SocketClient(address_of(proxy.bootstrap)) as client:
        seen: list[list[str | None]] = []
        for topic in ("a", "b", None, None, None, None):
            seen.append(sorted(topic.name or "" for topic in client.ask(MetadataRequest(topics=None), 12).topics))
            if topic is not None:
                behind.create_topic(topic)
    assert seen == [["t"], ["a", "t"], ["a", "b", "t"], ["a", "t"], ["t"], ["a", "b", "t"]]


@pytest.mark.parametrize("corrupt", ["body", "correlation_id", "length"])
def test_a_response_is_corrupted_as_in_a_broker(behind: Broker, tmp_path: Path, corrupt: Corruption) -> None:
    answers: list[bytes] = []
    with trace(behind, tmp_path, {"api": "ApiVersions", "corrupt": corrupt}) as proxy:
        with SocketClient(address_of(behind.bootstrap_servers)) as client:
            client.send(ApiVersionsRequest(), 2)
            answers.append(client.receive_bytes(99))
        with behind.fault(api="ApiVersions", corrupt=corrupt):
            for address in (behind.bootstrap_servers, proxy.bootstrap):
                with SocketClient(address_of(address)) as client:
                    client.send(ApiVersionsRequest(), 2)
                    answers.append(client.receive_bytes(99))
                behind.faults.clear()
    plain, expected, changed = answers
    assert plain != expected == changed


@pytest.mark.parametrize("count", [1, 3])
def test_what_takes_two_brokers_happens_only_before_two(count: int) -> None:
    brokers = [MetadataResponseBroker(node_id=node, host="h", port=9092, rack=None) for node in range(count)]
    response = MetadataResponse(brokers=brokers, cluster_id=None, controller_id=0, topics=[])
    metadata = bytearray(8)
    encode(response, 8, metadata, [])
    names: set[str] = set()
    for seed in range(20):
        faults = ProxyFaults(chaos=(seed, "failovers"))
        assert faults.chaos is not None
        asked = faults.read(framed(frame_of(MetadataRequest(topics=[]), 8)))
        assert asked is not None
        faults.learn(asked, bytes(metadata), metadata)
        for number in range(30):
            frame = framed(frame_of(produce_request(batch(str(number).encode())), PRODUCE))
            request = faults.read(frame)
            assert request is not None
            faults.match(frame, request, 0)
        names.update(re.findall(r"^request \d+: ([a-z-]+)", "\n".join(faults.chaos.report()), re.MULTILINE))
    assert any(find_row(name).brokers > 1 for name in names) == (count > 1), names


def test_what_a_proxy_cannot_do_and_another_machine_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "faults.json"
    path.write_text('[{"api": "Fetch", "fetch_bytes": 1}]')
    assert main(["trace", "--to", "127.0.0.1:1", "--faults", str(path)]) == 1
    assert "--faults fetch_bytes: a proxy cannot do this" in capsys.readouterr().err
    for option in (["--faults", str(path)], ["--chaos", "7"]):
        assert main(["trace", "--to", "kafka.test:9092", *option]) == 1
        assert "add --yes-this-is-a-test" in capsys.readouterr().err
    for seed, complaint in (("storm", "not a seed such as 7"), ("7:storm", "there is no 'storm'")):
        assert main(["trace", "--to", "127.0.0.1:1", "--chaos", seed]) == 1
        assert complaint in capsys.readouterr().err
    arguments = ["trace", "--to", "kafka.test:9092", "--faults", str(path), "--yes-this-is-a-test"]
    assert main(arguments) == 1
    assert "fetch_bytes" in capsys.readouterr().err
