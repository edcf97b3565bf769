"""The page about faults: its tables match the code, and its examples run."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from minibroker.server.faults.fault import Fault, parse_faults
from minibroker.server.faults.fields import HOW_OFTEN, MATCH, WHAT
from minibroker_control.reference import render_faults, replace_tables

PAGE = Path(__file__).parents[3] / "docs" / "faults.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
PROGRAMS = [code for language, code in BLOCKS if language == "python"]


def test_the_tables_are_up_to_date() -> None:
    assert replace_tables(TEXT, render_faults()) == TEXT, "run python -m minibroker_control.reference docs"


def test_every_field_of_a_fault_has_a_row_and_no_row_is_left_over() -> None:
    rows = (*MATCH, *HOW_OFTEN, *WHAT)
    assert sorted(row.name for row in rows) == sorted(field.name for field in fields(Fault))


def test_a_page_without_a_place_for_the_tables_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for the tables"):
        replace_tables("# Faults\n", render_faults())


def test_the_files_on_the_page_are_faults() -> None:
    documents = [json.loads(code) for language, code in BLOCKS if language == "json"]
    yaml = pytest.importorskip("yaml")
    documents += [yaml.safe_load(code) for language, code in BLOCKS if language == "yaml"]
    assert [len(parse_faults(document, "page")) for document in documents] == [2, 1]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_on_the_page_does_what_it_says(number: int) -> None:
    exec(compile(PROGRAMS[number], f"{PAGE.name}, program {number + 1}", "exec"), {})
