"""`dub template`: a file that is filled in with the variables of the environment, as Confluent's images make theirs.

The templates are Jinja's. `env` has the variables; `env_to_props` and `parse_log4j_loggers` are functions, as in
Confluent's `dub`. The last end of the line is cut off, and so is the one behind a block (`{% ... %}`).
"""

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from minibroker_tools.failures import ToolError

_SINGLE = re.compile("(?<=[^_])_(?=[^_])")


def fill(source: str, target: str, environment: Mapping[str, str] = os.environ) -> None:
    """Write `target` from the template `source`. ToolError names the file that cannot be read, filled in or written.

    A template that fails leaves `target` as it was.
    """
    text = _filled(source, environment)
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ToolError(f"template: {target} cannot be written: {error.strerror}") from None


def _filled(source: str, environment: Mapping[str, str]) -> str:
    try:
        import jinja2  # noqa: PLC0415 - no other tool needs it
    except ImportError:
        raise ToolError("template needs Jinja: install minibroker with its extra tools") from None

    def env_to_props(prefix: str, key_prefix: str, exclude: Collection[str] = ()) -> dict[str, str]:
        return properties_of(environment, prefix, key_prefix, exclude)

    # Paths are those of the machine, so a template may include others by their full names.
    known = jinja2.Environment(loader=jinja2.FileSystemLoader("/"), trim_blocks=True)  # noqa: S701 - properties, not HTML
    functions: dict[str, Any] = {"env_to_props": env_to_props, "parse_log4j_loggers": levels_of}
    known.globals.update(functions)
    try:
        return known.get_template(os.path.realpath(source)).render(env=environment)
    except jinja2.TemplateNotFound as error:
        raise ToolError(f"template: there is no file {os.path.join('/', str(error.name or source))}") from None
    except jinja2.TemplateSyntaxError as error:
        place = f"{error.filename or source}, line {error.lineno}"
        raise ToolError(f"template: {place}: {error.message}") from None
    except Exception as error:  # noqa: BLE001 - a template may call anything, with any error
        raise ToolError(f"template: {source}: {type(error).__name__}: {error}") from None


def properties_of(
    environment: Mapping[str, str], prefix: str, key_prefix: str, exclude: Collection[str] = ()
) -> dict[str, str]:
    """The variables that begin with a prefix, as properties; `exclude` has names of variables.

    `_` between other letters becomes a dot, `___` a dash and `__` an underscore.
    """
    return {
        key_prefix + _SINGLE.sub(".", name.removeprefix(prefix).lower()).replace("___", "-").replace("__", "_"): value
        for name, value in environment.items()
        if name.startswith(prefix) and name not in exclude
    }


def levels_of(overrides: str, defaults: Mapping[str, str] | None = None) -> dict[str, str]:
    """The levels of loggers by their names: those in `LOGGER=LEVEL,...`, else the defaults."""
    pairs = (each.split("=") for each in overrides.split(","))
    return {**(defaults or {}), **dict(pair for pair in pairs if len(pair) == 2)}  # noqa: PLR2004 - name and level
