import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.config.properties import PropertiesError, format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a \t\f=\t b  ", {"a": "b  "}),
        ("a==b", {"a": "=b"}),
        ("a:=b", {"a": "=b"}),
        ("a = = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("", {}),
        ("# a=b\n  ! c=d\n\n \t\ne=f", {"e": "f"}),
        ("a=b # no comment", {"a": "b # no comment"}),
        ("#a\\\nb=c", {"b": "c"}),
        ("a=b\r\nc=d\re=f\n", {"a": "b", "c": "d", "e": "f"}),
        ("a=b\u2028c\x0bd\x85e", {"a": "b\u2028c\x0bd\x85e"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\r\n\tc\\\nd", {"a": "bcd"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("a=b\\\n#c", {"a": "b#c"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("a\\ b\\=\\:c=d", {"a b=:c": "d"}),
        ("\\#a=b", {"#a": "b"}),
        ("a=\\t\\n\\r\\f\\q\\\\t", {"a": "\t\n\r\fq\\t"}),
        ("\\u0061=\\u00e9\\u00E9x", {"a": "ééx"}),
        ("a=\\uD83D\\uDE00", {"a": "😀"}),
        ("a=\\\\u0061", {"a": "\\u0061"}),
        ("a=1\na=2", {"a": "2"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b\n\n# c\nd=\\u12", r"line 4: \u12 is not \u with four hexadecimal digits"),
        ("\\u00zz=b", r"line 1: \u00zz is not \u with four hexadecimal digits"),
        ("a=b\nc=d\\\n  e\\\n  \\u+123", r"line 2: \u+123 is not \u with four hexadecimal digits"),
    ],
)
def test_a_bad_escape_is_refused_with_the_number_of_its_line(text: str, message: str) -> None:
    with pytest.raises(PropertiesError) as refusal:
        parse_properties(text)
    assert str(refusal.value) == message


def escaped(text: str, *, key: bool) -> str:
    """Escape like `Properties.store`: non-ASCII characters, all blanks in a key, and blanks at the start of a value."""
    out = []
    for place, character in enumerate(text):
        if character == " " and not key and place:
            out.append(character)
        elif character in "\\=:#! ":
            out.append("\\" + character)
        elif character.isascii() and character.isprintable():
            out.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass").hex()
            out.extend(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    return "".join(out)


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]))
    )
)
def test_what_java_would_store_is_read_back(properties: dict[str, str]) -> None:
    stored = "".join(f"{escaped(name, key=True)}={escaped(value, key=False)}\n" for name, value in properties.items())
    assert parse_properties(stored) == properties


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]))
    )
)
def test_what_is_written_is_read_back(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties


@given(st.text())
def test_any_text_is_properties_or_refused_with_a_line(text: str) -> None:
    try:
        parse_properties(text)
    except PropertiesError as error:
        assert str(error).startswith("line ")  # noqa: PT017 - most texts are not refused
