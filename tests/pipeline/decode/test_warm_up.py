"""Spark's workers stay fast because the decoder reuses memory."""

from pathlib import Path

from minibroker_pipeline.filesystem import LocalFileSystem, ReadBuffer


def test_a_buffer_is_used_again_and_never_by_two_at_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(100)))
    with LocalFileSystem().open(str(path)) as file:
        with ReadBuffer() as first, ReadBuffer() as second:
            data = first.read(file, 0, 50)
            assert bytes(second.read(file, 50, 80)) == bytes(range(50, 100))
            assert bytes(data) == bytes(range(50))
            memory = {id(data.obj)}
            assert data.readonly
        with ReadBuffer() as first, ReadBuffer() as second:
            again = {id(buffer.read(file, 0, 40).obj) for buffer in (first, second)}
            assert len(again) == 2
            assert memory <= again
