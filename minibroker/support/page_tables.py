"""Tables that programs write into pages of the documentation: between two marks, beside what is written by hand."""

from typing import Final

END: Final = "<!-- The end of what was made. -->"


def filled(page: str, begin: str, tables: str) -> str:
    """A page with its tables between the mark `begin` and the mark of the end. ValueError when it has no such place."""
    before, mark, rest = page.partition(begin)
    _, other, after = rest.partition(END)
    if not mark or not other:
        raise ValueError("there is no place for the tables")
    return f"{before}{begin}\n\n{tables}\n{END}{after}"


def fill(path: str, begin: str, tables: str) -> None:
    """Write them into the file `path`. ValueError when it has no such place, OSError."""
    with open(path, encoding="utf-8") as file:
        page = filled(file.read(), begin, tables)
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)
