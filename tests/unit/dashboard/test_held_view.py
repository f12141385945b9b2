"""What keeps records from read_committed consumers, as the page lists it."""

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from cluster.client.admin import Admin
from cluster.client.explanation_requests import ExplainedPartitions
from cluster.client.topic_requests import Place
from cluster.coordinator.transactions.held_back import ExplainPartitionsAnswer, HeldPartition
from cluster.dashboard.held_view import LastingHolds, held_view
from cluster.model.clocks import MonotonicMs
from cluster.views import find_holders
from cluster.views.find_holders import ProducerNames
from cluster.views.known_holders import LASTING_MS, Verdict
from tests.support.fake_clock import FakeClock
from tests.support.held_partitions import HELD, NOW_MS, OPEN, PLACE, holder, known

PROGRAM = "bin/cluster --data-dir '/a b'"


def ms(value: int) -> MonotonicMs:
    return MonotonicMs(value)


def test_row_names_the_transaction_and_what_ends_it() -> None:
    (row,) = held_view([holder(found=known())], 0, PROGRAM, NOW_MS)["held"]
    assert row.pop("ends").startswith(
        "when its client commits or aborts it; else broker 2, its coordinator, aborts it in 47.7 s"
    )
    assert row == {
        "topic": "orders",
        "partition": 0,
        "verdict": "open",
        "transactional_id": "payments-1",
        "producer_id": 2000,
        "first_offset": 10,
        "since_ms": NOW_MS - 12_300,
        "age_ms": 12_300,
        "records": 1_224,
        "bytes": 98_304,
        "command": f"{PROGRAM} transactions force-terminate --transactional-id payments-1",
    }


def test_row_of_a_hanging_transaction_has_its_producer_id_and_the_command_that_aborts_it() -> None:
    (row,) = held_view([holder()], 0, PROGRAM, NOW_MS)["held"]
    assert (row["transactional_id"], row["producer_id"]) == (None, 2000)
    assert row["ends"].startswith("never by itself")
    place = "--topic orders --partition 0 --start-offset 10"
    assert row["command"] == f"{PROGRAM} transactions abort {place}"


def test_rows_are_sorted_by_age_and_the_rest_is_counted() -> None:
    ages = {"young": NOW_MS - 2_000, "unknown": -1, "old": NOW_MS - 9_000}
    holders = [
        replace(
            holder(replace(HELD, open=(replace(OPEN, first_timestamp_ms=at),), waiting_bytes=-1)),
            place=Place(topic, 0),
        )
        for topic, at in ages.items()
    ]
    view = held_view(holders, 7, PROGRAM, NOW_MS)
    assert [each["topic"] for each in view["held"]] == ["old", "young", "unknown"]
    assert [each["age_ms"] for each in view["held"]] == [9_000, 2_000, None]
    assert [each["bytes"] for each in view["held"]] == [None] * 3
    assert view["left_out"] == 7
    json.dumps(view, allow_nan=False)


def test_partition_is_shown_only_while_the_same_transaction_holds_it_back() -> None:
    lasting = LastingHolds()
    assert lasting.add({PLACE: HELD}, ms(0)) == {}
    assert lasting.add({PLACE: HELD}, ms(LASTING_MS - 1)) == {}
    assert lasting.add({PLACE: HELD}, ms(LASTING_MS)) == {PLACE: HELD}
    moved = replace(HELD, last_stable_offset=11)
    assert lasting.add({PLACE: moved}, ms(2 * LASTING_MS)) == {}
    assert lasting.add({}, ms(3 * LASTING_MS)) == {}
    assert lasting.add({PLACE: moved}, ms(4 * LASTING_MS)) == {}


def test_lasting_partitions_come_in_the_order_in_which_they_were_found() -> None:
    lasting = LastingHolds()
    lasting.add({Place("z", 0): HELD}, ms(0))
    older = replace(HELD, open=(replace(OPEN, first_timestamp_ms=5),))
    all_held: dict[Place, HeldPartition] = {
        Place("a", 0): HELD,
        Place("b", 0): older,
        Place("z", 0): HELD,
    }
    lasting.add(all_held, ms(1))
    assert [each.topic for each in lasting.add(all_held, ms(LASTING_MS + 1))] == ["z", "b", "a"]


class Coordinators:
    """Answers about transactional ids, and counts the looks through all of them."""

    def __init__(self, names: dict[int, str]) -> None:
        self.names = names
        self.looks = 0

    def find_producer(self, _admin: Any, producer_id: int) -> tuple[Any, list[str]]:
        self.looks += 1
        name = self.names.get(producer_id)
        return (None if name is None else type("Listed", (), {"transactional_id": name})), []


@pytest.mark.parametrize("names", [{}, {2000: "payments-1"}])
def test_a_producer_is_looked_for_once_among_all_ids(
    names: dict[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinators, clock = Coordinators(names), FakeClock()
    monkeypatch.setattr(find_holders, "find_producer", coordinators.find_producer)
    monkeypatch.setattr(find_holders, "explain_transaction", lambda *_: known().answer)
    monkeypatch.setattr(find_holders, "hidden_among", lambda *_: set())
    kept = ProducerNames(clock)

    def ask() -> ExplainedPartitions:
        told = ExplainedPartitions()
        told.add(ExplainPartitionsAnswer(1, NOW_MS, 1, 1, (HELD,), ()))
        return told

    def verdict() -> Verdict:
        _, (found,) = find_holders.find_holders(cast(Admin, None), ask, kept)
        return found.verdict

    expected = Verdict.OPEN if names else Verdict.HANGING
    assert [verdict() for _ in range(3)] == [expected] * 3
    assert coordinators.looks == 1
    coordinators.names = {2000: "payments-1"}
    clock.pass_time(30_000)
    assert verdict() is Verdict.OPEN
    assert coordinators.looks == (1 if names else 2)
    kept.keep({1})
    assert kept.name_of(2000) is None
