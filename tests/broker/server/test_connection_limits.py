"""The configuration of connection limits, compared with Kafka 3.9.1."""

from collections.abc import Callable

import pytest

from minibroker import Broker
from minibroker.clock import ManualClock
from minibroker.config import BrokerConfig, ConfigError
from minibroker.config.broker import RunTime, read_overrides
from minibroker.server.connection_quotas import UNLIMITED, ConnectionLimits
from minibroker.server.quotas import HostNames
from minibroker_protocol.error_codes import ErrorCode
from tests.broker.config.configs import BROKER, OK, SET, change_request, put
from tests.broker.harness import Harness
from tests.broker.socket_client import SocketClient

LISTENERS = ("PLAINTEXT", "EXTERNAL")
MOST, RATE = "max.connections", "max.connection.creation.rate"


def limits(
    given: dict[str, str] | None = None,
    cluster: dict[str, str] | None = None,
    broker: dict[str, str] | None = None,
    listeners: tuple[str, ...] = LISTENERS,
) -> ConnectionLimits:
    config = BrokerConfig.from_properties(given or {}).altered(RunTime(cluster or {}, broker or {}))
    names = HostNames(ManualClock(), look_up_at_once)
    return ConnectionLimits(config, listeners, lambda: names)


def look_up_at_once(work: Callable[[], None], then: Callable[[], None] | None = None) -> None:
    work()
    if then is not None:
        then()


def test_nothing_is_limited_at_first() -> None:
    configured = limits()
    assert (configured.most, configured.rate) == (UNLIMITED, UNLIMITED)
    assert configured.most_of == configured.rate_of == dict.fromkeys(LISTENERS, UNLIMITED)
    assert configured.max_connections_of("127.0.0.1") == UNLIMITED


def test_a_listener_has_the_limits_of_the_broker_unless_it_has_its_own() -> None:
    configured = limits({MOST: "5", RATE: "7", "listener.name.external.max.connections": "3"})
    assert configured.most_of == {"PLAINTEXT": 5, "EXTERNAL": 3}
    assert configured.rate_of == {"PLAINTEXT": 7, "EXTERNAL": 7}


def test_what_was_altered_for_a_broker_counts_before_what_was_altered_for_all() -> None:
    own = "listener.name.external.max.connections"
    assert limits({own: "1"}, {own: "2"}, {own: "3"}).most_of["EXTERNAL"] == 3
    assert limits({own: "1"}, {own: "2"}).most_of["EXTERNAL"] == 2
    assert limits({own: "1"}, {MOST: "2"}).most_of == {"PLAINTEXT": 2, "EXTERNAL": 1}


def test_prefixes_are_small_letters() -> None:
    assert limits({"listener.name.EXTERNAL.max.connections": "1"}).most_of["EXTERNAL"] == UNLIMITED


def test_a_number_of_a_listener_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"listener\.name\.external\.max\.connections: Invalid value x"):
        limits({"listener.name.external.max.connections": "x"})


