"""The registry in Python: event loops, the fixture and its options, addresses."""

import asyncio
import socket
import warnings
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from minibroker import AsyncBroker, Broker, MinibrokerWarning
from minibroker.server import loop_watch
from tests.patience import eventually
from tests.registry.rest import Rest
from tests.registry.schemas import V1, V2

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("is_served", [False, True])
async def test_a_client_that_blocks_the_broker_s_loop_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, *, is_served: bool
) -> None:
    monkeypatch.setattr(loop_watch, "_CHECK_INTERVAL_S", 0.01)
    monkeypatch.setattr(loop_watch, "_BLOCKED_AFTER_S", 0.05)
    async with AsyncBroker(registry=True) as broker:
        parts = urlsplit(broker.registry_url)
        if is_served:
            with Rest(broker.registry_url) as rest:
                assert await asyncio.to_thread(rest.get, "/subjects") == []
        with (
            warnings.catch_warnings(record=True) as caught,
            socket.create_connection((parts.hostname, parts.port)) as client,
        ):
            warnings.simplefilter("always")
            client.sendall(b"GET /subjects HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            eventually(lambda: bool(caught))
    assert {warning.category for warning in caught} == {MinibrokerWarning}


async def test_an_asynchronous_broker_has_a_registry() -> None:
    async with AsyncBroker(registry=True) as broker:
        with Rest(broker.registry_url) as rest:
            await asyncio.to_thread(rest.register, "a", V1)
            assert await asyncio.to_thread(rest.get, "/subjects") == ["a"]
        assert "_schemas" in await broker.topics()


def test_several_brokers_share_a_registry() -> None:
    with Broker(registry=True, brokers=2) as broker, Rest(broker.registry_url) as rest:
        rest.register("a", V1)
        for node in broker.brokers:
            broker.brokers[node].stop()
            assert rest.get("/subjects") == ["a"]
            broker.brokers[node].start()
        rest.register("a", V2)


def test_the_fixture_has_a_registry_that_is_empty_in_each_test(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkafka_registry = true")
    pytester.makepyfile(
        """
        import json, urllib.request
        import pytest

        @pytest.mark.parametrize("number", range(2))
        def test_subjects(kafka, number):
            with urllib.request.urlopen(f"{kafka.registry_url}/subjects") as answer:
                assert json.loads(answer.read()) == []
            body = json.dumps({"schema": '"string"'}).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{kafka.registry_url}/subjects/a/versions", body, headers)
            with urllib.request.urlopen(request) as answer:
                assert json.loads(answer.read()) == {"id": number + 1}
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


@pytest.mark.torture
def test_the_fixture_can_keep_the_schemas(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkafka_registry = true\nkafka_keep_schemas = true")
    pytester.makepyfile(
        """
        import json, urllib.request
        import pytest

        @pytest.mark.parametrize("number", range(2))
        def test_subjects(kafka, number):
            with urllib.request.urlopen(f"{kafka.registry_url}/subjects") as answer:
                assert json.loads(answer.read()) == ["a"] * number
            body = json.dumps({"schema": '"string"'}).encode()
            headers = {"Content-Type": "application/json"}
            urllib.request.urlopen(
                urllib.request.Request(f"{kafka.registry_url}/subjects/a/versions", body, headers)
            ).close()
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with Broker(registry=True) as broker:
        address = broker.registry_url.removeprefix("http://")
        other = Broker(registry=address, data_dir=tmp_path)
        with pytest.raises(OSError, match=f"cannot listen on {address} for the registry"):
            other.start()


def test_the_answer_does_not_wait_for_acknowledgments() -> None:
    with Broker(registry=True, control="127.0.0.1:0") as broker:
        for server in (broker.asynchronous._registry, broker.asynchronous._plane):  # the sockets have no public name
            assert server is not None
            assert server._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
