"""Protobuf schemas are stored in the text that Confluent's registry prints."""

from typing import Final

import pytest

from minibroker_registry.protobuf import parse
from minibroker_registry.schema import InvalidSchemaError


def _canonical(text: str) -> str:
    return parse(text, {}).canonical


def _normalized(text: str) -> str:
    return parse(text, {}).normalized


_ALL = """
    // A comment.
    syntax = 'proto3';
    import public "google/protobuf/any.proto";
    import "a.proto";
    option java_package = 'x';
    package p;
    service S { rpc Call(M) returns (stream M); }
    enum E { A = 0; }
    message M {
      message N { bool b = 1; } /* Another. */
      map<string , int64> m = 2 [deprecated = true];
      oneof o { string s = 3; }
      repeated int32 r = 1;
      reserved 5, 7 to 9;
      reserved "old";;
    };
"""
_ALL_PRINTED = """\
syntax = "proto3";
package p;

import "a.proto";
import public "google/protobuf/any.proto";

option java_package = "x";

message M {
  reserved 5, 7 to 9;
  reserved "old";

  map<string, int64> m = 2 [deprecated = true];
  repeated int32 r = 1;

  oneof o {
    string s = 3;
  }

  message N {
    bool b = 1;
  }
}
enum E {
  A = 0;
}

service S {
  rpc Call (M) returns (stream M);
}
"""
_ALL_NORMALIZED = """\
syntax = "proto3";
package p;

import "a.proto";
import public "google/protobuf/any.proto";

option java_package = "x";

message M {
  reserved 5;
  reserved 7 to 9;
  reserved "old";

  repeated int32 r = 1;
  map<string, int64> m = 2 [deprecated = true];

  oneof o {
    string s = 3;
  }

  message N {
    bool b = 1;
  }
}
enum E {
  A = 0;
}

service S {
  rpc Call (.p.M) returns (stream .p.M);
}
"""


def test_elements_are_printed_in_the_order_of_confluents_registry() -> None:
    assert _canonical(_ALL) == _ALL_PRINTED


def test_the_normalized_text_has_full_names_and_sorted_fields() -> None:
    assert _normalized(_ALL) == _ALL_NORMALIZED


_PRINTED: Final = {
    "": "",
    "message M {}": "\nmessage M {}\n",
    'syntax="proto2";message M{}': 'syntax = "proto2";\n\nmessage M {}\n',
    "package a.b;": "package a.b;\n",
    'import weak "a";': "",
    "enum E { reserved -1, 3 to max; option allow_alias = true; A = 0; B = 0 [deprecated = true]; }": """
enum E {
  reserved -1, 3 to max;
  option allow_alias = true;
  A = 0;
  B = 0 [deprecated = true];
}
""",
    "message M { extensions 5, 100 to 536870911 [verification = UNVERIFIED]; }": """
message M {
  extensions 5, 100 to max [verification = UNVERIFIED];
}
""",
    "message M { optional group G = 1 { required int32 a = 2; } oneof o { group H = 3 {} } }": """
message M {
  oneof o {
    group H = 3 {}
  }

  optional group G = 1 {
    required int32 a = 2;
  }
}
""",
    "message M { extend N { optional int32 a = 100; } } message N { extensions 100; } extend N { }": """
message M {
  extend N {
    optional int32 a = 100;
  }
}
message N {
  extensions 100;
}

extend N {}
""",
    "service S { option deprecated = true; rpc A (M) returns (M) {"
    " option idempotency_level = IDEMPOTENT; } } message M {}": """
message M {}

service S {
  option deprecated = true;

  rpc A (M) returns (M) {
    option idempotency_level = IDEMPOTENT;
  };
}
""",
    'message M { optional string a = 1 [json_name = "b", default = "\\x41\\n\'\\"\\101é", deprecated = true]; }': """
message M {
  optional string a = 1 [
    deprecated = true,
    default = "A\\n\\'\\"Aé",
    json_name = "b"
  ];
}
""",
    'message M { optional bytes a = 1 [default = "\\xff\\303\\251\\0"]; optional float b = 2 [default = -inf]; }': """
message M {
  optional bytes a = 1 [default = "\\377é\\000"];
  optional float b = 2 [default = -inf];
}
""",
    'option (a.b) = "x" "y"; option (a).b.c = -1; option (a).(.b).c = FOO; option (e) = {}; option (f) = [];': """
option (a.b) = "xy";
option (a).b.c = -1;
option (a).(.b).c = FOO;
option (e) = {
};
option (f) = [
];
""",
    'option (m) = { a: 1, b { c: [1, -2.5] d: "x" }; [p.q]: true a: 2 };': """
option (m) = {
  a: [
    1,
    2
  ],
  b: {
    c: [
      1,
      -2.5
    ],
    d: "x"
  },
  [p.q]: true
};
""",
    "message M { message N { optional int32 a = 1 [(x) = { y: 1 }, (z) = 2];"
    " enum E { A = 0; } oneof o { int32 b = 2; } } }": """
message M {
  message N {
    optional int32 a = 1 [
      (x) = {
        y: 1
      },
      (z) = 2
    ];
  \n    oneof o {
      int32 b = 2;
    }
  \n    enum E {
      A = 0;
    }
  }
}
""",
}


