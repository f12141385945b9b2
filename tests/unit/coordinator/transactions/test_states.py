"""Every event in every state of a transactional id: the table, by what clients and the log see."""

from collections.abc import Callable

import pytest

from cluster.coordinator.transactions.options import DAY_MS
from cluster.coordinator.transactions.states import TABLE, Event, TransactionState
from cluster.coordinator.transactions.transaction import StoredTransaction
from cluster.model.clocks import WallMs
from cluster.model.error_codes import ErrorCode
from tests.support.transaction_stage import (
    ID,
    NONE,
    P0,
    P1,
    TIMEOUT_MS,
    V1,
    WALL_MS,
    TransactionStage,
)

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = (
    TransactionState(number) for number in range(6)
)
WAITS = "waits"
NOBODY_ASKS = "nobody asks"
FENCED, INVALID = ErrorCode.producer_fenced, ErrorCode.invalid_txn_state
PRODUCER, BEFORE = (7, 5), (7, 4)
STARTED_MS = WallMs(WALL_MS + 500)


def in_state(state: TransactionState) -> TransactionStage:
    """Epoch 5 of producer 7; in a transaction with one partition unless the state has none."""
    has_partitions = state in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
    stored = StoredTransaction(
        *PRODUCER,
        TIMEOUT_MS,
        state,
        frozenset({P0} if has_partitions else ()),
        last_update_ms=STARTED_MS,
        start_ms=WallMs(-1) if state is EMPTY else STARTED_MS,
        client_version=2,
    )
    return TransactionStage().loaded_with(**{ID: stored})


EVENTS: dict[Event, Callable[[TransactionStage], int | None]] = {
    Event.INIT: lambda stage: stage.init(),
    Event.ADD: lambda stage: stage.add(PRODUCER, P1),
    Event.COMMIT: lambda stage: stage.end(PRODUCER),
    Event.ABORT: lambda stage: stage.end(PRODUCER, is_commit=False),
    Event.COMMIT_AGAIN: lambda stage: stage.end(BEFORE),
    Event.ABORT_AGAIN: lambda stage: stage.end(BEFORE, is_commit=False),
    Event.COMMIT_V1: lambda stage: stage.end(PRODUCER, version=V1),
    Event.ABORT_V1: lambda stage: stage.end(PRODUCER, is_commit=False, version=V1),
    Event.TIMEOUT: lambda stage: stage.pass_time(TIMEOUT_MS + 20_000),
    Event.MARKED: lambda stage: stage.mark_all(),
    Event.EXPIRY: lambda stage: stage.pass_time(8 * DAY_MS),
}

