"""One client's history, from the windows of the rollup."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cluster.dashboard.recent_history import MISSING_READER
from cluster.dashboard.sources import Json
from cluster.model.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

_POINTS_MAX: Final = 3_000
"""Points that a chart can show; wider windows are used instead of more."""
_VALUES: Final = (
    *("rate_avg", "rate_max", "limit", "throttled", "throttle_ms_sum", "throttle_ms_max"),
)


def client_history(
    place: Path, user: str, client_id: str, since_ms: int, now_ms: int, command: str
) -> Json:
    """`windows` since then in order of time, each `width_s` seconds wide.

    A window shows the broker with the client's highest rate under each quota. It comes twice: at
    its start and at its last second. If none follows immediately, one without values makes a gap in
    the line.

    Without windows, `empty` is the reason and `command` creates some. Raises UserError for a file
    that cannot be read.
    """
    if not place.is_dir():
        return _nothing("The rollup has not written any window yet. This makes them", command)
    try:
        import pyarrow as pa
    except ImportError:
        return _nothing(". ".join(MISSING_READER), command)
    from cluster.analytics.windows.kinds import QUOTA
    from cluster.analytics.windows.manifest import UnusableDirectory
    from cluster.analytics.windows.reading import days_by_width
    from cluster.analytics.windows.widths import WIDTHS_S

    since = datetime.fromtimestamp(max(0, since_ms) / 1000, UTC)
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    try:
        days = days_by_width(place, QUOTA)
        widths = [(WIDTHS_S[name], name) for name in WIDTHS_S if days[name]]
        if not widths:
            return _nothing("The rollup has not written any window yet. This makes them", command)
        width_s, width = _suitable(widths, now_ms - since_ms)
        found = _read(place, width, user, client_id, since, now)
    except UnusableDirectory as problem:
        raise UserError(f"cannot read the rollup's windows: {problem}") from None
    except (OSError, pa.ArrowException) as problem:
        reason = str(problem).partition("\n")[0]
        raise UserError(f"cannot read the rollup's windows: {reason}") from None
    windows = _with_gaps(_busiest(found), width_s)
    if not windows:
        return _nothing(
            "The rollup has no window of this client in this time. This adds what is new", command
        )
    return {"width_s": width_s, "windows": windows}


def _nothing(why: str, command: str) -> Json:
    return {"windows": [], "empty": f"{why}:", "command": f"{command} rollup"}


def _suitable(widths: list[tuple[int, str]], span_ms: int) -> tuple[int, str]:
    return next((each for each in widths if span_ms <= each[0] * 1000 * _POINTS_MAX), widths[-1])


def _read(
    place: Path, width: str, user: str, client_id: str, since: datetime, now: datetime
) -> "pa.Table":
    import pyarrow.compute as pc

    from cluster.analytics.windows.kinds import QUOTA
    from cluster.analytics.windows.reading import read_windows
    from cluster.analytics.windows.repair import AHEAD

    return read_windows(
        place,
        QUOTA,
        width,
        max(since, now - timedelta(days=366)),
        now + AHEAD,
        ["window_start", "quota", *_VALUES],
        (pc.field("user") == user) & (pc.field("client_id") == client_id),
        with_dictionaries=True,
    )


def _with_gaps(windows: list[dict[str, Any]], width_s: int) -> list[dict[str, Any]]:
    known = {(each["start_s"], each["quota"]) for each in windows}
    shown = []
    for each in windows:
        end_s = each["start_s"] + width_s
        shown += [each, {**each, "start_s": end_s - 1}]
        if (end_s, each["quota"]) not in known:
            shown.append({**dict.fromkeys(each), "start_s": end_s, "quota": each["quota"]})
    return sorted(shown, key=lambda each: (each["start_s"], each["quota"]))


def _busiest(windows: "pa.Table") -> list[dict[str, Any]]:
    """For each time and quota, the window of the broker with the highest rate."""
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for row in windows.to_pylist():
        start_s = int(row.pop("window_start").timestamp())
        other = found.get((start_s, row["quota"]))
        if other is None or (row["rate_max"] or 0) > (other["rate_max"] or 0):
            found[start_s, row["quota"]] = {"start_s": start_s, **row}
    return [found[key] for key in sorted(found)]
