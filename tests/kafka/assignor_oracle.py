"""Kafka's assignors for consumer groups, asked from Python: AssignorOracle.java in a JVM of its own."""

import contextlib
import subprocess
import tempfile
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Final, Self

from minibroker.groups.consumer.assignors import GroupSpec
from minibroker.groups.consumer.partitions import Partitions, frozen
from tests.kafka import jars

_SOURCE: Final = Path(__file__).with_name("AssignorOracle.java")
_JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_TIMEOUT: Final = 30


class AssignorOracle:
    """The JVM. Use it in a `with` statement. NoJarsError where Java lacks its compiler."""

    def __init__(self, libs: Path) -> None:
        if "jdk.compiler" not in jars.java_modules():
            raise jars.NoJarsError("this Java has no compiler: the oracle is a source file, and needs a JDK")
        command = [jars.java(), *_JVM, "-cp", f"{libs}/*", str(_SOURCE)]
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the JVM
        self._jvm = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints, text=True, bufsize=1
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                self._jvm.stdin.close()
            self._jvm.wait(_TIMEOUT)
        finally:
            self._jvm.kill()
            self._jvm.wait()
            self._jvm.stdout.close()
            self._complaints.close()

    def assign(self, assignor: str, group: GroupSpec) -> dict[str, Partitions] | None:
        """What Kafka assigns; None where it gives up."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        fields = [assignor, "same" if group.homogeneous else "mixed"]
        fields.append(",".join(f"{_text(topic)}={count}" for topic, count in group.counts.items()))
        for member_id, member in group.members.items():
            had = [f"{_text(topic)}:{i}" for topic, indexes in member.assigned.items() for i in sorted(indexes)]
            fields += [member_id, member.instance_id or "-", ",".join(map(_text, member.topics)), ",".join(had)]
        print(*fields, sep="\t", file=self._jvm.stdin)
        answer = self._jvm.stdout.readline().rstrip("\n")
        if answer.startswith("!"):
            return None
        if not answer:
            self._complaints.seek(0)
            complaints = self._complaints.read().decode()
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
    return frozen(found)
