"""Reads groups from the stats files and from their coordinators, and sets their offsets."""

from collections.abc import Callable, Mapping, Sequence
from shlex import quote
from typing import Any, Final

from cluster.client.admin import Admin
from cluster.client.consumer_group_requests import commit_offsets, committed
from cluster.client.record_requests import LATEST, known_offsets_at
from cluster.client.refusals import reason_of
from cluster.client.security import Servers
from cluster.client.topic_requests import Place
from cluster.dashboard.broker_connection import (
    CHANGE_TIMEOUT_S,
    CLIENT_ID,
    TIMEOUT_S,
    addresses_of,
    security_of,
)
from cluster.dashboard.groups.commit_rates import CommitRates
from cluster.dashboard.groups.group_view import (
    PartitionState,
    group_rows,
    group_view,
    last_known,
    software_of,
)
from cluster.dashboard.groups.resetting import (
    check_resettable,
    done_text,
    reset_command,
    reset_view,
    why_not,
)
from cluster.dashboard.groups.source import Reset
from cluster.dashboard.missing_right import refusal_text
from cluster.dashboard.sampling.sampler import Sampler
from cluster.dashboard.sources import Done, Json
from cluster.datadir.paths import DataDir
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.finite_json import finite
from cluster.model.printable import one_line
from cluster.runtime.clock import SystemClock
from cluster.runtime.installation import launcher
from cluster.views.client_states import ALIVE, BrokerStats
from cluster.views.group_lags import group_lags
from cluster.views.groups.described_groups import DEAD, Group, describe_group
from cluster.views.groups.explanation_text import explanation_text
from cluster.views.groups.find_rebalances import REBALANCES_SHOWN, find_rebalances
from cluster.views.groups.new_offsets import NewOffsets, new_offsets
from cluster.views.groups.sentence import group_sentence

_JOINED: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.rebalance_in_progress})


class NoSuchGroup(UserError):
    """The coordinator does not know the group."""


class GroupReader:
    """Implements `GroupSource`: `group` is not called twice at once."""

    def __init__(
        self,
        files: DataDir,
        read: Callable[[], Sequence[BrokerStats]],
        read_state: Callable[[], Mapping[str, Any]],
        sampler: Sampler,
    ) -> None:
        """`read` reads the stats files; `read_state` asks the supervisor, and raises UserError."""
        self._files = files
        self._read = read
        self._read_state = read_state
        self._sampler = sampler
        self._rates = CommitRates()
        self._clock = SystemClock()

    def listed(self) -> Json:
        lags = group_lags(self._read(), self._clock.wall_ms())
        trends = self._sampler.group_trends(str(each.fields["group"]) for each in lags)
        found: Json = finite(group_rows(lags, trends))
        return found

    def series(self, group: str, name: str, since_ms: int, since_event: int) -> Json:
        return self._sampler.group_series(group, name, since_ms, since_event)

    def group(self, group: str) -> Json:
        brokers = self._read()
        try:
            with self._admin(brokers, TIMEOUT_S) as admin:
                return self._described(admin, group, brokers)
        except Refused as refused:
            problem = f"refuses to describe it: {self._reason(refused, 'Describe', group)}"
        except NoSuchGroup:
            raise
        except UserError as unreachable:
            problem = f"does not answer: {unreachable}"
        lags = group_lags(brokers, self._clock.wall_ms())
        known = next((each for each in lags if each.fields["group"] == group), None)
        why = f"the coordinator of group {one_line(group)} {problem}"
        if known is None:
            raise UserError(why)
        return last_known(known, why)

    def _described(self, admin: Admin, name: str, brokers: Sequence[BrokerStats]) -> Json:
        group = _existing(admin, name)
        offsets = {place: each.offset for place, each in committed(admin, name).items()}
        counts = admin.facts().partition_counts()
        places = {*offsets, *(place for member in group.members for place in member.assignment)}
        existing = {each for each in places if each.partition < counts.get(each.topic, 0)}
        ends = known_offsets_at(admin, existing, LATEST)
        now_ms = self._clock.wall_ms()
        rates = self._rates.rates(name, now_ms, offsets)
        states = {
            place: PartitionState(
                offsets.get(place), ends.get(place), rates.get(place), place in existing
            )
            for place in places
        }
        view: Json = finite(group_view(group, states, software_of(brokers), now_ms))
        return view

    def explained(self, group: str) -> Json:
        state = self._read_state()
        known = find_rebalances(
            self._servers(state, self._read()), CLIENT_ID, group, state["events"], TIMEOUT_S
        )
        return {
            "sentence": group_sentence(known),
            "text": explanation_text(known, REBALANCES_SHOWN),
            "is_rebalancing": known.running is not None,
            "command": f"{self._program()} groups explain {quote(f'--group={group}')} --verbose",
        }

    # -- offsets -----------------------------------------------------------------------------------

    def preview(self, reset: Reset) -> Json:
        try:
            with self._admin(self._read(), TIMEOUT_S) as admin:
                group = _existing(admin, reset.group)
                committed_now, found = _planned(admin, reset)
        except Refused as refused:
            raise UserError(self._reason(refused, "Describe", reset.group)) from None
        return reset_view(reset, committed_now, found, why_not(group), self._program())

    def reset(self, reset: Reset) -> Done:
        try:
            with self._admin(self._read(), CHANGE_TIMEOUT_S) as admin:
                check_resettable(_existing(admin, reset.group))
                _, found = _planned(admin, reset)
                if found.offsets:
                    commit_offsets(admin, reset.group, found.offsets)
        except Refused as refused:
            if refused.code in _JOINED:
                raise UserError(
                    f"a member has joined group {one_line(reset.group)}: stop it first"
                ) from None
            raise UserError(self._reason(refused, "Read", reset.group)) from None
        return Done(done_text(reset, found), reset_command(self._program(), reset))

    # -- connections -------------------------------------------------------------------------------

    def _admin(self, brokers: Sequence[BrokerStats], timeout_s: float) -> Admin:
        return Admin(self._servers(self._read_state(), brokers), CLIENT_ID, timeout_s)

    def _servers(self, state: Mapping[str, Any], brokers: Sequence[BrokerStats]) -> Servers:
        alive = [each.broker for each in brokers if each.state == ALIVE]
        return Servers([*addresses_of(state, alive).values()], security_of(self._files))

    def _reason(self, refused: Refused, operation: str, group: str) -> str:
        if refused.code is not ErrorCode.group_authorization_failed:
            return reason_of(refused)
        return refusal_text(self._files, refused, operation, "--group", group)

    def _program(self) -> str:
        return launcher(self._files.path)


def _existing(admin: Admin, name: str) -> Group:
    """Raises NoSuchGroup."""
    group = describe_group(admin, name)
    if group.state == DEAD:
        raise NoSuchGroup(f"there is no group {one_line(name)}")
    return group


def _planned(admin: Admin, reset: Reset) -> tuple[dict[Place, int], NewOffsets]:
    """The committed offsets of all partitions that exist, and the new ones of a reset."""
    counts = admin.facts().partition_counts()
    current = {
        place: each.offset
        for place, each in committed(admin, reset.group).items()
        if place.partition < counts.get(place.topic, 0)
    }
    if reset.topic is not None:
        if reset.topic not in counts:
            raise UserError(f"there is no topic {one_line(reset.topic)}")
        places = [Place(reset.topic, number) for number in range(counts[reset.topic])]
    else:
        places = list(current)
    return current, new_offsets(admin, places, current, reset.target, reset.amount)
