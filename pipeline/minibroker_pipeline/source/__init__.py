"""The Spark data source `format("minibroker")`: batch and streaming queries over log files, without a broker."""

from typing import TYPE_CHECKING, Any

from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_pipeline.source import data_source

if TYPE_CHECKING:
    from minibroker_pipeline.source.data_source import MinibrokerDataSource

__all__ = ["MinibrokerDataSource"]


def __getattr__(name: str) -> Any:
    """Load PySpark only for the data source itself. Jobs that read logs in local processes do not need PySpark."""
    if name in __all__:
        return getattr(data_source, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
