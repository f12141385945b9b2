"""How groups move, from the last two records of each. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cluster.tools.top.tables import GroupProgress
from cluster.views.group_lags import GroupLags


class _Record(NamedTuple):
    ts: int
    committed: int
    lag: int


class GroupPast:
    """The last two records of each group; brokers write one every few seconds."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[_Record | None, _Record]] = {}

    def add(self, groups: Iterable[GroupLags]) -> Mapping[str, GroupProgress]:
        """Add a reading; returns how the groups with two records move. Others are forgotten."""
        known: dict[str, tuple[_Record | None, _Record]] = {}
        for group in groups:
            name = str(group.fields["group"])
            record = _Record(
                group.fields["ts"],
                sum(each["committed"] or 0 for each in group.partitions),
                group.lag,
            )
            before = self._known.get(name)
            if before is None:
                known[name] = (None, record)
            elif before[1].ts != record.ts:
                known[name] = (before[1], record)
            else:
                known[name] = before
        self._known = known
        return {
            name: GroupProgress(
                1_000 * max(0, now.committed - before.committed) / (now.ts - before.ts),
                1_000 * (now.lag - before.lag) / (now.ts - before.ts),
            )
            for name, (before, now) in known.items()
            if before is not None and now.ts > before.ts
        }
