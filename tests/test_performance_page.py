"""The performance page uses the figures of a recorded run, and a run records its Python version."""

import re
from typing import Any

import pytest

from benchmarks import documented, interpreter


def _result(keys: list[str]) -> dict[str, Any]:
    medians = {"minibroker": 0.456, "kafka": 12_345.6}
    return {
        "figures": {key: {"median": medians} for key in keys},
        "scale": {"rounds": 5},
        "versions": {"python": "3.14.0, an optimized build", "cpus": "2"},
    }


def test_each_row_of_the_page_is_filled_from_a_result() -> None:
    page = documented.PAGE.read_text()
    filled = documented.with_figures(page, _result(list(documented.KEYS.values())))
    rows = [line for line in filled.splitlines() if "| 0.46 | 12,346 | - |" in line]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(documented.KEYS)
    assert len(rows) == len(re.findall(r"\| (?:less|more) \|$", page, re.MULTILINE))
    assert "medians of five rounds of it, on two cores" in filled
    assert "with Python 3.14.0, an optimized build.\n" in filled
    assert len(filled.splitlines()) == len(page.splitlines())


def test_a_result_without_a_row_of_the_page_is_refused() -> None:
    with pytest.raises(ValueError, match=r"has no figure start\.rss: run make bench whole"):
        documented.with_figures(documented.PAGE.read_text(), _result(["start.ms"]))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"CONFIG_ARGS": "'--enable-optimizations' '--with-lto'"}, True),
        ({"CONFIG_ARGS": "'--prefix=/usr'", "PY_CORE_CFLAGS": "-O2 -fprofile-use -fprofile-correction"}, True),
        ({"CONFIG_ARGS": "''", "PGO_PROF_GEN_FLAG": "-fprofile-generate", "PGO_PROF_USE_FLAG": ""}, True),
        ({"CONFIG_ARGS": "''", "PGO_PROF_GEN_FLAG": "-fprofile-generate", "PGO_PROF_USE_FLAG": "-fprofile-use"}, False),
        ({"EXT_SUFFIX": ".cp311-win_amd64.pyd"}, None),
    ],
)
def test_the_settings_of_a_build_tell_whether_it_is_optimized(variables: dict[str, object], expected: object) -> None:
    assert interpreter.is_optimized(variables) is expected
