"""Versions of kafka-python: the one of the tests, or another one from a folder of its own."""

import sys
import warnings
from typing import Any


def import_kafka(folder: str | None) -> Any:
    """Import kafka-python; a version before 2 gets a newer six, since its own ends with Python 3.12."""
    if folder is not None:
        sys.path.insert(0, folder)
    try:
        import six  # type: ignore[import-untyped] # noqa: PLC0415 - in some folders only
        import six.moves  # type: ignore[import-untyped] # noqa: PLC0415 - the same
    except ImportError:
        pass
    else:
        sys.modules["kafka.vendor.six"] = six
        sys.modules["kafka.vendor.six.moves"] = six.moves
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it loads its schemas in a way that Python 3.11 deprecates
        import kafka  # type: ignore[import-untyped] # noqa: PLC0415 - from the folder
        import kafka.admin  # type: ignore[import-untyped] # noqa: PLC0415 - the same
    return kafka
