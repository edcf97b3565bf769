"""The tools that `make check` hides from its tests, and its complaint about a test that starts one all the same."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests import tools
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[1]


def check(test: str, directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a test as `make check` does, or with other options."""
    (directory / "test_it.py").write_text(test)
    command = [sys.executable, "-m", "pytest", *(options or ("--python-alone",)), "-p", "tests.conftest"]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", "-p", "no:xdist", "-q", str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_make_lets_python_keep_what_it_has_compiled() -> None:
    makefile = "include Makefile\nshow-variable:\n\t@echo [$$PYTHONDONTWRITEBYTECODE]\n"
    environment = {
        name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    }
    shown = subprocess.run(
        ["make", "--no-print-directory", "--file=-", "show-variable"],
        cwd=ROOT,
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
        input=makefile,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert shown.stdout == "[]\n"


@pytest.mark.parametrize("name", tools.HIDDEN)
def test_a_hidden_tool_fails_and_is_noted(tmp_path: Path, name: str) -> None:
    environment = {"PATH": os.environ["PATH"], "JAVA_HOME": "/x"}
    tools.hide(tmp_path, environment)
    found = shutil.which(name, path=environment["PATH"])
    assert found == str(tmp_path / name)
    assert subprocess.run([found, "-version"], env=environment, capture_output=True, check=False).returncode == 127
    assert tools.started(environment) == [f"{tmp_path / name} -version"]
    assert "JAVA_HOME" not in environment


def test_nothing_is_noted_where_nothing_was_started(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"]}
    tools.hide(tmp_path, environment)
    assert tools.started(environment) == []
    assert environment["CI"], "a test that lacks a tool has to fail, and not to be skipped"


def test_a_check_that_starts_java_fails_even_if_its_test_passes(tmp_path: Path) -> None:
    test = "import subprocess\ndef test_it():\n    subprocess.run(['java', '-version'], check=False)\n"
    done = check(test, tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert "/java -version" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED


def test_a_check_passes_that_starts_no_tool_and_leaves_out_what_asks_for_kafka(tmp_path: Path) -> None:
    done = check("def test_it(): pass\ndef test_of_kafka(real_kafka): pass\n", tmp_path)
    assert "1 passed, 1 deselected" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("name", "fixtures", "needs"),
    [
        ("tests/storage/test_log.py::test_it", ["tmp_path"], False),
        ("tests/storage/test_dump_against_kafka.py::test_it", ["oracle", "kafka_libs"], True),
        ("tests/clients/test_groups.py::test_members[eager-java-3.9.1]", [], True),
        ("tests/clients/test_groups.py::test_members[eager-kafkajs]", [], True),
        ("tests/clients/test_groups.py::test_members[eager-librdkafka]", [], False),
        ("tests/clients/test_trace.py::test_groups[3 brokers-java-4.4.0]", [], True),
        ("tests/clients/test_trace.py::test_groups[kafkajs-3 brokers]", [], True),
        ("tests/clients/test_round_trip.py::test_it[kafka-python]", [], False),
        ("tests/command_line_tools/test_tools.py::test_it[kafka]", ["bootstrap"], True),
        ("tests/command_line_tools/test_tools.py::test_it[kafka--L -t {}]", ["bootstrap"], True),
        ("tests/command_line_tools/test_tools.py::test_it[minibroker]", ["bootstrap"], False),
        ("tests/clients/matrix/test_matrix.py::test_the_page_shows_what_is_recorded", [], False),
    ],
)
def test_a_test_needs_tools_by_its_fixtures_or_its_name(name: str, fixtures: list[str], needs: bool) -> None:  # noqa: FBT001 - pytest gives it
    assert tools.needs_tools(name, fixtures) is needs


@pytest.mark.parametrize(
    ("name", "fixtures", "program", "complaint"),
    [
        ("tests/storage/test_log.py::test_it", [], "java", "test_it starts java"),
        ("tests/storage/test_log.py::test_it", [], "/usr/lib/jvm/bin/java", "test_it starts /usr/lib/jvm/bin/java"),
        ("tests/storage/test_log.py::test_it", [], "/cache/go-1/members", "test_it starts /cache/go-1/members"),
        ("tests/storage/test_log.py::test_it", [], sys.executable, None),
        ("tests/storage/test_log.py::test_it", [], f"{tempfile.gettempdir()}/java", None),
        ("tests/storage/test_log.py::test_it", ["real_kafka", "kafka_libs"], "java", None),
        ("tests/clients/test_groups.py::test_members[eager-kafkajs]", [], "node", None),
    ],
)
def test_make_test_finds_tests_that_start_a_tool_and_are_not_in_the_list(
    name: str, fixtures: list[str], program: str, complaint: str | None
) -> None:
    watch = tools.Watch(Path("/cache"))
    watch.see("subprocess.Popen", (program, [program], None, None))  # no test runs
    watch.running = (name, fixtures)
    watch.see("open", (program, "r", 0))
    if complaint is None:
        watch.see("subprocess.Popen", (program, [program], None, None))
    else:
        with pytest.raises(AssertionError, match=complaint):
            watch.see("subprocess.Popen", (program, [program], None, None))


def test_a_run_of_all_tests_fails_one_that_starts_java_and_is_not_in_the_list(tmp_path: Path) -> None:
    test = "import subprocess\ndef test_it():\n    subprocess.run(['java', '-version'], check=False)\n"
    done = check(test, tmp_path, "--exitfirst")
    assert "test_it starts java: it belongs into the list of tests/tools.py" in done.stdout, done.stdout + done.stderr
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
