"""`transactions explain --topic`: what holds partitions back, in sentences and for scripts."""

import json
from dataclasses import replace
from typing import Any

import pytest

from cluster.client.explanation_requests import ExplainedPartitions
from cluster.client.topic_requests import Place
from cluster.coordinator.transactions.held_back import (
    ExplainPartitionsAnswer,
    HeldPartition,
    UncommittedMarker,
    Writer,
)
from cluster.coordinator.transactions.requests import ClientName
from cluster.coordinator.transactions.states import TransactionState
from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.tools.transactions.explanation_json import partitions_object
from cluster.views.explained_lines import WIDTH
from cluster.views.known_holders import Holder, KnownId, Verdict, still_held
from cluster.views.transactions.holder_text import holders_text
from tests.support.held_partitions import BILLING, EXPLAINED, HELD, NOW_MS, OPEN, holder, known


def text(one: Holder) -> str:
    """What is printed, checked to fit, on one line for comparisons."""
    printed = holders_text([one], NOW_MS)
    assert max(map(len, printed.splitlines())) <= WIDTH
    return " ".join(printed.split())


def test_an_open_transaction_names_its_client_and_its_timeout() -> None:
    found = holder(found=known())
    assert found.verdict is Verdict.OPEN
    assert text(found) == (
        "orders-0: read_committed consumers wait at offset 10 for an open transaction of"
        " 'payments-1', 12.3 s old; 1,224 records (96.0 KiB) wait behind it."
        " producer id 2000, epoch 4; client billing at 10.0.0.7"
        " since 2023-11-14 22:14:47.700 UTC"
        " ends when its client commits or aborts it; else broker 2, its coordinator, aborts it in"
        " 47.7 s, at 2023-11-14 22:15:47.700 UTC or up to 10 s later (transaction.timeout.ms=60000)"
        " to end it now bin/cluster transactions force-terminate --transactional-id payments-1"
    )


def test_a_hanging_transaction_has_the_command_that_ends_it() -> None:
    written = replace(OPEN, writer=Writer("ghost", BILLING), first_timestamp_ms=-1)
    found = holder(replace(HELD, open=(written,), waiting_records=1, waiting_bytes=-1))
    assert found.verdict is Verdict.HANGING
    assert text(found) == (
        "orders-0: read_committed consumers wait at offset 10 for a transaction that hangs: no"
        " coordinator knows it, so nothing ends it; 1 record waits behind it."
        " producer id 2000, epoch 4; client billing at 10.0.0.7, which wrote with transactional id"
        " 'ghost'"
        " ends never by itself: make sure that its client has stopped, then abort it"
        " to end it bin/cluster transactions abort --topic orders --partition 0 --start-offset 10"
    )


def test_a_transaction_whose_id_the_user_may_not_describe_is_not_said_to_hang() -> None:
    hidden = replace(OPEN, writer=None, is_writer_hidden=True)
    found = holder(replace(HELD, open=(hidden,)))
    assert found.verdict is Verdict.UNKNOWN
    assert "this user may not see its client" in text(found)
    assert "this user may not describe its transactional id" in text(found)


def changed(**changes: Any) -> KnownId:
    return known(replace(EXPLAINED, **changes))


@pytest.mark.parametrize(
    ("found", "verdict", "said"),
    [
        (known(None), Verdict.HANGING, "a transaction that hangs"),
        (changed(partitions=()), Verdict.HANGING, "a transaction that hangs"),
        (changed(state=TransactionState.COMPLETE_COMMIT), Verdict.HANGING, "that hangs"),
        (changed(partitions=(), partitions_left_off=9), Verdict.OPEN, "an open transaction"),
        (
            changed(state=TransactionState.PREPARE_COMMIT, unmarked=(TopicPartition("a", 3),)),
            Verdict.ENDING,
            "ends when broker 2, its coordinator, has written the markers: the commit was stored"
            " at 2023-11-14 22:14:58.000 UTC, missing are those of a-3",
        ),
        (
            changed(start_wall_ms=NOW_MS - 70_000),
            Verdict.OPEN,
            "aborts it within 10 s: it timed out at 2023-11-14 22:14:50.000 UTC",
        ),
        (
            changed(storing=TransactionState.PREPARE_ABORT, storing_since_wall_ms=NOW_MS - 4_000),
            Verdict.OPEN,
            "ends when its abort is stored: it was asked for 4.0 s ago, and in-sync replicas of"
            " __transaction_state have not confirmed it",
        ),
    ],
)
def test_the_verdict_follows_the_coordinator(found: KnownId, verdict: Verdict, said: str) -> None:
    one = holder(found=found)
    assert one.verdict is verdict
    assert said in text(one)


