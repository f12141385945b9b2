"""Events that the supervisor does not know, from differences between readings. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from cluster.metrics.broker_metrics import BY_KEY
from cluster.model.printable import one_line
from cluster.views.client_states import ALIVE, BrokerStats
from cluster.views.group_lags import GroupLags
from cluster.views.quantities import rate

_SETTLE_MS: Final = 30_000
"""Brokers learn of a limit at different times, and a client comes to the next broker later."""
_GROUPS_MAX: Final = 10_000
_ELECTIONS: Final = BY_KEY["LeaderElectionRateAndTimeMs"].name


class Change(NamedTuple):
    """An event: `quota`, `rebalance` or `election`."""

    kind: str
    subject: str
    text: str
    """Continues the subject."""


class LimitChanges:
    """Limits of clients that are connected; a limit that applies to nobody changes nothing."""

    def __init__(self) -> None:
        self._limits: dict[tuple[int, int, str, str, str], tuple[float | None, str | None]] = {}
        self._told: dict[tuple[str, str], tuple[float | None, int]] = {}
        """The limit that was reported last, and when, by subject and quota."""

    def take(self, now_ms: int, brokers: Sequence[BrokerStats]) -> list[Change]:
        """The changes since the last reading, those of one rule together."""
        self._told = {
            key: (limit, at) for key, (limit, at) in self._told.items() if now_ms - at < _SETTLE_MS
        }
        changed: dict[tuple[str, str, float | None, float | None], set[tuple[str, str]]] = {}
        limits = {}
        for broker in brokers:
            if broker.state != ALIVE:
                continue
            for row in broker.stats.rows:
                key = (broker.broker, broker.stats.pid, row.quota, row.user, row.client_id)
                limits[key] = (row.limit, row.rule)
                limit, rule = self._limits.get(key, (row.limit, row.rule))
                if limit != row.limit:
                    by = row.rule or rule or ""
                    group = (row.quota, by, limit, row.limit)
                    changed.setdefault(group, set()).add((row.user, row.client_id))
        self._limits = limits
        found = []
        for (quota, rule, before, after), clients in sorted(changed.items(), key=repr):
            subject = _clients(clients)
            if (told := self._told.get((subject, quota))) is not None and told[0] == after:
                continue
            self._told[subject, quota] = (after, now_ms)
            text = f"{quota} limit {_limit(quota, before)} → {_limit(quota, after)}"
            found.append(Change("quota", subject, f"{text}{f' (rule: {rule})' if rule else ''}"))
        return found


def _clients(clients: Iterable[tuple[str, str]]) -> str:
    ordered = sorted(clients)
    user, client_id = ordered[0]
    name = f"client {one_line(client_id) or '(empty)'} of {one_line(user)}"
    return name if len(ordered) == 1 else f"{name} and {len(ordered) - 1} more"


def _limit(quota: str, limit: float | None) -> str:
    return "none" if limit is None else rate(quota, limit)


class Rebalances:
    """Generations of groups, which are up to `milena.metrics.group.interval.ms` old."""

    def __init__(self) -> None:
        self._generations: dict[str, int] | None = None

    def take(self, groups: Sequence[GroupLags]) -> list[Change]:
        now = {each.name: int(each.fields["generation"]) for each in groups}
        before = self._generations
        if before is None:
            self._generations = now
            return []
        # A group that is missing in one reading is not new in the next one.
        self._generations = now if len(before) > _GROUPS_MAX else before | now
        found = []
        for group in groups:
            old, members = before.get(group.name, 0), int(group.fields["members"])
            rise = now[group.name] - old
            # Brokers load groups of earlier days after their start: without members, all is past.
            if rise > 0 and (old or members):
                times = f"{rise} times" if old and rise > 1 else f"(generation {now[group.name]})"
                text = f"rebalanced {times}, {members} member{'' if members == 1 else 's'}"
                found.append(Change("rebalance", group_subject(group.name), text))
        return found


def group_subject(name: str) -> str:
    """The subject of the events of a group."""
    return f"group {name}"


class Elections:
    """Partitions that got another leader, as the controller counts them."""

    def __init__(self) -> None:
        self._counts: dict[int, tuple[int, float]] | None = None
        """Process id and count by broker."""

    def take(self, brokers: Sequence[BrokerStats]) -> list[Change]:
        counts = {
            each.broker: (each.stats.pid, each.stats.values.get(_ELECTIONS, 0))
            for each in brokers
            if each.state == ALIVE
        }
        before = self._counts
        self._counts = {**(before or {}), **counts}
        if before is None:
            return []
        found = []
        for broker, (pid, count) in counts.items():
            former_pid, former = before.get(broker, (pid, 0))
            rise = int(count - (former if former_pid == pid else 0))
            if rise > 0:
                subject = f"{rise} partition{'' if rise == 1 else 's'}"
                found.append(Change("election", subject, "got another leader"))
        return found
