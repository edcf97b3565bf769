"""The configuration of a group."""

import pytest

from minibroker.config import BrokerConfig, ConfigError
from minibroker.config.group import GroupConfig

BROKER = BrokerConfig.from_properties({"group.share.heartbeat.interval.ms": "6000"})


def test_a_key_that_is_not_set_is_the_brokers_or_the_default() -> None:
    group = GroupConfig(BROKER, {"share.session.timeout.ms": "50000", "share.auto.offset.reset": "earliest"})
    other = GroupConfig(BROKER, {})
    assert [config.integer("share.session.timeout.ms") for config in (group, other)] == [50_000, 45_000]
    assert (group.text("share.auto.offset.reset"), other.text("share.auto.offset.reset")) == ("earliest", "latest")
    assert [group.integer(f"share.{name}.interval.ms") for name in ("heartbeat", "assignment")] == [6_000, 1_000]
    assert other.boolean("share.renew.acknowledge.enable")


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("share.session.timeout.ms", "60001", "{} must be in the range 45000 to 60000 inclusive."),
        ("share.assignment.interval.ms", "15001", "{} must be in the range 0 to 15000 inclusive."),
        ("share.delivery.count.limit", "11", "{} must be in the range 2 to 10 inclusive."),
        (
            "share.auto.offset.reset",
            "by_duration:1h",
            (
                "Invalid value by_duration:1h for configuration {0}: Invalid value `by_duration:1h` for configuration "
                "{0}. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
            ),
        ),
    ],
)
def test_a_value_beyond_the_brokers_limits_is_refused(key: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        GroupConfig(BROKER, {key: text}).check_limits()
    assert str(refusal.value) == message.format(key)


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("consumer.session.timeout.ms", "1", "greater than or equal to group.consumer.min.session.timeout.ms"),
        ("streams.heartbeat.interval.ms", "99999", "less than or equal to group.streams.max.heartbeat.interval.ms"),
        ("streams.num.standby.replicas", "3", "less than or equal to group.streams.max.standby.replicas"),
    ],
)
def test_releases_before_4_4_name_the_key_of_a_limit(key: str, text: str, message: str) -> None:
    broker = BrokerConfig.from_properties({"minibroker.emulate": "4.3"})
    with pytest.raises(ConfigError) as refusal:
        GroupConfig(broker, {key: text}).check_limits()
    assert str(refusal.value) == f"{key} must be {message}"


def test_a_value_counts_as_far_as_the_broker_allows_it_now() -> None:
    texts = {"share.session.timeout.ms": "60000", "streams.num.standby.replicas": "2"}
    limits = {"group.share.max.session.timeout.ms": "50000", "group.streams.max.standby.replicas": "1"}
    as_set = GroupConfig(BrokerConfig.from_properties(limits), texts)
    counting = as_set.apply_limits()
    assert (counting.integer("share.session.timeout.ms"), counting.integer("streams.num.standby.replicas")) == (
        50_000,
        1,
    )
    assert as_set.value_text("share.session.timeout.ms") == "60000"
    assert GroupConfig(BROKER, texts).apply_limits().overrides == texts


def test_only_keys_that_are_set_are_looked_at() -> None:
    limits = BrokerConfig.from_properties({"group.share.max.delivery.count.limit": "5"})
    GroupConfig(limits, {"share.renew.acknowledge.enable": "false"}).check_limits()
