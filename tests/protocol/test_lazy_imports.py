"""A lazy import loads its module on first use, and not before."""

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from minibroker_protocol.lazy_imports import lazy, load


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Create a package whose modules record their execution."""
    folder = tmp_path / "minibroker_sample"
    folder.mkdir()
    (folder / "__init__.py").write_text("log = []\n", encoding="utf-8")
    (folder / "part.py").write_text(
        "from minibroker_sample import log\nlog.append('part')\nclass Part: pass\n", encoding="utf-8"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in [name for name in sys.modules if name.startswith("minibroker_sample")]:
        monkeypatch.delitem(sys.modules, name)
    yield folder
    for name in [name for name in sys.modules if name.startswith("minibroker_sample")]:
        del sys.modules[name]


def lazily(name: str) -> Any:
    with lazy:
        return importlib.import_module(name)


def log() -> list[str]:
    return list(importlib.import_module("minibroker_sample").log)


@pytest.mark.usefixtures("package")
def test_a_module_is_loaded_by_its_first_use_and_once() -> None:
    part = lazily("minibroker_sample.part")
    assert not hasattr(part, "__all__")
    assert part.__file__.endswith("part.py")
    assert log() == []
    assert part.Part is part.Part
    assert log() == ["part"]
    assert type(part) is ModuleType


@pytest.mark.usefixtures("package")
def test_a_list_of_its_names_loads_the_module() -> None:
    assert "Part" in dir(lazily("minibroker_sample.part"))


@pytest.mark.usefixtures("package")
def test_an_ordinary_import_of_a_name_loads_the_module() -> None:
    part = lazily("minibroker_sample.part")
    names: dict[str, Any] = {}
    exec("from minibroker_sample.part import Part", names)
    assert names["Part"] is part.Part


@pytest.mark.usefixtures("package")
def test_a_module_can_be_loaded_before_its_first_use() -> None:
    part = lazily("minibroker_sample.part")
    load("minibroker_sample.part")
    assert log() == ["part"]
    assert "Part" in vars(part)


@pytest.mark.usefixtures("package")
def test_a_name_that_the_module_does_not_have_is_an_attribute_error() -> None:
    part = lazily("minibroker_sample.part")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = part.nothing


def test_a_module_that_fails_is_executed_again_by_its_next_use(package: Path) -> None:
    (package / "failing.py").write_text(
        "from minibroker_sample import log\nlog.append('failing')\nif len(log) < 2: raise OSError(24)\nvalue = 1\n",
        encoding="utf-8",
    )
    failing = lazily("minibroker_sample.failing")
    with pytest.raises(OSError, match="24"):
        _ = failing.value
    assert failing.value == 1


def test_a_module_of_an_import_cycle_fails_as_any_other(package: Path) -> None:
    (package / "cycle.py").write_text("from minibroker_sample import cycle\ncycle.value\nvalue = 1\n", encoding="utf-8")
    cycle = lazily("minibroker_sample.cycle")
    with pytest.raises(AttributeError, match="value"):
        _ = cycle.value


def test_a_module_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(ModuleNotFoundError, match="minibroker_sample_that_is_missing"):
        lazily("minibroker_sample_that_is_missing")


def test_a_thread_waits_until_another_one_has_loaded_the_module(package: Path) -> None:
    (package / "slow.py").write_text(
        "from minibroker_sample import started, go_on\nfirst = 1\nstarted.set()\ngo_on.wait()\nlast = 2\n",
        encoding="utf-8",
    )
    slow = lazily("minibroker_sample.slow")
    started, go_on = threading.Event(), threading.Event()
    vars(sys.modules["minibroker_sample"]).update(started=started, go_on=go_on)
    values: list[int] = []
    threads = [threading.Thread(target=lambda: values.append(slow.last)) for _ in range(2)]
    threads[0].start()
    started.wait()
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join()
    assert values == [2, 2]


def test_packages_of_others_are_imported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with lazy:
        importlib.import_module("colorsys")
    assert type(sys.modules["colorsys"]) is ModuleType
    assert "rgb_to_hls" in vars(sys.modules["colorsys"])


@pytest.mark.usefixtures("package")
def test_imports_of_other_threads_are_as_ever() -> None:
    with lazy:
        thread = threading.Thread(target=importlib.import_module, args=("minibroker_sample.part",))
        thread.start()
        thread.join()
    assert log() == ["part"]
