"""A model of how busy a broker's thread is with given bytes and requests, fitted to its windows.
Pure.

busy = base + per_mib * MiB/s + per_request * requests/s, by least squares over windows, without
negative terms. If that explains little, busy time is assumed to be proportional to the bytes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

MIB: Final = 1 << 20
WINDOWS_MIN: Final = 30
"""Fewer windows are not fitted."""
R2_MIN: Final = 0.5
_TINY: Final = 1e-9
"""Variances below this, relative to the square of the mean, count as zero."""


class Load(NamedTuple):
    """The load of one broker in one window. Bytes include replication."""

    start_s: int
    busy: float
    """Share of the time, 0 to 1."""
    client_mib_per_s: float
    replication_mib_per_s: float
    requests_per_s: float

    @property
    def mib_per_s(self) -> float:
        """All bytes."""
        return self.client_mib_per_s + self.replication_mib_per_s


@dataclass(frozen=True, slots=True)
class BusyModel:
    """How the busy share of one broker depends on its load."""

    kind: str
    """`fitted` or `proportional`."""
    base: float
    per_mib: float
    per_request: float
    r2: float | None
    """The share of the variance that the fit explains; None without a fit."""
    windows: int

    def busy(self, before: Load, after: Load) -> float:
        """The busy share under another load than the measured one; above 1 if it is too much.

        The unexplained part of a window stays the same.
        """
        if self.kind == "fitted":
            more_mib = after.mib_per_s - before.mib_per_s
            more_requests = after.requests_per_s - before.requests_per_s
            moved = before.busy + self.per_mib * more_mib + self.per_request * more_requests
            return max(0.0, moved)
        if not before.mib_per_s:
            return before.busy
        return before.busy * after.mib_per_s / before.mib_per_s


def fitted(loads: Sequence[Load]) -> BusyModel:
    """The model of a broker with these windows; of several fits the one that explains the most."""
    fits = [
        fit
        for columns in (("mib", "requests"), ("mib",), ("requests",))
        if (fit := _fit(loads, columns)) is not None
    ]
    best = max(fits, key=lambda fit: fit.r2 or 0.0, default=None)
    if best is not None and (best.r2 or 0.0) >= R2_MIN and len(loads) >= WINDOWS_MIN:
        return best
    return BusyModel("proportional", 0.0, 0.0, 0.0, None if best is None else best.r2, len(loads))


def _fit(loads: Sequence[Load], columns: Sequence[str]) -> BusyModel | None:
    """The least-squares fit of these columns.

    None if they do not vary, are dependent, or give a negative term.
    """
    if len(loads) < len(columns) + 2:
        return None
    busy = [load.busy for load in loads]
    values = {
        "mib": [load.mib_per_s for load in loads],
        "requests": [load.requests_per_s for load in loads],
    }
    chosen = [values[name] for name in columns]
    spread = _covariance(busy, busy)
    if spread <= _TINY * _mean(busy) ** 2:
        return None
    found = _solved(
        [[_covariance(one, other) for other in chosen] for one in chosen],
        [_covariance(one, busy) for one in chosen],
    )
    if found is None or min(found) < 0:
        return None
    terms = dict(zip(columns, found, strict=True))
    per_mib, per_request = terms.get("mib", 0.0), terms.get("requests", 0.0)
    base = _mean(busy) - per_mib * _mean(values["mib"]) - per_request * _mean(values["requests"])
    if base < -0.01:
        return None
    explained = sum(term * _covariance(values[name], busy) for name, term in terms.items())
    return BusyModel(
        "fitted", max(0.0, base), per_mib, per_request, min(1.0, explained / spread), len(loads)
    )


def _solved(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """The solution of one or two equations; None without a unique one."""
    if len(matrix) == 1:
        return [right[0] / matrix[0][0]] if matrix[0][0] > 0 else None
    (a, b), (c, d) = matrix
    determinant = a * d - b * c
    if a <= 0 or d <= 0 or determinant <= 1e-6 * a * d:  # one is nearly a multiple of the other
        return None
    return [
        (right[0] * d - b * right[1]) / determinant,
        (a * right[1] - c * right[0]) / determinant,
    ]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _covariance(one: Sequence[float], other: Sequence[float]) -> float:
    mean, others = _mean(one), _mean(other)
    return math.fsum((a - mean) * (b - others) for a, b in zip(one, other, strict=True)) / len(one)
