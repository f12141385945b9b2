"""Limits that would fit the clients' usage, and the clients that a supposed limit would throttle.

Computed by Spark (`demand.py`) over the rollup's narrowest windows.
"""

import contextlib
import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from cluster.analytics.reports.periods import period_of
from cluster.analytics.rollup.spark_session import JVM_GONE, reason, spark_session
from cluster.analytics.windows.kinds import QUOTA, WINDOW_SCHEMA
from cluster.analytics.windows.manifest import UnusableDirectory
from cluster.analytics.windows.reading import days_by_width, read_windows, split_windows
from cluster.analytics.windows.spark_types import ddl
from cluster.analytics.windows.store import Store
from cluster.analytics.windows.widths import NARROWEST
from cluster.model.errors import UserError
from cluster.model.own_clients import OWN_PREFIX
from cluster.model.printable import one_line
from cluster.model.quota_usage import CLIENT_KEYS
from cluster.model.quotas import DEFAULT, KEY_OF_KIND, QuotaEntity, QuotaKind
from cluster.runtime.installation import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEVELS: Final = (
    "client",
    "default-client",
    "user",
    "default-user",
    "user+client",
    "default-user+default-client",
)
"""The rules for which limits are recommended."""

_COLUMNS: Final = (
    *("window_start", "broker", *CLIENT_KEYS, "rule", "limit"),
    *("usage_sum", "rate_max", "throttle_ms_sum", "throttled", "records", "histogram"),
)
"""The columns of windows that are read."""
_DDL: Final = ddl(WINDOW_SCHEMA.field(name) for name in _COLUMNS)
_HELD_FROM: Final = 0.95
"""A throttled client that came this near to its limit sent what the limit admits."""
_STEPS_PER_UNIT: Final = 100
"""Limits that are not in bytes per second are rounded up to hundredths."""
_DEFAULT: Final = "default-"

Phase = Callable[[str], AbstractContextManager[None]]
"""Makes a context manager that shows the start of a step and, at its end, its duration."""


@dataclass(frozen=True, slots=True)
class Question:
    """The windows to search, and the suppositions."""

    store: Store
    first: datetime
    """The earliest start of a window."""
    end: datetime
    """The end of the starts of windows."""
    levels: Sequence[str] = LEVELS
    supposed: Mapping[str, float] = field(default_factory=dict)
    """Supposed limits by kind of quota."""
    with_own: bool = False
    """Whether to include Milena's own clients."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The usage under one quota of clients that a rule would limit. Rates are those of a broker."""

    level: str
    """The rule, one of LEVELS."""
    quota: str
    user: str | None
    client_id: str | None
    """None if the rule names none, and for defaults."""
    rate_max: float
    rate_p95: float
    """Over all seconds in which it was active at a broker; for a default, the highest of anyone."""
    seconds: int
    windows: int
    """Windows in which it was active, counted for each broker."""
    seconds_over: int
    windows_over: int
    """Those of them above the supposed limit, which would have throttled."""
    rule: str | None
    limit_now: float | None
    """The latest limit; for a default, that of the fastest."""
    windows_throttled: int
    throttle_ms: float
    names: int = 1
    """The number of users, client ids or pairs."""
    names_over: tuple[str, ...] = ()
    """The clients that the supposed limit would have throttled, the fastest first."""
    is_held: bool = False
    """Whether the highest rate is what a limit admitted, so that the real demand may be higher."""

    @property
    def is_default(self) -> bool:
        """Whether it covers all clients that the limit of a default would apply to."""
        return self.level.startswith(_DEFAULT)

    @property
    def name(self) -> str:
        """Its owner, on one line, for display."""
        if self.is_default:
            return f"({self.names:,} {'name' if self.names == 1 else 'names'})"
        names = [self.user] if "user" in self.level else []
        names += [self.client_id] if "client" in self.level else []
        return " + ".join(one_line(name or "") or "(no name)" for name in names)

    @property
    def entity(self) -> QuotaEntity | None:
        """The entity of the limit; None for a client without a name."""
        user = (DEFAULT if self.is_default else self.user) if "user" in self.level else None
        client_id = (
            (DEFAULT if self.is_default else self.client_id) if "client" in self.level else None
        )
        entity = QuotaEntity(user, client_id)
        return entity if entity.rule == self.level and "" not in entity else None

    @property
    def key(self) -> str:
        """Kafka's key of the quota, e.g. `producer_byte_rate`."""
        return KEY_OF_KIND[QuotaKind(self.quota)]

    def limit(self, headroom: float) -> float:
        """The limit, rounded up, of which the highest rate leaves this share (0 to 1) free."""
        limit = self.rate_max / (1 - headroom)
        if self.key.endswith("_byte_rate"):
            return float(max(1, math.ceil(limit)))
        return max(1, math.ceil(limit * _STEPS_PER_UNIT)) / _STEPS_PER_UNIT


@dataclass(frozen=True, slots=True)
class Findings:
    """The demands that were found, and the period that was searched."""

    first: datetime
    """The start of the first window."""
    last: datetime
    """The start of the last window."""
    demands: tuple[Demand, ...]
    """Sorted by level; within one level clients that a supposed limit throttles come first."""
    own_clients: int
    """The number of Milena's own client ids that are left out."""


