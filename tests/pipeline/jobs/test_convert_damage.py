"""Converting damaged logs ends the job, or omits the damage."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from minibroker_pipeline.decode import DamagedLogError
from minibroker_pipeline.jobs.convert import ConvertSettings, convert
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.compression import compress
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import build_message_set, encode_message
from tests.pipeline.decode.logs import stamped
from tests.pipeline.jobs.directories import put_log
from tests.pipeline.jobs.test_convert import converted, log_of, rows_of, some


def test_damage_ends_the_job_or_is_left_out(tmp_path: Path) -> None:
    batches = [bytearray(build_batch(some(3, 3 * n), base_offset=3 * n)) for n in range(3)]
    batches[1][70] ^= 1
    data = {0: bytes(b"".join(batches)), 9: bytes(build_batch(some(1, 9), base_offset=9))}
    with pytest.raises(DamagedLogError, match=r"byte \d+, offset 3: .*crc.*--mode permissive"):
        converted(tmp_path, data, codec="gzip")
    report, partition = converted(tmp_path, data, codec="gzip", mode="permissive")
    assert [row["offset"] for row in rows_of(log_of(partition))] == [0, 1, 2, 6, 7, 8, 9]
    assert (report.total.damaged, report.total.damaged_bytes) == (1, len(batches[1]))


@pytest.mark.parametrize("how", [{"format": "v2"}, {"codec": "lz4"}])
def test_a_message_with_a_wrong_checksum_in_a_wrapper_is_damage(tmp_path: Path, how: dict[str, Any]) -> None:
    inner = bytearray(build_message_set(some(3), magic=1))
    inner[60] ^= 1
    content = compress(CompressionCodec.GZIP, inner, magic=1)
    wrapper = encode_message(2, None, content, magic=1, timestamp=9, attributes=1)
    put_log(tmp_path / "source", "orders-0", wrapper)
    with pytest.raises(DamagedLogError, match="the checksum of a message in it"):
        convert([str(tmp_path / "source")], str(tmp_path / "target"), ConvertSettings(**how))


def behind(first: bytes | bytearray) -> bytes:
    """Return a log with an entry of offsets 0 to 2, followed by two undamaged batches."""
    return bytes(first + build_batch(some(3, 3), base_offset=3) + build_batch(some(3, 6), base_offset=6))


def unreadable(batch: bytearray) -> bytes:
    """Return the batch with a correct checksum over records that cannot be decompressed."""
    batch[61:] = b"x" * len(batch[61:])
    return stamped(batch)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (behind(unreadable(build_batch(some(3), codec=CompressionCodec.GZIP))), "gzip"),
        (behind(build_batch(some(3), base_offset=2)), "offset 3: (its offsets do not follow 4|.* do not rise)"),
        (behind(bytes(8) + b"\0\0\0\x01" + bytes(80)), "byte 0"),
    ],
    ids=["cannot be unpacked", "offsets that come again", "no entry"],
)
def test_each_kind_of_damage_ends_the_job_or_is_left_out(tmp_path: Path, data: bytes, message: str) -> None:
    hows: list[dict[str, Any]] = [{"codec": "lz4"}, {"format": "v2", "batch_bytes": 300}]
    for how in hows:
        shutil.rmtree(tmp_path, ignore_errors=True)
        put_log(tmp_path / "source", "orders-0", {0: data})
        with pytest.raises(DamagedLogError, match=message):
            convert([str(tmp_path / "source")], str(tmp_path / "target"), ConvertSettings(**how), processes=1)
        report, partition = converted(tmp_path, {0: data}, mode="permissive", **how)
        assert report.total.damaged == 1
        assert [row["offset"] for row in rows_of(log_of(partition))][-3:] == [6, 7, 8]


def test_a_torn_end_is_left_out(tmp_path: Path) -> None:
    data = bytes(build_batch(some(3)))
    put_log(tmp_path / "source", "orders-0", data + data[:40])
    report = convert([str(tmp_path / "source")], str(tmp_path / "target"), ConvertSettings(codec="lz4"))
    assert (report.lines[0].log_end_offset, report.total.damaged) == (3, 0)
