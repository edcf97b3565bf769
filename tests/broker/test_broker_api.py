"""The broker in a Python program: `with`, `async with`, and failed starts."""

import asyncio
import os
import socket
import tempfile
import threading
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest

import minibroker
from minibroker import Broker, BrokerOptions
from minibroker.broker.asynchronous import AsyncBroker
from minibroker.clock import ManualClock
from minibroker.cluster.topic_admin import TopicError
from minibroker.config import ConfigError
from minibroker.config.addresses import parse_address
from minibroker.server.server import Server
from minibroker_protocol.messages.metadata import MetadataRequest
from minibroker_storage.data_directory.names import TopicsFileError
from tests.broker.harness import batch, fetch_request, only_partition, produce_request, values_in
from tests.broker.socket_client import SocketClient


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which temporary directories are created."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def topics_of(broker: Broker | AsyncBroker) -> dict[str, int]:
    with SocketClient(broker.address) as client:
        response = client.ask(MetadataRequest(topics=None), 12)
    return {topic.name: len(topic.partitions) for topic in response.topics}


def test_with_runs_it_on_a_thread_of_its_own(temporary: Path) -> None:
    with Broker() as broker:
        assert "minibroker" in {thread.name for thread in threading.enumerate()}
        host, port = broker.address
        assert (host, broker.bootstrap_servers) == ("127.0.0.1", f"127.0.0.1:{port}")
        assert topics_of(broker) == {}
        assert Path(broker.data_dir).parent == temporary
    assert "minibroker" not in {thread.name for thread in threading.enumerate()}
    assert list(temporary.iterdir()) == []


async def test_async_with_runs_it_on_the_callers_loop(temporary: Path) -> None:
    async with Broker(topics=["t"]) as broker:
        assert "minibroker" not in {thread.name for thread in threading.enumerate()}
        assert await asyncio.to_thread(topics_of, broker) == {"t": 1}
    assert os.listdir(temporary) == []


def test_what_is_asked_of_a_broker_that_does_not_run_is_refused() -> None:
    broker = Broker()
    for ask in (
        lambda: broker.address,
        lambda: broker.bootstrap_servers,
        lambda: broker.data_dir,
        lambda: broker.produce("orders", "a"),
        lambda: broker.clock.advance(1),
    ):
        with pytest.raises(RuntimeError, match="the broker is not running: use it inside `with Broker"):
            ask()
    with broker:
        assert broker.address
    with pytest.raises(RuntimeError, match="the broker is not running"):
        assert broker.address


def test_a_broker_can_run_again(temporary: Path) -> None:
    broker = Broker(topics=["t"])
    directories = set()
    for _ in range(2):
        with broker:
            assert topics_of(broker) == {"t": 1}
            directories.add(broker.data_dir)
    assert len(directories) == 2
    assert list(temporary.iterdir()) == []


def test_a_data_directory_keeps_what_was_produced(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path / "data"), topics=["t"]) as broker, SocketClient(broker.address) as client:
        client.ask(produce_request(batch(b"a")), 9)
    with Broker(data_dir=str(tmp_path / "data")) as broker, SocketClient(broker.address) as client:
        assert broker.data_dir == str(tmp_path / "data")
        assert values_in(only_partition(client.ask(fetch_request(("t", 0, 0)), 12)).records) == [(0, b"a")]


def test_two_brokers_run_at_once_and_know_nothing_of_each_other() -> None:
    with Broker(topics=["one"]) as first, Broker(topics=["two:2"]) as second:
        assert first.address != second.address
        assert first.data_dir != second.data_dir
        assert topics_of(first) == {"one": 1}
        assert topics_of(second) == {"two": 2}


def test_topics_and_configuration_are_given() -> None:
    broker = Broker(config={"num.partitions": "3", "node.id": "9"}, topics=["a", "b:2:retention.ms=60000"])
    with broker:
        assert topics_of(broker) == {"a": 3, "b": 2}


