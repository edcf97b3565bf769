"""Judges of what an application did, which know the inputs and do not use the broker's checker."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from minibroker import Broker


class Judged:
    """The inputs and outputs of a run. The value of an output is the value of its input."""

    def __init__(self, broker: Broker, source: str, target: str, group: str) -> None:
        self._broker = broker
        self._group = group
        self._source = source
        self.inputs = [record.text() for record in broker.records(source)]
        self.outputs = sorted(broker.records(target), key=lambda record: (record.partition, record.offset))

    def findings(self, check: str) -> Sequence[Any]:
        """Return the findings of a check, or nothing."""
        return list(getattr(self, check)())

    def no_loss(self) -> list[Any]:
        return sorted(set(self.inputs) - {record.text() for record in self.outputs}, key=self.inputs.index)

    def no_duplicates(self) -> list[Any]:
        counts = Counter(record.text() for record in self.outputs)
        return [(value, count) for value, count in counts.items() if count > 1]

    def exactly_once(self) -> list[Any]:
        return [*self.no_loss(), *self.no_duplicates()]

    def order_by_key(self) -> list[Any]:
        latest: dict[str, int] = {}
        seen: set[str] = set()
        findings = []
        for record in self.outputs:
            value, key = (record.value or b"").decode(), (record.key or b"").decode()
            if value not in seen and int(value) < latest.get(key, -1):
                findings.append((key, value))
            latest[key] = max(latest.get(key, -1), int(value))
            seen.add(value)
        return findings

    def caught_up(self) -> list[Any]:
        lag = self._broker.group(self._group).lag()
        return [(str(partition), lag) for partition, lag in lag.items() if lag]

    def commits_do_not_go_back(self) -> list[Any]:
        highest: dict[tuple[str, int], int] = {}
        findings = []
        for entry in self._broker.requests.entries(api="OffsetCommit", group=self._group):
            if entry.response is None:
                continue
            codes = {
                (topic.name or topic.topic_id, partition.partition_index): partition.error_code
                for topic in entry.response.topics
                for partition in topic.partitions
            }
            for topic in entry.request.topics:
                for partition in topic.partitions:
                    place = (topic.name or topic.topic_id, partition.partition_index)
                    offset = partition.committed_offset
                    if codes[place] == 0:
                        if offset < highest.get(place, 0):
                            findings.append((place, offset, highest[place]))
                        highest[place] = max(offset, highest.get(place, 0))
        return findings
