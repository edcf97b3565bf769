"""Empty projects for Java, from `mkdir` to a green test with the commands of the pages, where there is no Python.

The packages are those that `make packages` writes, of an archive that `make binary` has built in `dist`.
"""

import os
import shutil
from pathlib import Path

import pytest

from binary import maven
from minibroker import __version__
from tests.clients import toolchains
from tests.clients.broker_process import ROOT
from tests.clients.test_language_pages import write_files
from tests.documented import blocks, code
from tests.programs import run_to_success

POMS = Path(__file__).with_name("java_projects")
TIMEOUT = 600  # a hang; with Maven's packages in its cache they take half a minute
PROGRAMS = ("mvn", "java", "sh", "cat", "cp", "dirname", "basename", "expr", "gzip", "ls", "mkdir", "tar", "uname")

pytestmark = [pytest.mark.torture, pytest.mark.toolchain]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file repository of Maven, made of the archive in `dist`."""
    archives = sorted((ROOT / "dist").glob(f"minibroker-{__version__}-*-*.tar.gz"))
    if not archives:
        toolchains.missing("there is no archive of a release in dist; `make binary` builds one")
    toolchains.tool("mvn")
    dist = tmp_path_factory.mktemp("dist")
    maven.fill(archives, dist)
    return dist / "maven"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty folder in a home whose local repository has what Maven fetched before, but nothing of ours."""
    (tmp_path / "bin").mkdir()
    for name in PROGRAMS:
        (tmp_path / "bin" / name).symlink_to(toolchains.tool(name))
    fetched = Path.home() / ".m2/repository"
    fetched.mkdir(parents=True, exist_ok=True)
    (tmp_path / ".m2/repository").mkdir(parents=True)
    for path in fetched.iterdir():
        if path.name != "minibroker":
            (tmp_path / ".m2/repository" / path.name).symlink_to(path)
    folder = tmp_path / "shop"
    folder.mkdir()
    return folder


def run(project: Path, repository: Path, pom: str, goal: str = "test") -> str:
    """Install the packages with the page's second line, and call Maven in the project. Return what it prints."""
    home = project.parent
    _, install = code("docs/test-junit.md", "Dependency", "sh")[0].strip().splitlines()
    (home / "minibroker").mkdir()
    (home / "minibroker/dist").symlink_to(repository.parent)
    (project / "pom.xml").write_text(pom)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("MINIBROKER_")},
        "HOME": str(home),
        "MAVEN_OPTS": f"-Duser.home={home}",
        "PATH": str(home / "bin"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "NO_COLOR": "1",
    }
    command = ["sh", "-c", f"{install}\nexec mvn --batch-mode {goal}"]
    output = run_to_success(command, cwd=project, env=environment, timeout=TIMEOUT).stdout
    assert len(list((home / ".cache/minibroker/binary").iterdir())) == 1
    return output


def write_sources(page: str, project: Path) -> None:
    """Write the files of a page into Maven's folders: the application into that of sources, others into the tests'."""
    for path in write_files(page, project / "files"):
        kind = "main" if path.stem == "Shop" else "test"
        folder = project / "src" / kind / ("kotlin" if path.suffix == ".kt" else "java") / path.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.move(path, folder)


def with_dependency(name: str) -> str:
    """Return the POM of a kind of project with the dependency of JUnit's page."""
    (dependency,) = code("docs/test-junit.md", "Dependency", "xml")
    return (POMS / f"{name}.xml").read_text().replace("<!-- DEPENDENCY -->", dependency)


def test_junit(project: Path, repository: Path) -> None:
    write_sources("docs/test-junit.md", project)
    (pom,) = code("docs/test-junit.md", "Run", "xml")
    assert "Tests run: 7, Failures: 0, Errors: 0, Skipped: 0\n" in run(project, repository, pom)


def test_kotlin(project: Path, repository: Path) -> None:
    write_sources("docs/test-junit.md", project)
    assert "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0\n" in run(project, repository, with_dependency("kotlin"))


@pytest.mark.parametrize("name", ["spring", "quarkus", "micronaut"])
def test_a_framework(project: Path, repository: Path, name: str) -> None:
    page = f"docs/test-{name}.md"
    write_sources(page, project)
    for block in blocks(page):
        if block.language == "properties":
            (project / "src/main/resources").mkdir()
            (project / "src/main/resources/application.properties").write_text(block.text)
    assert "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0\n" in run(project, repository, with_dependency(name))
