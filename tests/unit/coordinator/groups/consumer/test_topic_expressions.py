"""Expressions by which members subscribe to topics."""

import re
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.coordinator.groups.consumer.topic_expressions import (
    MAX_BYTES,
    MAX_COSTLY,
    InvalidExpression,
    compile_expression,
)


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("orders", ["orders"], ["orders2", "my-orders", "Orders", ""]),
        ("orders.*", ["orders", "orders-eu"], ["my-orders"]),
        ("a|ab", ["a", "ab"], ["abb", "b"]),  # as a whole: the first alternative is too short
        ("^orders$", ["orders"], ["orders-eu"]),
        ("(?i)orders-[[:digit:]]+", ["ORDERS-17"], ["orders-", "orders-x"]),
        (r"\pL+\d{2,3}", ["ab12", "é123"], ["ab1", "12"]),
        (r"\Qa.b\E.*", ["a.b", "a.b.c"], ["axb"]),
        ("(?P<region>eu|us)-.+", ["eu-x"], ["eu-", "de-x"]),
        ("(?<region>eu|us)-.+", ["us-x"], ["us-"]),
        ("", [""], ["a"]),
    ],
)
def test_an_expression_matches_whole_names(text, matching, others):
    expression = compile_expression(text)
    assert expression.text == text
    assert [each for each in matching + others if expression.matches(each)] == matching


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(", "missing ): ("),
        ("a)", "unexpected ): a)"),
        ("[b-a]", "invalid character class range: b-a"),
        ("*a", "no argument for repetition operator: *"),
        ("(?!a)b", "invalid perl operator: (?!"),
        ("(?=a)b", "invalid perl operator: (?="),
        (r"(a)\1", r"invalid escape sequence: \1"),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("(a{500}){500}", "invalid repetition size: {500}"),
        (r"\pL{900}", "pattern too large - compile failed"),
        ("\ud800", "it is not Unicode"),
        ("x" * (MAX_BYTES + 1), f"it has {MAX_BYTES + 1} bytes, and may have {MAX_BYTES}"),
        (
            r"\pL" * (MAX_COSTLY + 1),
            f"it has more than {MAX_COSTLY} classes of Unicode and counted repetitions",
        ),
    ],
)
def test_an_invalid_expression_is_refused_with_the_reason(text, reason):
    with pytest.raises(InvalidExpression) as refused:
        compile_expression(text)
    assert str(refused.value) == reason


@pytest.mark.parametrize("text", ["(a*)*b", "(a|aa)+b", "(.*a){100}b", "(a?){200}a{200}b"])
def test_no_expression_takes_exponential_time(text):
    # a backtracking matcher would not finish these in time
    started = time.process_time()
    assert not compile_expression(text).matches("a" * 249)
    assert time.process_time() - started < 5


@given(
    st.from_regex(
        re.compile(r"[a-c.]([a-c.]|[a-c][*+?]|\([ab]\|c\)){0,6}", re.ASCII), fullmatch=True
    )
)
def test_simple_expressions_match_as_in_python(text):
    ours, python = compile_expression(text), re.compile(text)
    for name in ("a", "b", "c", "ab", "abc", "aaa", "cab", "abcabc", "bcb", text):
        assert ours.matches(name) == bool(python.fullmatch(name)), name


@given(st.text(max_size=40))
def test_any_text_compiles_or_is_refused(text):
    with suppress(InvalidExpression):
        compile_expression(text).matches("orders")
