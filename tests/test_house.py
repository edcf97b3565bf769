"""Project rules that a tool can check; CONTRIBUTING.md describes them."""

import fnmatch
import os
import re
import shutil
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.programs import run_to_success

ROOT = Path(__file__).parents[1]
ROOMS_WITHOUT_A_PACKAGE = ["protocol", "storage", "pipeline", "docker", "tests"]
LONG = 500

# The patterns are written so that they do not match themselves.
REGISTRIES = [
    r"pypi\.org",
    r"pythonhosted\.org",
    r"repo1?\.maven\.",
    r"npmjs\.(org|com)",
    r"registry\.npm",
    r"(proxy|sum)\.golang\.org",
    r"static\.crates\.io",
    r"index[-]url",
    r"GOPROXY[=](?!file:)",
]
PATHS_OF_ONE_MACHINE = [r"(?<![\w.])/(home|Users|root)/\w"]

# A waiver names its rule and, after a dash or a second #, its reason.
WAIVER = re.compile(r"#\s*(noqa|type:\s*ignore|pyright:\s*ignore)")
REASONED_WAIVER = re.compile(
    r"#\s*(noqa: [A-Z]+\d+(, [A-Z]+\d+)*|(type|pyright): ignore\[[\w, -]+\])\s*(-|#|:)\s*\S.{4,}"
)

REASON_FOR_LENGTH = re.compile(r"\b(long|one file|one module|one table)\b[^.]*\b(because|since|so that)\b", re.DOTALL)


def project() -> dict[str, Any]:
    """Return the content of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def project_files() -> Iterator[Path]:
    """Yield every file of the checkout that .gitignore does not exclude."""
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()]
    for directory, folders, files in os.walk(ROOT):
        here = Path(directory)
        folders[:] = [
            folder
            for folder in folders
            if folder != ".git"
            and not any(
                fnmatch.fnmatch(folder, pattern) or (here / folder).relative_to(ROOT).as_posix() == pattern
                for pattern in ignored
            )
        ]
        yield from (here / file for file in files)


def python_files() -> list[Path]:
    """Return every Python file of the checkout."""
    return [path for path in project_files() if path.suffix == ".py"]


def lines_that_match(patterns: list[str]) -> list[str]:
    """Return each line of the project that matches one of the patterns, with its location."""
    pattern = re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
    lines: list[str] = []
    for path in project_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        lines += [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
            for number, line in enumerate(text.splitlines(), 1)
            if pattern.search(line)
        ]
    return lines


def test_no_file_names_the_host_of_a_package_registry() -> None:
    assert lines_that_match(REGISTRIES) == []


def test_no_file_holds_a_path_of_one_machine() -> None:
    assert lines_that_match(PATHS_OF_ONE_MACHINE) == []


def makefile_verbs() -> list[str]:
    """Return the targets that the Makefile declares."""
    (declared,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return str(declared).split()


def test_every_verb_of_the_makefile_has_a_line_of_help_and_is_in_contributing() -> None:
    make = shutil.which("make")
    assert make, "the tests are run by make, so make is there"
    environment = {
        name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    }
    helped = run_to_success([make, "--no-print-directory"], cwd=ROOT, env=environment)
    lines = dict(re.findall(r"^make (\w+) +(\S.*)$", helped.stdout, re.MULTILINE))
    assert list(lines) == makefile_verbs()
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert [verb for verb in lines if f"make {verb}" not in contributing] == []


def test_every_exception_from_ruff_in_pyproject_has_its_reason_beside_it() -> None:
    lint = project()["tool"]["ruff"]["lint"]
    codes = [*lint["ignore"], *(code for codes in lint["per-file-ignores"].values() for code in codes)]
    reasoned = re.findall(r'^ +"([A-Z]+\d*)", +# \S.{9,}$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert sorted(reasoned) == sorted(codes)


def test_every_waiver_in_the_code_names_its_rule_and_its_reason() -> None:
    bare: list[str] = []
    for path in python_files():
        if not WAIVER.search(path.read_text()):
            continue  # Tokenizing is slow.
        with path.open("rb") as file:
            bare += [
                f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}"
                for token in tokenize.tokenize(file.readline)
                if token.type == tokenize.COMMENT
                and WAIVER.search(token.string)
                and not REASONED_WAIVER.search(token.string)
            ]
    assert bare == []


@pytest.mark.parametrize("room", ROOMS_WITHOUT_A_PACKAGE)
def test_a_room_is_not_itself_a_package(room: str) -> None:
    assert not (ROOT / room / "__init__.py").exists()


def test_a_long_file_says_at_its_head_why_it_is_long() -> None:
    unexplained: list[str] = []
    for path in python_files():
        lines = path.read_text().splitlines()
        counted = sum(not line.lstrip().startswith("#") for line in lines)  # Comments do not count against the limit.
        if counted > LONG and not REASON_FOR_LENGTH.search("\n".join(lines[:40]).lower()):
            unexplained.append(f"{path.relative_to(ROOT)}: {counted} lines without comments")
    assert unexplained == []


def lock_names() -> list[str]:
    """Return `core` and the extras, each of which has a lock file."""
    return ["core", *project()["project"]["optional-dependencies"]]


def test_there_is_one_lock_file_for_the_core_and_for_each_extra_and_the_makefile_writes_them() -> None:
    (written,) = re.findall(r"^LOCKS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert sorted(str(written).split()) == sorted(lock_names())
    assert sorted(path.name for path in (ROOT / "requirements").iterdir()) == sorted(
        f"{name}.txt" for name in lock_names()
    )


@pytest.mark.parametrize("name", lock_names())
def test_a_lock_file_pins_what_pyproject_asks_for_with_hashes(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    blocks = re.findall(r"^([\w.-]+)==(\S+)(.*(?:\n    --hash=\S+.*)*)", text, re.MULTILINE)
    assert [pinned for pinned, _, hashes in blocks if "--hash=sha256:" not in hashes] == []
    versions: dict[str, list[str]] = {}
    for pinned, version, _ in blocks:
        versions.setdefault(canonicalize_name(pinned), []).append(version)
    metadata = project()["project"]
    requirements = metadata["dependencies"] if name == "core" else metadata["optional-dependencies"][name]
    for requirement in map(Requirement, requirements):
        found = versions.get(canonicalize_name(requirement.name), [])
        assert found, f"{requirement} is not pinned: run `make lock`"
        assert all(requirement.specifier.contains(version) for version in found), f"{requirement}: {found}"


def test_continuous_integration_can_run_its_script() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
