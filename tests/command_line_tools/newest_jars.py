"""The Java classes of Kafka's tools, and a JVM that runs the newest Kafka's tools."""

import re
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Final, NamedTuple

from tests.kafka.line_oracle import LineOracle

KAFKA_TOOLS: Final = {
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}
"""The Java classes of Kafka 3.9's tools."""
_SOURCE: Final = Path(__file__).with_name("ToolOracle.java")
_OF_LOG4J: Final = re.compile(r"^log4j:.*\n", re.MULTILINE)
"""Log4j's warnings, which it prints once per JVM."""
_MOVED: Final = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}
"""The Java classes of tools that were added after Kafka 3.9 or moved to other packages."""


class Answer(NamedTuple):
    """The combined output of a tool, and its exit status."""

    text: str
    status: int


class NewestTools(LineOracle):
    """A JVM that runs the newest Kafka's tools."""

    def __init__(self, libs: Path) -> None:
        super().__init__(_SOURCE, libs, heap="256m")

    def run(self, tool: str, *arguments: str) -> Answer:
        """Run a Kafka tool by its name."""
        words = (_MOVED.get(tool) or KAFKA_TOOLS[tool], *arguments)
        answer = self.ask(*(b64encode(word.encode()).decode() for word in words))
        status, _, text = answer.partition("\t")
        assert status, f"{tool} {' '.join(arguments)}: {self.complaints()}"
        return Answer(_OF_LOG4J.sub("", b64decode(text).decode()), int(status))
