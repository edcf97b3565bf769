"""The command `minibroker grade` and its documentation page."""

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from minibroker.cli.main import main
from minibroker_grade.catalogue import STAGES, select_checks
from minibroker_grade.check import Check, CheckFailedError, Stage
from minibroker_grade.process import free_port
from minibroker_grade.report import failure_text
from minibroker_grade.runner import Result, Target, run, run_check
from minibroker_grade.subject import Subject
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.grade.mutants import MUTANTS
from tests.broker.grade.relay import Relay
from tests.broker.grade.tables import PAGE, with_tables
from tests.broker.grade.test_checks import SERVE


def test_a_failure_is_told_in_order_with_fields_bytes_and_the_first_that_differs(
    graded: Target, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == "LEADER_NOT_AVAILABLE for unknown topics")
    with Relay(graded.address, mutant) as relay:
        where = f"{relay.address[0]}:{relay.address[1]}"
        status = main(
            ["grade", where, "--only", "metadata", "--json", str(tmp_path / "j"), "--junit", str(tmp_path / "x")]
        )
    assert status == 1
    text = capsys.readouterr().out
    parts = ["sent:", 'topics[0] = name "grade-topic-', "came:", "5 LEADER_NOT_AVAILABLE in topics[0].error_code"]
    parts += [
        "expected: 3 UNKNOWN_TOPIC_OR_PARTITION",
        "why: ",
        "first byte that differs: byte ",
        "05 instead of 03",
        "look next: ",
    ]
    at = text.index("metadata/an-unknown-topic-has-error-3: failed")
    for part in parts:
        at = text.index(part, at)
    checks_by_name = {check["name"]: check for check in json.loads((tmp_path / "j").read_text())["checks"]}
    assert checks_by_name["metadata/an-unknown-topic-has-error-3"]["outcome"] == "failed"
    assert checks_by_name["metadata/the-brokers-are-listed"]["outcome"] == "passed"
    suite = ET.parse(tmp_path / "x").getroot().find("testsuite")
    assert suite is not None
    failures = sum(check["outcome"] == "failed" for check in checks_by_name.values())
    assert suite.attrib["tests"] == str(len(checks_by_name))
    assert suite.attrib["failures"] == str(failures)


def _report(name: str, target: Target) -> tuple[Result, list[str]]:
    """Return the result for a mutant, and the marked lines of its report."""
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    with Relay(target.address, mutant, target.data_dir) as relay:
        check = next(check for check in select_checks() if check.name == mutant.caught_by)
        result = run_check(Target(relay.address, target.data_dir), check)
    return result, [line for line in failure_text(result).splitlines() if line.startswith("    >")]


def test_the_field_and_the_bytes_that_are_wrong_are_marked(graded: Target) -> None:
    result, marked = _report("a row twice", graded)
    field, line = marked
    assert re.fullmatch(r"    > api_keys\[\d+\] = api_key \d+ \w+, min_version \d, max_version \d", field)
    start = int(line.split()[1])
    at = int(result.failure["byte"].split()[1].rstrip(","))
    assert start <= at < start + 16
    assert any(" fields: " in line for line in result.failure["came"])


def test_a_wrong_correlation_id_is_told_with_its_byte(graded: Target) -> None:
    result, marked = _report("correlation ids off by one", graded)
    assert result.failure["expected"] == "0 in header.correlation_id"
    assert result.failure["byte"] == "byte 7, in header.correlation_id: 01 instead of 00"
    assert marked[0] == "    > header.correlation_id = 1"


def test_a_response_that_cannot_be_read_is_told_with_the_byte_where_reading_ends(graded: Target) -> None:
    result, _ = _report("response header 0 for Metadata 9", graded)
    assert result.failure["byte"].startswith("byte 14: ")
    assert any("from byte 14 on, not read" in line for line in result.failure["came"])


