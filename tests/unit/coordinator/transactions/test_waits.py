"""Requests that wait for an earlier transition of their transactional id."""

import pytest

from cluster.coordinator.transactions.options import TransactionOptions
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.waits import WAITING_MAX
from cluster.model.error_codes import ErrorCode
from tests.support.transaction_stage import NONE, P0, P1, V1, V2, TransactionStage

CONCURRENT = ErrorCode.concurrent_transactions


def ending(wait_max_ms: int = 100, version: int = V2) -> TransactionStage:
    """Producer 1000 has committed; the markers are missing."""
    stage = TransactionStage(TransactionOptions(wait_max_ms=wait_max_ms)).loaded()
    producer = stage.producer()
    stage.add(producer, version=version)
    stage.end(producer, version=version)
    return stage


@pytest.mark.parametrize("wait_max_ms", [0, 1, 100, 700])
def test_a_request_waits_for_the_configured_time(wait_max_ms: int) -> None:
    stage = ending(wait_max_ms)
    token = stage.add((1_000, 1))
    if wait_max_ms:
        stage.pass_time(wait_max_ms - 1)
        assert stage.error(token) is None
        stage.pass_time(1)
    assert stage.error(token) is CONCURRENT
    stage.mark(P0)
    assert stage.state() is TransactionState.COMPLETE_COMMIT, "it was not added afterwards"


def test_requests_that_wait_are_tried_in_their_order() -> None:
    stage = ending()
    first, second, third = stage.add((1_000, 1), P0), stage.add((1_000, 1), P1), stage.init()
    stage.mark(P0)
    assert [stage.error(token) for token in (first, second)] == [NONE, NONE]
    assert stage.stored().partitions == {P0, P1}
    assert stage.error(third) is None, "now it aborts the transaction that has begun"
    stage.mark(P0, P1)
    assert stage.producer_in(third) == (1_000, 3)


def test_the_deadline_stays_the_same_over_several_transitions() -> None:
    stage = ending()
    stage.holds_appends = True
    tokens = [stage.add((1_000, 1), P0), stage.add((1_000, 1), P1)]
    stage.pass_time(60)
    stage.mark(P0)  # complete; the first request is appended
    stage.pass_time(35)
    assert [stage.error(token) for token in tokens] == [None, None]
    stage.pass_time(5)
    assert [stage.error(token) for token in tokens] == [None, CONCURRENT]
    stage.settle()
    assert stage.error(tokens[0]) is NONE


def test_a_request_that_waits_is_fenced_if_that_is_what_it_has_waited_for() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.add(producer, version=V1)
    stage.holds_appends = True
    stage.init()
    tokens = [stage.add(producer, P1), stage.end(producer, version=V1)]
    assert [stage.error(token) for token in tokens] == [None, None]
    stage.settle()
    stage.mark_all()
    stage.settle()
    assert [stage.error(token) for token in tokens] == [ErrorCode.producer_fenced] * 2


def test_requests_that_wait_go_on_after_an_append_that_failed() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.holds_appends = True
    first, second = stage.add(producer, P0), stage.add(producer, P1)
    stage.settle_one(ErrorCode.not_enough_replicas)
    stage.settle_one()
    assert stage.error(first) is ErrorCode.coordinator_not_available
    assert stage.error(second) is NONE
    assert stage.stored().partitions == {P1}


def test_requests_that_wait_for_an_expired_id_begin_with_a_new_one() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.holds_appends = True
    stage.pass_time(8 * 24 * 3_600_000)
    init, add = stage.init(), stage.add(producer)
    stage.settle()
    assert stage.producer_in(init) == (1_001, 0)
    assert stage.error(add) is not None
    assert stage.history() == ["Empty", "tombstone", "Empty"]


def test_the_number_of_requests_that_wait_for_one_id_is_bounded() -> None:
    stage = ending()
    tokens = [stage.add((1_000, 1), P1) for _ in range(WAITING_MAX + 5)]
    found = [stage.error(token) for token in tokens]
    assert found == [None] * WAITING_MAX + [CONCURRENT] * 5
    stage.mark(P0)
    assert [stage.error(token) for token in tokens[:WAITING_MAX]] == [NONE] * WAITING_MAX
    assert stage.error(stage.add((1_000, 1), P0)) is NONE


def test_requests_that_have_ended_leave_no_alarm() -> None:
    stage = ending()
    for _ in range(3_000):
        stage.add((1_000, 1), P1)
        stage.mark_all()
        stage.end((1_000, stage.stored().producer_epoch))
    alarms = stage.shard.next_deadline_ms()
    assert alarms is not None
    stage.pass_time(1_000)
    assert stage.shard.next_deadline_ms() == 11_000, "only the checks for timeouts are left"
