"""Changes stored configs: read, change, write unless somebody was faster, else begin again."""

from collections.abc import Callable, Mapping
from typing import Any

from cluster.brokers.stored.changes import DONE
from cluster.brokers.stored.document_follower import DocumentFollower
from cluster.coordinator.cluster_store import (
    NO_VERSION,
    ConfigOwner,
    StoredConfig,
    StoreSession,
    outcome_of,
)
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, Refused
from cluster.model.plan import Outcome

Texts = Mapping[str, str]
Change = Callable[[Texts], dict[str, str]]
"""Makes the new values from those that are stored. Raises Refused."""


def change_config(
    store: StoreSession,
    owner: ConfigOwner,
    wall_ms: Callable[[], WallMs],
    change: Change,
    follower: DocumentFollower[Any],
    on_done: Callable[[Outcome], None],
    *,
    is_dry: bool,
) -> None:
    """Change the stored config of an owner, unless `is_dry`; calls back once.

    When the outcome is `none`, this broker applies the config by its follower; the other brokers
    are being notified.
    """

    def on_failed(error: Exception) -> None:
        on_done(outcome_of(error))

    def read() -> None:
        store.submit(lambda stores: stores.configs.load(owner), on_read, on_failed)

    def on_read(stored: StoredConfig) -> None:
        if stored.problem is not None and stored.version == NO_VERSION:
            # It exists but may not be read: writing it as a new one would fail again and again.
            on_done(Outcome(ErrorCode.unknown_server_error, stored.problem))
            return
        try:
            texts = change(stored.texts)
        except Refused as refused:
            on_failed(refused)
            return
        if is_dry or texts == stored.texts:
            on_done(DONE)
            return
        now_ms, version = wall_ms(), stored.version
        store.submit(
            lambda stores: stores.configs.write(owner, texts, version, now_ms), on_tried, on_failed
        )

    def on_tried(is_written: bool) -> None:
        if is_written:
            follower.refresh(on_done)
        else:
            read()

    read()
