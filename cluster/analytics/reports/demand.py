"""The demand of users and client ids for each quota, second by second, as Spark DataFrames.

For a supposed rule they give the clients it would apply to, how fast each of them was on each
broker, and what a limit would have done. Computed from the rollup's narrowest windows.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cluster.model.quotas import RULES

ENTITY: Final = ("level", "quota", "entity_user", "entity_client")
"""The key of the results: the entity that the rule `level` would limit, and the quota."""
_P95: Final = "percentile_disc(0.95) WITHIN GROUP (ORDER BY rate)"
_MANTISSA_BITS: Final = 7
_MANTISSA_STEPS: Final = 1 << _MANTISSA_BITS
_EXPONENT_BIAS: Final = 127
"""Of a 32-bit float, whose upper half is the code of a rate."""
_BY_USER: Final = ("user", "default-user")
_BY_CLIENT: Final = ("client", "default-client")


def affected(windows: DataFrame, levels: Iterable[str]) -> DataFrame:
    """A row for each window and each level whose rule would apply to it, with ENTITY.

    A rule applies if no rule or a less specific one held (KIP-55). `seconds` are the rates that the
    broker observed at the end of each second, as exact as the window's histogram, and the highest
    exactly; clients that share a budget each get their share.
    """
    budget: list[Column | str] = [
        *("window_start", "broker", "quota", "rule", "limit"),
        F.when(F.col("rule").isin(*_BY_CLIENT), None).otherwise(F.col("user")),
        F.when(F.col("rule").isin(*_BY_USER), None).otherwise(F.col("client_id")),
    ]
    together = Window.partitionBy(budget)
    used = F.sum("usage_sum").over(together)
    share = F.when(used > 0, F.col("usage_sum") / used).otherwise(1 / F.count("*").over(together))
    entries = F.map_entries("histogram")
    seconds = F.flatten(
        F.transform(
            entries, lambda entry: F.array_repeat(_rate(entry["key"]), entry["value"].cast("int"))
        )
    )
    # Windows of early versions lack the rate of each second: their highest stands for it.
    counted = F.aggregate(
        F.map_values("histogram"), F.lit(0).cast("bigint"), lambda total, count: total + count
    )
    rates = F.when(F.coalesce(counted == F.col("records"), F.lit(False)), seconds).otherwise(
        F.array_repeat("rate_max", F.col("records").cast("int"))
    )
    return (
        windows.withColumn("share", share)
        .withColumn("seconds", F.transform(rates, lambda rate: rate * F.col("share")))
        .withColumn("level", F.explode(_levels_of(levels)))
        .withColumn("entity_user", F.when(F.col("level").contains("user"), F.col("user")))
        .withColumn("entity_client", F.when(F.col("level").contains("client"), F.col("client_id")))
    )


def asked(rows: DataFrame, supposed: Mapping[str, float]) -> DataFrame:
    """For each entity (ENTITY) of `affected` rows: its rate, and the effect of a limit.

    `rate_max` and `rate_p95` over all seconds in which it was active at a broker; `seconds` and
    `windows`, each counted for each broker; `seconds_over` and `windows_over`, those of them above
    the limit that `supposed` has for the quota. If the entity is several clients, the order of
    their seconds within a window is unknown: the highest are added to the highest, so that the sum
    is not too low.
    """
    place = ("window_start", "broker")
    of_client = rows.groupBy(*ENTITY, *place, "user", "client_id").agg(
        F.sort_array(F.flatten(F.collect_list("seconds")), asc=False).alias("seconds")
    )
    added = (
        of_client.select(*ENTITY, *place, F.posexplode("seconds").alias("rank", "rate"))
        .groupBy(*ENTITY, *place, "rank")
        .agg(F.sum("rate").alias("rate"))
    )
    is_over = F.col("rate") > _limit(supposed)
    is_highest = F.col("rank") == 0
    return added.groupBy(*ENTITY).agg(
        F.max("rate").alias("rate_max"),
        F.expr(_P95).alias("rate_p95"),
        F.count("*").alias("seconds"),
        F.count_if(is_highest).alias("windows"),
        F.count_if(is_over).alias("seconds_over"),
        F.count_if(is_over & is_highest).alias("windows_over"),
    )


def throttled(rows: DataFrame) -> DataFrame:
    """What happened to each entity (ENTITY) of `affected` rows.

    `rule` and `limit_now` are the latest; `windows_throttled` is counted for each broker;
    `throttle_ms` is the sum.
    """
    place = F.struct("window_start", "broker")
    latest = F.max(F.struct("window_start", "limit", "rule"))
    return (
        rows.groupBy(*ENTITY)
        .agg(
            latest.alias("latest"),
            F.count_distinct(F.when(F.col("throttled") > 0, place)).alias("windows_throttled"),
            F.sum("throttle_ms_sum").alias("throttle_ms"),
        )
        .select(
            *ENTITY,
            F.col("latest.rule").alias("rule"),
            F.col("latest.limit").alias("limit_now"),
            "windows_throttled",
            "throttle_ms",
        )
    )


def _rate(code: Column) -> Column:
    """The rate of a code in a window's histogram (`windows/histogram.py`).

    The highest code gets `rate_max`, the others the middle of their bucket.
    """
    exponent = F.shiftright(code, _MANTISSA_BITS) - _EXPONENT_BIAS
    steps = (code.bitwiseAND(_MANTISSA_STEPS - 1) + 0.5) / _MANTISSA_STEPS
    middle = F.pow(F.lit(2.0), exponent) * (1 + steps)
    highest = F.array_max(F.map_keys("histogram"))
    return F.when(code == highest, F.col("rate_max")).when(code == 0, F.lit(0.0)).otherwise(middle)


def _levels_of(levels: Iterable[str]) -> Column:
    """The levels whose rule would apply to a row."""
    held = F.array_position(F.array(*(F.lit(rule) for rule in RULES)), F.col("rule"))
    chosen = [
        F.when(F.col("rule").isNull() | (held > RULES.index(level)), F.lit(level))
        for level in levels
    ]
    return F.array_compact(F.array(*chosen))


def _limit(supposed: Mapping[str, float]) -> Column:
    """The limit of a row's quota; infinite without one."""
    found = F.lit(float("inf"))
    for quota, limit in supposed.items():
        found = F.when(F.col("quota") == quota, F.lit(limit)).otherwise(found)
    return found
