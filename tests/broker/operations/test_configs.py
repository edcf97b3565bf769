"""Configurations and client metrics, without a client."""

import logging
from collections.abc import Iterator

import pytest

from minibroker import Broker, OperationError
from minibroker.server.telemetry import TelemetryPush
from minibroker_protocol.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from tests.broker.config.configs import BROKER, LOGGER, SET, change_request
from tests.broker.socket_client import SocketClient
from tests.broker.telemetry import CLIENT, gauge


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with a topic "t"."""
    with Broker(topics=["t"]) as running:
        yield running


def test_a_topics_configuration_is_altered_and_taken_back(broker: Broker) -> None:
    broker.configure_topic("t", {"retention.ms": 1_000, "cleanup.policy": "compact"})
    broker.configure_topic("t", {"cleanup.policy": None, "preallocate": True, "min.cleanable.dirty.ratio": 0.25})
    config = broker.topic_config("t")
    assert config["retention.ms"] == "1000"
    assert config["cleanup.policy"] == "delete"
    assert config["preallocate"] == "true"
    assert config["min.cleanable.dirty.ratio"] == "0.25"
    assert "cleanup.policy" not in broker.topics()["t"].configs


def test_the_brokers_configuration_is_altered_and_taken_back(broker: Broker) -> None:
    broker.configure({"log.retention.ms": 5, "message.max.bytes": 100})
    assert (broker.topic_config("t")["retention.ms"], broker.topic_config("t")["max.message.bytes"]) == ("5", "100")
    broker.configure({"log.retention.ms": None})
    assert broker.topic_config("t")["retention.ms"] == "604800000"
    broker.reset()
    assert broker.topic_config("t")["max.message.bytes"] == "1048588"


def test_what_cannot_be_configured_is_said(broker: Broker) -> None:
    with pytest.raises(OperationError, match="topic 't': Unknown topic config name: nonsense"):
        broker.configure_topic("t", {"nonsense": 1})
    unknown = r"^topic 't': Unknown topic config name: retention\.m; did you mean retention\.ms\?$"
    with pytest.raises(OperationError, match=unknown):
        broker.configure_topic("t", {"retention.bytes": 1, "retention.m": 1})
    with pytest.raises(OperationError, match=r"log\.retention\.ms; it is a broker's key, .* is retention\.ms$"):
        broker.create_topic("u", configs={"log.retention.ms": 1})
    with pytest.raises(OperationError, match=r"did you mean cleanup\.policy\?$"):
        broker.create_topic("u", configs={"cleanup.polcy": "compact"})
    with pytest.raises(ValueError, match=r"topic 'u': .*did you mean cleanup\.policy\?$"):
        Broker(topics=["u:1:cleanup.polcy=compact"]).start()
    with pytest.raises(OperationError, match="nowhere"):
        broker.configure_topic("nowhere", {})
    with pytest.raises(OperationError, match="nowhere"):
        broker.topic_config("nowhere")
    with pytest.raises(OperationError, match="Cannot update these configs dynamically"):
        broker.configure({"num.partitions": 3})


def test_loggers_are_given_back_by_a_reset(broker: Broker) -> None:
    logger = logging.getLogger("minibroker.cluster.logs.log_manager")
    before = logger.level
    with SocketClient(broker.address) as client:
        node = str(broker.services.core.cluster.first.id)
        request = change_request(LOGGER, node, (SET, "minibroker.cluster.logs.log_manager", "FATAL"))
        assert client.ask(request, 1).responses[0].error_code == 0
    assert logger.level == logging.CRITICAL
    broker.reset()
    assert logger.level == before


def test_a_password_that_is_altered_is_not_in_the_journal() -> None:
    secret = ("listener.name.other.ssl.keystore.password", "listener.name.other.plain.sasl.jaas.config")
    keys = (*secret, "unheard.of")
    with Broker(journal=True) as broker:
        with SocketClient(broker.address) as client:
            changes = [(SET, key, "text") for key in keys]
            request = change_request(BROKER, str(broker.services.core.cluster.first.id), *changes, validate_only=True)
            assert client.ask(request, 1).responses[0].error_code == 0
        (entry,) = (each for each in broker.requests if each.api == "IncrementalAlterConfigs")
    (resource,) = entry.request.resources
    assert {config.name: config.value for config in resource.configs} == dict(
        zip(keys, ("[hidden]", "[hidden]", "text"), strict=True)
    )


def pushed(broker: Broker) -> list[TelemetryPush]:
    """Return the metrics after a client has pushed a gauge."""
    with SocketClient(broker.address) as client:
        subscription_id = client.ask(GetTelemetrySubscriptionsRequest(client_instance_id=CLIENT), 0).subscription_id
        request = PushTelemetryRequest(
            client_instance_id=CLIENT,
            subscription_id=subscription_id,
            terminating=False,
            compression_type=0,
            metrics=gauge("a", 1),
        )
        assert client.ask(request, 0).error_code == 0
    return broker.telemetry()


def test_what_clients_measure_is_kept_until_a_reset(broker: Broker) -> None:
    (push,) = pushed(broker)
    assert [(each.name, each.value) for each in push.metrics()] == [("a", 1)]
    broker.reset()
    assert broker.telemetry() == []


def test_an_unknown_key_of_the_broker_is_a_warning_at_the_callers_line(broker: Broker) -> None:
    warning = r"^configure: message\.max\.byte is not known and has no effect; did you mean message\.max\.bytes\?$"
    with pytest.warns(UserWarning, match=warning) as caught:
        broker.configure({"message.max.byte": 5, "listener.name.plaintext.max.connections": 9})
    assert [each.filename for each in caught] == [__file__]
    with pytest.warns(UserWarning, match=r"retention\.ms .*; it is a topic's key, the broker's is log\.retention\.ms"):
        broker.configure({"retention.ms": 5})
    broker.reset()
