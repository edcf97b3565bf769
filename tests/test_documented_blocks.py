"""Every code block in the documentation is run by a test, or has a reason why it is not."""

import sys
from typing import Final

import pytest

from tests.documented import ROOT, Block, blocks
from tests.programs import run_to_success

pytestmark = pytest.mark.slow

PAGES: Final = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))]
CODE: Final = {"csharp", "go", "java", "js", "python", "rust", "sh"}

RUN_ELSEWHERE: Final = {
    "README.md": "tests/test_documented.py",
    "docs/broker-in-python.md": "tests/test_documented.py",
    "docs/chaos-tutorial.md": "tests/broker/chaos/test_page.py",
    "docs/chaos.md": "tests/broker/chaos/test_page.py",
    "docs/checks.md": "tests/broker/check/test_page.py",
    "docs/control-plane.md": "tests/broker/control/test_documented.py",
    "docs/faults.md": "tests/broker/faults/test_docs.py",
    "docs/lessons/answers-go.md": "tests/clients/test_lessons.py",
    "docs/lessons/answers-java.md": "tests/clients/test_lessons.py",
    "docs/lessons/answers-node.md": "tests/clients/test_lessons.py",
    "docs/lessons/answers.md": "tests/broker/page/test_lessons.py",
    "docs/lessons/clients.md": "tests/clients/test_lessons.py",
    "docs/python.md": "tests/test_python_page.py",
    "docs/registry-testing.md": "tests/clients/test_registry_page.py",
    "docs/serve.md": "tests/pipeline/test_documentation.py",
    "docs/service.md": "tests/test_guides.py",
    "docs/spark-example.md": "tests/pipeline/test_documentation.py",
    "docs/spark-jobs.md": "tests/pipeline/test_documentation.py",
    "docs/spark-pipelines.md": "tests/pipeline/test_declarative_pipeline.py",
    "docs/spark-source.md": "tests/pipeline/test_documentation.py",
    "docs/spark-to-kafka.md": "tests/pipeline/test_documentation.py",
    "docs/spark.md": "tests/pipeline/test_documentation.py",
    "docs/test-go.md": "tests/clients/test_language_pages.py",
    "docs/test-jest.md": "tests/clients/test_language_pages.py",
    "docs/test-junit.md": "tests/clients/test_language_pages.py",
    "docs/test-micronaut.md": "tests/clients/test_projects.py",
    "docs/test-quarkus.md": "tests/clients/test_projects.py",
    "docs/test-rust.md": "tests/clients/test_language_pages.py",
    "docs/test-spark.md": "tests/pytest_plugin/test_spark.py",
    "docs/test-spring.md": "tests/clients/test_language_pages.py",
    "docs/test-vitest.md": "tests/clients/test_language_pages.py",
    "docs/testcontainers.md": "tests/docker/test_testcontainers.py",
    "docs/testing.md": "tests/test_documented.py",
    "docs/tools.md": "tests/command_line_tools/test_documented_tools.py",
    "docs/trace.md": "tests/broker/trace/test_command.py",
    "docs/grade.md": "tests/broker/grade/test_command.py",
    "docs/kafka-python-service.md": "tests/test_guides.py",
}
"""Pages whose blocks are run by a test, and that test."""

RUN_HERE: Final = {
    "docs/clients.md",
    "docs/fault-recipes.md",
    "docs/lab.md",
    "docs/quotas.md",
    "docs/registry.md",
    "docs/releases.md",
    "docs/security.md",
    "docs/tutorial.md",  # tests/drawings/failures.py runs its tests.
}

PROGRAMS_OF_CLIENTS: Final = {"go", "java", "js", "rust"}
"""Languages in docs/clients.md, whose programs are run by tests/clients/test_documented_programs.py."""

NOT_RUN: Final = {
    ("docs/clients.md", ".NET"): "takes the .NET SDK; the page says that it is not run",
    **{
        ("docs/test-dotnet.md", heading): "takes the .NET SDK; the page says that it is not run"
        for heading in ("Dependency", "Start", "Use", "With Testcontainers")
    },
    ("docs/ci.md", "The image"): "takes a container engine",
    ("docs/docker.md", "In a container"): "as above",
    ("docs/install.md", "Install"): "takes a repository that others can clone",
    ("docs/install.md", "Python"): "takes pipx and uv, and a package index",
    ("docs/install.md", "Without Python"): "takes minutes to build; tests are run with the program by hand",
    ("docs/install.md", "How it compares"): "takes minutes, as above",
    ("docs/install.md", "Check what you have downloaded"): "takes a signature; `make dist` makes one",
    ("docs/docker.md", "A schema registry"): "tests/docker/test_schema_registry.py runs the image with its variable",
    ("docs/docker.md", "The lab"): "tests/docker/test_lab.py runs the image with its options",
    ("docs/tutorial.md", "Install"): "what it installs is installed where the tests run",
}


def named(block: Block) -> str:
    return f"{block.heading}:{block.line}"


@pytest.mark.parametrize("page", PAGES)
def test_all_code_of_a_page_is_run_or_has_a_reason(page: str) -> None:
    if page in RUN_ELSEWHERE:
        assert (ROOT / RUN_ELSEWHERE[page]).exists()
        return
    code = [block for block in blocks(page) if block.language in CODE]
    missing = {
        block.heading
        for block in code
        if not (page in RUN_HERE and block.language == "python")
        and not (page == "docs/clients.md" and block.language in PROGRAMS_OF_CLIENTS)
        and (page, block.heading) not in NOT_RUN
    }
    assert missing == set()


PROGRAMS: Final = [
    pytest.param(page, block, id=f"{page}:{block.line}")
    for page in sorted(RUN_HERE)
    for block in blocks(page)
    if block.language == "python" and "def test_" not in block.text
]


@pytest.mark.parametrize(("page", "block"), PROGRAMS)
def test_a_program_that_is_shown_runs(page: str, block: Block) -> None:
    result = run_to_success([sys.executable, "-c", block.text])
    shown = [shown_block.text for shown_block in blocks(page, block.heading) if shown_block.language == "text"]
    if page == "docs/tutorial.md":  # The text below each program is its output.
        assert [result.stdout] == shown
