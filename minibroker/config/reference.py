"""Write docs/configuration.md from `keys.tsv`: `python -m minibroker.config.reference > docs/configuration.md`.

`control.reference` writes the tables of other pages.
"""

import sys
from collections.abc import Callable, Collection, Iterable

from minibroker.config.key_tables import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS
from minibroker.config.keys import ConfigKey

KAFKA_4_DEFAULTS = {
    "group.coordinator.append.linger.ms": "-1",
    "group.coordinator.threads": "4",
    "log.message.timestamp.after.max.ms": "3600000",
    "metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
    "num.recovery.threads.per.data.dir": "2",
    "remote.log.manager.copier.thread.pool.size": "10",
    "remote.log.manager.expiration.thread.pool.size": "10",
    "remote.log.manager.thread.pool.size": "2",
}
"""The defaults of Kafka 4.4 for the broker keys that have the defaults of Kafka 3.9 here."""

_HEAD = """\
# Configuration

<!-- Made by `python -m minibroker.config.reference`: change `minibroker/config/keys.tsv`, not this page. -->

This page is for looking up a key.

You configure minibroker with Apache Kafka's own keys. Types, defaults and limits are those of Kafka 3.9.1, and of 4.4.0
for keys that are new in Kafka 4. Keys that begin with `minibroker.` are minibroker's own. For tests,
[twelve settings](settings-in-tests.md) are enough in most cases.

| you set | read |
|---|---|
| a key of the broker, in `server.properties`, with `--set KEY=VALUE` or `Broker(config=...)` | [Broker](#broker) |
| a key of a topic | [Topic](#topic) |
| a key of a consumer group, share group or streams group | [Group](#group) |
| a subscription to client metrics | [Client metrics](#client-metrics) |

Each section begins with the keys that have an effect. Kafka's other keys are read and checked, so your
`server.properties` works unchanged, but they have no effect. A broker key on neither list is ignored, as in Kafka, and
`minibroker serve` prints its name. An unknown topic key is refused with INVALID_CONFIG.

Seven defaults differ in effect from Kafka 3.9:

- Without `listeners`, the broker listens on 127.0.0.1:9092.
- Without `log.dirs` and `log.dir`, the logs are in a temporary directory. Of several `log.dirs` the first is used.
- Without `node.id`, it is node 1.
- The first member of a group does not wait for others (`group.initial.rebalance.delay.ms` is 0).
- As in Kafka 4, consumer groups and streams groups are served (`group.coordinator.rebalance.protocols`) and groups can
  change their protocol (`group.consumer.migration.policy`).
- As in Kafka 4, share groups can lock 2000 records of a partition (`group.share.partition.max.record.locks`).

These defaults are different in Kafka 4.4. Only one of them matters for minibroker: Kafka 4 refuses records more than an
hour ahead of its clock. Set `log.message.timestamp.after.max.ms` to 3600000 for the same behavior. Unlike in Kafka 4,
`segment.bytes` can be below a MiB.

With `--emulate` the keys, types, defaults and limits are those of the [emulated release](releases.md).
"""

_BROKER = """
## Broker

Set them in a `server.properties` file, or one by one on the command line. While the broker runs, you can alter the keys
that have a yes in the last column (`kafka-configs`, AlterConfigs, `Broker.configure`), for one broker or for all of
them. Changes take effect immediately.
"""

_TOPIC = """
## Topic

Set them when you create a topic, or alter them at any time. If you do not set a key, the topic uses the first one of
the broker's keys in the last column that is set.
"""

_GROUP = """
## Group

Alter them for groups of the consumer protocol (KIP-848), share groups (KIP-932) and streams groups (KIP-1071), within
the limits of the broker's keys. If you do not set a key, the group uses the broker's.
"""

_CLIENT_METRICS = """
## Client metrics

A subscription to the metrics that clients push (KIP-714).
"""

_COLUMNS = ("Key", "Type", "Default", "Allowed", "Importance", "Meaning")


def render() -> str:
    """Return the whole page as Markdown."""
    broker = _format_tables(
        "Broker", BROKER_KEYS.values(), "At run time", lambda key: "yes" if _is_altered_live(key) else ""
    )
    topic = _format_tables("Topic", TOPIC_KEYS.values(), "Broker keys", _format_synonyms)
    group = _format_tables("Group", GROUP_KEYS.values(), "Broker keys", _format_synonyms)
    client_metrics = _format_table(_COLUMNS, map(_format_row, CLIENT_METRICS_KEYS.values()))
    others = _format_table(("Key", "Here", "Kafka 4.4"), map(_format_both_defaults, KAFKA_4_DEFAULTS.items()))
    return _HEAD + others + _BROKER + broker + _TOPIC + topic + _GROUP + group + _CLIENT_METRICS + client_metrics


def _format_both_defaults(default: tuple[str, str]) -> tuple[str, str, str]:
    name, newer = default
    key = BROKER_KEYS[name]
    here = key.text(key.default)
    return f"`{name}`", f"`{here}`" if here else "empty", f"`{newer}`"


def _is_altered_live(key: ConfigKey) -> bool:
    """Return whether altering the key at run time has an effect. Changes of other keys are only saved and shown."""
    return key.honored and key.is_dynamic and not key.is_per_broker


def _format_synonyms(key: ConfigKey) -> str:
    return ", ".join(f"`{name}`" for name, _ in key.synonyms)


def _format_tables(
    kind: str, keys: Collection[ConfigKey], last_column: str, last_cell: Callable[[ConfigKey], str]
) -> str:
    """Return a table of the keys that have an effect, and one of the others. Both have the extra `last_column`."""
    head = (*_COLUMNS, last_column)
    with_effect, without = (
        _format_table(head, [(*_format_row(key), last_cell(key)) for key in keys if key.honored is honored])
        for honored in (True, False)
    )
    has_others = any(not key.honored for key in keys)
    return f"{with_effect}\n### {kind} keys without an effect\n{without}" if has_others else with_effect


def _format_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = (head, ("---",) * len(head), *rows)
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _format_row(key: ConfigKey) -> tuple[str, ...]:
    default = key.text(key.default)
    allowed = "" if key.allowed is None else str(key.allowed)
    shown = "null" if default is None else f"`{default}`" if default else "empty"
    return f"`{key.name}`", key.type.name, shown, allowed, key.importance.value, key.documentation


if __name__ == "__main__":
    sys.stdout.write(render())
