"""The command that installs what an extra of this distribution needs, for messages about packages that are missing."""

import importlib.metadata
import json
import re
import shlex
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

_DISTRIBUTION: Final = "minibroker"
_OF_EXTRA: Final = re.compile(r"""^([^;]+?)\s*;\s*extra\s*==\s*['"]([^'"]+)['"]$""")


def missing(package: str | None, extra: str) -> str:
    """The end of a message about a package that cannot be imported: its extra, and the command that installs it."""
    return f"the package {package} of the extra minibroker[{extra}] is missing: {pip_install(extra)}"


def pip_install(extra: str) -> str:
    """`pip install '/path/to/minibroker[control]'`, with the checkout or wheel that minibroker was installed from.

    Without it, the packages themselves: `pip install 'fastapi>=0.120' ...`. minibroker is in no index, so the bare name
    with its extra would not work.
    """
    try:
        distribution = importlib.metadata.distribution(_DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:  # a checkout on the path, not installed
        return f"pip install '/path/to/minibroker[{extra}]'"
    source = _source(distribution)
    if source is not None:
        return f"pip install {shlex.quote(f'{source}[{extra}]')}"
    required = distribution.requires or []
    found = [match[1] for each in required if (match := _OF_EXTRA.match(each)) is not None and match[2] == extra]
    return f"pip install {' '.join(map(shlex.quote, found))}"


def _source(distribution: importlib.metadata.Distribution) -> Path | None:
    """The folder or archive that pip has installed from, if it is still there (`direct_url.json`, PEP 610).

    None for an editable installation, which this command would replace.
    """
    origin: dict[str, Any] = json.loads(distribution.read_text("direct_url.json") or "{}")
    url = urlsplit(str(origin.get("url", "")))
    if url.scheme != "file" or origin.get("dir_info", {}).get("editable"):
        return None
    path = Path(url2pathname(url.path))
    return path if path.exists() else None


class MissingExtraError(ValueError):
    """A package of the extra `security` is not installed."""


def missing_extra(feature: str, package: str) -> MissingExtraError:
    """The error of something that needs a package of the extra."""
    return MissingExtraError(f"{feature}: {missing(package, 'security')}")
