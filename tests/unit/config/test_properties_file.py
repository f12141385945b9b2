import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.config.properties_file import (
    parse_properties,
    read_properties_file,
    render_properties,
)
from cluster.model.errors import UserError

TEXTS = st.text(
    st.one_of(st.sampled_from(string.punctuation + " \t\n\r\f"), st.characters(codec="utf-8"))
)


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("# a\n! b\n\n  # c\n", {}),
        (
            "a=1\nb : two words\nc\t3\nd\ne=\n",
            {"a": "1", "b": "two words", "c": "3", "d": "", "e": ""},
        ),
        ("a=x,\\\n    y\\\r\n    z", {"a": "x,yz"}),
        ("a=C:\\\\logs\\\\\nb=1", {"a": "C:\\logs\\", "b": "1"}),
        (r"a\=b\:c\ d=\u0041\t\q", {"a=b:c d": "A\tq"}),
        ("a=1\na=2\n", {"a": "2"}),
        ("a = = b # c", {"a": "= b # c"}),
    ],
)
def test_a_file_is_read_as_java_reads_it(text, texts):
    assert parse_properties(text).texts == texts


def test_every_key_has_the_number_of_the_line_on_which_it_begins():
    text = "# one\n\na=1\r\nb=2,\\\n  3\n\x0b=\x85\nc=4\na=5"
    assert dict(parse_properties(text).lines) == {"a": 8, "b": 4, "\x0b": 6, "c": 7}


def test_a_broken_escape_is_refused_with_its_line():
    with pytest.raises(UserError, match=r"^line 3: \\u12 "):
        parse_properties("a=1\n\nb=\\u12\n")


@settings(deadline=None)
@given(st.dictionaries(TEXTS, TEXTS))
def test_rendered_properties_are_parsed_back(texts):
    assert parse_properties(render_properties(texts)).texts == texts


@settings(deadline=None)
@given(TEXTS)
def test_any_text_is_read_or_refused_with_a_line(text):
    refusal = "line "
    try:
        parse_properties(text)
    except UserError as problem:
        refusal = str(problem)
    assert refusal.startswith("line ")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    file = tmp_path / "a.properties"
    with pytest.raises(UserError, match=r"cannot read .*a\.properties: No such file"):
        read_properties_file(file)
    file.write_bytes(b"a=\xff")
    with pytest.raises(UserError, match=r"a\.properties: it is not text"):
        read_properties_file(file)
    file.write_text("a=\\u")
    with pytest.raises(UserError, match=r"a\.properties, line 1: "):
        read_properties_file(file)


@pytest.mark.parametrize("line", [r"key=\ud800", r"k\udc00y=value", r"key=\ude00\ud83d"])
def test_half_a_surrogate_pair_is_refused_with_its_line(line: str):
    with pytest.raises(UserError, match=r"^line 2: \\u[0-9a-f]{4} is not a character") as refused:
        parse_properties(f"other=1\n{line}\n")
    str(refused.value).encode()


def test_a_surrogate_pair_is_one_character():
    assert parse_properties(r"key=\ud83d\ude00").texts == {"key": "\N{GRINNING FACE}"}
