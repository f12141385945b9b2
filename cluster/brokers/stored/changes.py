"""Makes changes that clients ask for in the store, each on its own."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from cluster.coordinator.cluster_store import ClusterStore, StoreSession, outcome_of
from cluster.model.errors import ErrorCode
from cluster.model.plan import Outcome

DONE: Final = Outcome(ErrorCode.none)

K = TypeVar("K")
R = TypeVar("R")
Changes = Mapping[K, Callable[[ClusterStore], R]]


def make_changes(
    store: StoreSession,
    changes: Changes[K, R],
    on_made: Callable[[K, R], Outcome],
    on_done: Callable[[dict[K, Outcome]], None],
) -> None:
    """Make each change on the store's thread, and call back once with the outcome of each.

    Each succeeds or fails alone. `on_made` gets the result of a change that was made.
    """
    outcomes: dict[K, Outcome] = {}

    def end(key: K, outcome: Outcome) -> None:
        outcomes[key] = outcome
        if len(outcomes) == len(changes):
            on_done(outcomes)

    def submit(key: K, change: Callable[[ClusterStore], R]) -> None:
        store.submit(
            change,
            lambda result: end(key, on_made(key, result)),
            lambda error: end(key, outcome_of(error)),
        )

    if not changes:
        on_done(outcomes)
    for key, change in changes.items():
        submit(key, change)
