"""The last rebalances of a group. Pure."""

from cluster.coordinator.groups.history.rebalances import Rebalance, slowest
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.parts import AnyGroup
from cluster.model.clocks import Moment


def rebalances_of(group: AnyGroup, now: Moment) -> tuple[Rebalance, ...]:
    """Oldest first, a running one last with its slowest members as of now. Read only."""
    rebalance = group.history.current
    if rebalance is not None:
        if not isinstance(group, ClassicGroup):
            rebalance.rebalance_timeout_ms = group.rebalance_timeout_ms()
            rebalance.slowest = slowest(rebalance, group.waited(), now)
        elif rebalance.joining_ms is None:
            rebalance.rebalance_timeout_ms = group.roster.rebalance_timeout_ms()
            rebalance.slowest = slowest(rebalance, group.waited(), now)
    return group.history.all()