def test_a_coordinator_that_cannot_be_asked_is_said_not_guessed() -> None:
    one = holder(problem="broker 2: timed out")
    assert one.verdict is Verdict.UNKNOWN
    assert "coordinator cannot be asked: broker 2: timed out" in text(one)
    assert "abort --topic" not in text(one)


def test_a_marker_that_replicas_lack_is_explained() -> None:
    one = holder(replace(HELD, open=(), uncommitted=UncommittedMarker(10, 1_238)))
    assert one.verdict is Verdict.UNCOMMITTED
    assert "until every in-sync replica has the marker of a transaction" in text(one)
    assert "the marker at offset 1238; the high watermark is 1234" in text(one)


def test_a_damaged_index_is_explained() -> None:
    one = holder(replace(HELD, is_index_damaged=True), known())
    assert one.verdict is Verdict.DAMAGED
    assert "get nothing, because its index of aborted transactions is damaged" in text(one)
    assert "when broker 1, which leads it, has repaired the index" in text(one)


def test_transactions_behind_the_first_are_counted() -> None:
    later = [replace(OPEN, first_offset=offset) for offset in (20, 30, 40, 50)]
    one = holder(replace(HELD, open=(OPEN, *later), open_left_off=7), known())
    assert "11 more open transactions begin at offsets 20, 30, 40, and 8 more" in text(one)
    two = holder(replace(HELD, open=(OPEN, later[0])), known())
    assert "1 more open transaction begins at offset 20" in text(two)


def test_foreign_names_stay_on_their_line() -> None:
    hostile = ClientName("evil\n\x1b[2J", "10.0.0.7")
    found = KnownId("tx\n'$(reboot)", known(replace(EXPLAINED, client=hostile)).answer)
    printed = holders_text([holder(found=found)], NOW_MS)
    assert "evil\\n" in printed
    assert "\x1b" not in printed


def test_only_transactions_that_are_still_open_hang() -> None:
    hanging = holder()

    def later(*partitions: HeldPartition) -> ExplainedPartitions:
        found = ExplainedPartitions()
        found.add(ExplainPartitionsAnswer(1, NOW_MS, 1, 1, partitions, ()))
        return found

    assert still_held([hanging], later(HELD)) == [hanging]
    assert still_held([hanging], later()) == []
    moved = replace(HELD, open=(replace(OPEN, first_offset=11),))
    assert still_held([hanging], later(moved)) == []


def test_scripts_get_the_same_facts() -> None:
    told = ExplainedPartitions()
    told.add(ExplainPartitionsAnswer(1, NOW_MS, 3, 2, (HELD,), ()))
    told.refused[Place("orders", 2)] = ErrorCode.leader_not_available
    hanging = holder(replace(HELD, open=(replace(OPEN, writer=Writer("ghost", BILLING)),)))
    found = json.loads(
        json.dumps(partitions_object(told, [holder(found=known()), hanging], NOW_MS))
    )
    assert (found["examined_partitions"], found["open_transactions"]) == (3, 2)
    assert found["not_explained"] == [
        {"topic": "orders", "partition": 2, "error": "LEADER_NOT_AVAILABLE"}
    ]
    first, second = found["held_back"]
    assert (first["verdict"], second["verdict"]) == ("open", "hanging")
    assert first["transactional_id"] == "payments-1"
    assert first["transaction"]["times_out"] == NOW_MS + 47_700
    assert first["command"].endswith("--transactional-id payments-1")
    assert second["command"].endswith("--start-offset 10")
    assert second["open_transactions"][0]["written_by"] == BILLING._asdict()
    assert (first["waiting_records"], first["waiting_bytes"]) == (1_224, 98_304)
