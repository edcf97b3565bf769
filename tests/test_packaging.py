"""The distribution as users build it, source archive first, inspected from outside."""

import importlib.metadata
import json
import os
import re
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import minibroker
from minibroker_lab.page.lessons.texts import ANSWERS, LESSONS
from tests.programs import run_to_success

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
ROOMS = {
    Path(package).name: (ROOT / package).parent
    for package in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
        "packages"
    ]
}
"""Each package of the wheel, and its directory in the checkout."""
CORE_DEPENDENCIES = ["crc32c", "lz4", "python-snappy", "xxhash", "zstandard"]

OF_THE_CORE = [
    "minibroker",
    "minibroker_lab",
    "minibroker_grade",
    "minibroker_chaos",
    "minibroker_control",
    "minibroker_container",
    "minibroker_protocol",
    "minibroker_storage",
]
"""Packages that do not need the extra `spark`."""

# Modules with these prefixes are loaded by pytest, or need the extra `control`, `lab`, `registry`,
# `security` or `zookeeper`.
NEEDS_AN_EXTRA = [
    "minibroker.pytest_plugin",
    "minibroker_control.",
    "minibroker_lab.page.",
    "minibroker_lab.terminal.",
    "minibroker_registry.",
    "minibroker.security.tls.signing",
    "minibroker_container.zookeeper_meeting",
]

IMPORT_EVERYTHING = """
import importlib, json, pkgutil, sys

packages, allowed, skipped = json.loads(sys.argv[1])
refused = {}

class OnlyTheCore:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in allowed and top not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"{name} is not ours, the standard library's or a core dependency", name=name)
        return None

sys.meta_path.insert(0, OnlyTheCore())
imported = []
for package in packages:
    importlib.import_module(package)
    for module in pkgutil.walk_packages(sys.modules[package].__path__, package + "."):
        if not module.name.endswith("__main__") and not module.name.startswith(tuple(skipped)):
            importlib.import_module(module.name)
            imported.append(module.name)
print(json.dumps(imported))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source archive and a wheel from it, and return the path of the wheel."""
    directory = tmp_path_factory.mktemp("dist")
    run_to_success([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(directory), str(ROOT)])
    (path,) = directory.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the wheel, which equals an installation of pure Python, and return the directory."""
    directory = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    return directory


@pytest.fixture(scope="module")
def distribution(unpacked: Path) -> importlib.metadata.Distribution:
    """Return the metadata of the wheel."""
    (metadata,) = unpacked.glob("*.dist-info")
    return importlib.metadata.Distribution.at(metadata)


def run_unpacked(unpacked: Path, *arguments: str) -> str:
    """Run Python on the unpacked wheel, outside of the checkout, and return its output."""
    completed = run_to_success(
        [sys.executable, *arguments], cwd=unpacked, env={**os.environ, "PYTHONPATH": str(unpacked)}
    )
    return completed.stdout


def canonical(name: str) -> str:
    """Normalize a distribution's name for comparison."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_wheel_is_pure_python_and_its_top_level_names_are_the_packages(wheel: Path, unpacked: Path) -> None:
    assert wheel.name == f"minibroker-{minibroker.__version__}-py3-none-any.whl"
    names = sorted(entry.name for entry in unpacked.iterdir())
    assert names == sorted([*ROOMS, f"minibroker-{minibroker.__version__}.dist-info"])


@pytest.mark.parametrize("package", ROOMS)
def test_each_package_says_that_it_is_typed_and_has_all_of_its_modules(package: str, unpacked: Path) -> None:
    assert (unpacked / package / "__init__.py").is_file()
    assert (unpacked / package / "py.typed").is_file()
    room = ROOMS[package]
    sources = {path.relative_to(room) for path in (room / package).rglob("*.py")}
    assert {path.relative_to(unpacked) for path in (unpacked / package).rglob("*.py")} == sources
    assert sources


def test_all_that_the_lab_loads_is_in_the_wheel(unpacked: Path) -> None:
    folder = "minibroker_lab/page/static"
    files = {path.relative_to(ROOT): path.read_bytes() for path in (ROOT / folder).rglob("*") if path.is_file()}
    assert {Path(folder) / name for name in ("index.html", "app.js", "vendor/preact.js")} <= set(files)
    assert {name: (unpacked / name).read_bytes() for name in files} == files


def test_the_texts_of_the_lessons_are_in_the_wheel(unpacked: Path) -> None:
    texts = {path.name: path.read_bytes() for path in (ROOT / "docs" / "lessons").iterdir()}
    assert {f"{lesson.slug}.md" for lesson in LESSONS} | set(ANSWERS.values()) <= set(texts)
    assert {
        path.name: path.read_bytes() for path in (unpacked / "minibroker_lab/page/lessons/texts").iterdir()
    } == texts


def test_the_metadata_names_licence_version_and_pythons(distribution: importlib.metadata.Distribution) -> None:
    metadata = distribution.metadata
    assert metadata["Name"] == "minibroker"
    assert metadata["Version"] == minibroker.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert distribution.read_text("licenses/LICENSE") == (ROOT / "LICENSE").read_text()


def test_an_installation_without_extras_needs_the_core_dependencies_only(
    distribution: importlib.metadata.Distribution,
) -> None:
    required = [requirement for requirement in distribution.requires or [] if "extra ==" not in requirement]
    assert sorted(re.split(r"[^\w.-]", requirement)[0] for requirement in required) == CORE_DEPENDENCIES


def test_every_module_imports_with_nothing_but_the_core_dependencies(unpacked: Path) -> None:
    pinned = {
        canonical(name)
        for name in re.findall(r"^([\w.-]+)==", (ROOT / "requirements/core.txt").read_text(), re.MULTILINE)
    }
    core = [
        name
        for name, distributions in importlib.metadata.packages_distributions().items()
        if pinned.issuperset(map(canonical, distributions))
    ]
    assert set(core) >= {"crc32c", "lz4", "snappy", "xxhash", "zstandard"}
    arguments = json.dumps([OF_THE_CORE, [*OF_THE_CORE, *core], NEEDS_AN_EXTRA])
    imported = json.loads(run_unpacked(unpacked, "-c", IMPORT_EVERYTHING, arguments))
    assert "minibroker.cli.main" in imported


def test_the_command_of_the_wheel_is_the_one_of_the_module(
    distribution: importlib.metadata.Distribution, unpacked: Path
) -> None:
    scripts = {entry.name: entry.value for entry in distribution.entry_points if entry.group == "console_scripts"}
    assert scripts == {
        "minibroker": "minibroker.cli.main:main",
        "minibroker-pipeline": "minibroker_pipeline.cli:main",
        "minibroker-tools": "minibroker_tools.dispatch:main",
    }
    assert run_unpacked(unpacked, "-m", "minibroker", "--version") == f"minibroker {minibroker.__version__}\n"