def test_a_wrong_file_is_shown_with_its_bytes(graded: Target) -> None:
    result, marked = _report("index entries that lead into a batch", graded)
    assert result.failure["byte"] == "byte 4 of 00000000000000000000.index, in the position of entry 0"
    assert result.failure["came"][1] == "00000000000000000000.index"
    assert len(marked) == 1


def test_a_broker_is_started_graded_and_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", "--start", SERVE, "--upto", "versions"]) == 0
    count = len(STAGES[0].checks)
    assert f"{count} of {count}" in capsys.readouterr().out


def test_a_broker_is_killed_and_started_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", "--start", SERVE, "--only", "files"]) == 0
    (stage,) = (stage for stage in STAGES if stage.name == "files")
    count = len(stage.checks)
    assert f"{count} of {count}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["127.0.0.1:9092", "--upto", "metdata"], "--upto metdata: the stages are versions"),
        (["127.0.0.1:9092", "--only", "metadata/x"], "--only metadata/x: there is no such check or stage"),
        (["--start", "serve"], "--start 'serve' has no {port}"),
        (["--start", f"{sys.executable} -c exit(3) {{port}}"], "the broker has ended with status 3"),
        (["--start", SERVE, "--only", "versions", "--junit", "tests"], "tests"),
        ([f"127.0.0.1:{free_port()}"], "no broker accepts connections at 127.0.0.1:"),
    ],
)
def test_a_bad_option_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_broker_that_dies_is_told_as_such_and_the_rest_is_skipped() -> None:
    stage = Stage("s", "s", "s")
    address = ("127.0.0.1", free_port())

    @stage.check("x", look="x")
    def kills(b: Subject) -> None:
        raise CheckFailedError("an answer", "none")

    @stage.check("x", look="x")
    def is_never_run(b: Subject) -> None:
        raise AssertionError

    results = list(run(Target(address), stage.checks))
    assert [result.outcome for result in results] == ["died", "skipped"]
    assert results[1].reason == "the broker is gone since s/kills"


def test_an_answer_without_the_expected_elements_is_a_failure(graded: Target) -> None:
    stage = Stage("s", "s", "s")

    @stage.check("x", look="x")
    def reads_too_far(b: Subject) -> None:
        b.until(lambda: b.ask(ApiVersionsRequest(), 0), lambda answer: answer.api_keys[1000], "x")

    (result,) = run(graded, stage.checks)
    assert result.outcome == "failed"
    assert "a response that lacks some of them" in result.reason
    assert result.failure["sent"][0].startswith("ApiVersions v0")


def test_a_missing_element_is_told_with_the_error_and_the_place_of_its_array(graded: Target) -> None:
    stage = Stage("s", "s", "s")

    @stage.check("x", look="x")
    def reads_too_far(b: Subject) -> None:
        answer = b.ask(ApiVersionsRequest(), 0)
        answer.error_code = 69
        b.same(answer, "api_keys[1000].api_key", 0)

    (result,) = run(graded, stage.checks)
    assert "elements in api_keys, and 69 GROUP_ID_NOT_FOUND in error_code" in result.failure["came"][0]
    assert result.failure["byte"] == "byte 10, where api_keys begins"


def test_a_check_ends_at_its_limit(graded: Target) -> None:
    stage = Stage("s", "s", "s")

    @stage.check("x", look="x", limit=0.2)
    def waits(b: Subject) -> None:
        b.wire.send_bytes(b"\0\0\0\x40")
        b.wire.is_closed()

    (check,) = stage.checks
    assert isinstance(check, Check)
    (result,) = run(graded, [check])
    assert result.outcome == "failed"
    assert "limit" in result.reason


def test_the_list_has_all_checks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == sum(len(stage.checks) for stage in STAGES)


def test_the_tables_of_the_page_are_true() -> None:
    page = PAGE.read_text()
    assert with_tables(page) == page, "python -m tests.broker.grade.tables writes them"
