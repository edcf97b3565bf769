"""Empty projects, from `mkdir` to a green test with the commands of the pages, on a PATH without Python.

The packages are those that `make packages` writes. With MINIBROKER_BINARY they are made of the archive beside that
program's folder, otherwise of one whose program is a script that runs the checkout's.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from binary import packages
from minibroker import __version__
from tests.clients import toolchains
from tests.clients.broker_process import ROOT
from tests.clients.test_language_pages import write_files
from tests.clients.test_packages import ARCHIVE, REAL, write_archive
from tests.documented import blocks, code
from tests.kafka import jars
from tests.programs import BINARY, run_to_success

POMS = Path(__file__).with_name("java_projects")
TIMEOUT = 3_600  # a hang; with packages in the caches they take half a minute
PYTHONS = re.compile(r"python|pypy|pip|uv|minibroker|kafka-")

pytestmark = pytest.mark.toolchain


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make binary packages` fills."""
    for name in ("npm", "mvn"):
        toolchains.tool(name)
    folder = tmp_path_factory.mktemp("minibroker") / "dist"
    folder.mkdir()
    if BINARY:
        for archive in Path(BINARY).parents[1].glob(f"minibroker-{__version__}-*-*.tar.gz"):
            shutil.copy(archive, folder)
    else:
        write_archive(folder / ARCHIVE, REAL)
    assert packages.main(str(folder)) == 0
    return folder


@dataclass
class Home:
    """A home whose caches of packages are this user's, without any of ours, and whose PATH has no Python."""

    path: Path
    variables: dict[str, str]

    def run(self, page: str, dependency: str | None = None) -> str:
        """Run the commands of a page in the folder of the project, and return what they print.

        Args:
            page: the page whose section Run names the last command.
            dependency: the page with the commands of the section Dependency, if it is another one.
        """
        text = (ROOT / page).read_text().split("\n## Run\n")[1]
        command = re.search(r"([Rr]un|Call) `([^`\n]+)`", text)
        assert command, page
        steps = [block.text for block in blocks(dependency or page, "Dependency") if block.language == "sh"]
        # The packages are built, and built once for all.
        script = "\n".join(line for step in steps for line in step.splitlines() if not line.startswith("make "))
        done = run_to_success(
            ["sh", "-ec", f"{script}\n{command[2]}"], cwd=self.project, env=self.variables, timeout=TIMEOUT
        )
        return re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)

    @property
    def project(self) -> Path:
        """The project's folder, which begins empty."""
        folder = self.path / "project"
        folder.mkdir(exist_ok=True)
        return folder

    def unpacked(self) -> int:
        """Return how many archives were unpacked into the cache."""
        return len(list((self.path / ".cache/minibroker/binary").iterdir()))


@pytest.fixture
def home(dist: Path, tmp_path: Path) -> Home:
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            if not PYTHONS.match(program.name) and not (programs / program.name).exists():
                (programs / program.name).unlink(missing_ok=True)
                (programs / program.name).symlink_to(program)
    assert shutil.which("python3", path=str(programs)) is None
    (tmp_path / "minibroker").mkdir()
    (tmp_path / "minibroker/dist").symlink_to(dist)
    real = Path.home()
    kept = {name: value for name, value in os.environ.items() if not re.match("MINIBROKER_|PYTHON|XDG_", name)}
    variables = {
        "HOME": str(tmp_path),
        "PATH": str(programs),
        "NO_COLOR": "1",
        "CI": "true",
        "THE_CHECKOUTS_MINIBROKER": str(Path(sys.executable).with_name("minibroker")),
        "XDG_CACHE_HOME": str(tmp_path / ".cache"),
        "npm_config_cache": str(real / ".npm"),
        "MAVEN_OPTS": f"-Duser.home={tmp_path}",
        "CARGO_HOME": os.environ.get("CARGO_HOME", str(real / ".cargo")),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(real / ".rustup")),
        **toolchains.cargo_variables(),
    }
    return Home(tmp_path, {**kept, **variables})


