"""The installation commands in messages and on pages work."""

import json
import re
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from binary import pages
from minibroker_storage import installation_hints
from minibroker_storage.installation_hints import format_pip_command, missing
from tests.documented import ROOT
from tests.programs import run_program

EXTRAS: Final[dict[str, list[str]]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
TAKEN: Final = re.compile(
    r"""(pip|pipx|uv\ tool)\ install\ ['"]?minibroker(?!-)\S*
    |dotnet\ add\ package\ Minibroker\S*
    |(npx|uvx|docker\ pull|cargo\ add(\ --dev)?|npm\ (i|install)(\ --?[\w-]+)?)\ @?minibroker\b(?!.*\ --path).*""",
    re.VERBOSE,
)
"""Commands that fetch minibroker by its name."""


@pytest.mark.parametrize("extra", ["control", "lab", "security", "spark"])
def test_the_hint_names_the_packages_of_the_extra(extra: str) -> None:
    pip, install, *packages = shlex.split(format_pip_command(extra))
    assert (pip, install) == ("pip", "install")
    assert {*map(Requirement, packages)} == {*map(Requirement, EXTRAS[extra])}


def test_a_checkout_that_is_not_installed_is_installed_from_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation_hints, "_DISTRIBUTION", "a-distribution-that-is-not-installed")
    assert shlex.split(format_pip_command("control")) == ["pip", "install", f"{ROOT}[control]"]


@pytest.mark.parametrize("kind", ["dir_info", "archive_info"])
def test_an_installation_from_a_folder_or_a_wheel_is_repeated_with_the_extra(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "my source"
    about = tmp_path / "minibroker_twin-1.0.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: minibroker-twin\nVersion: 1.0.0\nRequires-Dist: fastapi; extra == 'control'\n"
    )
    (about / "direct_url.json").write_text(json.dumps({"url": source.as_uri(), kind: {}}))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(installation_hints, "_DISTRIBUTION", "minibroker-twin")
    assert format_pip_command("control") == "pip install fastapi"
    source.touch()
    assert shlex.split(format_pip_command("control")) == ["pip", "install", f"{source}[control]"]
    assert missing("fastapi", "control") == (
        f"the package fastapi of the extra minibroker[control] is missing: {format_pip_command('control')}"
    )


def test_an_installation_without_a_package_of_the_core_says_so() -> None:
    program = """
import sys
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec
PathFinder.find_spec = lambda name, *about: None if name.startswith("crc32c") else find_spec(name, *about)
from minibroker.cli.main import main
sys.exit(main(["serve", "--listen", "127.0.0.1:0"]))
"""
    completed = run_program([sys.executable, "-c", program], cwd=ROOT)
    assert (completed.returncode, completed.stdout) == (1, "")
    assert re.fullmatch(r"minibroker: incomplete installation: .*crc32c.*\n", completed.stderr)


def test_nobody_is_told_to_install_a_name_that_others_could_take() -> None:
    """The names of indexes are in `binary/releases.toml` until `published` turns the pages."""
    wrong = [
        f"{page.relative_to(ROOT)}: {match[0]}" for page in pages.pages() for match in TAKEN.finditer(page.read_text())
    ]
    assert pages.read()["published"] or wrong == []
    named = {
        match[1] for page in pages.pages() for match in re.finditer(r"minibroker'?\[([\w,]+)\]'", page.read_text())
    }
    assert {extra for group in named for extra in group.split(",")} <= set(EXTRAS)
    theirs = [page for page in pages.pages() if not page.name.startswith("test-") and "clients" not in page.parts]
    assert not [page for page in theirs if "/path/to/minibroker" in page.read_text()]


def test_the_switch_turns_all_pages_and_back() -> None:
    before = pages.read()
    after = before | {"published": not before["published"], "address": "https://releases.example/v1"}
    whole = "\0".join(page.read_text() for page in pages.pages())
    assert [text for text in pages.texts(before) if text not in whole] == []
    turned = pages.turn(whole, before, after)
    assert [text for text in pages.texts(before) if text in turned] == []
    assert pages.turn(turned, after, before) == whole
