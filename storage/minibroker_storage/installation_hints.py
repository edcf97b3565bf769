"""Commands that install optional dependencies, for error messages about missing packages."""

import importlib.metadata
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

_DISTRIBUTION: Final = "minibroker"
_CHECKOUT: Final = Path(__file__).parents[2]
_EXTRA_REQUIREMENT: Final = re.compile(r"""^([^;]+?)\s*;\s*extra\s*==\s*['"]([^'"]+)['"]$""")


def missing(package: str | None, extra: str) -> str:
    """Return the end of an error message about a missing package: its extra and an installation command."""
    remedy = "the self-contained program has none" if hasattr(sys, "frozen") else format_pip_command(extra)
    return f"the package {package} of the extra minibroker[{extra}] is missing: {remedy}"


def format_pip_command(extra: str) -> str:
    """Return a command such as `pip install '~/minibroker[control]'`.

    The path is the checkout or wheel from which minibroker was installed. If the path is unknown, the command names
    the packages instead: `pip install 'fastapi>=0.120' ...`. The bare name with its extra would not work because
    minibroker is in no package index.
    """
    try:
        distribution = importlib.metadata.distribution(_DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        # The package was never installed, but is imported from a checkout on the path.
        return f"pip install {shlex.quote(f'{_CHECKOUT}[{extra}]')}"
    source = _find_install_source(distribution)
    if source is not None:
        return f"pip install {shlex.quote(f'{source}[{extra}]')}"
    requirements = map(_EXTRA_REQUIREMENT.match, distribution.requires or [])
    packages = [match[1] for match in requirements if match is not None and match[2] == extra]
    return f"pip install {' '.join(map(shlex.quote, packages))}"


def _find_install_source(distribution: importlib.metadata.Distribution) -> Path | None:
    """Return the directory or archive that pip installed from, if it still exists (`direct_url.json`, PEP 610).

    Returns None for an editable installation, which this command would replace.
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
    """Return an error for a feature that needs a package of the extra `security`."""
    return MissingExtraError(f"{feature}: {missing(package, 'security')}")
