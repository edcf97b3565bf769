"""Write docs/configuration.md from the tables: `python -m minibroker.config.reference > docs/configuration.md`."""

import sys
from collections.abc import Iterable

from minibroker.config.broker_keys import BROKER_KEYS
from minibroker.config.client_metrics import CLIENT_METRICS_KEYS
from minibroker.config.group import GROUP_KEYS
from minibroker.config.keys import ConfigKey
from minibroker.config.run_time import ALTERABLE, PER_BROKER
from minibroker.config.topic_keys import TOPIC_KEYS

_HEAD = """\
# Configuration

<!-- Made by `python -m minibroker.config.reference`: change the tables there, not this page. -->

minibroker takes Apache Kafka's own configuration names, with the types, defaults and limits of Kafka 3.9.1, and of
4.3.1 for keys that are new in Kafka 4. Keys that begin with `minibroker.` are its own. A key in **bold** is acted on;
the others are read and checked, and change nothing. A broker key that is not listed here is ignored, as in Kafka, and
`minibroker serve` names it on stderr; an unknown topic key is refused with INVALID_CONFIG.

Seven defaults differ in effect. Without `listeners` the broker listens on 127.0.0.1:9092. Without `log.dirs` and
`log.dir` the logs are in a temporary directory. Without `node.id` it is node 1. The first member of a group waits for
no others (`group.initial.rebalance.delay.ms` is 0). Groups of the consumer protocol are served
(`group.coordinator.rebalance.protocols`) and may change their protocol (`group.consumer.migration.policy`), and share
groups have the limit of locked records (`group.share.partition.max.record.locks`), as in Kafka 4. Of several `log.dirs`
the first is used.
"""

_BROKER = """
## Broker

Set in a `server.properties` file, or one by one on the command line. Keys with a yes in the last column can be altered
while the broker runs (`kafka-configs`, AlterConfigs, `Broker.configure`), for one broker or for all of them, and count
at once.
"""

_TOPIC = """
## Topic

Set when a topic is created, or altered at any time. A topic that does not set a key takes the first of the broker's
keys in the last column that is set.
"""

_GROUP = """
## Group

Altered for groups of the consumer protocol (KIP-848) and for share groups (KIP-932), within the limits of the broker's
keys. A group that does not set a key takes the broker's.
"""

_CLIENT_METRICS = """
## Client metrics

A subscription to what clients measure of themselves (KIP-714).
"""


_COLUMNS = ("Key", "Type", "Default", "Allowed", "Importance", "Meaning")


def render() -> str:
    """Return the whole page, in Markdown."""
    broker = _table(
        (*_COLUMNS, "At run time"),
        ((*_row(key), "yes" if _counts_at_once(key) else "") for key in BROKER_KEYS.values()),
    )
    topic = _with_synonyms(TOPIC_KEYS.values())
    group = _with_synonyms(GROUP_KEYS.values())
    client_metrics = _table(_COLUMNS, map(_row, CLIENT_METRICS_KEYS.values()))
    return _HEAD + _BROKER + broker + _TOPIC + topic + _GROUP + group + _CLIENT_METRICS + client_metrics


def _counts_at_once(key: ConfigKey) -> bool:
    """Does it change something when it is altered? Others are kept and returned."""
    return key.honored and key.name in ALTERABLE - PER_BROKER


def _with_synonyms(keys: Iterable[ConfigKey]) -> str:
    return _table(
        (*_COLUMNS, "Broker keys"),
        ((*_row(key), ", ".join(f"`{name}`" for name, _ in key.synonyms)) for key in keys),
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = (head, ("---",) * len(head), *rows)
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _row(key: ConfigKey) -> tuple[str, ...]:
    name = f"**`{key.name}`**" if key.honored else f"`{key.name}`"
    default = key.text(key.default)
    allowed = "" if key.allowed is None else str(key.allowed)
    shown = "null" if default is None else f"`{default}`" if default else "empty"
    return name, key.type.name, shown, allowed, key.importance.value, key.documentation


if __name__ == "__main__":
    sys.stdout.write(render())