def test_topics_exist_before_clients_can_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that passes its health check therefore has them, as docs/ci.md says."""
    results: list[list[str]] = []
    start = Server.start

    async def look_and_start(server: Server) -> None:
        results.append([topic.name for topic in server.services.core.topics])
        await start(server)

    monkeypatch.setattr(Server, "start", look_and_start)
    with Broker(topics=["orders:3", "invoices"]):
        assert sorted(results[0]) == ["invoices", "orders"]


@pytest.mark.parametrize(("advertise", "host"), [("broker.test:5", "broker.test"), (None, "127.0.0.1")])
def test_clients_are_told_where_they_have_found_it_or_what_is_advertised(advertise: str | None, host: str) -> None:
    with Broker(advertise=advertise) as broker, SocketClient(broker.address) as client:
        (described_broker,) = client.ask(MetadataRequest(topics=[]), 12).brokers
        assert (described_broker.host, described_broker.port) == (host, 5 if advertise else broker.address[1])


def test_a_clock_can_be_given() -> None:
    clock = ManualClock()
    with Broker(clock=clock, topics=["t"]) as broker, SocketClient(broker.address) as client:
        client.send(fetch_request(("t", 0, 0), max_wait_ms=60_000), 12)
        with SocketClient(broker.address) as second:
            second.ask(produce_request(batch(b"a")), 9)
        assert values_in(only_partition(client.receive()[1]).records) == [(0, b"a")]


def test_clients_are_disconnected_at_the_end() -> None:
    with Broker(topics=["t"]) as broker:
        client = SocketClient(broker.address)
        client.ask(MetadataRequest(topics=[]), 12)
        client.send(fetch_request(("t", 0, 0), max_wait_ms=60_000), 12)
    with client:
        assert client.is_closed()


# Failed starts raise an error with the reason, and leave nothing behind.


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"listen": "nonsense"}, ValueError),
        ({"advertise": "nonsense"}, ValueError),
        ({"config": {"num.partitions": "many"}}, ConfigError),
        ({"topics": ["a:x"]}, ValueError),
    ],
)
def test_arguments_that_are_wrong_are_refused_at_once(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Broker(**arguments)


def broken(tmp_path: Path, fault: str) -> tuple[Broker, type[Exception]]:
    match fault:
        case "a file for a data directory":
            (tmp_path / "file").write_text("")
            return Broker(data_dir=str(tmp_path / "file")), OSError
        case "a damaged topics file":
            (tmp_path / "minibroker-topics.json").write_text("{")
            return Broker(data_dir=str(tmp_path)), TopicsFileError
        case _:
            return Broker(topics=["fine", "a/b"]), TopicError


@pytest.mark.parametrize("fault", ["a file for a data directory", "a damaged topics file", "an impossible topic"])
def test_an_error_at_the_start_reaches_the_one_who_asked(tmp_path: Path, temporary: Path, fault: str) -> None:
    broker, error = broken(tmp_path, fault)
    with pytest.raises(error), broker:
        raise AssertionError("it has started")
    assert list(temporary.iterdir()) == []
    assert "minibroker" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("fault", ["a file for a data directory", "a damaged topics file", "an impossible topic"])
async def test_an_error_at_the_start_reaches_the_callers_loop(tmp_path: Path, temporary: Path, fault: str) -> None:
    broker, error = broken(tmp_path, fault)
    with pytest.raises(error):
        await broker.__aenter__()
    assert os.listdir(temporary) == []


def test_an_address_in_use_is_an_error_and_the_next_one_works(temporary: Path) -> None:
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        with pytest.raises(OSError, match="in use"), Broker(listen=f"127.0.0.1:{occupied.getsockname()[1]}"):
            raise AssertionError("it has started")
    assert os.listdir(temporary) == []
    with Broker() as broker:
        assert topics_of(broker) == {}


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_port_that_is_taken_leaves_the_data_directory_alone_and_raises_one_line(tmp_path: Path, brokers: int) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = occupied.getsockname()[1] - brokers + 1
        with pytest.raises(OSError, match=r"Port 0 picks a free one: --listen 127\.0\.0\.1:0") as caught:
            Broker(listen=f"127.0.0.1:{port}", brokers=brokers, data_dir=str(data), topics=["orders"]).start()
    assert not data.exists()
    assert [entry.name for entry in caught.traceback][1:] == ["start"]
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("kind", [Broker, AsyncBroker])
@pytest.mark.parametrize(
    ("given", "named", "message"),
    [
        (("127.0.0.1:9092",), {}, r"takes its arguments by name, such as \w+\(listen='127\.0\.0\.1:9092'\)"),
        ((3,), {}, r"takes its arguments by name, such as \w+\(brokers=3\)"),
        ((9092,), {}, r"takes its arguments by name, such as \w+\(listen='127\.0\.0\.1:9092'\)"),
        ((), {"port": 9093}, r"has no argument 'port'; write \w+\(listen='127\.0\.0\.1:9093'\)"),
        ((), {"topic": "orders"}, r"has no argument 'topic'; write \w+\(topics=\['orders'\]\)"),
        ((), {"seed_dta": "f"}, r"has no argument 'seed_dta'; did you mean seed_data\?"),
        ((), {"zzz": 1}, r"has no argument 'zzz'; there are listen, data_dir, "),
    ],
)
def test_arguments_that_it_does_not_take_are_answered_with_those_that_were_meant(
    kind: Any, given: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=f"^{kind.__name__} {message}"):
        kind(*given, **named)


@pytest.mark.parametrize("kind", [Broker, AsyncBroker])
@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("security", "ssl", r"security: 'ssl' is not a minibroker\.Security; write \w+\(security=Security\('SSL'\)\)"),
        ("security", "SASL_SSL", r"write \w+\(security=Security\('SASL_SSL', users=\{'alice': 'secret'\}\)\)"),
        ("security", "TLS", "protocol is one of SSL, SASL_PLAINTEXT, SASL_SSL; for PLAINTEXT leave `security` out"),
        ("security", {"protocol": "SSL"}, r"security: \{'protocol': 'SSL'\} is not a minibroker\.Security"),
        ("clock", 3, r"clock: 3 is not a Clock; write \w+\(clock=ManualClock\(\)\)"),
        ("listen", 9092, r"listen: 9092 is of type int; write \w+\(listen='127\.0\.0\.1:9092'\)"),
        ("control", True, r"control: True is of type bool; write \w+\(control='127\.0\.0\.1:0'\)"),
        ("control_token", b"hush", r"control_token: the value is of type bytes"),
        ("listeners", ["PLAINTEXT://:0"], r"listeners: .* write \w+\(listeners='PLAINTEXT://127\.0\.0\.1:9092'\)"),
        ("config", ["num.partitions=3"], r"config: .* write \w+\(config=\{'num\.partitions': 3\}\)"),
        ("data_dir", 3, r"data_dir: 3 is of type int; write \w+\(data_dir='data'\)"),
        ("seed_data", {"topics": []}, r"seed_data: .* write \w+\(seed_data='seeds\.json'\)"),
        ("journal", "yes", r"journal: 'yes' is of type str; write \w+\(journal=True\)"),
        ("timeout", "3", r"timeout: '3' is of type str; write \w+\(timeout=10\)"),
        ("brokers", "3", "brokers: '3' is not an integer"),
        ("topics", None, r"topics: None is of type NoneType; write \w+\(topics=\['orders'\]\)"),
        ("topics", "orders", r"topics: 'orders' is a string; give a list, such as \['orders'\]"),
        ("topics", {"orders": 4}, r"topics: \{'orders': 4\} is a dict; give a list, such as \['orders:4'\]"),
        ("topics", [3], "topics: 3 is not a text such as 'orders' or 'orders:4'"),
        ("also_listen", "127.0.0.1:0", r"is a string; give a list, such as \['127\.0\.0\.1:0'\]"),
    ],
)
def test_an_option_of_another_class_is_refused_with_an_example(
    kind: Any, option: str, value: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        kind(**{option: value})
    assert str(caught.value).startswith(f"{option}: ")
    assert "hush" not in str(caught.value)


def test_directories_and_files_may_be_paths(tmp_path: Path) -> None:
    seeds = tmp_path / "seeds.json"
    seeds.write_text('{"topics": ["orders"], "records": [{"topic": "orders", "value": "a"}]}')
    with Broker(data_dir=tmp_path / "data", seed_data=seeds) as broker:
        assert broker.data_dir == str(tmp_path / "data")
        snapshot = broker.snapshot(tmp_path / "snapshot")
        assert snapshot.directory == str(tmp_path / "snapshot")
        broker.produce("orders", "b")
        broker.restore(tmp_path / "snapshot")
        assert [record.text() for record in broker.records("orders")] == ["a"]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("control", "http://127.0.0.1:0", "control: 'http://127.0.0.1:0' is not HOST:PORT; leave out 'http://'"),
        ("control", "http://localhost:0/", "is not HOST:PORT; leave out 'http://' and '/'"),
        ("listen", "PLAINTEXT://127.0.0.1:0", "listen: .* is not HOST:PORT; leave out 'PLAINTEXT://'"),
        ("advertise", "tcp://broker.test:9092", "advertise: .* is not HOST:PORT; leave out 'tcp://'"),
    ],
)
def test_a_url_in_the_place_of_an_address_is_refused(option: str, value: str, message: str) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(ValueError, match=message):
        Broker(**options)


@pytest.mark.parametrize("kind", [Broker, AsyncBroker])
def test_the_signature_names_every_option(kind: Any) -> None:
    parameters = signature(kind).parameters
    assert list(parameters) == list(BrokerOptions.__annotations__)
    assert {parameter.kind for parameter in parameters.values()} == {Parameter.KEYWORD_ONLY}
    assert (str(parameters["listen"]), str(parameters["journal"])) == ("listen: str = ...", "journal: bool | int = ...")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9092", ("127.0.0.1", 9092)),
        ("[::1]:0", ("::1", 0)),
        (":9092", ("0.0.0.0", 9092)),
        ("host.test:65535", ("host.test", 65_535)),
    ],
)
def test_addresses_are_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text, "listen") == address


def test_the_package_names_what_is_public() -> None:
    assert "Broker" in minibroker.__all__
    for name in minibroker.__all__:
        assert getattr(minibroker, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Producer'"):
        minibroker.Producer  # noqa: B018 - that is the point


def test_the_configuration_may_be_written_as_python_writes_it() -> None:
    config: dict[str, str | int | float | bool | list[str]] = {
        "group.initial.rebalance.delay.ms": 150,
        "auto.create.topics.enable": False,
        "log.cleaner.min.cleanable.ratio": 0.25,
        "log.cleanup.policy": ["compact", "delete"],
        "num.partitions": "3",
    }
    with Broker(config=config, topics=["t"]) as broker:
        assert topics_of(broker) == {"t": 3}


@pytest.mark.parametrize("value", [None, {}, [1, 2], b"5"])
def test_a_setting_that_no_file_could_hold_is_refused_by_name_and_value(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"for configuration num\.partitions: Expected a text, a number"):
        Broker(config={"num.partitions": value})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("num.partition", "1", "num.partition is not known and has no effect"),
        ("listeners", "SSL://127.0.0.1:0", "listeners=SSL://127.0.0.1:0 is passed over"),
        ("retention.ms", "1", "it is a topic's key, the broker's is log.retention.ms"),
        ("group.consumer.assignors", "range,my.Own", "my.Own cannot be run here; uniform and range can"),
    ],
)
def test_a_setting_without_effect_is_a_warning(name: str, value: str, words: str) -> None:
    with pytest.warns(UserWarning, match=words):
        Broker(config={name: value})


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("port", "; `bootstrap_servers` is for clients, and `address` is (host, port)"),
        ("consume", "; `records(topic)` returns records, and `expect(topic, value)` waits for one"),
        ("KafkaProducer", "; the fixture `kafka` hides the module `kafka`: write `from kafka import KafkaProducer`"),
        ("create_topics", "; did you mean create_topic?"),
        ("nothing_like_it", ""),
    ],
)
@pytest.mark.parametrize("kind", [Broker, AsyncBroker])
def test_a_name_that_it_lacks_is_answered_with_the_one_that_was_meant(kind: Any, name: str, advice: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(kind(), name)
    assert str(caught.value) == f"{kind.__name__!r} object has no attribute {name!r}{advice}"


def test_an_object_of_it_names_what_it_has(broker: Broker) -> None:
    with pytest.raises(AttributeError, match="no attribute 'members'; it has committed, describe, lag, "):
        broker.group("g").members  # type: ignore[attr-defined]  # noqa: B018 - it raises


def test_a_fault_without_names_of_fields_is_answered_with_the_form(broker: Broker) -> None:
    with pytest.raises(TypeError, match=r"by name, such as fault\(api='Produce'"):
        broker.fault("Produce", "NOT_LEADER_OR_FOLLOWER")
    with pytest.raises(TypeError, match="'Produce' is not a Fault; write add"):
        broker.faults.add("Produce")  # type: ignore[arg-type]  # as people call it


def test_wait_is_answered_with_the_method_that_waits_for_records(broker: Broker) -> None:
    with pytest.raises(TypeError, match="'orders' is none; `wait_for"):
        broker.wait("orders")  # type: ignore[arg-type]  # as people call it
