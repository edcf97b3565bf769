"""Redpanda's cluster configuration, as `rpk cluster config` reads and changes it."""

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from minibroker.config import ConfigError
from minibroker.config.documents import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from minibroker.server.services import Services

PROPERTIES: Final = {
    "auto_create_topics_enabled": "auto.create.topics.enable",
    "default_topic_partitions": "num.partitions",
    "default_topic_replications": "default.replication.factor",
    "delete_retention_ms": "log.retention.ms",
    "group_initial_rebalance_delay": "group.initial.rebalance.delay.ms",
    "group_max_session_timeout_ms": "group.max.session.timeout.ms",
    "group_min_session_timeout_ms": "group.min.session.timeout.ms",
    "group_topic_partitions": "offsets.topic.num.partitions",
    "kafka_batch_max_bytes": "message.max.bytes",
    "kafka_connections_max": "max.connections",
    "kafka_connections_max_per_ip": "max.connections.per.ip",
    "log_cleanup_policy": "log.cleanup.policy",
    "log_compression_type": "compression.type",
    "log_message_timestamp_type": "log.message.timestamp.type",
    "log_retention_ms": "log.retention.ms",
    "log_segment_ms": "log.roll.ms",
    "log_segment_size": "log.segment.bytes",
    "retention_bytes": "log.retention.bytes",
    "transactional_id_expiration_ms": "transactional.id.expiration.ms",
}
"""Redpanda's properties of clusters with an effect here, and Kafka's keys for the same."""
AT_START: Final = frozenset({"admin_api_require_auth", "enable_sasl", "kafka_enable_authorization", "superusers"})
"""Properties that only count when the broker starts."""
_CHANGED: Final = {"config_version": 1}

Answer = tuple[int, object]


def read_properties(services: "Services") -> Answer:
    """Return the values of all properties that have an effect."""
    config = services.core.config
    values: dict[str, object] = {name: config.value(key) for name, key in PROPERTIES.items()}
    for name, value in values.items():
        if isinstance(value, list | tuple):
            values[name] = ",".join(map(str, cast("list[object]", value)))
    values |= {
        "admin_api_require_auth": False,
        "enable_sasl": "sasl.enabled.mechanisms" in config.given,
        "kafka_enable_authorization": services.authorizer is not None,
        "superusers": [
            user.removeprefix("User:") for user in (config.optional_text("super.users") or "").split(";") if user
        ],
    }
    return HTTPStatus.OK, values


def change_properties(services: "Services", body: bytes) -> Answer:
    """Change properties until the broker stops. `ignored` in the answer lists those that have no effect here."""
    try:
        content = parse_json(body, "the body")
    except ValueError as error:
        return HTTPStatus.BAD_REQUEST, {"the body": str(error)}
    fields = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    upsert, remove = fields.get("upsert", {}), fields.get("remove", [])
    if not isinstance(upsert, dict) or not isinstance(remove, list):
        return HTTPStatus.BAD_REQUEST, {"the body": "upsert is not an object, or remove is not a list"}
    changes: dict[str, Any] = {**cast("dict[str, Any]", upsert), **dict.fromkeys(cast("list[str]", remove))}
    current = cast("Mapping[str, object]", read_properties(services)[1])
    refused = {
        name: f"{_format(value)} cannot be set while the broker runs: give it to `redpanda start` with --set, or in "
        "/etc/redpanda/.bootstrap.yaml"
        for name, value in changes.items()
        if name in AT_START and _format(value) != _format(current.get(name))
    }
    texts = {PROPERTIES[name]: _format(value) for name, value in changes.items() if name in PROPERTIES}
    try:
        if not refused:
            services.core.configs.change_static(texts)
    except ConfigError as error:
        named = (name for name in changes if name in PROPERTIES and PROPERTIES[name] in str(error))
        refused = {next(named, "the body"): str(error)}
    if refused:
        return HTTPStatus.BAD_REQUEST, refused
    return HTTPStatus.OK, {**_CHANGED, "ignored": [name for name in changes if name not in {*PROPERTIES, *AT_START}]}


def _format(value: object) -> str | None:
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def read_status(services: "Services") -> Answer:
    """Return the version of the configuration on each node."""
    problems: dict[str, list[str]] = {"invalid": [], "unknown": []}
    nodes = services.core.cluster.nodes
    return HTTPStatus.OK, [{"node_id": node, "restart": False, **_CHANGED, **problems} for node in nodes]
