"""How a client behaved while it was throttled, and what that says of it. Pure."""

from typing import Final, NamedTuple

_MUTES_TO_JUDGE: Final = 3
_HONOURS_UP_TO: Final = 0.7
"""Requests under way at a mute's beginning make up to half of a pausing client's mutes early, and
so do those that come a moment before its end, by another clock: 55 % of a Java producer's."""
_IGNORES_FROM: Final = 0.85


class Pauses(NamedTuple):
    """Mutes for one kind of quota that have ended, and the connections that had any.

    Counted since the broker first heard of the client.
    """

    quiet: int
    """Mutes in which nothing came."""
    early: int
    """Mutes in which requests came that should have waited."""
    connections: int
    """Connections that were muted."""
    early_connections: int
    """Those of them on which requests came meanwhile."""
    ahead: int = 0
    """Mutes in which nothing came, but requests from before waited: they say nothing, since the
    kernel's buffers may be full."""

    @property
    def honours_throttling(self) -> bool | None:
        """Whether the client pauses as it is told; None: too few mutes, or some of both."""
        mutes = self.quiet + self.early
        if mutes < _MUTES_TO_JUDGE:
            return None
        share = self.early / mutes
        if share <= _HONOURS_UP_TO:
            return True
        return False if share >= _IGNORES_FROM else None


NO_PAUSES: Final = Pauses(0, 0, 0, 0)
