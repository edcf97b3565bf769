"""Turns the texts of the pages from what works today to published names, or back (make pages).

python -m binary.pages [--published | --no-published] [--address URL]
"""

import argparse
import re
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
FILE: Final = ROOT / "binary" / "releases.toml"


def main() -> int:
    """Set the switch, the address or both, in their file and in all pages, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m binary.pages")
    parser.add_argument("--published", action=argparse.BooleanOptionalAction)
    parser.add_argument("--address")
    options = parser.parse_args()
    releases = read()
    turned = releases | {name: value for name, value in vars(options).items() if value is not None}
    for page in pages():
        page.write_text(turn(page.read_text(), releases, turned))
    text = FILE.read_text()
    text = re.sub(r"(?m)^published = (true|false)$", f"published = {str(turned['published']).lower()}", text, count=1)
    FILE.write_text(re.sub(r"(?m)^address = .*$", f'address = "{turned["address"]}"', text, count=1))
    return 0


def read() -> dict[str, Any]:
    """Return the switch `published`, the `address` of releases, and the pairs of `text`."""
    return tomllib.loads(FILE.read_text())


def pages() -> list[Path]:
    """Return the pages for users, and those that are read on package indexes."""
    return [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("clients/*/README.md"))]


def texts(releases: dict[str, Any]) -> list[str]:
    """Return what pages say with this switch and this address."""
    side = "published" if releases["published"] else "today"
    return [pair[side].replace("{address}", releases["address"]) for pair in releases["text"]]


def turn(page: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return the text of a page with each text of `before` replaced by that of `after`."""
    replaced = dict(zip(texts(before), texts(after), strict=True))
    longest_first = sorted(replaced, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda match: replaced[match[0]], page)


if __name__ == "__main__":
    sys.exit(main())
