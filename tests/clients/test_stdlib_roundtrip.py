"""The example that shows the main job passes against this broker."""

import sys

import pytest

from tests.clients.broker_process import ROOT, environment
from tests.programs import Completed, run_program

EXAMPLES = ROOT / "examples"
LIMIT = 20_000


def run(example: str, *arguments: str) -> "Completed":
    return run_program([sys.executable, str(EXAMPLES / example), *arguments], env=environment())


@pytest.mark.torture
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


def test_hello_says_hello() -> None:
    done = run("hello.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "greetings-0 @ 0: planet = hello, world\n"
