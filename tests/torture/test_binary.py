"""The self-contained program, as `make binary` builds it, on a PATH without Python."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.documented import ROOT
from tests.patience import eventually
from tests.programs import run_to_success

pytestmark = [pytest.mark.torture, pytest.mark.slow]

_BUILD_S: Final = 1200


def _build(dist: Path) -> Path:
    run_to_success([sys.executable, "-m", "binary.build", dist], cwd=ROOT, timeout=_BUILD_S)
    return next(dist.glob("minibroker-*.tar.gz"))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def programs(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(archive) as tar:
        tar.extractall(place, filter="data")
    return place / "minibroker"


def _run(programs: Path, *command: str, text: str = "") -> str:
    return run_to_success(
        [programs / command[0], *command[1:]], env={"PATH": str(programs), "HOME": str(programs.parent)}, input=text
    ).stdout


@contextlib.contextmanager
def _broker(programs: Path, place: Path, *options: str) -> Iterator[dict[str, str]]:
    ready = place / "ready"
    broker = subprocess.Popen(
        [programs / "minibroker", "serve", "--listen", "127.0.0.1:0", "--ready-file", ready, *options],
        env={"PATH": str(programs), "HOME": str(place)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert broker.stdout is not None
        yield dict(re.findall(r"(\w+)=(\S+)", broker.stdout.readline()))
    finally:
        broker.send_signal(signal.SIGTERM)
        with broker:
            assert broker.wait() == 0


def test_every_codec_and_tool_works_without_python(programs: Path, tmp_path: Path) -> None:
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    with _broker(programs, tmp_path, "--data-dir", str(tmp_path / "data")) as addresses:
        servers = ("--bootstrap-server", addresses["bootstrap"], "--topic", "orders")
        for codec in codecs:
            _run(programs, "kafka-console-producer", *servers, "--compression-codec", codec, text=f"{codec}\n")
        options = ("--from-beginning", "--max-messages", str(len(codecs)))
        assert _run(programs, "kafka-console-consumer", *servers, *options).split() == list(codecs)
        assert "PartitionCount: 1" in _run(programs, "minibroker-tools", "kafka-topics", *servers, "--describe")
    assert "compresscodec: zstd" in _run(programs, "minibroker", "dump", str(tmp_path / "data"))


def test_control_plane_page_and_registry_answer(programs: Path, tmp_path: Path) -> None:
    options = [word for name in ("control", "page", "registry") for word in (f"--{name}", "127.0.0.1:0")]
    with _broker(programs, tmp_path, *options) as addresses:
        for name, path in (("control", "/openapi.json"), ("page", "/"), ("registry", "/subjects")):
            with urllib.request.urlopen(addresses[name] + path) as response:
                assert response.status == 200


def test_a_log_is_compacted_by_a_process_of_its_own(programs: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    settings = ["--set", "log.cleaner.backoff.ms=100", "--set", "log.cleanup.policy=compact"]
    topic = "keys:1:segment.bytes=200,min.cleanable.dirty.ratio=0.01"
    with _broker(programs, tmp_path, "--data-dir", str(data), "--topic", topic, *settings) as addresses:
        servers = ("--bootstrap-server", addresses["bootstrap"], "--topic", "keys", "--property", "parse.key=true")
        _run(programs, "kafka-console-producer", *servers, text="".join(f"k\t{number}\n" for number in range(200)))
        _run(programs, "kafka-console-producer", *servers, text="k\tlast\n")
        eventually(lambda: sum(path.stat().st_size for path in data.glob("keys-0/*.log")) < 1000)


def test_two_builds_have_the_same_bytes(archive: Path, tmp_path: Path) -> None:
    assert _build(tmp_path / "dist").read_bytes() == archive.read_bytes()


def test_licenses_are_inside_and_build_paths_are_not(programs: Path) -> None:
    assert {"cryptography", "minibroker", "pyinstaller"} <= {path.name for path in (programs / "licenses").iterdir()}
    for path in programs.rglob("*"):
        if path.is_file():
            assert os.fsencode(ROOT) not in path.read_bytes(), path
