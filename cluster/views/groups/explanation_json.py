"""What `groups explain --json` prints: one object, the same facts for scripts. Pure."""

from typing import Any

from cluster.coordinator.groups.history.rebalances import Cause, Rebalance, WhoseMember
from cluster.views.groups.advice import advice
from cluster.views.groups.held_back import held_back_advice
from cluster.views.groups.known_rebalances import KnownGroup, costs, duration_ms


def explanation_object(known: KnownGroup, last: int) -> dict[str, Any]:
    """Times are milliseconds since the epoch; what ends in `_ms` besides is a duration."""
    group = known.group
    return {
        "group": known.name,
        "type": group.group_type,
        "state": group.state,
        "in_state_ms": group.in_state_ms,
        "state_times_ms": group.state_times_ms,
        "generation": group.generation_id,
        "assignment_epoch": group.assignment_epoch,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol_name,
        "leader": _who(group.leader),
        "coordinator": known.coordinator,
        "time": known.now_wall_ms,
        "known_since": known.since_wall_ms,
        "waits_at_most_ms": group.waits_at_most_ms,
        "members": [
            {
                **_named(member.who),
                "session_timeout_ms": member.session_timeout_ms,
                "rebalance_timeout_ms": member.rebalance_timeout_ms,
                "quiet_ms": member.quiet_ms,
                "has_joined": member.has_joined,
                "has_synced": member.has_synced,
                "epoch": member.epoch,
                "revoking": {topic: sorted(numbers) for topic, numbers in member.revoking},
                "revoke_left_ms": member.revoke_left_ms,
                "assigned": None
                if member.assigned is None
                else {topic: sorted(partitions) for topic, partitions in member.assigned},
            }
            for member in group.members
        ],
        "members_left_off": group.members_left_off,
        "rebalances": [
            _rebalance(known, broker, each) for broker, each in known.rebalances[-last:]
        ],
        "held_back": [each._asdict() for each in known.held_back],
        "advice": [*held_back_advice(known.held_back), *advice(known)],
        "brokers_without_answer": list(known.silent),
        "outages": [each._asdict() for each in known.outages],
    }


def _rebalance(known: KnownGroup, broker: int, rebalance: Rebalance) -> dict[str, Any]:
    return {
        "broker": broker,
        "started": rebalance.started_wall_ms,
        "duration_ms": duration_ms(rebalance, known.now_ms),
        "is_over": rebalance.is_over,
        "coordinator_moved": rebalance.is_abandoned,
        "from_generation": rebalance.from_generation,
        "generation": rebalance.generation_id,
        "members_before": rebalance.members_before,
        "members_after": rebalance.members_after,
        "causes": [_cause(each) for each in rebalance.causes],
        "causes_left_off": rebalance.causes_left_off,
        "joining_ms": rebalance.joining_ms,
        "initial_delay_ms": rebalance.initial_delay_ms,
        "rebalance_timeout_ms": rebalance.rebalance_timeout_ms,
        "assigning_ms": rebalance.assigning_ms,
        "leader": _who(rebalance.leader),
        "protocol": rebalance.protocol_name,
        "slowest": [
            {**_named(each.member), "waited_ms": each.waited_ms, "has_joined": each.has_joined}
            for each in rebalance.slowest
        ],
        "costs": [
            {"kind": cost.kind.name.lower(), "ms": cost.ms, "member": _who(cost.member)}
            for cost in costs(rebalance, known.now_ms)
        ],
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "kind": cause.kind.name.lower(),
        "after_ms": cause.after_ms,
        "timeout_ms": cause.timeout_ms,
        "detail": cause.detail,
        "member": _who(cause.member),
    }


def _who(member: WhoseMember | None) -> dict[str, Any] | None:
    return None if member is None else _named(member)


def _named(member: WhoseMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "group_instance_id": member.group_instance_id,
    }