# The answer, and the states of the records that are appended.
EXPECTED: dict[TransactionState, dict[Event, tuple[object, list[str]]]] = {
    EMPTY: {
        Event.INIT: (NONE, ["Empty"]),
        Event.ADD: (NONE, ["Ongoing"]),
        Event.COMMIT: (INVALID, []),
        Event.ABORT: (NONE, ["PrepareAbort", "CompleteAbort"]),
        Event.COMMIT_AGAIN: (FENCED, []),
        Event.ABORT_AGAIN: (FENCED, []),
        Event.COMMIT_V1: (INVALID, []),
        Event.ABORT_V1: (INVALID, []),
        Event.TIMEOUT: (NOBODY_ASKS, []),
        Event.MARKED: (NOBODY_ASKS, []),
        Event.EXPIRY: (NOBODY_ASKS, ["tombstone"]),
    },
    ONGOING: {
        Event.INIT: (WAITS, ["PrepareAbort"]),
        Event.ADD: (NONE, ["Ongoing"]),
        Event.COMMIT: (NONE, ["PrepareCommit"]),
        Event.ABORT: (NONE, ["PrepareAbort"]),
        Event.COMMIT_AGAIN: (FENCED, []),
        Event.ABORT_AGAIN: (FENCED, []),
        Event.COMMIT_V1: (NONE, ["PrepareCommit"]),
        Event.ABORT_V1: (NONE, ["PrepareAbort"]),
        Event.TIMEOUT: (NOBODY_ASKS, ["PrepareAbort"]),
        Event.MARKED: (NOBODY_ASKS, []),
        Event.EXPIRY: (NOBODY_ASKS, ["PrepareAbort"]),  # by its timeout
    },
    PREPARE_COMMIT: {
        Event.INIT: (WAITS, []),
        Event.ADD: (WAITS, []),
        Event.COMMIT: (WAITS, []),
        Event.ABORT: (WAITS, []),
        Event.COMMIT_AGAIN: (WAITS, []),
        Event.ABORT_AGAIN: (WAITS, []),
        Event.COMMIT_V1: (WAITS, []),
        Event.ABORT_V1: (WAITS, []),
        Event.TIMEOUT: (NOBODY_ASKS, []),
        Event.MARKED: (NOBODY_ASKS, ["CompleteCommit"]),
        Event.EXPIRY: (NOBODY_ASKS, []),
    },
    PREPARE_ABORT: {
        Event.INIT: (WAITS, []),
        Event.ADD: (WAITS, []),
        Event.COMMIT: (WAITS, []),
        Event.ABORT: (WAITS, []),
        Event.COMMIT_AGAIN: (WAITS, []),
        Event.ABORT_AGAIN: (WAITS, []),
        Event.COMMIT_V1: (WAITS, []),
        Event.ABORT_V1: (WAITS, []),
        Event.TIMEOUT: (NOBODY_ASKS, []),
        Event.MARKED: (NOBODY_ASKS, ["CompleteAbort"]),
        Event.EXPIRY: (NOBODY_ASKS, []),
    },
    COMPLETE_COMMIT: {
        Event.INIT: (NONE, ["Empty"]),
        Event.ADD: (NONE, ["Ongoing"]),
        Event.COMMIT: (INVALID, []),
        Event.ABORT: (NONE, ["PrepareAbort", "CompleteAbort"]),
        Event.COMMIT_AGAIN: (NONE, []),
        Event.ABORT_AGAIN: (INVALID, []),
        Event.COMMIT_V1: (NONE, []),
        Event.ABORT_V1: (INVALID, []),
        Event.TIMEOUT: (NOBODY_ASKS, []),
        Event.MARKED: (NOBODY_ASKS, []),
        Event.EXPIRY: (NOBODY_ASKS, ["tombstone"]),
    },
    COMPLETE_ABORT: {
        Event.INIT: (NONE, ["Empty"]),
        Event.ADD: (NONE, ["Ongoing"]),
        Event.COMMIT: (INVALID, []),
        Event.ABORT: (NONE, ["PrepareAbort", "CompleteAbort"]),
        Event.COMMIT_AGAIN: (INVALID, []),
        Event.ABORT_AGAIN: (NONE, []),
        Event.COMMIT_V1: (INVALID, []),
        Event.ABORT_V1: (NONE, []),
        Event.TIMEOUT: (NOBODY_ASKS, []),
        Event.MARKED: (NOBODY_ASKS, []),
        Event.EXPIRY: (NOBODY_ASKS, ["tombstone"]),
    },
}


def test_the_table_has_every_event_in_every_stored_state() -> None:
    assert set(TABLE) == set(EXPECTED)
    assert all(set(row) == set(Event) for row in TABLE.values())
    assert all(set(row) == set(Event) for row in EXPECTED.values())


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", EXPECTED)
def test_an_event_is_answered_and_stored_as_in_kafka(state: TransactionState, event: Event) -> None:
    stage = in_state(state)
    answer, appended = EXPECTED[state][event]
    known = len(stage.history())
    token = EVENTS[event](stage)
    if answer is not WAITS:
        stage.write_ends()
    assert stage.history()[known:] == appended
    if answer is NOBODY_ASKS:
        return
    assert token is not None
    assert stage.error(token) is (None if answer is WAITS else answer)
    if answer is WAITS:
        stage.pass_time(99)
        assert stage.error(token) is None
        stage.pass_time(1)
        assert stage.error(token) is ErrorCode.concurrent_transactions


@pytest.mark.parametrize("state", TransactionState)
def test_states_have_the_numbers_and_names_of_kafka(state: TransactionState) -> None:
    names = [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
    assert state.label == names[state]


@pytest.mark.parametrize(
    ("state", "outcome", "event"),
    [
        (state, outcome, event)
        for state, outcome in (
            (PREPARE_COMMIT, COMPLETE_COMMIT),
            (PREPARE_ABORT, COMPLETE_ABORT),
        )
        for event, (answer, _) in EXPECTED[state].items()
        if answer is WAITS
    ],
)
def test_a_request_that_waits_is_answered_when_the_markers_are_written(
    state: TransactionState, outcome: TransactionState, event: Event
) -> None:
    stage = in_state(state)
    known = len(stage.history())
    token = EVENTS[event](stage)
    assert token is not None
    stage.pass_time(50)
    stage.mark(P0)
    answer, appended = EXPECTED[outcome][event]
    assert stage.error(token) is answer
    stage.pass_time(1_000)
    assert stage.history()[known:] == (appended or [outcome.label])
    assert stage.error(token) is answer
