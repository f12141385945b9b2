"""Changes configs in the store: read, change, write if nobody was faster, else begin again."""

from collections.abc import Callable, Mapping
from typing import Final

from cluster.coordinator.cluster_store import (
    NO_VERSION,
    ClusterStore,
    StoredConfig,
    StoreSession,
    StoreVersion,
)
from cluster.model.errors import ErrorCode, Refused
from cluster.model.plan import Outcome

DONE: Final = Outcome(ErrorCode.none)

Texts = Mapping[str, str]
Change = Callable[[Texts], dict[str, str]]
"""From the values that are stored to those that are to be. Raises Refused."""


def change_stored(
    store: StoreSession,
    load: Callable[[ClusterStore], StoredConfig],
    write: Callable[[ClusterStore, dict[str, str], StoreVersion], bool],
    change: Change,
    on_written: Callable[[], None],
    on_done: Callable[[Outcome], None],
    *,
    is_dry: bool,
) -> None:
    """Change what `load` reads, by `write`, which is False where somebody has written meanwhile.

    Calls back once: `on_written` when it is stored, `on_done` when it was refused, when it failed,
    and when there is nothing to write.
    """
    on_failed = failed(on_done)

    def on_loaded(stored: StoredConfig) -> None:
        if stored.problem is not None and stored.version == NO_VERSION:
            # It is there, but may not be read: writing it as new would fail again and again.
            on_done(Outcome(ErrorCode.unknown_server_error, stored.problem))
            return
        try:
            texts = change(stored.texts)
        except Refused as refused:
            on_done(Outcome(refused.code, refused.detail))
            return
        if is_dry or texts == stored.texts:
            on_done(DONE)
            return
        store.submit(lambda to: write(to, texts, stored.version), on_tried, on_failed)

    def on_tried(is_written: bool) -> None:
        if is_written:
            on_written()
        else:  # somebody was faster: begin with what is there now
            store.submit(load, on_loaded, on_failed)

    store.submit(load, on_loaded, on_failed)


def failed(on_done: Callable[[Outcome], None]) -> Callable[[Exception], None]:
    """What to call with an error of the store."""

    def on_failed(error: Exception) -> None:
        on_done(Outcome(ErrorCode.unknown_server_error, f"the registry did not take it: {error!r}"))

    return on_failed
