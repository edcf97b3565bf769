"""What the verbs of the Makefile run, and what they say. pytest alone names `make test`."""

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documented import ROOT
from tests.programs import run_program, run_to_success

LINT = ("ruff", "mypy", "lint-imports", "proselint")


def make(folder: Path, failing: str, verb: str) -> subprocess.CompletedProcess[str]:
    """Run make in a checkout whose programs only print their names and arguments, and of which one fails."""
    folder.mkdir(exist_ok=True)
    shutil.copy(ROOT / "Makefile", folder)
    for name in ("requirements", "pyproject.toml", "minibroker"):
        (folder / name).symlink_to(ROOT / name)
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in (*LINT, "pytest"):
        (programs / name).write_text(f'#!/bin/sh\necho "+ {name} $*"\nexit {int(name == failing)}\n')
        (programs / name).chmod(0o755)
    for file in (f".made{str(folder.resolve()).replace(' ', '_').replace('/', '-')}", ".core", ".dev"):
        (folder / ".venv" / file).touch()
    return run_program(
        ["make", "--no-print-directory", verb],
        cwd=folder.resolve(),
        env={name: text for name, text in os.environ.items() if name not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}},
    )


def commands(completed: subprocess.CompletedProcess[str]) -> set[str]:
    return {line.split()[1] for line in completed.stdout.splitlines() if line.startswith("+ ")}


def test_a_check_runs_lint_and_the_quick_tests(tmp_path: Path) -> None:
    completed = make(tmp_path, "", "check")
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert commands(completed) == {*LINT, "pytest"}
    assert "not slow" in completed.stdout


def test_a_test_runs_the_tests(tmp_path: Path) -> None:
    completed = make(tmp_path, "", "test")
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert commands(completed) == {"pytest"}
    assert make(tmp_path / "failing", "pytest", "test").returncode != 0


@pytest.mark.parametrize("failing", LINT)
def test_all_of_lint_is_run_whatever_fails(tmp_path: Path, failing: str) -> None:
    completed = make(tmp_path, failing, "lint")
    assert completed.returncode != 0
    assert commands(completed) == {*LINT}
    assert "lint failed: " in completed.stderr


def test_pytest_in_a_checkout_without_the_test_extra_names_make_test() -> None:
    hides = (
        "import importlib.util as util, pytest; find = util.find_spec;"
        "util.find_spec = lambda name, *package: None if name == 'hypothesis' else find(name, *package); pytest.main()"
    )
    completed = run_program([sys.executable, "-c", hides], cwd=ROOT)
    assert completed.returncode == 1
    assert re.fullmatch(r".*`make test` .*\n", completed.stdout + completed.stderr)


def test_a_checkout_beside_the_tests_of_others_is_ignored(tmp_path: Path) -> None:
    checkout = tmp_path / "minibroker"
    (checkout / "tests").mkdir(parents=True)
    shutil.copy(ROOT / "conftest.py", checkout)
    (checkout / "tests" / "test_ours.py").write_text("import something_that_is_not_installed\n")
    (tmp_path / "test_theirs.py").write_text("def test_something():\n    pass\n")
    completed = run_program([sys.executable, "-m", "pytest", "-p", "no:cacheprovider"], cwd=tmp_path)
    assert "== 1 passed in" in completed.stdout, completed.stdout


def test_make_serve_ends_with_a_line_to_copy_or_names_its_own_option(tmp_path: Path) -> None:
    environment = {**os.environ, "MINIBROKER_VERB": "make serve", "TMPDIR": str(tmp_path)}
    serve = [str(Path(sys.executable).with_name("minibroker")), "serve", "--listen"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*serve, "127.0.0.1:0"], env=environment, stdout=subprocess.PIPE, stderr=theirs, text=True
    ) as broker:
        os.close(theirs)
        assert broker.stdout is not None
        bootstrap = broker.stdout.readline().split("bootstrap=")[1].split()[0]
        banner = ""
        while " --topic orders\r\n" not in banner:
            banner += os.read(ours, 4096).decode()
        run_to_success(["sh", "-c", banner[banner.index("echo hello") :].strip()])
        taken = run_program([*serve, bootstrap], env=environment)
        broker.terminate()
    os.close(ours)
    assert taken.stderr.endswith('Port 0 picks a free one: make serve ARGS="--listen 127.0.0.1:0"\n')
