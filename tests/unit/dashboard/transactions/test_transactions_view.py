"""Which transactional ids the page lists, what a row says, and what ending one will do."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from cluster.client.topic_requests import Place
from cluster.client.transaction_requests import ListedTransaction
from cluster.coordinator.transactions.explanation import (
    ExplainTransactionAnswer,
    TransactionExplanation,
)
from cluster.coordinator.transactions.states import TransactionState
from cluster.dashboard.transactions.transactions_view import (
    OPEN_MAX,
    OTHERS_MAX,
    Choice,
    abort_question,
    chosen,
    terminate_question,
    transactions_view,
)
from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.tools.main import command_line
from cluster.views.known_holders import KnownId
from cluster.views.transaction_words import abort_command, explain_command, terminate_command
from tests.support.held_partitions import EXPLAINED, NOW_MS

PROGRAM = "bin/cluster --data-dir '/a b'"
NASTY = "it's <b>\n$(x)"


def listed(name: str, state: str = "Ongoing", producer_id: int = 1) -> ListedTransaction:
    return ListedTransaction(name, 0, producer_id, state)


def no_starts(_listed: Sequence[ListedTransaction]) -> Mapping[str, float]:
    raise AssertionError("brokers are not asked when all fit")


def known(name: str, explained: TransactionExplanation = EXPLAINED) -> KnownId:
    return KnownId(name, ExplainTransactionAnswer(ErrorCode.none, 2, NOW_MS, explained))


def view(*found: KnownId, problems: Sequence[str] = ()) -> dict[str, list[dict[str, object]]]:
    choice = Choice([listed(each.transactional_id) for each in found], 0, [], 0)
    by_name = {each.transactional_id: each for each in found}
    made = transactions_view(choice, by_name, problems, PROGRAM)
    return json.loads(json.dumps(made))


def test_choice_has_open_ones_and_of_others_the_newest_producers() -> None:
    ids = [
        listed("b"),
        listed("a", "PrepareCommit"),
        *(listed(f"o{number}", "CompleteCommit", number) for number in range(OTHERS_MAX + 3)),
        listed("e", "Empty", 900),
    ]
    found = chosen(ids, "", no_starts)
    assert [each.transactional_id for each in found.open] == ["a", "b"]
    assert (found.open_left_out, found.others_left_out) == (0, 4)
    assert [each.transactional_id for each in found.others][:2] == ["e", f"o{OTHERS_MAX + 2}"]


def test_choice_of_too_many_open_ones_is_the_oldest() -> None:
    ids = [listed(f"id-{number:03}") for number in range(OPEN_MAX + 10)]
    starts = {each.transactional_id: float(-at) for at, each in enumerate(ids)}
    del starts["id-059"]  # its coordinator did not say
    found = chosen(ids, "", lambda _: starts)
    assert [each.transactional_id for each in found.open][:2] == ["id-058", "id-057"]
    assert found.open_left_out == 10


def test_choice_filters_without_regard_to_case_and_has_an_id_once() -> None:
    ids = [listed("Payments-1"), listed("Payments-1"), listed("orders", "Empty")]
    found = chosen(ids, "PAY", no_starts)
    assert [each.transactional_id for each in found.shown] == ["Payments-1"]


def test_row_says_who_holds_it_open_and_for_how_long() -> None:
    (row,) = view(known("payments-1"))["open"]
    assert row == {
        "transactional_id": "payments-1",
        "state": "Ongoing",
        "coordinator": 2,
        "producer_id": 2000,
        "epoch": 4,
        "client": "billing at 10.0.0.7",
        "since_ms": NOW_MS - 12_300,
        "age_ms": 12_300,
        "updated_ms": NOW_MS - 2_000,
        "timeout_ms": 60_000,
        "partitions": ["orders-0"],
        "partition_count": 1,
        "command": f"{PROGRAM} transactions force-terminate --transactional-id payments-1",
    }


def test_rows_are_sorted_by_age_then_by_change() -> None:
    older = replace(EXPLAINED, start_wall_ms=NOW_MS - 99_000)
    ended = replace(EXPLAINED, state=TransactionState.COMPLETE_COMMIT)
    earlier = replace(ended, last_update_wall_ms=NOW_MS - 50_000, client=None)
    found = view(known("y"), known("earlier", earlier), known("o", older), known("e", ended))
    assert [row["transactional_id"] for row in found["open"]] == ["o", "y"]
    assert [row["transactional_id"] for row in found["others"]] == ["e", "earlier"]
    assert [found["others"][1][key] for key in ("client", "since_ms", "age_ms")] == [None] * 3


def test_row_names_few_of_many_partitions() -> None:
    many = tuple(TopicPartition("orders", number) for number in range(9))
    (row,) = view(known("x", replace(EXPLAINED, partitions=many, partitions_left_off=3)))["open"]
    assert row["partitions"] == [f"orders-{number}" for number in range(4)]
    assert row["partition_count"] == 12


def test_id_that_was_not_explained_is_left_out_and_problems_are_told() -> None:
    choice = Choice([listed("gone")], 7, [], 5)
    assert transactions_view(choice, {}, ["Broker 1 does not answer."], PROGRAM) == {
        "open": [],
        "open_left_out": 7,
        "others": [],
        "others_left_out": 5,
        "problems": ["Broker 1 does not answer."],
    }


def test_question_says_what_terminating_does() -> None:
    assert terminate_question("payments-1", EXPLAINED) == (
        "Abort the open transaction of 'payments-1'? Its coordinator writes abort markers in 1"
        " partition: read_committed consumers never get its records, and offsets that it was to"
        " commit are dropped. Its producer (client billing at 10.0.0.7), epoch 4, is fenced: each"
        " further request of it fails, and it has to be started again."
    )
    idle = replace(EXPLAINED, state=TransactionState.EMPTY, client=None)
    assert terminate_question(NASTY, idle).startswith(
        "'it's <b>\\n$(x)' has no open transaction now. Its producer, epoch 4, is fenced"
    )


def test_question_says_what_aborting_does() -> None:
    text = abort_question("orders", 3, 17, "producer 4242, epoch 0,")
    assert text.startswith(
        "Abort the hanging transaction of producer 4242, epoch 0, that begins at offset 17 of"
        " orders-3?"
    )


@pytest.mark.parametrize("name", [NASTY, "-x y", "--topic"])
def test_commands_are_parsed_to_what_they_name(name: str) -> None:
    for line in (terminate_command(name, "milena"), explain_command(name, "milena")):
        assert command_line(shlex.split(line)[1:]).transactional_id == name
    args = command_line(shlex.split(abort_command(Place("orders", 3), 17, "milena"))[1:])
    assert (args.topic, args.partition, args.start_offset) == ("orders", 3, 17)
