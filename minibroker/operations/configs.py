"""Configurations of a running broker and its topics, without a client."""

from collections.abc import Mapping

from minibroker.cluster.dynamic_configs import ALL_BROKERS
from minibroker.config import BrokerConfig, ConfigError, TopicConfig
from minibroker.config.keys import ConfigResourceType
from minibroker.config.run_time import check, key_of
from minibroker.config.topic import hint_of_unknown_key
from minibroker.errors import OperationError
from minibroker.operations.records import topic_of
from minibroker.services import Services
from minibroker.support.callers import warn_caller

Setting = str | float | bool | None


def topic_config(services: Services, name: str) -> dict[str, str | None]:
    """The configuration of a topic as of now, by key. `NotFoundError`."""
    config = topic_of(services, name).config
    return {entry.name: entry.value for entry in config.entries()}


def configure_topic(services: Services, name: str, configs: Mapping[str, Setting]) -> None:
    """Alter keys of a topic; None gives a key back to the broker. `OperationError`, `OSError`."""
    topic = topic_of(services, name)
    try:
        config = TopicConfig(services.core.config, _altered(topic.config.overrides, configs))
    except ConfigError as error:
        raise OperationError(f"topic {name!r}: {error}{hint_of_unknown_key(error, configs)}") from None
    services.core.writes.commit()
    services.core.topics.configure(topic, config)


def configure(services: Services, configs: Mapping[str, Setting]) -> None:
    """Alter keys of all brokers; None takes one back to what it was at the start. `OperationError`, `OSError`.

    MinibrokerWarning for a name that is not known: as in Kafka it is stored and has no effect.
    """
    texts = _altered(services.core.configs.of(ConfigResourceType.BROKER, ALL_BROKERS), configs)
    try:
        check(texts, services.core.config, services.core.cluster.first.endpoints, is_of_one_broker=False)
        services.core.configs.with_broker(ALL_BROKERS, texts)
    except ConfigError as error:
        raise OperationError(str(error)) from None
    unknown = {name: "" for name in configs if key_of(name, services.core.config.keys) is None}
    for remark in BrokerConfig({}, unknown).remarks():
        warn_caller(f"configure: {remark}")
    services.core.writes.commit()
    services.core.configs.put(ConfigResourceType.BROKER, ALL_BROKERS, texts)


def _altered(before: Mapping[str, str], configs: Mapping[str, Setting]) -> dict[str, str]:
    texts = {**before, **{key: _text(value) for key, value in configs.items() if value is not None}}
    return {key: text for key, text in texts.items() if configs.get(key, text) is not None}


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
