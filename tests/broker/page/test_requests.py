"""The request list and single requests, as returned by the page's server."""

import asyncio
import http.client
import json
import socket
import struct
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from minibroker import Broker, Security
from minibroker.server.inspection.exchanges import Exchange, Kind, Origin, Ring
from minibroker.server.inspection.recording import MAX_KEPT
from minibroker_lab.page.recorder import Recorder
from minibroker_lab.page.routes.requests import live
from tests.broker.control.http import Control
from tests.broker.socket_client import framed
from tests.clients import kafka_python_client
from tests.patience import PATIENCE_S

kafka: Any = kafka_python_client  # kafka-python's types are incomplete.


def api_versions(correlation_id: int, client_id: bytes = b"raw") -> bytes:
    body = struct.pack(">hhih", 18, 0, correlation_id, len(client_id)) + client_id
    return framed(body)


def exchange(broker: Broker, *frames: bytes) -> list[bytes]:
    """Send frames together, and return the frames of the responses."""
    answers: list[bytes] = []
    with socket.create_connection(broker.address, timeout=PATIENCE_S) as client, client.makefile("rb") as stream:
        client.sendall(b"".join(frames))
        for _ in frames:
            head = stream.read(4)
            answers.append(head + stream.read(*struct.unpack(">i", head)))
    return answers


def last_rows(page: Control, count: int) -> list[Any]:
    last = page.get("/data/requests")["last"]
    rows: list[Any] = page.get(f"/data/requests/rows?first={last - count + 1}&last={last}")["rows"]
    return rows


def test_each_request_has_its_bytes_and_those_of_its_own_response(page_broker: Broker, page: Control) -> None:
    frames = [api_versions(7), api_versions(8), api_versions(9)]
    answers = exchange(page_broker, *frames)
    rows = last_rows(page, 3)
    assert [row["api"] for row in rows] == ["ApiVersions"] * 3
    assert [row["client_id"] for row in rows] == ["raw"] * 3
    for row, frame, answer in zip(rows, frames, answers, strict=True):
        detail = page.get(f"/data/requests/{row['number']}")
        assert bytes.fromhex(detail["request"]["hex"]) == frame
        assert bytes.fromhex(detail["response"]["hex"]) == answer
        assert (detail["bytes_in"], detail["bytes_out"]) == (len(frame), len(answer))
        assert (detail["state"], detail["outcome"]) == ("ok", "ok")
        assert detail["duration_ms"] >= 0


def field(tree: Any, *names: str) -> Any:
    for name in names:
        (tree,) = [child for child in tree["children"] if child["name"] == name]
    return tree


def test_fields_tell_where_their_bytes_are(page_broker: Broker, page: Control) -> None:
    exchange(page_broker, api_versions(1234, b"a client"))
    (row,) = last_rows(page, 1)
    part = page.get(f"/data/requests/{row['number']}")["request"]
    data = bytes.fromhex(part["hex"])
    client_id = field(part["tree"], "header", "clientId")
    assert client_id["value"] == "a client"
    assert data[client_id["start"] : client_id["end"]] == b"\x00\x08a client"
    assert field(part["tree"], "header", "correlationId")["value"] == 1234


@pytest.mark.parametrize("codec", [None, "gzip"])
def test_records_of_a_real_client_are_opened(page_broker: Broker, page: Control, codec: str | None) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=page_broker.bootstrap_servers, compression_type=codec)
    producer.send("orders", b"<script>alert(1)</script>" * 9, partition=0).get(PATIENCE_S)
    producer.close()
    numbers = page.get("/data/requests?api=Produce")["numbers"]
    detail = page.get(f"/data/requests/{numbers[-1]}")
    assert detail["about"].startswith("orders-0 (1 record, ")
    batch = field(detail["request"]["tree"], "body", "topicData", "[0]", "partitionData", "[0]", "records", "[0]")
    holder = field(batch, "records")["inside"] if codec else batch
    assert field(holder, "[0]", "value")["value"] == "<script>alert(1)</script>" * 9


def test_a_fetch_shows_the_bytes_of_the_file(page_broker: Broker, page: Control) -> None:
    page_broker.produce("orders", b"of the file", partition=1)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=page_broker.bootstrap_servers, consumer_timeout_ms=PATIENCE_S * 1000
    )
    consumer.assign([kafka.TopicPartition("orders", 1)])
    consumer.seek_to_beginning()
    assert next(consumer).value == b"of the file"
    consumer.close()
    numbers = page.get("/data/requests?api=Fetch&q=1+record")["numbers"]
    detail = page.get(f"/data/requests/{numbers[0]}")
    data = bytes.fromhex(detail["response"]["hex"])
    assert len(data) == detail["bytes_out"]
    assert b"of the file" in data


