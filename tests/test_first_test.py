"""The first test of the README passes wherever its commands are run. It takes a package index, or pip's cache."""

import os
from pathlib import Path

import pytest

from tests.documented import ROOT, code
from tests.programs import run_to_success

pytestmark = pytest.mark.torture


@pytest.mark.parametrize("place", [".", "minibroker"], ids=["beside the clone", "inside the clone"])
def test_the_first_test_of_the_readme(place: str, tmp_path: Path) -> None:
    (tmp_path / "minibroker").symlink_to(ROOT)
    commands = code("README.md", "A first test", "sh")[0].replace("git clone ADDRESS ~/minibroker\n", "")
    (program,) = code("README.md", "A first test", "python")
    save = f"cat >test_orders.py <<'END'\n{program}END\n"
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST")}
    completed = run_to_success(
        ["sh", "-ec", f"{commands}\n{save}\npytest"], cwd=tmp_path / place, env={**environment, "HOME": str(tmp_path)}
    )
    assert "1 passed" in completed.stdout
