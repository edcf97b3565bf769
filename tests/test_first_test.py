"""The first test of the README, and the ways to install, wherever their commands are run.

They take a package index, or pip's cache.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from minibroker import __version__
from tests.documented import ROOT, code
from tests.patience import PATIENCE_S
from tests.programs import run_to_success

pytestmark = pytest.mark.torture
COMMANDS = code("README.md", "A first test", "sh")[0].replace("git clone ADDRESS ~/minibroker\n", "")


def environment(home: Path) -> dict[str, str]:
    return {**{name: text for name, text in os.environ.items() if not name.startswith("PYTEST")}, "HOME": str(home)}


@pytest.mark.parametrize("place", [".", "minibroker"], ids=["beside the clone", "inside the clone"])
def test_the_first_test_of_the_readme(place: str, tmp_path: Path) -> None:
    (tmp_path / "minibroker").symlink_to(ROOT)
    (program,) = code("README.md", "A first test", "python")
    save = f"cat >test_orders.py <<'END'\n{program}END\n"
    completed = run_to_success(
        ["sh", "-ec", f"{COMMANDS}\n{save}\npytest"], cwd=tmp_path / place, env=environment(tmp_path)
    )
    assert "1 passed" in completed.stdout


def test_the_first_test_with_unittest(tmp_path: Path) -> None:
    (tmp_path / "minibroker").symlink_to(ROOT)
    program = code("docs/testing.md", "unittest", "python")[0]
    run = re.search(r"run `(python -m unittest .*)`", (ROOT / "docs/testing.md").read_text())
    assert run is not None
    save = f"cat >test_orders.py <<'END'\n{program}END\n"
    completed = run_to_success(["sh", "-ec", f"{COMMANDS}\n{save}\n{run[1]}"], cwd=tmp_path, env=environment(tmp_path))
    assert "\nOK\n" in completed.stderr


def test_pipx_installs_it_and_uvx_runs_it_from_a_wheel(tmp_path: Path) -> None:
    dist = tmp_path / "minibroker/dist"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    run_to_success([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", dist, ROOT])
    run_to_success([*pip, "install", "--target", tmp_path / "tools", "pipx", "uv"])
    variables = {
        **environment(tmp_path),
        "PATH": os.pathsep.join([str(tmp_path / "tools/bin"), str(tmp_path / ".local/bin"), os.environ["PATH"]]),
        "PYTHONPATH": str(tmp_path / "tools"),
    }
    _, pipx, uvx = code("docs/install.md", "Python", "sh")
    shown = run_to_success(["sh", "-ec", f"{pipx}\nminibroker --version"], cwd=tmp_path, env=variables)
    assert f"minibroker {__version__}" in shown.stdout
    assert str(tmp_path / ".local/bin/minibroker") in shown.stdout + str(list((tmp_path / ".local/bin").iterdir()))
    with subprocess.Popen(
        ["sh", "-ec", f"exec {uvx.strip()} --listen 127.0.0.1:0"], cwd=tmp_path, env=variables, stdout=subprocess.PIPE
    ) as broker:
        assert broker.stdout is not None
        assert b" ready: " in broker.stdout.readline()
        broker.terminate()
        assert broker.wait(PATIENCE_S) == 0
