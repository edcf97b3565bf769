"""`minibroker dump`: its options, its output and its exit status."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from minibroker.cli.main import main
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from tests.patience import PATIENCE_S
from tests.programs import module_command
from tests.storage.coordinator_logs import written
from tests.storage.dumping import KAFKAS, ORDERS

ROOT: Final = Path(__file__).parents[3]
RECORDS: Final = [NewRecord(b"k", b"value %d" % number, 1000) for number in range(100)]
LOG: Final = "00000000000000000000.log"
DATA_ONLY: Final = ("--print-data-log", "--skip-record-metadata", "--max-bytes", "1000")


def dumped(
    *options: str, directory: Path = ORDERS, stdin: bytes = b"", locale: str = "C"
) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [*module_command("minibroker"), "dump", *options],
        cwd=directory,
        input=stdin,
        capture_output=True,
        env=environment() | {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        timeout=PATIENCE_S,
        check=False,
    )


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / room) for room in (".", "protocol", "storage"))}


def test_each_option_of_kafkas_tool_does_what_it_does_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ORDERS)
    for golden, *options in (
        ("orders-0", *sorted(path.name for path in ORDERS.iterdir() if path.stem.isdecimal())),
        ("orders-0.data-only", *DATA_ONLY, LOG, "00000000000000000221.log"),
    ):
        ended = dumped(*options)
        assert ended.stdout.decode() == (KAFKAS / f"{golden}.out").read_text()
        assert (ended.stderr, ended.returncode) == (b"", 0)


def test_deep_iteration_prints_records_without_their_contents() -> None:
    lines = dumped("--deep-iteration", LOG).stdout.decode().splitlines()
    records = [line for line in lines if line.startswith("| ")]
    assert len(records) == 42
    assert not any("payload" in line or "key: " in line for line in records)


def test_text_beyond_ascii_is_utf_8_whatever_the_locale() -> None:
    ended = dumped("--print-data-log", "00000000000000000100.log", directory=KAFKAS / "v2")
    assert ended.stdout == (KAFKAS / "v2.out").read_bytes()
    assert "headerKeys: [h1,ключ]".encode() in ended.stdout


def test_json_is_one_object_a_line() -> None:
    ended = dumped("--json", "--print-data-log", ".")
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert sum(line["type"] == "record" for line in lines) == 224
    assert ended.returncode == 0


def test_explain_shows_bytes_and_meanings() -> None:
    ended = dumped("--explain", "00000000000000000221.txnindex")
    assert b"         2  00 00 00 00 00 00 00 05  producer id             5 (whose transaction" in ended.stdout
    assert ended.returncode == 0


def test_a_log_can_be_piped_in() -> None:
    data = (ORDERS / LOG).read_bytes()
    ended = dumped("-", stdin=data)
    assert ended.stdout.splitlines()[0] == b"Dumping -"
    assert len(ended.stdout.splitlines()) == 1 + 6
    assert dumped("-", stdin=data[:-1]).returncode == 1


@pytest.mark.parametrize("how", [[], ["--json"], ["--explain"]], ids=["text", "json", "explain"])
def test_the_status_tells_whether_all_is_sound(how: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", *how, str(ORDERS / LOG)]) == 0
    for damaged in ("v2-torn", "v2-badcrc"):
        assert main(["dump", *how, str(KAFKAS / damaged / "00000000000000000100.log")]) == 1
    capfd.readouterr()
    missing = dumped(*how, "00000000000000000007.log")
    assert missing.returncode == 1
    assert b"No such file" in missing.stdout + missing.stderr
    assert b"Traceback" not in missing.stdout + missing.stderr


def test_what_is_wrong_goes_to_standard_error() -> None:
    ended = dumped("--verify-index-only", "00000000000000000010.index", directory=KAFKAS / "wrong-indexes")
    assert ended.stdout == b"Dumping 00000000000000000010.index\n"
    assert ended.stderr.startswith(b"Mismatches in :")
    assert ended.returncode == 1


def test_a_reader_that_leaves_early_ends_it_quietly(tmp_path: Path) -> None:
    path = tmp_path / LOG
    path.write_bytes(b"".join(build_batch(RECORDS, base_offset=100 * number) for number in range(300)))
    with subprocess.Popen(
        [*module_command("minibroker"), "dump", "--print-data-log", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as child:
        assert child.stdout
        assert child.stderr
        assert child.stdout.readline() == f"Dumping {path}\n".encode()
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(timeout=PATIENCE_S) == 0


def test_a_file_that_may_not_be_read_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / LOG).mkdir()  # A directory in place of the file cannot be read, even by root.
    (tmp_path / LOG / "00000000000000000003.log").symlink_to(tmp_path)
    assert main(["dump", str(tmp_path / LOG / "00000000000000000003.log" / "00000000000000000009.log")]) == 1
    assert "No such file or directory" in capfd.readouterr().err


def test_a_name_that_is_no_text_is_printed_as_it_is(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9-0")
    (tmp_path / name).mkdir()
    (tmp_path / name / LOG).write_bytes(b"")
    ended = dumped(name, directory=tmp_path, locale="C.UTF-8")
    assert ended.stdout.splitlines()[0] == b"Dumping caf\xe9-0/" + LOG.encode()
    assert ended.returncode == 0


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--max-bytes", "0", LOG],
        ["--json", "--explain", LOG],
        ["--format", "0.6", LOG],
        ["--offsets-decoder", "--transaction-log-decoder", LOG],
    ],
)
def test_a_wrong_command_line_is_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["dump", *options])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("minibroker dump: error: ")


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ("--offsets-decoder", "Unknown record type 99 "),
        ("--transaction-log-decoder", "unknown::version=99"),
        ("--share-group-state-decoder", "Unknown record type 99 "),
    ],
)
def test_each_decoder_tells_of_records_of_other_kinds(
    option: str, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path, [(b"\x00\x63", b"value")])
    assert main(["dump", option, str(log)]) == 0
    assert word in capsys.readouterr().out


def test_it_runs_within_a_process_whose_output_is_captured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", str(ORDERS / LOG)]) == 0
    assert capsys.readouterr().out.startswith("Dumping ")


def test_every_option_is_in_the_page_about_it() -> None:
    page = (ROOT / "docs" / "dump.md").read_text()
    usage = dumped("--help").stdout.decode()
    options = {word.strip("[]|,") for word in usage.split() if word.strip("[]|,").startswith("--")} - {"--help"}
    assert len(options) == 14
    assert [option for option in sorted(options) if f"`{option}" not in page] == []


def test_the_command_line_alone_loads_nothing_of_it() -> None:
    script = (
        "import minibroker.cli.main, sys; minibroker.cli.main.make_parser(['serve']);"
        "from minibroker_protocol.lazy_imports import is_loaded;"
        "print([name for name in sys.modules if name.startswith('minibroker_storage.') and is_loaded(name)])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, timeout=PATIENCE_S, check=True
    )
    assert ended.stdout == b"[]\n"


def test_a_directory_without_log_files_is_named_on_standard_error(tmp_path: Path) -> None:
    for how in ("--json", "--explain"):
        ended = dumped(how, str(tmp_path), LOG)
        assert (
            ended.stderr.decode()
            == f"{tmp_path}: no log files; a partition's directory has some, such as DATA_DIR/orders-0\n"
        )
        assert (bool(ended.stdout), ended.returncode) == (True, 0)
