"""A client's behavior while it was throttled, and the verdict. Pure."""

from typing import Final, NamedTuple

_MUTES_TO_JUDGE: Final = 3
_HONORS_UP_TO: Final = 0.7
"""Requests in flight when a mute begins make up to half of a pausing client's mutes early. So do
requests just before its end, by the client's clock: 55 % for a Java producer."""
_IGNORES_FROM: Final = 0.85


class Pauses(NamedTuple):
    """Ended mutes for one kind of quota, and the connections that had any.

    Counted since the broker first knew the client.
    """

    quiet: int
    """Mutes without a request."""
    early: int
    """Mutes with requests that should have waited."""
    connections: int
    """Connections that were muted."""
    early_connections: int
    """Those of them with requests during a mute."""
    ahead: int = 0
    """Mutes without a request during which earlier requests waited.

    They prove nothing, since the kernel's buffers may be full."""

    @property
    def honors_throttling(self) -> bool | None:
        """Whether the client pauses as it should; None after too few mutes, or if both occur."""
        mutes = self.quiet + self.early
        if mutes < _MUTES_TO_JUDGE:
            return None
        share = self.early / mutes
        if share <= _HONORS_UP_TO:
            return True
        return False if share >= _IGNORES_FROM else None


NO_PAUSES: Final = Pauses(0, 0, 0, 0)
