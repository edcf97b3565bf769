"""The output of `kafka-configs --describe`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.configs import ConfigEntry, describe_configs, list_resources
from minibroker_tools.commands.user_configs import describe_quotas, describe_scram
from minibroker_tools.output import out

if TYPE_CHECKING:
    from minibroker_tools.commands.configs import Entity

_SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
_DYNAMIC: Final = {"topics": 1, "brokers": 2, "client-metrics": 7, "groups": 8}
_DYNAMIC_DEFAULT: Final = 3


def describe(cluster: Cluster, entities: Sequence["Entity"], resources: Mapping[str, int], *, everything: bool) -> None:
    """Print the configurations of entities; `everything` has the default values, too."""
    kind, name = entities[0]
    if kind not in resources:
        describe_quotas(cluster, entities)
        if all(each.kind == "users" and each.name != "" for each in entities):
            describe_scram(cluster, name)
        return
    for each in _names(cluster, kind, name, resources):
        _describe(cluster, kind, resources[kind], each, everything=everything)


def _names(cluster: Cluster, kind: str, name: str | None, resources: Mapping[str, int]) -> list[str]:
    """The entities to describe."""
    if name is not None:
        return [name]
    if kind == "topics":
        known = sorted(topic.name for topic in cluster.metadata().topics if topic.name)
    elif kind in {"brokers", "broker-loggers"}:
        known = [str(broker.node_id) for broker in cluster.brokers()]
    else:
        known = list_resources(cluster, resources[kind])
    return [*known, ""] if kind == "brokers" else known


def _describe(cluster: Cluster, kind: str, number: int, name: str, *, everything: bool) -> None:
    if kind == "brokers" and not name:
        out("Default configs for brokers in the cluster are:")
    else:
        out(f"{'All' if everything else 'Dynamic'} configs for {kind[:-1]} {name} are:")
    dynamic = _DYNAMIC_DEFAULT if kind == "brokers" and not name else _DYNAMIC.get(kind)
    entries = describe_configs(cluster, [(number, name)], synonyms=True)[number, name]
    for entry in sorted(entries, key=lambda each: each.name):
        if everything or dynamic is None or entry.config_source == dynamic:
            _print(entry)


def _print(entry: ConfigEntry) -> None:
    synonyms = ", ".join(
        f"{_SOURCES.get(each.source, 'UNKNOWN')}:{each.name}={_java(each.value)}" for each in entry.synonyms
    )
    sensitive = str(entry.is_sensitive).lower()
    out(f"  {entry.name}={_java(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def _java(value: str | None) -> str:
    return "null" if value is None else value
