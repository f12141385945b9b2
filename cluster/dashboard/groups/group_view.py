"""Groups as the page gets them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cluster.client.topic_requests import Place, by_topic
from cluster.dashboard.sampling.group_past import GroupTrend
from cluster.dashboard.sources import Json
from cluster.model.own_clients import is_own
from cluster.views.client_states import BrokerStats
from cluster.views.group_lags import GroupLags
from cluster.views.groups.described_groups import Group, Member

GROUPS_MAX: Final = 1_000
"""Groups in one list; if there are more, those with the largest lag."""
PARTITIONS_MAX: Final = 500
MEMBERS_MAX: Final = 200
_FIELDS: Final = (
    *("group", "type", "protocol_type", "state", "members", "partitions"),
    *("partitions_unknown", "lag", "lag_max"),
)


class PartitionState(NamedTuple):
    """A partition that a group has committed, or that a member has."""

    committed: int | None
    end: int | None
    """None if its leader does not tell, or if it does not exist."""
    per_s: float | None
    """How fast the committed offset rises."""
    exists: bool = True


def group_rows(lags: Sequence[GroupLags], trends: Mapping[str, GroupTrend]) -> Json:
    """A row of each group, the largest lag first, with what is left out."""
    return {
        "groups": [_row(each, trends.get(each.fields["group"])) for each in lags[:GROUPS_MAX]],
        "left_out": max(0, len(lags) - GROUPS_MAX),
    }


def _row(group: GroupLags, trend: GroupTrend | None) -> Json:
    known = trend or GroupTrend(None, 0.0, 0.0)
    return {
        **{name: group.fields[name] for name in _FIELDS},
        **known._asdict(),
        "is_own": is_own(str(group.fields["group"])),
    }


def group_view(
    group: Group,
    partitions: Mapping[Place, PartitionState],
    software: Mapping[str, str],
    now_ms: int,
) -> Json:
    """One group: its members by client id, and its partitions.

    `software` names the library of a client id. If there are too many partitions, those with the
    largest lag are shown.
    """
    owners = {place: member for member in group.members for place in member.assignment}
    rows = [_partition(place, each, owners.get(place)) for place, each in partitions.items()]
    if len(rows) > PARTITIONS_MAX:
        rows.sort(key=lambda row: -(row["lag"] or 0))
    shown = sorted(rows[:PARTITIONS_MAX], key=lambda row: (row["topic"], row["partition"]))
    members = sorted(group.members, key=lambda each: (each.client_id, each.member_id))
    return {
        "group": group.name,
        "ts": now_ms,
        "state": group.state,
        "type": "consumer" if group.is_newer else "classic",
        "assignor": group.assignor,
        "coordinator": group.coordinator_id,
        "epoch": group.epoch,
        "member_count": len(members),
        "members": [_member(each, software) for each in members[:MEMBERS_MAX]],
        "members_left_out": max(0, len(members) - MEMBERS_MAX),
        "topics": sorted({place.topic for place in partitions}),
        "partition_count": len(rows),
        "partitions": shown,
        "partitions_left_out": len(rows) - len(shown),
        "lag": _total(row["lag"] for row in rows),
        "per_s": _total(each.per_s for each in partitions.values()),
    }


def _total(rates: Iterable[float | None]) -> float | None:
    known = [each for each in rates if each is not None]
    return sum(known) if known else None


def _partition(place: Place, state: PartitionState, owner: Member | None) -> Json:
    is_known = state.committed is not None and state.end is not None
    return {
        "topic": place.topic,
        "partition": place.partition,
        "committed": state.committed,
        "end": state.end,
        "lag": max(0, (state.end or 0) - (state.committed or 0)) if is_known else None,
        "per_s": state.per_s,
        "exists": state.exists,
        "member": None if owner is None else owner.client_id,
        "member_id": None if owner is None else owner.member_id,
    }


def _member(member: Member, software: Mapping[str, str]) -> Json:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host.lstrip("/"),
        "software": software.get(member.client_id, ""),
        "epoch": member.epoch,
        "assignment": by_topic(sorted(member.assignment)),
        "partitions": len(member.assignment),
    }


def software_of(brokers: Iterable[BrokerStats]) -> dict[str, str]:
    """The library of each client id, as it has told brokers."""
    return {
        row.client_id: row.software
        for broker in brokers
        for row in broker.stats.rows
        if row.software
    }


def last_known(lags: GroupLags, problem: str) -> Json:
    """What the stats files know of a group whose coordinator does not answer; no members."""
    fields: Mapping[str, Any] = lags.fields
    states = {
        Place(each["topic"], each["partition"]): PartitionState(
            each["committed"], each["log_end"], None
        )
        for each in lags.partitions
    }
    group = Group(str(fields["group"]), str(fields["state"]), "", "", ())
    view = group_view(group, states, {}, int(fields["ts"]))
    return {
        **view,
        "type": fields["type"],
        "member_count": fields["members"],
        "partition_count": fields["partitions"],
        "partitions_left_out": max(0, fields["partitions"] - len(view["partitions"])),
        "lag": fields["lag"],
        "problem": problem,
    }
