"""What `make weight` counts."""

from tests.weight import weigh

SOURCE = '''"""A module."""
# A comment.
from abc import ABC

class A(ABC):
    """A class."""

    def steps(self) -> Steps[int]:
        import os  # inside
        yield """a
string"""
'''


def test_code_text_and_kinds_are_counted() -> None:
    assert weigh({"a/b.py": SOURCE, "tests/test_b.py": SOURCE, "a/c.py": "# generated\nx = 1\n"}) == {
        "abstract_classes": 1,
        "code_lines": 6,
        "functions": 1,
        "functions_returning_steps": 1,
        "generated_lines": 2,
        "generator_functions": 1,
        "imports_inside_functions": 1,
        "lines_over_120": 0,
        "product_files": 1,
        "small_files": 1,
        "test_code_lines": 6,
        "text_lines": 4,
        "text_per_code": 0.667,
    }
