"""The keys of `top`, its order and its filter."""

import pytest

from cluster.tools.top.selection import Selection, chosen_rows, keys_of, window
from cluster.tools.top.tables import Row, Table

COLUMNS = ("TOPIC", "IN", "LAG")


def a_table() -> Table:
    rows = [("b", 3.0, None), ("a", 20.0, 5), ("ab", 1.0, 7)]
    return Table(
        COLUMNS, ("IN", "LAG"), (), [Row(row[0], tuple(map(str, row)), row, {}) for row in rows]
    )


def after(keys: str, selection: Selection | None = None) -> Selection:
    selection = selection or Selection()
    for key in keys_of(keys):
        selection = selection.pressed(key, COLUMNS)
    return selection


def names(selection: Selection) -> list[str]:
    return [row.name for row in chosen_rows(a_table(), selection)]


@pytest.mark.parametrize(
    ("keys", "view"),
    [("2", "topics"), ("g", "groups"), ("b", "brokers"), ("\t", "topics"), ("\t\t\t\t", "clients")],
)
def test_keys_switch_views(keys: str, view: str) -> None:
    assert after(keys).view == view


def test_a_view_begins_in_its_usual_order() -> None:
    selection = after(">r2")
    assert (selection.sort, selection.is_reversed, names(selection)) == (
        None,
        False,
        ["b", "a", "ab"],
    )


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (">", ["a", "ab", "b"]),
        (">r", ["b", "ab", "a"]),
        (">>", ["a", "b", "ab"]),
        ("\x1b[C\x1bOC", ["a", "b", "ab"]),
        ("<", ["ab", "a", "b"]),
        ("<r", ["a", "ab", "b"]),
        ("r", ["ab", "a", "b"]),
    ],
)
def test_keys_sort_by_the_neighboring_column(keys: str, expected: list[str]) -> None:
    assert names(after(keys)) == expected


def test_a_filter_is_typed_and_its_letters_are_no_keys() -> None:
    selection = after("/Aq\x7f")
    assert (selection.filter, selection.is_typing, selection.is_over) == ("A", True, False)
    assert names(selection) == ["a", "ab"]
    assert after("\r", selection).pressed("q", COLUMNS).is_over
    assert after("\x1b", selection) == Selection()
    assert after("\r\x1b", selection).filter == ""


def test_other_keys() -> None:
    assert after("a").everyone
    assert after(" ").is_paused
    assert not after("pp").is_paused
    assert after("jj\x1b[A").at == 1
    assert after("k").at == 0
    assert after("q").is_over
    assert after("\x1b[5~z\x00") == Selection()


@pytest.mark.parametrize(
    ("count", "at", "shown"),
    [(3, 2, (0, 3)), (100, 0, (0, 10)), (100, 50, (45, 55)), (100, 99, (90, 100))],
)
def test_the_selected_row_is_shown(count: int, at: int, shown: tuple[int, int]) -> None:
    assert window(count, at, 10) == shown