@pytest.mark.parametrize(("text", "printed"), _PRINTED.items())
def test_the_stored_text_is(text: str, printed: str) -> None:
    assert _canonical(text) == printed
    assert _canonical(printed) == printed


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("syntax = 'proto2'; message M {}", "\nmessage M {}\n"),
        (
            "message M { reserved 9 to 9, 'b', 2; reserved 'a', 1; }",
            "reserved 1;reserved 2;reserved 9;reserved 'a';reserved 'b';",
        ),
        ("enum E { B = 1; A = 0; }", "A = 0;B = 1;"),
        (
            "message M { extensions 9, 2 to 3 [verification = UNVERIFIED]; }",
            "extensions 2 to 3 [verification = UNVERIFIED];extensions 9 [verification = UNVERIFIED];",
        ),
        (
            "message M { oneof b { int32 y = 4; int32 x = 3; } oneof e {} oneof a { int32 z = 2; } }",
            "oneof a {int32 z = 2;}oneof b {int32 x = 3;int32 y = 4;}",
        ),
        (
            "message M { optional M a = 1 [json_name = 'x', deprecated = true]; }",
            "optional .M a = 1 [deprecated = true,json_name = 'x'];",
        ),
        (
            "message M { optional int32 a = 1 [default = 0x1F]; optional double b = 2 [default = 1.500e1]; }",
            "optional int32 a = 1 [default = 31];optional double b = 2 [default = 15];",
        ),
        (
            "message M { optional double b = 2 [default = 1e999999999]; }",
            "optional double b = 2 [default = 1e999999999];",
        ),
        (
            (
                "message M { map<string, M> m = 1; repeated E e = 2;"
                " message E { option map_entry = true; optional int32 key = 1; optional M value = 2; } }"
            ),
            "map<string, .M> m = 1;map<int32, .M> e = 2;",
        ),
        (
            "message M { extensions 9 to 20; extend M { optional int32 b = 10; } extend .M { optional M a = 9; } }",
            "extensions 9 to 20;extend .M {optional .M a = 9;optional int32 b = 10;}",
        ),
    ],
)
def test_the_normalized_text_is(text: str, normalized: str) -> None:
    printed = _normalized(text)
    lines = printed.strip().splitlines()
    if not normalized.startswith("\n"):
        printed = "".join(line.strip() for line in lines[1:-1])
        normalized = normalized.replace("'", '"')
    assert printed == normalized
    assert _normalized(_normalized(text)) == _normalized(text)


def test_several_options_for_one_message_become_one() -> None:
    text = """
        import "confluent/meta.proto";
        package p;
        message M {
          option (confluent.message_meta).tags = "B";
          option (.confluent.message_meta) = { doc: "x", tags: ["A", "B"] };
          option (confluent.message_meta).doc = "y";
          option deprecated = true;
        }
    """
    assert _normalized(text).partition("message M {\n")[2] == (
        "  option (confluent.message_meta) = {\n"
        '    doc: "y",\n'
        "    tags: [\n"
        '      "B",\n'
        '      "A"\n'
        "    ]\n"
        "  };\n"
        "  option deprecated = true;\n"
        "}\n"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('syntax = "proto4";', "line 1, column 10: expected 'proto2' or 'proto3' but found '\"proto4\"'"),
        ('edition = "2023";', "line 1, column 1: editions are not supported, use proto2 or proto3"),
        ("message M {\n  int32 a = 1;\n}", "line 2, column 9: the field of type 'int32' needs a label"),
        ("message M {\n  optional int32 a = ;\n}", "line 2, column 22: expected an integer but found ';'"),
        ("message M {", "line 1, column 12: expected a name but found the end"),
        ("message M { /* x", "line 1, column 13: the comment does not end"),
        ('import "a', "line 1, column 8: the string does not end on its line"),
        ("message M { optional int32 a = 0; }", "0 is not between 1 and 536870911"),
        ("message M { optional int32 a = 536870912; }", "536870912 is not between 1 and 536870911"),
        ("message M { optional int32 a = 08; }", "expected an integer but found '08'"),
        ("enum E { A = 2147483648; }", "2147483648 is not between -2147483648 and 2147483647"),
        ("message M { optional map<string, int32> a = 1; }", "a map has no label"),
        ('syntax = "proto3"; message M { required int32 a = 1; }', "proto3 has no required fields"),
        ("message M {} enum M {}", "M is defined twice"),
        ("message M { optional Unknown a = 1; }", 'M.a: the type "Unknown" is neither defined nor imported'),
        ("message M { map<string, Unknown> a = 1; }", 'M.a: the type "Unknown" is neither defined nor imported'),
        ("package p; service S { rpc A (X) returns (X); }", 'p.S.A: the type "X" is neither defined nor imported'),
        ("extend X { }", 'extend X: the type "X" is neither defined nor imported'),
        ('import "a.proto"; message M { optional a.A a = 1; }', '"a.A" is neither defined nor imported'),
        ("option a = {x};", "expected ':' but found '}'"),
        ("option a = [1 2];", "expected ',' or ']' but found '2'"),
        ("option a = \ud800;", "half of a surrogate pair"),
        ("mess", "expected a message, an enum, or another statement but found 'mess'"),
        ("message é {}", "expected a name but found 'é'"),
    ],
)
def test_an_invalid_schema_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        parse(text, {})
    assert problem in str(caught.value)
