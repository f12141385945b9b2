"""The registry's persistent state: the tree, the sessions and the last zxid. Pure.

The running server and recovery change it in the same way, so that a replayed journal leads to the
state that clients had seen.
"""

from cluster.coordinator.registry.server.sessions import SessionTable
from cluster.coordinator.registry.server.transactions import (
    SessionClosed,
    SessionOpened,
    Transaction,
)
from cluster.coordinator.registry.server.tree import ZnodeTree
from cluster.model.clocks import MonotonicMs


class RegistryState:
    """The replicated part of the registry.

    Invariant: it is the result of the transactions 1..last_zxid, and of nothing else.
    """

    def __init__(self, tick_time_ms: int) -> None:
        self.tree = ZnodeTree()
        self.sessions = SessionTable(tick_time_ms)
        self.last_zxid = 0

    def apply(self, transaction: Transaction, now_ms: MonotonicMs) -> None:
        """Apply the next transaction; `now_ms` is monotonic, for new sessions."""
        for change in transaction.changes:
            match change:
                case SessionOpened(session_id, timeout_ms, password):
                    self.sessions.open(session_id, timeout_ms, password, now_ms)
                case SessionClosed(session_id):
                    self.sessions.close(session_id)
                case _:
                    self.tree.apply(change, transaction.zxid, transaction.wall_ms)
        self.last_zxid = transaction.zxid
