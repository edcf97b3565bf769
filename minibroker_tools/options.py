"""Parses command lines like jopt-simple, the parser of Kafka's tools.

`--name value`, `--name=value`, `-name value` and unambiguous abbreviations are equivalent. An option's value can start
with a dash. The error messages are jopt-simple's.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from minibroker_protocol.java_text import to_double, to_long
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.output import write_error_line, write_line

KAFKA_VERSION: Final = "3.9.1"
"""The Kafka release whose tools are emulated. `--version` prints it because health checks expect a Kafka version."""


class _Parser(argparse.ArgumentParser):
    """An argparse parser that raises an exception instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise a ToolError instead of exiting with status 2."""
        raise ToolError(message)


class Values:
    """The parsed options of a command line."""

    def __init__(self, values: dict[str, list[Any] | None], words: list[str]) -> None:
        self._values = values
        # The positional arguments.
        self.words = words

    def accepts(self, name: str) -> bool:
        """Return whether the tool has this option."""
        return name in self._values

    def has(self, name: str) -> bool:
        """Return whether the option is on the command line."""
        return self._values[name] is not None

    def get(self, name: str) -> Any:
        """Return the value of an option, or None if the option is missing.

        Raises:
            ToolError: The option has several values.
        """
        values = self._values[name] or [None]
        if len(values) > 1:
            raise ToolError(f"Found multiple arguments for option {name}, but you asked for only one")
        return values[0]

    def text(self, name: str) -> str | None:
        """Return the value of a string option, or None if the option is missing."""
        value = self.get(name)
        return None if value is None else str(value)

    def number(self, name: str, default: int) -> int:
        """Return the value of a numeric option, or `default` if the option is missing."""
        value = self.get(name)
        return default if value is None else int(value)

    def all(self, name: str) -> list[Any]:
        """Return all values of a repeatable option, without omitted values."""
        return [value for value in self._values[name] or [] if value is not None]

    def require(self, *names: str) -> None:
        """Check that all of these options are on the command line.

        Raises:
            UsageError: An option is missing.
        """
        for name in names:
            if not self.has(name):
                raise UsageError(f'Missing required argument "[{name}]"')

    def exclude(self, name: str, *others: str) -> None:
        """Check that `name` is not combined with any of the other options.

        Raises:
            UsageError: `name` and one of the other options are on the command line.
        """
        for other in others:
            if self.has(name) and self.has(other):
                raise UsageError(f'Option "[{name}]" can\'t be used with option "[{other}]"')

    def only_with(self, *names: str, any_of: Sequence[str]) -> None:
        """Check that each of `names` comes with at least one option in `any_of`, like jopt-simple's `availableIf`.

        Raises:
            ToolError: One of `names` is on the command line, and no option in `any_of` is.
        """
        for name in names:
            if self.has(name) and not any(map(self.has, any_of)):
                raise ToolError(f"Option(s) [{name}] are unavailable given other options on the command line")


class Options:
    """The options that a tool accepts."""

    def __init__(self, tool: str, description: str, *, without_arguments: str | None = None) -> None:
        """Declare `--help` and `--version`. The tool adds its own options.

        Args:
            tool: The name of the tool.
            description: The text that `--help` prints before the usage.
            without_arguments: The text printed instead of `description` for an empty command line.
        """
        self._parser = _Parser(prog=tool, description=description, add_help=False, exit_on_error=False)
        self._description = description
        # The name of the tool.
        self.tool = tool
        self._without_arguments = without_arguments or description
        self._names: list[str] = []
        self._valued: set[str] = set()
        self.flag("help", help="print this help")
        self.flag("version", help="print the version of Kafka that the tool follows")

    def flag(self, *names: str, help: str) -> None:  # noqa: A002 - argparse's own word
        """Declare an option without a value."""
        self._add(names, action="append_const", const="", help=help)

    def value(self, *names: str, help: str, type: Callable[[str], Any] = str, metavar: str | None = None) -> None:  # noqa: A002 - argparse's own words
        """Declare an option with a value. `Values.get` or `Values.all` returns the value."""
        self._valued.update(names)
        # Unlike int() and float(), Java's parsers reject underscores and blanks.
        read = to_long if type is int else to_double if type is float else type
        self._add(names, action="append", type=read, help=help, metavar=metavar or names[0].upper())

    def optional_value(self, name: str, *, help: str) -> None:  # noqa: A002 - argparse's own word
        """Declare an option whose value can be omitted. `Values.get` returns None if it is omitted."""
        self._add((name,), action="append", nargs="?", help=help)

    def parse(self, arguments: Sequence[str]) -> Values:
        """Parse a command line.

        Raises:
            UsageError: The command line is empty or has `--help`.
            ToolError: The command line is invalid, or has `--version`. The exit status for `--version` is 0.
        """
        try:
            namespace, remaining = self._parser.parse_known_args(self._join_values(arguments))
        except argparse.ArgumentError as error:
            raise ToolError(_error_message(error)) from None
        values: dict[str, Any] = {name.replace("_", "-"): value for name, value in vars(namespace).items()}
        unknown = [word for word in remaining if word.startswith("-") and word != "-"]
        if unknown:
            raise ToolError(f"{unknown[0].partition('=')[0].lstrip('-')} is not a recognized option")
        if values["help"] is not None or not arguments:
            raise UsageError(self._description if arguments else self._without_arguments)
        if values["version"] is not None:
            write_line(KAFKA_VERSION)
            raise ToolError("", status=0)
        return Values(values, [word for word in remaining if word != "--"])

    def print_usage(self) -> None:
        """Print a description of the options to standard error."""
        write_error_line(self._parser.format_help())

    def _add(self, names: tuple[str, ...], **settings: Any) -> None:
        self._names += names
        forms = [form for name in names for form in (f"--{name}", f"-{name}")]
        self._parser.add_argument(*forms, dest=names[0].replace("-", "_"), **settings)

    def _join_values(self, arguments: Sequence[str]) -> list[str]:
        """Join each option that takes a value with its value into one `--name=value` argument."""
        joined: list[str] = []
        remaining = iter(arguments)
        for word in remaining:
            name = self._full_name(word)
            value = next(remaining, None) if name in self._valued else None
            joined.append(word if value is None else f"--{name}={value}")
        return joined

    def _full_name(self, word: str) -> str | None:
        """Return the full name of the option that a word names or unambiguously abbreviates, or None.

        A word with `=` already includes its value, so the result is None.
        """
        if not word.startswith("-") or "=" in word:
            return None
        start = word.lstrip("-")
        if start in self._names:
            return start
        matches = [name for name in self._names if name.startswith(start)]
        return matches[0] if start and len(matches) == 1 else None


def _error_message(error: argparse.ArgumentError) -> str:
    name = (error.argument_name or "").partition("/")[0].lstrip("-")
    if "expected" in error.message:
        return f"Option {name} requires an argument"
    if "invalid" in error.message:
        return f"Cannot parse argument '{error.message.rsplit(': ', 1)[-1].strip(chr(39))}' of option {name}"
    return f"{name}: {error.message}" if name else error.message


def key_values(pairs: Sequence[str]) -> dict[str, str]:
    """Convert `key=value` words to a dictionary. A missing value becomes an empty string."""
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}
