"""How the records of each family leave watches."""

from collections.abc import Callable

from kazoo.protocol.states import WatchedEvent

from cluster.coordinator.cluster_store import OnChange

WatchFunction = Callable[[WatchedEvent], None]
Watch = Callable[[OnChange | None], WatchFunction | None]
"""Turns a callback into a watch function for one call of kazoo's client; None into none."""
