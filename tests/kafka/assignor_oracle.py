"""Kafka's assignors of the group coordinator, asked from Python: AssignorOracle.java in a JVM of its own."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Final

from minibroker.coordinators.groups.assignors import GroupSpec
from minibroker.coordinators.groups.modern.topics import Partitions, freeze_partitions
from tests.kafka.line_oracle import LineOracle

_SOURCE: Final = Path(__file__).with_name("AssignorOracle.java")


class AssignorOracle(LineOracle):
    """See `LineOracle`."""

    def __init__(self, libs: Path) -> None:
        super().__init__(_SOURCE, libs, heap="256m")

    def assign(self, assignor: str, group: GroupSpec) -> dict[str, Partitions] | None:
        """Kafka's assignment; None where it gives up."""
        fields = [f"{assignor.capitalize()}Assignor", "same" if group.homogeneous else "mixed"]
        fields.append(",".join(f"{_text(topic)}={count}" for topic, count in group.counts.items()))
        for member_id, member in group.members.items():
            had = [f"{_text(topic)}:{i}" for topic, indexes in member.assigned.items() for i in sorted(indexes)]
            fields += [member_id, member.instance_id or "-", ",".join(map(_text, member.topics)), ",".join(had)]
        answer = self.ask(*fields)
        if answer.startswith("!"):
            return None
        if not answer:
            complaints = self.complaints()
            assert "error" not in complaints, complaints
            return {}
        found = answer.split("\t")
        return {member: _partitions(text) for member, text in zip(found[::2], found[1::2], strict=True)}


def _text(uuid: bytes) -> str:
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()


def _partitions(text: str) -> Partitions:
    found: dict[bytes, set[int]] = {}
    for each in filter(None, text.split(",")):
        topic, _, index = each.partition(":")
        found.setdefault(urlsafe_b64decode(topic + "=="), set()).add(int(index))
    return freeze_partitions(found)