def test_a_record_of_many_bytes_is_cut_and_that_is_said(page_broker: Broker, page: Control) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=page_broker.bootstrap_servers, max_request_size=1 << 23)
    with pytest.raises(kafka.kafka_errors.MessageSizeTooLargeError):
        producer.send("orders", bytes(3 << 20), partition=0).get(PATIENCE_S)
    producer.close()
    number = page.get("/data/requests?api=Produce")["numbers"][-1]
    part = page.get(f"/data/requests/{number}")["request"]
    assert part["size"] > 3 << 20
    assert part["kept"] == MAX_KEPT + 4
    assert len(part["hex"]) == 2 * part["kept"]


def test_filters_choose_by_api_words_and_errors(page_broker: Broker, page: Control) -> None:
    exchange(page_broker, api_versions(1, b"first one"), api_versions(2, b"second"))
    with page_broker.fault(api="ApiVersions", error="UNKNOWN_SERVER_ERROR", client_id="third"):
        exchange(page_broker, api_versions(3, b"third"))
    first, second, third = (row["number"] for row in last_rows(page, 3))

    def numbers(query: str) -> set[int]:
        return {first, second, third} & set(page.get(f"/data/requests?{query}")["numbers"])

    assert numbers("api=ApiVersions") == {first, second, third}
    assert numbers("api=Fetch") == set()
    assert numbers("q=FIRST+one") == {first}
    assert numbers("errors=true") == {third}
    assert numbers("q=unknown_server&api=ApiVersions") == {third}
    assert "ApiVersions" in page.get("/data/requests/apis")["apis"]


def test_a_request_without_a_response_waits_then_says_why(page_broker: Broker, page: Control) -> None:
    with page_broker.fault(api="ApiVersions", black_hole=True, client_id="lost"), events(page, "?q=lost") as stream:
        with socket.create_connection(page_broker.address, timeout=PATIENCE_S) as client:
            client.sendall(api_versions(5, b"lost"))
            row = next(stream)
            assert (row["state"], row["outcome"], row["duration_ms"]) == ("waiting", "waiting", None)
        row = next(stream)
    fault = "api=ApiVersions, client_id=lost, black_hole=True"
    assert (row["state"], row["outcome"]) == ("none", "black_hole=True of a fault: the connection closed")
    detail = page.get(f"/data/requests/{row['number']}")
    assert (detail["response"], detail["fault"]) == (None, fault)


def test_a_fault_is_named_where_its_request_is_shown(page_broker: Broker, page: Control) -> None:
    with page_broker.fault(api="ApiVersions", disconnect="after", times=1):
        with socket.create_connection(page_broker.address, timeout=PATIENCE_S) as client:
            client.sendall(api_versions(6))
            assert client.recv(1) == b""
        exchange(page_broker, api_versions(6), api_versions(7))
    lost, *answered = last_rows(page, 3)
    fault = "api=ApiVersions, times=1, disconnect=after"
    assert lost["outcome"] == "disconnect=after of a fault: the connection closed"
    assert [page.get(f"/data/requests/{row['number']}")["fault"] for row in (lost, *answered)] == [fault, None, None]
    with page_broker.fault(api="ApiVersions", error="UNKNOWN_SERVER_ERROR"):
        exchange(page_broker, api_versions(8))
    (row,) = last_rows(page, 1)
    assert row["outcome"] == "UNKNOWN_SERVER_ERROR"
    assert page.get(f"/data/requests/{row['number']}")["fault"] == "api=ApiVersions, error=UNKNOWN_SERVER_ERROR"


@contextmanager
def events(page: Control, query: str = "") -> Generator[Iterator[Any]]:
    """Yield the rows of the live stream."""
    connection = http.client.HTTPConnection(page.host or "", page.port, timeout=PATIENCE_S)
    connection.request("GET", f"/data/requests/live{query}")
    response = connection.getresponse()
    assert response.headers["content-type"].startswith("text/event-stream")
    head = response.readline()
    assert json.loads(head.removeprefix(b"data: "))["rows"] == []

    def rows() -> Iterator[Any]:
        while line := response.readline():
            if line.startswith(b"data: "):
                yield from json.loads(line.removeprefix(b"data: "))["rows"]

    try:
        yield rows()
    finally:
        connection.close()


def test_the_stream_tells_each_request_that_comes(page_broker: Broker, page: Control) -> None:
    with events(page, "?api=ApiVersions&q=live") as stream:
        exchange(page_broker, *(api_versions(number, b"live") for number in range(1000)))
        rows: dict[int, Any] = {}
        for row in stream:
            if row["state"] == "ok":
                rows[row["number"]] = row
            if len(rows) == 1000:
                break
    numbers = sorted(rows)
    assert numbers == list(range(numbers[0], numbers[0] + 1000))


