"""The tools of the newest Kafka: their classes in a JVM that lives as long as the tests need it."""

import re
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Final, NamedTuple, Self

from tests.clients.operator_tools import TOOLS
from tests.kafka.line_oracle import LineOracle

_SOURCE: Final = Path(__file__).with_name("ToolOracle.java")
_OF_LOG4J: Final = re.compile(r"^log4j:.*\n", re.MULTILINE)
"""It complains once in a JVM."""
_MOVED: Final = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}
"""Tools that are new since Kafka 3.9, or have classes in other packages."""


class Answer(NamedTuple):
    """Both outputs of a tool in one text, and its exit status."""

    text: str
    status: int


class NewestTools:
    """Kafka's newest tools. Use it in a `with` statement. NoJarsError where Java lacks its compiler."""

    def __init__(self, libs: Path) -> None:
        self._oracle = LineOracle(_SOURCE, libs, heap="256m")

    def __enter__(self) -> Self:
        self._oracle.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._oracle.__exit__(*exception)

    def run(self, tool: str, *arguments: str) -> Answer:
        """Run a tool of Kafka by its name."""
        words = (_MOVED.get(tool) or TOOLS[tool], *arguments)
        answer = self._oracle.ask(*(b64encode(word.encode()).decode() for word in words))
        status, _, text = answer.partition("\t")
        assert status, f"{tool} {' '.join(arguments)}: {self._oracle.complaints()}"
        return Answer(_OF_LOG4J.sub("", b64decode(text).decode()), int(status))
