"""The catalogue of foreign suites agrees with the files that make their environments."""

from pathlib import Path

import pytest

from tests.suites.catalogue import SUITES, Suite

REQUIREMENTS = Path(__file__).parent / "requirements"


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.project)
def test_the_environment_has_the_version_whose_tests_are_run(suite: Suite) -> None:
    locked = (REQUIREMENTS / f"{suite.project}.txt").read_text()
    assert f"\n{suite.project}=={suite.version} \\\n" in locked
    assert suite.sha256 in locked  # the archive that holds the tests is one of that version's


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.project)
def test_known_failures_are_of_tests_that_are_chosen(suite: Suite) -> None:
    assert all(name.partition("::")[0] in suite.tests for name in suite.known)