async def streamed(recorder: Recorder, *steps: Callable[[], None]) -> list[list[int]]:
    """Return the numbers of the rows in each event of an unfiltered stream after each step."""
    stream = aiter((await live(recorder)).body_iterator)
    await anext(stream)
    numbers: list[list[int]] = []
    for step in steps:
        step()
        recorder.catch_up()
        event = str(await anext(stream))
        numbers.append([row["number"] for row in json.loads(event.removeprefix("data: "))["rows"]])
    return numbers


def test_of_a_flood_the_newest_rows_are_sent_and_those_that_have_waited() -> None:
    ring: Ring[Exchange] = Ring(2000)
    origin = Origin("c", "b")
    first = Exchange(Kind.REQUEST, origin)

    def flood() -> None:
        for _ in range(1000):
            other = Exchange(Kind.REQUEST, origin)
            other.bytes_out = 8
            ring.add(other)
        first.bytes_out = 8

    sent = asyncio.run(streamed(Recorder(ring), lambda: ring.add(first), flood))
    assert sent == [[1], [1, *range(902, 1002)]]


def test_the_page_ends_with_the_broker_while_a_stream_is_open() -> None:
    with Broker(page=True) as broker, events(Control(broker.page_url)) as stream:
        broker.stop()
        assert list(stream) == []


@pytest.mark.parametrize(("path", "status"), [("99999", 404), ("0", 400), ("-1", 400), ("x", 400), ("1.5", 400)])
def test_numbers_that_no_request_has_are_refused(page: Control, path: str, status: int) -> None:
    assert page.ask("GET", f"/data/requests/{path}").problem[0] == status


def test_bytes_that_are_no_request_are_shown(page_broker: Broker, page: Control) -> None:
    with socket.create_connection(page_broker.address, timeout=PATIENCE_S) as client:
        client.sendall(b"\x00\x00\x00\x06nobody")
        assert client.recv(1) == b""
    (row,) = last_rows(page, 1)
    assert (row["api"], row["state"]) == ("unreadable", "none")
    assert bytes.fromhex(page.get(f"/data/requests/{row['number']}")["request"]["hex"]) == b"\x00\x00\x00\x06nobody"


def test_a_token_is_not_shown_of_a_client_that_asks_for_sasl_where_there_is_none(
    page_broker: Broker, page: Control
) -> None:
    handshake = struct.pack(">hhi", 17, 0, 1) + b"\x00\x01c\x00\x05PLAIN"
    token = b"\x00alice\x00secret"
    with socket.create_connection(page_broker.address, timeout=PATIENCE_S) as client:
        client.sendall(framed(handshake))
        assert client.recv(4)
        client.sendall(framed(token))
        while client.recv(1024):
            pass
    (row,) = last_rows(page, 1)
    assert b"secret" not in bytes.fromhex(page.get(f"/data/requests/{row['number']}")["request"]["hex"])


def test_passwords_are_not_shown() -> None:
    security = Security("SASL_PLAINTEXT", users={"alice": "a password"}, mechanisms=["PLAIN"])
    with Broker(page=True, security=security) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **security.librdkafka("alice")})
        producer.list_topics(timeout=PATIENCE_S)
        page = Control(broker.page_url)
        details = [page.get(f"/data/requests/{number}") for number in page.get("/data/requests?q=sasl")["numbers"]]
    texts = json.dumps(details)
    logins = [row for row in details if row["api"] == "SaslAuthenticate"]
    assert logins
    assert all(login["request"]["masked"] for login in logins)
    assert b"a password".hex() not in texts
    assert "a password" not in texts


def test_a_request_is_shown_in_another_version(page_broker: Broker, page: Control) -> None:
    exchange(page_broker, api_versions(77, b"a client"))
    (row,) = last_rows(page, 1)
    detail = page.get(f"/data/requests/{row['number']}")
    assert {0, 3, 4} <= set(detail["versions"])
    parts = page.get(f"/data/requests/{row['number']}/versions/3")["parts"]
    assert field(parts["request"]["tree"], "header", "requestApiVersion")["value"] == 3
    assert field(parts["request"]["tree"], "header", "clientId")["value"] == "a client"
    assert field(parts["response"]["tree"], "header", "correlationId")["value"] == 77
    assert "no version 99" in page.get(f"/data/requests/{row['number']}/versions/99")["parts"]["request"]["reason"]
    assert page.ask("GET", "/data/requests/99999/versions/0").problem[0] == 404
