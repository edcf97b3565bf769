"""`make weight` measures the size of the code, one figure per line, and lists the largest import cycles.

Code lines exclude blank lines, comments and docstrings. Everything except tests and benchmarks is product code.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from tests.documented import ROOT
from tests.structure import circles, import_graph

SMALL: Final = 60
"""A file with fewer lines counts as small."""
_NO_CODE: Final = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENDMARKER, tokenize.ENCODING),
}


def is_test(name: str) -> bool:
    """Return whether a file is a test or a benchmark."""
    return name.startswith(("tests/", "benchmarks/")) or "/tests/" in name


def lines(text: str) -> tuple[int, int]:
    """Return the number of code lines, and of lines with comments and docstrings."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    comments: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings), len(docstrings | comments)


def _kinds(tree: ast.AST) -> Iterator[str]:
    """Yield the categories of each function and class in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = [child for statement in node.body for child in ast.walk(statement)]
            yield "functions"
            if node.returns and re.search(r"\b(Steps|Work)\b", ast.unparse(node.returns)):
                yield "functions_returning_steps"
            if any(isinstance(child, ast.Yield | ast.YieldFrom) for child in inside):
                yield "generator_functions"
            yield from ("imports_inside_functions" for c in inside if isinstance(c, ast.Import | ast.ImportFrom))
        elif isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).split("[")[0].rpartition(".")[2] for base in node.bases}
            if bases & {"Protocol", "ABC"}:
                yield "abstract_classes"


def weigh(texts: Mapping[str, str]) -> dict[str, float]:
    """Return the figures of Python files, given by name."""
    figures: Counter[str] = Counter()
    for name, text in texts.items():
        code, comments = lines(text)
        if is_test(name):
            figures["benchmark_code_lines" if name.startswith("benchmarks/") else "test_code_lines"] += code
            continue
        if re.search(r"\bgenerated\b", "\n".join(text.split("\n")[:5]), re.IGNORECASE):
            figures["generated_lines"] += text.count("\n")
            continue
        figures.update({"product_files": 1, "code_lines": code, "text_lines": comments})
        figures["lines_over_120"] += sum(len(line) > 120 for line in text.split("\n"))
        figures["small_files"] += text.count("\n") < SMALL and not re.search(
            r"__init__\.py$|/messages/|/handlers/", name
        )
        figures.update(_kinds(ast.parse(text)))
    ratio = round(figures["text_lines"] / max(figures["code_lines"], 1), 3)
    return {**dict(sorted(figures.items())), "text_per_code": ratio}


def main() -> None:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = {name: ROOT / name for name in listed.stdout.split()}
    figures = weigh({name: path.read_text() for name, path in paths.items() if path.exists()})
    report = [f"{name} {figure:,}" for name, figure in figures.items()]
    report += [f"circle of {len(circle)}: {', '.join(circle)}" for circle in circles(import_graph())[:5]]
    sys.stdout.write("\n".join(report) + "\n")


if __name__ == "__main__":
    main()
