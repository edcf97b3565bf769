"""The example that shows the main job: it passes against this broker, and it would notice if something were wrong."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from minibroker import Broker
from tests.clients.broker_process import ROOT, environment
from tests.clients.kafka_python_client import KafkaProducer
from tests.patience import PATIENCE_S

# After kafka-python, whose first import warns, so not where the sorter would have it.
stdlib_roundtrip: Any = import_module("examples.stdlib_roundtrip")
Source, Verifier = stdlib_roundtrip.Source, stdlib_roundtrip.Verifier

EXAMPLES = ROOT / "examples"
LIMIT = 20_000
FILES = {"a.py": [b"one\n", b"\n", b"two\n", b"\n", b"three"], "package/b.py": [b"one\n"] * 3}


def run(example: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_standard_library_comes_back_line_by_line_even_after_a_restart_and_a_kill() -> None:
    done = run("stdlib_roundtrip.py", "--limit", str(LIMIT))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    *_, first, second, third, verdict = done.stdout.splitlines()
    for line, when in ((first, "back"), (second, "after a restart"), (third, "after kill -9")):
        assert line.startswith(f"read {when}: {LIMIT:,} lines in ")
        assert line.endswith("all identical and in order")
    assert verdict.startswith(f"OK: {LIMIT:,} lines of ")
    assert verdict.endswith("came back identical, 3 times")


def test_one_line_too_many_fails_the_round_trip(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    produce = stdlib_roundtrip.produce

    def produce_and_repeat(bootstrap: str, topic: str, source: Any) -> None:
        produce(bootstrap, topic, source)
        name, line = next(source.lines())
        producer = KafkaProducer(bootstrap_servers=bootstrap)
        producer.send(topic, key=name.encode(), value=line)
        producer.close()

    arguments = ["--limit", "1000", "--bootstrap", broker.bootstrap_servers]
    assert stdlib_roundtrip.main(arguments) == 0
    assert "OK: 1,000 lines of " in capsys.readouterr().out
    monkeypatch.setattr(stdlib_roundtrip, "produce", produce_and_repeat)
    assert stdlib_roundtrip.main(arguments) == 1
    output = capsys.readouterr().out
    assert "1 repeated\n  repeated: " in output
    assert "FAILED: 1 of 1 times" in output


def test_hello_says_hello() -> None:
    done = run("hello.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "greetings-0 @ 0: planet = hello, world\n"


def test_the_source_is_the_whole_standard_library_in_whole_lines() -> None:
    source = Source()
    data: dict[str, bytes] = {}
    for name, line in source.lines():
        data[name] = data.get(name, b"") + line
        assert line.count(b"\n") <= 1
    assert source.total > 200_000  # some distributions leave the tests out
    for name in ("os.py", "json/decoder.py", "test/test_list.py"):
        assert data[name] == (Path(source.root) / name).read_bytes()
    assert not any("site-packages" in name for name in data)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A small tree in the place of the standard library."""
    for name, lines in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(lines))
    source = Source()
    monkeypatch.setattr(source, "root", str(tmp_path))
    assert dict.fromkeys(name for name, _ in source.lines()) == dict.fromkeys(FILES)
    return source


def differences(source: Any, a: list[bytes], b: list[bytes], *, b_partition: int = 1) -> dict[str, int]:
    """The output of the verifier when these lines of a.py and b.py come back."""
    verifier = Verifier(source)
    for offset, value in enumerate(a):
        verifier.take(b"a.py", value, 0, offset)
    for offset, value in enumerate(b):
        verifier.take(os.fsencode("package/b.py"), value, b_partition if offset == 1 else 1, offset)
    return dict(verifier.finish().differences)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([*FILES["a.py"]], [b"one\n"] * 3, {}),
        ([*FILES["a.py"][:-1]], [b"one\n"] * 3, {"missing": 1}),
        ([*FILES["a.py"][1:]], [b"one\n"] * 3, {"missing": 1}),
        ([b"one\n", b"\n", b"\n", b"three"], [b"one\n"] * 3, {"missing": 1}),
        ([*FILES["a.py"]], [], {"missing": 3}),
        ([*FILES["a.py"]], [b"one\n"] * 4, {"repeated": 1}),
        ([b"one\n", *FILES["a.py"]], [b"one\n"] * 3, {"repeated": 1}),
        ([*FILES["a.py"], *FILES["a.py"]], [b"one\n"] * 3, {"repeated": 5}),
        ([b"\n", b"one\n", b"two\n", b"\n", b"three"], [b"one\n"] * 3, {"out of order": 1}),
        ([b"one\n", b"\n", b"two", b"\n", b"three"], [b"one\n"] * 3, {"changed": 1}),
        ([b"one\n", b"\n", b"two\n", b"\n", b"three\n"], [b"one\n"] * 3, {"changed": 1}),
        ([b"one\n", b"\n", b"", b"\n", b"three"], [b"one\n"] * 3, {"changed": 1}),
    ],
)
def test_every_difference_is_noticed(source: Any, a: list[bytes], b: list[bytes], expected: dict[str, int]) -> None:
    assert differences(source, a, b) == expected


def test_a_file_in_two_partitions_and_a_record_of_no_file_are_noticed(source: Any) -> None:
    assert differences(source, FILES["a.py"], FILES["package/b.py"], b_partition=2) == {"in a second partition": 1}
    verifier = Verifier(source)
    verifier.take(b"c.py", b"one\n", 0, 0)
    verifier.take(None, b"one\n", 0, 1)
    assert verifier.finish().differences == {"of no file": 2, "missing": 8}