def look_back(question: Question, master: str, log: Path, phase: Phase) -> Findings | None:
    """Start Spark and answer the question; None without windows.

    Spark's output is appended to `log`. Raises UserError.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    store = question.store
    try:
        with contextlib.ExitStack() as running:
            folder = running.enter_context(tempfile.TemporaryDirectory(prefix="milena-windows-"))
            paths = window_files(question, Path(folder))
            if not paths:
                return None
            with phase("Starting Spark"):
                spark = running.enter_context(spark_session(master, log))
            with phase("Looking at the windows"):
                found = history(spark, question, paths)
            with phase("Stopping Spark"):
                running.close()
    except (PySparkException, Py4JError, *JVM_GONE) as problem:
        raise UserError(
            f"cannot use the windows in {store.shown()}: {reason(problem)} (see {shown(log)})"
        ) from None
    except UnusableDirectory as problem:
        raise UserError(f"cannot read the windows: {problem}") from None
    except OSError as problem:
        raise UserError(
            f"cannot read the windows in {store.shown()}: {problem.strerror or problem}"
        ) from None
    return found


def window_files(question: Question, folder: Path) -> list[Path]:
    """Parquet files of all windows that the question may need.

    Visible files are used where they are; other windows are written to `folder`. Those in another
    machine's store are all copied there, since Spark may be unable to reach it.
    """
    columns = list(_COLUMNS)
    period = (question.first, question.end)
    split = split_windows(question.store, QUOTA, columns, *period)
    paths, others = [], iter(split.others)
    if question.store.is_local:
        paths = [Path(question.store.shown(path)) for path in split.paths]
    else:
        read = partial(read_windows, question.store, QUOTA)
        found = period_of(read, days_by_width(question.store, QUOTA), NARROWEST, *period, None)
        others = found.pieces(columns) if found else iter(())
    for number, table in enumerate(others):
        if table.num_rows:
            paths.append(folder / f"{number}.parquet")
            pq.write_table(table, paths[-1])
    return paths


def history(spark: "SparkSession", question: Question, paths: Sequence[Path]) -> Findings | None:
    """The same as `look_back`, from these files, in a running session."""
    from pyspark.sql import functions as F

    from cluster.analytics.reports.demand import affected, asked, throttled

    start = F.col("window_start")
    is_asked = (start >= F.lit(question.first)) & (start < F.lit(question.end))
    windows = spark.read.schema(_DDL).parquet(*map(str, paths)).where(is_asked)
    start_s = F.unix_seconds("window_start")
    everybody = affected(windows, question.levels).cache()  # read three times
    is_own = F.coalesce(F.col("entity_client").startswith(OWN_PREFIX), F.lit(False))
    own_ids = F.count_distinct(F.when(is_own, F.col("entity_client")))
    ((first_s, last_s, own),) = everybody.agg(F.min(start_s), F.max(start_s), own_ids).collect()
    if first_s is None:
        return None
    rows = everybody if question.with_own else everybody.where(~is_own)
    happened = {_key(row): row for row in throttled(rows).toArrow().to_pylist()}
    found = [
        _demand({**row, **happened[_key(row)]})
        for row in asked(rows, question.supposed).toArrow().to_pylist()
        if row["quota"] in KEY_OF_KIND
    ]
    everybody.unpersist()
    first, last = (datetime.fromtimestamp(time, UTC) for time in (first_s, last_s))
    demands = tuple(sorted(_answers(found), key=_order))
    return Findings(first, last, demands, 0 if question.with_own else own)


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (row["level"], row["quota"], row["entity_user"], row["entity_client"])


def _demand(row: dict[str, Any]) -> Demand:
    """The demand of one user, client id or pair, also for the level of a default."""
    limit = row["limit_now"]
    is_near = limit is not None and row["rate_max"] >= _HELD_FROM * limit
    is_held = is_near and row["windows_throttled"] > 0
    return Demand(
        user=row.pop("entity_user"), client_id=row.pop("entity_client"), is_held=is_held, **row
    )


def _answers(found: Sequence[Demand]) -> Iterator[Demand]:
    """The demands; those under a default are combined."""
    together = defaultdict(list)
    for each in found:
        if each.is_default:
            together[each.level, each.quota].append(each)
        else:
            yield each
    for parts in together.values():
        yield _of_all(sorted(parts, key=lambda each: -each.rate_max))


def _of_all(parts: Sequence[Demand]) -> Demand:
    """The usage of the clients that a default applies to, the fastest first."""
    return replace(
        parts[0],
        user=None,
        client_id=None,
        rate_p95=max(each.rate_p95 for each in parts),
        seconds=sum(each.seconds for each in parts),
        windows=sum(each.windows for each in parts),
        seconds_over=sum(each.seconds_over for each in parts),
        windows_over=sum(each.windows_over for each in parts),
        windows_throttled=sum(each.windows_throttled for each in parts),
        throttle_ms=sum(each.throttle_ms for each in parts),
        names=len(parts),
        names_over=tuple(
            replace(each, level=each.level.replace(_DEFAULT, "")).name
            for each in parts
            if each.windows_over
        ),
        is_held=any(each.is_held for each in parts),
    )


def _order(demand: Demand) -> tuple[Any, ...]:
    return (
        LEVELS.index(demand.level),
        -demand.windows_over / demand.windows,
        -demand.windows_throttled / demand.windows,
        demand.limit_now is None,
        -demand.rate_max,
        demand.quota,
        demand.name,
    )
