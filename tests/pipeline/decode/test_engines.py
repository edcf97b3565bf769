"""The choice of the engine, and cheap loading of the compiled one."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minibroker_pipeline
from minibroker_pipeline.decode import DecodeRequest, Engine, decode, prepare
from minibroker_pipeline.source.options import parse_options
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.record import NewRecord
from tests.pipeline.decode.logs import ENGINES
from tests.programs import run_program

PACKAGE = Path(minibroker_pipeline.__file__).parent


def test_auto_takes_the_compiled_kernel_where_numba_is() -> None:
    pytest.importorskip("numba")
    assert prepare() == "numba"
    assert prepare("numpy") == "numpy"


def test_the_former_engine_plain_is_numpy_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="plain has been removed, numpy is used; set engine to numpy or auto"):
        request = DecodeRequest(engine="plain")  # type: ignore[arg-type]  # as earlier releases had it
    assert request.engine == "numpy"
    with pytest.warns(UserWarning, match="plain has been removed"):
        assert prepare("plain") == "numpy"  # type: ignore[arg-type]  # as earlier releases had it
    with pytest.warns(UserWarning, match="plain has been removed"):
        assert parse_options({"path": "/data", "engine": "plain"}).engine == "numpy"


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a new interpreter with this interpreter's path."""
    path = os.pathsep.join([environment.pop("FIRST", ""), *sys.path]).strip(os.pathsep)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "NUMBA_"))}
    return run_program([sys.executable, "-c", script], env={**inherited, "PYTHONPATH": path, **environment})


def test_without_numba_auto_is_numpy_and_numba_by_name_is_an_error() -> None:
    completed = run(
        "import sys; sys.modules['numba'] = None\n"
        "from minibroker_pipeline.decode import prepare, decode, encode, DecodeRequest\n"
        "import pyarrow as pa\n"
        "data = encode(pa.RecordBatch.from_pydict({'value': [b'v']})).data\n"
        "print(prepare(), [batch.num_rows for batch in decode(data, DecodeRequest())])\n"
        "prepare('numba')"
    )
    assert completed.stdout.strip() == "numpy [1]", completed.stderr
    assert "ModuleNotFoundError" in completed.stderr.splitlines()[-1]


def test_reading_heads_or_by_numpy_does_not_import_numba_or_spark() -> None:
    script = (
        "import sys; from minibroker_pipeline.decode import scan_headers, prepare; scan_headers(b''); prepare('numpy');"
        "print([name for name in ('numba', 'pyspark', 'pandas') if name in sys.modules])"
    )
    completed = run(script)
    assert completed.stdout.strip() == "[]", completed.stderr


def test_writable_and_read_only_bytes_share_one_compiled_version() -> None:
    kernel: Any = pytest.importorskip("minibroker_pipeline.decode.kernel")
    data = bytes(build_batch([NewRecord(b"k", b"v", 1)]))
    for buffer in (data, bytearray(data), memoryview(data), np.frombuffer(bytearray(data), np.uint8)):
        assert len(list(decode(buffer, DecodeRequest(engine="numba")))) == 1  # type: ignore[arg-type]  # an array is a buffer
    for function in (kernel.chase, kernel.walk, kernel.gather, kernel.measure, kernel.find_headers):
        assert len(function.signatures) == 1


def test_without_a_folder_to_keep_machine_code_in_auto_is_numpy(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    package = tmp_path / "minibroker_pipeline"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "decode" / "__pycache__").write_bytes(b"a file where the folder would be")
    home = tmp_path / "home"
    home.write_bytes(b"another")
    completed = run(
        "from minibroker_pipeline.decode import prepare; print(prepare()); prepare('numba')",
        FIRST=str(tmp_path),
        HOME=str(home),
        NUMBA_CPU_NAME="generic",
    )
    assert completed.stdout.strip() == "numpy", completed.stderr
    assert "no folder to keep machine code in" in completed.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", ENGINES)
def test_threads_can_decode_at_the_same_time(name: Engine) -> None:
    def log(thread: int) -> bytes:
        codec = CompressionCodec(thread % 5)
        records = [NewRecord(b"%d" % thread, bytes([thread]) * 90, index) for index in range(100 + thread)]
        return b"".join(bytes(build_batch(records, base_offset=500 * index, codec=codec)) for index in range(20))

    def values(data: bytes) -> set[bytes]:
        request = DecodeRequest(columns=("key", "value"), engine=name, chunk_bytes=5000)
        return {row for batch in decode(data, request) for row in batch["key"].to_pylist() + batch["value"].to_pylist()}

    with ThreadPoolExecutor(6) as pool:
        result = list(pool.map(values, [log(thread) for thread in range(12)]))
    assert result == [{b"%d" % thread, bytes([thread]) * 90} for thread in range(12)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ()}, "columns: none"),
        ({"columns": ("key", "key")}, "named once"),
        ({"columns": ("Key",)}, "no 'Key'"),
        ({"engine": "cython"}, "engine: 'cython'"),
        ({"mode": "dropmalformed"}, "mode: 'dropmalformed'"),
        ({"isolation": "serializable"}, "isolation: 'serializable'"),
        ({"chunk_bytes": 0}, "chunk bytes: 0"),
    ],
)
def test_a_request_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DecodeRequest(**options)
