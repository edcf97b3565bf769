"""The ports of `serve --admin-api`, as programs use them over HTTP."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import Mock

import pytest

from minibroker import AsyncBroker
from minibroker_control.vendors import ports as module
from minibroker_control.vendors.ports import AdminPorts

USERS = "/v1/security/users"


@pytest.fixture
async def broker() -> AsyncIterator[AsyncBroker]:
    async with AsyncBroker(brokers=2, topics=["orders:2"]) as running:
        yield running


class Client:
    """A connection to the first of several ports."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, method: str, path: str, body: bytes = b"", *more: str) -> tuple[int, Any]:
        """Send a request, and return the status and the decoded JSON of the response."""
        lines = (f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *more)
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        return await self.receive(method)

    async def receive(self, method: str = "GET") -> tuple[int, Any]:
        """Read one response."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        status = int(head.split()[1])
        if status == 100:
            return await self.receive(method)
        length = int(head.lower().partition("content-length: ")[2].split()[0])
        return status, None if method == "HEAD" else json.loads(await self.reader.readexactly(length))


@pytest.fixture
async def client(broker: AsyncBroker, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """Yield a connection to a port of the kind in the test's parameter, or of Redpanda's kind by default."""
    ports = AdminPorts([f"{getattr(request, 'param', 'redpanda')}=127.0.0.1:0"])
    await ports.open(broker.services)
    reader, writer = await asyncio.open_connection("127.0.0.1", ports.ports[0])
    yield Client(reader, writer)
    writer.close()
    ports.close()


async def test_redpandas_health_names_brokers_that_are_down_and_partitions_without_a_leader(
    broker: AsyncBroker, client: Client
) -> None:
    status, health = await client.ask("GET", "/v1/cluster/health_overview")
    assert (status, health["is_healthy"], health["all_nodes"], health["nodes_down"]) == (200, True, [1, 2], [])
    assert health["controller_id"] == 1
    assert await client.ask("GET", "/v1/status/ready?verbose=1") == (200, {"status": "ready"})
    await broker.brokers[2].stop()
    _, health = await client.ask("GET", "/v1/cluster/health_overview")
    assert (health["is_healthy"], health["nodes_down"]) == (False, [2])
    assert health["leaderless_partitions"] == ["kafka/orders/1"]
    assert health["unhealthy_reasons"] == ["nodes_down", "leaderless_partitions"]
    brokers = (await client.ask("GET", "/v1/brokers"))[1]
    assert [(described["node_id"], described["is_alive"]) for described in brokers] == [(1, True), (2, False)]
    assert (await client.ask("GET", "/v1/brokers/2"))[1] == brokers[1]
    assert (await client.ask("GET", "/v1/cluster/uuid"))[1] == {"cluster_uuid": broker.services.core.cluster.cluster_id}


async def test_users_are_made_altered_listed_and_removed(broker: AsyncBroker, client: Client) -> None:
    user = {"username": "al/ice", "password": "secret", "algorithm": "SCRAM-SHA-512"}
    assert await client.ask("POST", USERS, json.dumps(user).encode(), "Expect: 100-continue") == (200, {})
    stored = broker.services.security.scram
    before = stored.find("SCRAM-SHA-512", "al/ice")
    assert before is not None
    assert (await client.ask("POST", USERS, json.dumps(user).encode()))[0] == 400
    assert await client.ask("GET", USERS) == (200, ["al/ice"])
    changed = json.dumps({"password": "other", "algorithm": "SCRAM-SHA-512"}).encode()
    assert await client.ask("PUT", f"{USERS}/al%2Fice", changed) == (200, {})
    assert stored.find("SCRAM-SHA-512", "al/ice") != before
    assert await client.ask("DELETE", f"{USERS}/al%2Fice") == (200, {})
    refusal = {"message": "there is no user 'al/ice'", "code": 404}
    assert await client.ask("DELETE", f"{USERS}/al%2Fice") == (404, refusal)
    assert await client.ask("GET", USERS) == (200, [])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "the body: not JSON: "),
        (b"[]", "a user needs the texts username and password"),
        (b'{"username": 1, "password": "p"}', "a user needs the texts username and password"),
        (b'{"username": "u", "password": ""}', "a user needs the texts username and password"),
        (b'{"username": "u", "password": "p", "algorithm": ["a"]}', "algorithm: ['a'] is not one of SCRAM-SHA-256, "),
    ],
)
async def test_a_user_that_cannot_be_is_refused_with_the_reason(client: Client, body: bytes, reason: str) -> None:
    status, content = await client.ask("POST", USERS, body)
    assert status == 400
    assert content["message"].startswith(reason)


CONFIG = "/v1/cluster_config"


async def test_redpandas_cluster_configuration_is_read_and_changed(broker: AsyncBroker, client: Client) -> None:
    assert (await client.ask("GET", CONFIG))[1]["default_topic_partitions"] == 1
    change = {"upsert": {"default_topic_partitions": "4", "auto_create_topics_enabled": False, "other": 1}}
    changed = await client.ask("PUT", CONFIG, json.dumps(change).encode())
    assert changed == (200, {"config_version": 1, "ignored": ["other"]})
    config = broker.services.core.config
    assert (config.integer("num.partitions"), config.boolean("auto.create.topics.enable")) == (4, False)
    await broker.configure({"log.retention.ms": 5})
    assert config.integer("num.partitions") == 4
    assert (await client.ask("PUT", CONFIG, b'{"remove": ["default_topic_partitions"]}'))[0] == 200
    _, values = await client.ask("GET", CONFIG)
    assert (values["default_topic_partitions"], values["delete_retention_ms"]) == (1, 5)
    assert (values["enable_sasl"], values["superusers"], values["log_cleanup_policy"]) == (False, [], "delete")
    status = {"restart": False, "config_version": 1, "invalid": [], "unknown": []}
    assert (await client.ask("GET", f"{CONFIG}/status"))[1] == [{"node_id": node, **status} for node in (1, 2)]


@pytest.mark.parametrize(
    ("body", "key", "reason"),
    [
        (b"{", "the body", "the body: not JSON: "),
        (b'{"upsert": []}', "the body", "upsert is not an object"),
        (b'{"upsert": {"log_segment_size": "x"}}', "log_segment_size", "Invalid value x for configuration "),
        (b'{"upsert": {"enable_sasl": true}}', "enable_sasl", "true cannot be set while the broker runs: give it to "),
    ],
)
async def test_a_property_that_cannot_be_is_refused_with_the_reason(
    client: Client, body: bytes, key: str, reason: str
) -> None:
    status, content = await client.ask("PUT", CONFIG, body)
    assert status == 400
    assert content[key].startswith(reason)


async def test_a_property_that_counts_at_the_start_may_be_set_to_its_value(client: Client) -> None:
    assert (await client.ask("PUT", CONFIG, b'{"upsert": {"enable_sasl": "false", "superusers": []}}'))[0] == 200


@pytest.mark.parametrize("client", ["confluent"], indirect=True)
async def test_confluents_server_tells_the_id_of_its_cluster(broker: AsyncBroker, client: Client) -> None:
    cluster_id = broker.services.core.cluster.cluster_id
    assert (await client.ask("GET", "/v1/metadata/id"))[1]["id"] == cluster_id
    assert await client.ask("HEAD", "/v1/metadata/id") == (200, None)
    _, clusters = await client.ask("GET", "/kafka/v3/clusters/")
    assert clusters["kind"] == "KafkaClusterList"
    assert [cluster["cluster_id"] for cluster in clusters["data"]] == [cluster_id]
    assert (await client.ask("GET", f"/kafka/v3/clusters/{cluster_id}"))[1] == clusters["data"][0]
    for method, path in (("GET", "/kafka/v3/clusters/other"), ("POST", "/kafka/v3/clusters")):
        status, content = await client.ask(method, path)
        assert (status, content["message"]) == (404, f"{method} {path} is not served by minibroker")


@pytest.mark.parametrize("client", ["absent"], indirect=True)
async def test_a_service_that_is_not_there_is_named(client: Client) -> None:
    assert (await client.ask("POST", "/subjects/orders-value/versions"))[0] == 404
    assert (await client.ask("GET", "/topics"))[0] == 404


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000, 431),
        (b"POST /v1/security/users HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + b"x" * 70_000, 413),
    ],
)
async def test_what_is_no_request_gets_an_error_and_the_end(client: Client, sent: bytes, status: int) -> None:
    client.writer.write(sent)
    assert (await client.receive())[0] == status
    assert await client.reader.read() == b""


async def test_requests_of_one_connection_are_answered_in_turn_until_it_asks_for_the_end(client: Client) -> None:
    request = b"GET /v1/status/ready HTTP/1.1\r\nHost: a\r\n"
    client.writer.write(request + b"\r\n" + request + b"Connection: close\r\n\r\n")
    assert [await client.receive() for _ in range(2)] == [(200, {"status": "ready"})] * 2
    assert await client.reader.read() == b""


async def test_the_oldest_connection_goes_when_there_are_too_many(
    broker: AsyncBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 1)
    ports = AdminPorts(["redpanda=127.0.0.1:0"])
    await ports.open(broker.services)
    first, first_writer = await asyncio.open_connection("127.0.0.1", ports.ports[0])
    second, second_writer = await asyncio.open_connection("127.0.0.1", ports.ports[0])
    assert await first.read() == b""
    assert not second.at_eof()
    for writer in (first_writer, second_writer):
        writer.close()
    ports.close()


async def test_an_address_in_use_is_named(broker: AsyncBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match=f"--admin-api: cannot listen on {place}: "):
            await AdminPorts([f"redpanda={place}"]).open(broker.services)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("9644", "'9644' is not KIND=HOST:PORT"),
        ("repdanda=:9644", "'repdanda' is not one of redpanda, confluent, absent; did you mean redpanda"),
        ("redpanda=nonsense", "'nonsense' is not HOST:PORT"),
    ],
)
def test_a_port_that_cannot_be_is_refused_by_its_option(given: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as error:
        AdminPorts([given])
    assert str(error.value).startswith("--admin-api: ")


async def asked_with(client: Client, *headers: str) -> int:
    """Return the status of reading the users and of adding one, with these headers instead of Host."""
    statuses = []
    for method, body in (("GET", b""), ("POST", b'{"username": "mallory", "password": "p"}')):
        lines = (f"{method} {USERS} HTTP/1.1", *headers, f"Content-Length: {len(body)}", "", "")
        client.writer.write("\r\n".join(lines).encode() + body)
        statuses.append((await client.receive())[0])
    assert len({*statuses}) == 1
    return statuses[0]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (["Host: evil.example:9644", "Origin: http://evil.example:9644"], 403),  # DNS rebinding.
        (["Host: localhost:9644", "Origin: http://evil.example", "Content-Type: text/plain"], 403),
        (["Host: localhost:9644", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: image"], 403),
        (["Host: redpanda:9644"], 200),  # A service in a container network.
        (["Host: 127.0.0.1:9644"], 200),
    ],
)
async def test_web_pages_elsewhere_are_refused(client: Client, headers: list[str], status: int) -> None:
    assert await asked_with(client, *headers) == status


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (rb'{"username": "\ud800", "password": "p"}', r"username: '\ud800' is not valid Unicode"),
        (rb'{"username": "x", "password": "\udfff"}', r"password: '\udfff' is not valid Unicode"),
        (b"[" * 60_000, "the body: nested too deeply"),
    ],
)
async def test_a_body_that_is_hostile_is_refused_with_the_reason(client: Client, body: bytes, reason: str) -> None:
    assert await client.ask("POST", USERS, body) == (400, {"message": reason, "code": 400})
    assert await client.ask("GET", USERS) == (200, [])


async def test_a_failure_of_ours_is_answered(
    client: Client, broker: AsyncBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(type(broker.services.security.scram), "users", Mock(side_effect=LookupError("gone")))
    assert await client.ask("GET", USERS) == (500, {"message": "LookupError: gone", "code": 500})
    assert "GET /v1/security/users failed" in caplog.text
