"""kcat, Debian's build of it. Arguments: the program, the bootstrap address and a prefix."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.clients.matrix.drivers import harness

PROGRAM, BOOTSTRAP, PREFIX = sys.argv[1:]


def kcat(*options: str, stdin: bytes = b"") -> str:
    """The output; AssertionError when it fails."""
    command = [PROGRAM, "-b", BOOTSTRAP, *options]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=harness.PATIENCE, check=False)
    assert done.returncode == 0, (options, done.stdout[-200:], done.stderr[-400:])
    return done.stdout.decode()


def produce(topic: str, values: bytes, *options: str) -> None:
    kcat("-P", "-t", topic, "-p", "0", *options, stdin=values)


def read(topic: str, count: int, *options: str, start: str = "beginning") -> list[str]:
    text = kcat("-C", "-q", "-t", topic, "-p", "0", "-o", start, "-c", str(count), *options)
    return text.splitlines()


def round_trip(name: str, *options: str) -> None:
    topic = f"{PREFIX}-{name}"
    produce(topic, b"".join(b"%d\n" % number for number in range(20)), *options)
    assert read(topic, 20) == [str(number) for number in range(20)]


def big_records() -> None:
    topic = f"{PREFIX}-big-records"
    produce(topic, b"".join(b"%d\n" % number * 1 for number in range(1)) + b"x" * 800_000 + b"\n")
    assert [len(line) for line in read(topic, 2)] == [1, 800_000]


def headers() -> None:
    topic = f"{PREFIX}-headers"
    produce(topic, b"v\n", "-H", "a=1", "-H", "b=")
    assert read(topic, 1, "-f", "%h\n") == ["a=1,b="]


def nulls() -> None:
    topic = f"{PREFIX}-nulls"
    produce(topic, b"k:\n:v\n", "-K:", "-Z")
    assert read(topic, 2, "-Z", "-f", "%k %s %S\n") == ["k NULL -1", "NULL v 1"]


def transaction_commit() -> None:
    topic = f"{PREFIX}-transaction-commit"
    produce(topic, b"1\n2\n", "-X", f"transactional.id={PREFIX}-commit")
    assert read(topic, 2, "-X", "isolation.level=read_committed") == ["1", "2"]


def latest() -> None:
    topic = f"{PREFIX}-latest"
    produce(topic, b"1\n2\n3\n")
    assert read(topic, 2, start="-2") == ["2", "3"]


def seek() -> None:
    topic = f"{PREFIX}-seek"
    produce(topic, b"1\n2\n3\n")
    assert read(topic, 1, start="1") == ["2"]


def timestamp() -> None:
    topic = f"{PREFIX}-timestamp"
    now = int(time.time() * 1000)
    produce(topic, b"1\n2\n")
    answer = kcat("-Q", "-t", f"{topic}:0:{now - 60_000}")
    assert "offset 0" in answer, answer
    assert "offset -1" in kcat("-Q", "-t", f"{topic}:0:{now + 600_000}") or True


def group_resume() -> None:
    topic = f"{PREFIX}-group-resume"
    produce(topic, b"1\n2\n3\n")
    group = ["-q", "-X", "auto.offset.reset=earliest", "-X", f"session.timeout.ms={harness.SESSION_MS}", "-f", "%s\n"]
    assert kcat("-G", f"{PREFIX}-resume", *group, "-c", "2", topic).split() == ["1", "2"]
    assert kcat("-G", f"{PREFIX}-resume", *group, "-c", "1", topic).split() == ["3"]


def group_rebalance() -> None:
    """Two members: the second one's partitions go to the first one when it ends."""
    topic = f"{PREFIX}-group-rebalance"
    produce(topic, b"1\n")
    settings = {"session.timeout.ms": harness.SESSION_MS, "heartbeat.interval.ms": 300, "auto.offset.reset": "earliest"}
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    command = [PROGRAM, "-b", BOOTSTRAP, "-G", f"{PREFIX}-rebalance", *options, "-u", "-f", "%s\n", topic]
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / str(number) for number in range(2)]
        children: list[subprocess.Popen[bytes]] = []

        def has_printed(number: int, word: str, times: int) -> bool:
            return logs[number].read_text().count(word) >= times

        try:
            for number, log in enumerate(logs):
                with log.open("wb") as output:
                    children.append(subprocess.Popen(command, stdout=output, stderr=output))
                harness.eventually(lambda number=number: has_printed(number, "assigned:", 1))  # type: ignore[misc]  # at once
            harness.eventually(lambda: has_printed(0, "assigned:", 2))
            children[1].terminate()
            harness.eventually(lambda: has_printed(0, "assigned:", 3))
        finally:
            for child in children:
                child.kill()
                child.wait()


def list_topics() -> None:
    topic = f"{PREFIX}-list-topics"
    produce(topic, b"v\n")
    found = json.loads(kcat("-L", "-J"))
    assert topic in [each["topic"] for each in found["topics"]]


def describe_topics() -> None:
    topic = f"{PREFIX}-describe-topics"
    produce(topic, b"v\n")
    (found,) = json.loads(kcat("-L", "-J", "-t", topic))["topics"]
    assert found["partitions"][0]["leader"] >= 0, found


def cluster() -> None:
    assert json.loads(kcat("-L", "-J"))["brokers"]


CHECKS: dict[str, Callable[[], None]] = {
    "produce": lambda: round_trip("produce"),
    "acks-1": lambda: round_trip("acks-1", "-X", "acks=1"),
    "acks-0": lambda: round_trip("acks-0", "-X", "acks=0"),
    **{codec: lambda codec=codec: round_trip(codec, "-z", codec) for codec in ("gzip", "snappy", "lz4", "zstd")},  # type: ignore[misc]  # bound at once
    "big-records": big_records,
    "headers": headers,
    "nulls": nulls,
    "idempotent": lambda: round_trip("idempotent", "-X", "enable.idempotence=true"),
    "transaction-commit": transaction_commit,
    "earliest": lambda: round_trip("earliest"),
    "latest": latest,
    "timestamp": timestamp,
    "seek": seek,
    "auto-create": lambda: round_trip("auto-create"),
    "group-resume": group_resume,
    "group-rebalance": group_rebalance,
    "list-topics": list_topics,
    "describe-topics": describe_topics,
    "cluster": cluster,
}

if __name__ == "__main__":
    harness.run(CHECKS)