@pytest.mark.parametrize(
    ("given", "listeners", "protected"),
    [
        ({}, LISTENERS, "PLAINTEXT"),
        ({"inter.broker.listener.name": "EXTERNAL"}, LISTENERS, "EXTERNAL"),
        ({"security.inter.broker.protocol": "SSL"}, LISTENERS, "SSL"),
        ({}, ("PLAINTEXT",), None),
    ],
)
def test_the_listener_of_brokers_is_protected_where_there_is_another(
    given: dict[str, str], listeners: tuple[str, ...], protected: str | None
) -> None:
    assert limits(given, listeners=listeners).protected == protected


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("", {}),
        ("a:3", {"a": 3}),
        ("127.0.0.5: 3 , 127.0.0.6:4", {"127.0.0.5": 3, "127.0.0.6": 4}),
        ("a:3,", {"a": 3}),
        ("::1:3", {"::1": 3}),
        (":3", {"": 3}),
        ("a:+5,b:-3", {"a": 5, "b": -3}),
        ("a:" + "0" * 5000 + "3", {"a": 3}),
        ("a:1,a:2", {"a": 2}),
    ],
)
def test_overrides_are_read_as_by_kafka(text: str, overrides: dict[str, int]) -> None:
    assert read_overrides(text) == overrides


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bad", "Error parsing configuration property 'max.connections.per.ip.overrides': begin 0, end -1, length 3"),
        (",a:3", "Error parsing configuration property 'max.connections.per.ip.overrides': begin 0, end -1, length 0"),
        ("a:x", 'For input string: "x"'),
        ("a:99999999999", 'For input string: "99999999999"'),
        ("a b:3", "max.connections.per.ip.overrides contains invalid addresses : a b"),
    ],
)
def test_overrides_that_cannot_be_are_refused_as_by_kafka(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties({"max.connections.per.ip.overrides": text})
    assert str(caught.value) == message


def test_addresses_are_those_of_the_hosts() -> None:
    configured = limits(
        {"max.connections.per.ip": "9", "max.connections.per.ip.overrides": "localhost:2,nowhere.invalid:3"}
    )
    assert configured.max_connections_of("127.0.0.1") == 2
    assert configured.max_connections_of("127.0.0.2") == 9


def test_a_port_of_thousands_of_digits_is_no_port() -> None:
    with pytest.raises(ConfigError, match="Each entry should be in the form"):
        BrokerConfig.from_properties({"controller.quorum.voters": "1@host:" + "9" * 5000})


NOT_AT_RUN_TIME = "Cannot update these configs dynamically: Set"
NOT_FOR_ALL = "Cannot update these configs at default cluster level, broker id must be specified: Set"
OVERRIDES = "max.connections.per.ip.overrides"
NONE_AT_ALL = (
    "Invalid value org.apache.kafka.common.config.ConfigException: Invalid {} 0 for configuration "
    "Invalid dynamic configuration"
)


@pytest.mark.parametrize(
    ("name", "key", "text", "message"),
    [
        ("1", "max.connections", "0", NONE_AT_ALL.format("max.connections")),
        ("", "max.connection.creation.rate", "0", NONE_AT_ALL.format("max.connection.creation.rate")),
        ("", "max.connections", "x", "Invalid value x for configuration max.connections: Not a number of type INT"),
        (
            "1",
            OVERRIDES,
            "127.0.0.1",
            "Error parsing configuration property 'max.connections.per.ip.overrides': begin 0, end -1, length 9",
        ),
        ("1", OVERRIDES, "127.0.0.1:x", 'For input string: "x"'),
        ("", OVERRIDES, "a b:3", "max.connections.per.ip.overrides contains invalid addresses : a b"),
        ("", "connections.max.idle.ms", "5000", f"{NOT_AT_RUN_TIME}(connections.max.idle.ms)"),
        (
            "",
            "listener.name.plaintext.max.connections.per.ip",
            "5",
            f"{NOT_FOR_ALL}(listener.name.plaintext.max.connections.per.ip)",
        ),
    ],
)
def test_limits_that_cannot_be_are_refused_at_run_time(
    harness: Harness, name: str, key: str, text: str, message: str
) -> None:
    assert put(harness, BROKER, name, key, text) == (ErrorCode.INVALID_REQUEST, message)


def test_limits_of_a_listener_may_be_altered_for_all_brokers_at_once(harness: Harness) -> None:
    for key in (MOST, RATE, "num.network.threads"):
        assert put(harness, BROKER, "", f"listener.name.external.{key}", "7") == OK


def test_a_listener_that_there_is_cannot_be_left_without_connections() -> None:
    with Broker() as broker, SocketClient(broker.address) as client:
        for listener, refused in (("plaintext", True), ("nosuch", False)):
            change = change_request(BROKER, "1", (SET, f"listener.name.{listener}.{MOST}", "0"))
            (answer,) = client.ask(change, 1).responses
            assert answer.error_message == (NONE_AT_ALL.format(MOST) if refused else None)


def test_a_broker_does_not_start_with_a_limit_that_is_none() -> None:
    with pytest.raises(ConfigError, match=r"listener\.name\.plaintext\.max\.connections"):
        Broker(config={"listener.name.plaintext.max.connections": "x"}).start()