@pytest.fixture
def maven(home: Home) -> None:
    """Puts what Maven has fetched before into the home's local repository."""
    fetched = Path.home() / ".m2/repository"
    fetched.mkdir(parents=True, exist_ok=True)
    (home.path / ".m2/repository").mkdir(parents=True)
    for path in fetched.iterdir():
        if path.name != "minibroker":
            (home.path / ".m2/repository" / path.name).symlink_to(path)


@pytest.fixture
def modules(home: Home) -> Iterator[None]:
    """Gives the home a cache of Go's modules that keeps its place, since Go compiles a module in another one again."""
    go = toolchains.tool("go")
    folder = jars.cache_dir().parent / "projects-go"
    folder.mkdir(parents=True, exist_ok=True)
    build = subprocess.check_output([go, "env", "GOCACHE"], text=True).strip()
    home.variables |= {"GOMODCACHE": str(folder), "GOCACHE": build, "GOFLAGS": "-modcacherw -buildvcs=false"}
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for ours in (folder / "example.com", folder / "cache/download/example.com"):
            shutil.rmtree(ours, ignore_errors=True)
        yield


@pytest.mark.torture
def test_jest(home: Home) -> None:
    write_files("docs/test-jest.md", home.project)
    assert re.search(r"Tests: +7 passed", home.run("docs/test-jest.md"))


@pytest.mark.torture
def test_vitest(home: Home) -> None:
    write_files("docs/test-vitest.md", home.project)
    assert re.search(r"Tests +2 passed", home.run("docs/test-vitest.md"))


@pytest.mark.torture
@pytest.mark.usefixtures("modules")
def test_go(home: Home) -> None:
    write_files("docs/test-go.md", home.project)
    assert re.search(r"^ok\s+orders", home.run("docs/test-go.md"), re.MULTILINE)
    assert home.unpacked() == 1


@pytest.mark.torture
def test_rust(home: Home) -> None:
    toolchains.cargo()
    write_files("docs/test-rust.md", home.project)
    assert "2 passed" in home.run("docs/test-rust.md")
    assert home.unpacked() == 1


def run_maven(home: Home, page: str, pom: str) -> str:
    """Install the packages as JUnit's page says, and call what a page says in the project. Return what it prints."""
    for path in write_files(page, home.project / "files"):
        kind = "main" if path.stem == "Shop" else "test"
        folder = home.project / "src" / kind / ("kotlin" if path.suffix == ".kt" else "java") / path.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.move(path, folder)
    (home.project / "pom.xml").write_text(pom)
    output = home.run(page, "docs/test-junit.md")
    assert home.unpacked() == 1
    return output


def with_dependency(name: str) -> str:
    """Return the POM of a kind of project with the dependency of JUnit's page."""
    (dependency,) = code("docs/test-junit.md", "Dependency", "xml")
    return (POMS / f"{name}.xml").read_text().replace("<!-- DEPENDENCY -->", dependency)


@pytest.mark.torture
@pytest.mark.usefixtures("maven")
def test_junit(home: Home) -> None:
    (pom,) = code("docs/test-junit.md", "Run", "xml")
    assert "Tests run: 7, Failures: 0, Errors: 0, Skipped: 0\n" in run_maven(home, "docs/test-junit.md", pom)


@pytest.mark.torture
@pytest.mark.usefixtures("maven")
@pytest.mark.parametrize("name", ["kotlin", "spring", "quarkus", "micronaut"])
def test_a_framework(home: Home, name: str) -> None:
    page = f"docs/test-{'junit' if name == 'kotlin' else name}.md"
    for block in blocks(page):
        if block.language == "properties":
            (home.project / "src/main/resources").mkdir(parents=True)
            (home.project / "src/main/resources/application.properties").write_text(block.text)
    assert "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0\n" in run_maven(home, page, with_dependency(name))
