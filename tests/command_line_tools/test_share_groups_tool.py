"""The newest Kafka's own `kafka-share-groups`, line by line on that Kafka and on this broker."""

from pathlib import Path
from typing import Final

from minibroker import Broker
from tests.clients.contract import Message
from tests.clients.librdkafka_client import Librdkafka
from tests.command_line_tools.newest_jars import NewestTools
from tests.kafka import jars
from tests.kafka.fixtures import or_skip
from tests.kafka.real_kafka import RealKafka
from tests.patience import NO_RETENTION

_TOPIC: Final = "compared"
_PLACE: Final = f"--group g --topic {_TOPIC}"
_CALLS: Final = (
    "--list",
    "--describe --group none",
    "--describe --group none --state",
    "--describe --group none --members",
    f"--reset-offsets {_PLACE} --to-earliest --dry-run",
    f"--reset-offsets {_PLACE} --to-earliest --execute",
    "--list --state",
    "--describe --group g",
    "--describe --group g --offsets --verbose",
    "--describe --group g --state",
    "--describe --group g --state --verbose",
    "--describe --group g --members",
    "--describe --group g --members --verbose",
    "--describe --all-groups",
    f"--reset-offsets {_PLACE} --to-latest --execute",
    "--describe --group g",
    f"--reset-offsets {_PLACE} --to-datetime 2020-01-01T00:00:00.000 --execute",
    "--describe --group g --state --verbose",
    "--reset-offsets --group g --topic nothing --to-earliest --execute",
    "--reset-offsets --group g --all-topics --to-latest --execute",
    f"--delete-offsets {_PLACE}",
    "--describe --group g",
    "--delete-offsets --group g --topic nothing",
    f"--delete-offsets --group none --topic {_TOPIC}",
    "--delete --group g",
    "--delete --group none",
    "--list",
    "--list --describe",
)
_MEANINGS: Final = "This server does not host this topic-partition.", "This broker has no such topic or partition."
"""The meaning of an error code in Kafka's words and in ours, which is also for those who read the documentation."""
_STATES: Final = "share.coordinator.state.topic"


def _printed(tools: NewestTools, bootstrap: str) -> list[tuple[str, str, int]]:
    """The calls with their texts and statuses."""
    client = Librdkafka(bootstrap)
    client.create_topic(_TOPIC, 2)
    client.produce(_TOPIC, [Message(b"value", partition=0)] * 5)
    found: list[tuple[str, str, int]] = []
    for call in _CALLS:
        answer = tools.run("kafka-share-groups", "--bootstrap-server", bootstrap, *call.split())
        # Stack traces have frames of the JVM's own, which change as it warms up.
        lines = [line for line in answer.text.splitlines() if not line.startswith(("log4j:WARN", "\t"))]
        text = "\n".join(lines).replace(bootstrap, "BOOTSTRAP").replace(*_MEANINGS)
        found.append((call, text, answer.status))
    return found


def test_kafka_share_groups_prints_the_same_here_and_there(tmp_path: Path) -> None:
    libs = or_skip(lambda: jars.find(version=jars.NEWEST))
    one = {f"{_STATES}.replication.factor": "1", f"{_STATES}.min.isr": "1", f"{_STATES}.num.partitions": "1"}
    kafka = RealKafka(tmp_path, libs, one)
    config = {"node.id": "1", "minibroker.emulate": "4.3", **NO_RETENTION}
    with or_skip(lambda: NewestTools(libs)) as tools, Broker(config=config) as broker:
        try:
            kafka.start()
            theirs = _printed(tools, kafka.bootstrap)
        finally:
            kafka.close()
        assert _printed(tools, broker.bootstrap_servers) == theirs
