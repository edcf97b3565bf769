"""The command that installs what an extra of this distribution needs, for messages about packages that are missing."""

import importlib.metadata
import re
import shlex
from typing import Final

_DISTRIBUTION: Final = "minibroker"
_OF_EXTRA: Final = re.compile(r"""^([^;]+?)\s*;\s*extra\s*==\s*['"]([^'"]+)['"]$""")


def pip_install(extra: str) -> str:
    """`pip install 'fastapi>=0.120' ...`: the packages themselves.

    `pip install 'minibroker[control]'` would look for minibroker in an index, and most users have installed it from a
    checkout, a wheel or a repository, which may be gone.
    """
    try:
        required = importlib.metadata.requires(_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:  # a checkout on the path, which nobody has installed
        return f"pip install '/path/to/minibroker[{extra}]'"
    found = [match[1] for each in required if (match := _OF_EXTRA.match(each)) is not None and match[2] == extra]
    return f"pip install {' '.join(map(shlex.quote, found))}"
