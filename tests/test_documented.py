"""Everything shown in the documentation runs as written."""

import io
import re
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.documented import ROOT, Block, blocks, code
from tests.patience import PATIENCE_S
from tests.programs import run_program, run_to_success

pytestmark = pytest.mark.slow

BROKER = "docs/broker-in-python.md"
PROGRAMS = [block for block in blocks(BROKER) if block.language == "python"]
_CHANGING = re.compile(r"127\.0\.0\.1:\d+|in [\d.]+ ms")
SUITES = [block for block in blocks("docs/testing.md") if block.language == "python"]


def named(block: Block) -> str:
    return f"{block.heading}:{block.line}"


@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")  # of kafka-python
@pytest.mark.parametrize("block", PROGRAMS, ids=named)
def test_programs_about_testing_run(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    import minibroker  # noqa: PLC0415 - the programs import it themselves

    monkeypatch.setattr(minibroker, "Broker", partial(minibroker.Broker, timeout=PATIENCE_S))
    with redirect_stdout(io.StringIO()):
        exec(compile(block.text, f"{BROKER}:{block.line}", "exec"), {})


@pytest.mark.parametrize("block", SUITES, ids=named)
def test_test_files_pass(block: Block, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(block.text)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nkafka_timeout = {PATIENCE_S}\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    run_to_success(command, cwd=tmp_path)


def test_the_tests_of_the_readme_report_what_it_shows(tmp_path: Path) -> None:
    tests = [block.text for block in blocks("README.md") if block.language == "python"]
    (tmp_path / "test_orders.py").write_text("\n\n".join(tests))
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nkafka_timeout = {PATIENCE_S}\n")
    result = run_program([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"], cwd=tmp_path)
    assert f"1 failed, {len(tests) - 1} passed" in result.stdout
    reported = [_CHANGING.sub("", line) for line in result.stdout.splitlines()]
    (shown,) = [block.text for block in blocks("README.md") if block.language == "text"]
    assert [line for line in shown.splitlines() if _CHANGING.sub("", line) not in reported] == []


def test_the_complaint_that_is_shown_is_what_a_failed_expectation_says() -> None:
    from minibroker import Broker, WaitTimeoutError  # noqa: PLC0415 - the programs above import it themselves

    (expected,) = [block.text for block in blocks(BROKER, "Waiting") if block.language == "text"]
    with Broker() as broker:
        broker.produce("orders", {"id": 1, "state": "paid"}, {"id": 2, "state": "new"})
        with pytest.raises(WaitTimeoutError) as caught:
            broker.expect("orders", {"id": 2, "state": "paid"}, timeout=0)
    assert f"{caught.value}\n" == expected


def test_a_page_links_to_pages_of_the_site_alone() -> None:
    """`make docs` fails at a link to another page; this test needs no build."""
    site = {*re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)}
    broken = [
        f"{page}: {link}"
        for page in sorted(site)
        for link in re.findall(r"\]\(([^)#:]+\.md)", (ROOT / page).read_text())
        if str((ROOT / page).parent.joinpath(link).resolve().relative_to(ROOT)) not in site
    ]
    assert broken == []


@pytest.mark.parametrize("page", ["README.md", "docs/chaos.md", "docs/trace.md", "docs/serve.md"])
def test_the_seeds_that_a_page_names_make_something_go_wrong(page: str) -> None:
    from minibroker import Broker  # noqa: PLC0415 - the programs above import it themselves

    orders = 1 if page == "README.md" else 30
    place: dict[str, Any] = {}
    exec(code("README.md", "A first test", "python")[0], place)
    pattern = r'(?:chaos\(seed=|--chaos |chaos="?|such as `)(\d+)(?::(\w+)`|, profile="(\w+)")?'
    named_seeds = {(int(seed), a or b or "default") for seed, a, b in re.findall(pattern, (ROOT / page).read_text())}
    assert named_seeds
    with Broker(chaos=0) as broker:
        for seed, profile in named_seeds:
            broker.reset()
            with broker.chaos(seed=seed, profile=profile) as chaos:
                for number in range(orders, 2 * orders):
                    place["place_order"](broker.bootstrap_servers, 10 if orders == 1 else number)
            assert chaos.is_felt, (seed, profile)
