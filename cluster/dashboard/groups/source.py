"""What the page shows of groups and changes in them, as an interface for its routes."""

from typing import Any, NamedTuple, Protocol

from cluster.dashboard.sources import Done, Json
from cluster.views.groups.new_offsets import Target


class Reset(NamedTuple):
    """The offsets of a group that are to be set, and where."""

    group: str
    target: Target
    amount: int = 0
    """An offset, a number of records or a time in ms, if the target needs one."""
    topic: str | None = None
    """None for all topics of which the group has offsets."""


class GroupSource(Protocol):
    """Blocking calls, made on threads. Each raises UserError with one line for the user."""

    def listed(self) -> Json:
        """All groups, see `group_rows`; no broker is asked."""
        ...

    def group(self, group: str) -> Json:
        """Members and partitions of one group, see `group_view`."""
        ...

    def explained(self, group: str) -> Json:
        """What `groups explain` prints: `sentence`, `text`, `command`; `is_rebalancing`."""
        ...

    def series(self, group: str, name: str, since_ms: int, since_event: int) -> dict[str, Any]:
        """The lag of a group in a range of `recorder.RANGES_S`, and its rebalances."""
        ...

    def preview(self, reset: Reset) -> Json:
        """What a reset would set, see `reset_view`; nothing is changed."""
        ...

    def reset(self, reset: Reset) -> Done:
        """Set the offsets."""
        ...
