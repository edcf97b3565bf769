"""The installation commands in messages and on pages work."""

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from minibroker_storage import installation_hints
from minibroker_storage.installation_hints import format_pip_command, missing
from tests.documented import ROOT

EXTRAS: Final[dict[str, list[str]]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
ROOMS: Final = ("minibroker", "storage", "protocol", "pipeline", "docs")


@pytest.mark.parametrize("extra", ["control", "lab", "security", "spark"])
def test_the_hint_names_the_packages_of_the_extra(extra: str) -> None:
    pip, install, *packages = shlex.split(format_pip_command(extra))
    assert (pip, install) == ("pip", "install")
    assert {*map(Requirement, packages)} == {*map(Requirement, EXTRAS[extra])}


def test_a_checkout_that_is_not_installed_is_installed_from_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation_hints, "_DISTRIBUTION", "a-distribution-that-is-not-installed")
    assert format_pip_command("control") == "pip install '/path/to/minibroker[control]'"


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


def test_nobody_is_told_to_install_minibroker_from_an_index() -> None:
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*") if path.suffix in {".py", ".md"}]
    wrong = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in [ROOT / "README.md", *files]
        if path != Path(installation_hints.__file__)
        for match in re.finditer(r"pip install '?minibroker(?!-)\S*", path.read_text())
    ]
    assert wrong == []
    named = {match[1] for path in files for match in re.finditer(r"/path/to/minibroker\[([\w,]+)\]", path.read_text())}
    assert {extra for group in named for extra in group.split(",")} - {"{extra}"} <= set(EXTRAS)
