"""How groups of the newer consumer protocol ask for a change of their protocol: a port."""

from collections.abc import Sequence
from typing import Protocol

from cluster.coordinator.groups.consumer.journal import Journal
from cluster.coordinator.groups.history.rebalances import Cause
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.consumer_group import MemberAlarms
from cluster.model.clocks import Moment


class ProtocolChanges(Protocol):
    """Implemented by `bridge.conversions`."""

    def upgrade(self, classic: ClassicGroup, alarms: MemberAlarms, now: Moment) -> Journal:
        """Turn a classic group with members into one of the newer protocol. Raises Refusal."""
        ...

    def may_downgrade(self, member_count: int) -> bool:
        """Whether a group of this size may become a classic group."""
        ...

    def downgrade(self, journal: Journal, causes: Sequence[Cause], now: Moment) -> None:
        """Turn the journal's group into a classic group once the journal is stored."""
        ...
