"""The clients, what they talk to, and a topic for each test."""

import uuid
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from minibroker import Broker
from tests.clients.contract import Client
from tests.clients.kafka_python_client import KafkaPython
from tests.clients.librdkafka_client import Librdkafka
from tests.patience import NO_RETENTION, PATIENCE_S

CLIENTS: dict[str, type[Client]] = {"kafka-python": KafkaPython, "librdkafka": Librdkafka}
"""`make torture` runs every test that takes `client` once for each of them, `make test` with librdkafka alone."""


@pytest.fixture(scope="module")
def config() -> Mapping[str, str]:
    """The configuration of the broker; modules that want another one have a fixture of this name."""
    return {}


@pytest.fixture(scope="module")
def broker(config: Mapping[str, str]) -> Iterator[Broker]:
    """A broker inside this process, shared by the tests of a module."""
    with Broker(config={**NO_RETENTION, **config}, timeout=PATIENCE_S) as running:
        yield running


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Where clients connect: the broker, or the Kafka of --kafka, which has to be configured alike."""
    given: str | None = request.config.getoption("--kafka")
    if given is not None:
        return given
    broker: Broker = request.getfixturevalue("broker")
    return broker.bootstrap_servers


@pytest.fixture(
    params=[pytest.param(name, marks=() if name == "librdkafka" else pytest.mark.torture) for name in CLIENTS]
)
def client(request: pytest.FixtureRequest, bootstrap: str) -> Client:
    return CLIENTS[request.param](bootstrap)


@pytest.fixture
def every_client(bootstrap: str) -> list[Client]:
    return [kind(bootstrap) for kind in CLIENTS.values()]


@pytest.fixture
def topic() -> str:
    """A name that no other test uses; nobody has created the topic."""
    return f"topic-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def data_dir(request: pytest.FixtureRequest) -> Path:
    """Where the broker of `bootstrap` keeps its logs."""
    if request.config.getoption("--kafka") is not None:
        pytest.skip("the data directory of --kafka is not known")
    broker: Broker = request.getfixturevalue("broker")
    return Path(broker.data_dir)


@pytest.fixture
def refused_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python forgets the socket of a connection that is refused, and the warning of it would hit a later test."""
    connector: Any = import_module("kafka.net.inet").KafkaNetSocket
    connect = connector.sock_connect

    async def connect_or_close(self: Any, net: Any, sock: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return await connect(self, net, sock, *arguments, **options)
        except BaseException:
            sock.close()
            raise

    monkeypatch.setattr(connector, "sock_connect", connect_or_close)
