"""JSON as lines: what is JSON, and what the lines say."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cluster.dashboard.messages.json_tree import json_tree

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def parsed(text: str) -> Any:
    """What Python's parser makes of strict JSON; None where there is none."""

    def refuse(constant: str) -> Any:
        raise ValueError(constant)

    try:
        return json.loads(text, parse_constant=refuse)
    except ValueError:
        return None


def value_of(lines: list[list[Any]]) -> Any:
    """The value that the lines describe."""
    position = 0

    def read() -> Any:
        nonlocal position
        _, _, kind, content = lines[position]
        position += 1
        if kind == "object":
            members = {}
            for _ in range(content):
                label = json.loads(lines[position][1])
                members[label] = read()
            return members
        if kind == "array":
            return [read() for _ in range(content)]
        return json.loads(content)

    return read()


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_lines_describe_the_value(value: Any, is_ascii: bool, indent: int | None) -> None:
    text = json.dumps([value], ensure_ascii=is_ascii, indent=indent)
    tree = json_tree(text)
    assert tree is not None
    assert not tree.is_cut
    assert value_of(tree.lines) == json.loads(text)


@given(st.text('[]{},:"\\ \n1-.eE+0truefalsn u0d8aé\x01', max_size=20))
def test_exactly_what_is_json_has_a_tree(text: str) -> None:
    expected = parsed(text)
    tree = json_tree(text)
    assert (tree is not None) == isinstance(expected, list | dict)


@given(VALUES, st.integers(0, 50), st.sampled_from(',:]}"0x'))
def test_damaged_json_has_no_tree(value: Any, at: int, wrong: str) -> None:
    text = json.dumps({"a": value})
    broken = text[:at] + wrong + text[at:]
    assert (json_tree(broken) is not None) == isinstance(parsed(broken), list | dict)


def test_numbers_are_shown_as_they_are_written() -> None:
    tree = json_tree('{"id": 9223372036854775807, "e": 1e400, "p": 1.10, "id": -0}')
    assert tree is not None
    assert tree.lines == [
        [0, None, "object", 4],
        [1, '"id"', "number", "9223372036854775807"],
        [1, '"e"', "number", "1e400"],
        [1, '"p"', "number", "1.10"],
        [1, '"id"', "number", "-0"],
    ]


def test_half_a_surrogate_pair_stays_escaped() -> None:
    tree = json_tree(r'["\ud800", "\u00e9", "\ud83d\ude00", "\u0000"]')
    assert tree is not None
    assert [line[3] for line in tree.lines[1:]] == [r'"\ud800"', '"é"', '"😀"', r'"\u0000"']
    json.dumps(tree.lines, ensure_ascii=False).encode()


def test_ten_thousand_levels_are_read() -> None:
    tree = json_tree("[" * 10_000 + "]" * 10_000)
    assert tree is not None
    assert tree.lines[-1] == [9_999, 0, "array", 0]
    assert json_tree("[" * 10_000) is None


def test_a_long_tree_is_cut_and_still_counts() -> None:
    tree = json_tree(json.dumps([*range(100)]), lines_max=10)
    assert tree is not None
    assert tree.is_cut
    assert tree.lines[0] == [0, None, "array", 100]
    assert len(tree.lines) == 10


def test_a_megabyte_is_read_in_one_pass() -> None:
    assert json_tree('["' + "\\n" * 500_000 + '"]') is not None
    assert json_tree('["' + "\\n" * 500_000) is None
