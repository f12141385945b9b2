"""What `partitions balance` prints of a plan, and what it refuses to plan."""

import pytest

from cluster.balancing.carrying_out import Progress
from cluster.balancing.plan import plan_even
from cluster.balancing.replica_layout import Layout
from cluster.balancing.survey import Survey
from cluster.model.errors import UserError
from cluster.model.ids import BrokerId
from cluster.tools.main import main
from cluster.tools.partitions.balance import planned
from cluster.tools.partitions.balance_text import (
    few,
    load_rows,
    move_lines,
    progress_line,
    summary,
)
from tests.unit.balancing.layouts import MIB, a_layout


def test_the_table_shows_what_changes() -> None:
    layout = a_layout(["a", "b"], [[0], [0], [0, 1]], [4, 4, 1])
    plan = plan_even(layout)
    assert load_rows(layout, plan.moves) == [
        ["0", "a", "3 -> 2", "3 -> 2", "9.0 MiB -> 5.0 MiB"],
        ["1", "b", "0 -> 1", "1 -> 2", "1.0 MiB -> 5.0 MiB"],
    ]
    assert move_lines(layout, plan.moves) == ["t0-0: 0 -> 1"]
    assert summary(layout, plan.moves) == "1 partition to change: 1 replica to copy (4.0 MiB)."


def test_an_even_cluster_has_a_table_without_arrows() -> None:
    layout = a_layout([None, None], [[0], [1]], [4, 4])
    assert load_rows(layout, plan_even(layout).moves) == [
        ["0", "", "1", "1", "4.0 MiB"],
        ["1", "", "1", "1", "4.0 MiB"],
    ]


def test_partitions_that_copy_nothing_are_counted_apart() -> None:
    layout = a_layout([None] * 2, [[0, 1]] * 60)
    plan = plan_even(layout)
    assert summary(layout, plan.moves) == (
        "30 partitions to change: 30 partitions with only another preferred leader."
    )
    lines = move_lines(layout, plan.moves)
    assert len(lines) == 21
    assert lines[-1] == "... and 10 more (--json prints all)"


def test_a_broker_that_is_down_must_be_named_or_started() -> None:
    layout = a_layout({0: None, 1: None}, [[7, 0], [1, 0], [7]])
    with pytest.raises(UserError, match=r"broker 7 is down and has 2 replicas: .* --without 7$"):
        planned(Survey(layout, {}, ()), [], 0.1)
    plan = planned(Survey(layout, {}, ()), [7], 0.1)
    assert all(7 not in held for held in plan.moves.values())
    assert load_rows(layout, plan.moves)[-1] == ["7", "(down)", "2 -> 0", "2 -> 0", "0 bytes"]


def test_a_broker_that_is_unknown_is_refused() -> None:
    with pytest.raises(UserError, match=r"there is no broker 9; there are: 0,1$"):
        planned(Survey(a_layout([None] * 2, [[0]]), {}, ()), [9], 0.1)


def test_a_broker_that_cannot_be_emptied_is_refused() -> None:
    layout = a_layout([None] * 2, [[0, 1]] * 5)
    with pytest.raises(UserError, match=r"5 partitions cannot leave: t0-0, t0-1, t0-2, \.\.\.;"):
        planned(Survey(layout, {}, ()), [1], 0.1)
    fixed = Layout({BrokerId(0): None}, a_layout([None], [[1]]).replicas, {}, frozenset())
    assert planned(Survey(fixed, {}, ()), [1], 0.1).moves


def test_progress_names_what_is_left() -> None:
    assert progress_line(Progress(3, 2, 9, 5 * MIB)) == (
        "3 of 9 partitions done, 2 moving, 5.0 MiB left"
    )
    assert progress_line(Progress(1, 0, 1, 0)) == "1 of 1 partition done, 0 moving"
    assert progress_line(Progress(0, 1, 1, 0, (BrokerId(7),))) == (
        "0 of 1 partition done, 1 moving; waiting for broker 7, down"
    )
    assert few([]) == ""


@pytest.mark.parametrize(
    "words",
    [
        ["--execute", "--dry-run"],
        ["--execute", "--json"],
        ["--execute", "--throttle", "0"],
        ["--execute", "--at-once", "0"],
        ["--without", "x"],
        ["--tolerance", "-1"],
    ],
)
def test_options_that_make_no_sense_are_wrong_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status: object = main(["partitions", "balance", *words])
    except SystemExit as ended:  # argparse's own
        status = ended.code
    assert status == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
