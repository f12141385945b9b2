"""One client's past, from the windows that the rollup wrote."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cluster.dashboard.sources import Json
from cluster.model.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

_POINTS_MAX: Final = 3_000
"""Wider windows are taken rather than more points than a chart can show."""
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600}


def client_history(
    place: Path, user: str, client_id: str, since_ms: int, now_ms: int, command: str
) -> Json:
    """`windows` since then in order of time, each `width_s` seconds wide: of each quota, the
    broker where the client used most, twice: at the window's start and at its last second. Where no
    window follows at once there is one without values, a gap in a line.

    Without windows `empty` says why, and `command` makes some. Raises UserError for a
    file that cannot be read.
    """
    widths = _widths(place)
    if not widths:
        return _nothing("The rollup has not written any window yet. This makes them", command)
    try:
        import pyarrow as pa
    except ImportError:
        return _nothing("What reads the rollup is not installed yet. This installs it", command)
    width_s, width = _suitable(widths, now_ms - since_ms)
    since = datetime.fromtimestamp(max(0, since_ms) / 1000, UTC)
    try:
        found = _read(
            place, width, user, client_id, since, datetime.fromtimestamp(now_ms / 1000, UTC)
        )
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


def _widths(place: Path) -> list[tuple[int, str]]:
    """Seconds and name of each width that there are windows of, the narrowest first."""
    names = [each.name.removeprefix("width=") for each in place.glob("width=*")]
    return sorted(
        (int(name[:-1]) * _UNITS_S[name[-1]], name)
        for name in names
        if name[:-1].isdecimal() and name[-1:] in _UNITS_S
    )


def _suitable(widths: list[tuple[int, str]], span_ms: int) -> tuple[int, str]:
    return next((each for each in widths if span_ms <= each[0] * 1000 * _POINTS_MAX), widths[-1])


def _read(
    place: Path, width: str, user: str, client_id: str, since: datetime, until: datetime
) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.compute as pc

    from cluster.analytics.window_files import days_of, read_windows

    first = max(since, until - timedelta(days=366))
    windows = read_windows(place, width, days_of(first, max(first, until)))
    starts = windows["window_start"]
    of_client = pc.and_(
        pc.equal(windows["user"], pa.scalar(user, pa.string())),
        pc.equal(windows["client_id"], pa.scalar(client_id, pa.string())),
    )
    return windows.filter(
        pc.and_(of_client, pc.greater_equal(starts, pa.scalar(first, starts.type)))
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
    """Of the brokers' windows of one time and quota, the one with the highest rate."""
    names = ("rate_avg", "rate_max", "limit", "throttled", "throttle_ms_sum", "throttle_ms_max")
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for row in windows.select(["window_start", "quota", *names]).to_pylist():
        start_s = int(row.pop("window_start").timestamp())
        other = found.get((start_s, row["quota"]))
        if other is None or (row["rate_max"] or 0) > (other["rate_max"] or 0):
            found[start_s, row["quota"]] = {"start_s": start_s, **row}
    return [found[key] for key in sorted(found)]
