"""Formats rates, durations and times for people, and chooses round numbers for axes. Pure."""

import math
from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ("B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s")
_PLAIN_UNITS: Final = {
    "request": ("% of thread", "%"),
    "mutation": ("partitions/s", "partitions/s"),
    "connection": ("connections/s", "connections/s"),
}
"""The units of quotas that do not count bytes: for an axis, and behind an amount."""
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
_TIME_STEPS_S: Final = (
    *(10, 20, 30, _MINUTE_S, 2 * _MINUTE_S, 5 * _MINUTE_S, 10 * _MINUTE_S, 20 * _MINUTE_S),
    *(30 * _MINUTE_S, _HOUR_S, 2 * _HOUR_S, 6 * _HOUR_S, 12 * _HOUR_S, _DAY_S),
)


def rate_unit(quota: str, highest: float) -> tuple[float, str]:
    """The divisor and name of the unit that suits the highest rate of a quota."""
    if quota in _PLAIN_UNITS:
        return 1.0, _PLAIN_UNITS[quota][0]
    step = min(int(math.log(highest, 1024)), len(_UNITS) - 1) if highest >= 1 else 0
    return 1024.0**step, _UNITS[step]


def rate(quota: str, amount: float | None) -> str:
    """`1.50 MiB/s`, `12.3 %`, `5.00 partitions/s`, or `-` for None."""
    if amount is None:
        return "-"
    if quota in _PLAIN_UNITS:
        return f"{number(amount)} {_PLAIN_UNITS[quota][1]}"
    divisor, unit = rate_unit(quota, amount)
    return f"{number(amount / divisor)} {unit}"


def usage(quota: str, amount: float) -> str:
    """The usage of a quota: `1.50 MiB`, or `12.3 % x s` of a thread."""
    if quota == "request":
        return f"{number(amount)} % x s"
    return rate(quota, amount).removesuffix("/s")


def number(amount: float) -> str:
    """The number with three significant digits."""
    decimals = 2 if abs(amount) < 10 else 1 if abs(amount) < 100 else 0
    return f"{amount:,.{decimals}f}"


def percent(amount: float | None) -> str:
    """`97 %`, `3.2 %`, or `-` for None."""
    if amount is None:
        return "-"
    return f"{amount:.0f} %" if amount >= 10 or amount == 0 else f"{amount:.1f} %"


def duration(amount_ms: float) -> str:
    """`0`, `820 ms`, `12.3 s`, `3 min 02 s`."""
    if amount_ms < 1000:
        return f"{amount_ms:.0f} ms" if amount_ms else "0"
    seconds = amount_ms / 1000
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE_S)
    if minutes < _MINUTE_S:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, _MINUTE_S)
    return f"{hours:,} h {minutes:02} min"


def clock(time_s: float, *, with_day: bool = False) -> str:
    """The UTC time of day of a time in seconds since the epoch; `with_day` adds the date."""
    shape = "%Y-%m-%d %H:%M:%S" if with_day else "%H:%M:%S"
    return datetime.fromtimestamp(time_s, UTC).strftime(shape)


def round_steps(highest: float, count: int) -> list[float]:
    """0 and about `count` round numbers after it, the last at or above `highest`."""
    if highest <= 0:
        return [0.0, 1.0]
    rough = highest / count
    magnitude = 10 ** math.floor(math.log10(rough))
    step = next(factor for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= rough * 0.999)
    steps = math.ceil(highest / (step * magnitude) - 1e-9)
    return [step * magnitude * index for index in range(steps + 1)]


def time_steps(first_s: int, end_s: int, count: int) -> list[int]:
    """At most `count` round times in a span, both ends included."""
    span = end_s - first_s
    step = next(
        (step for step in _TIME_STEPS_S if span / step < count),
        _DAY_S * -(-span // (_DAY_S * count)),
    )
    return list(range(-(-first_s // step) * step, end_s + 1, step))
