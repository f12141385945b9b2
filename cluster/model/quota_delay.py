"""The delay of a client above its quota: the formula, and its text for a person.

Kafka: `ClientQuotaManager.throttleTime`, `QuotaUtils.throttleTime`; KIP-124 caps request quotas.
"""

from typing import Final

from cluster.model.quotas import QuotaKind

_UNITS: Final[dict[str, str]] = {QuotaKind.REQUEST: " %", QuotaKind.MUTATION: " partitions/s"}


def delay_of(rate: float, limit: float, measured_ms: float) -> float:
    """Milliseconds until an idle client's rate has fallen to the limit; 0 unless it is above.

    X = (rate - limit) / limit x measured time.
    """
    return 0.0 if rate <= limit else (rate - limit) / limit * measured_ms


def explain_delay(
    quota: str,
    rate: float,
    limit: float | None,
    measured_ms: float,
    delay_ms: int,
    byte_unit: tuple[float, str] = (1.0, "B/s"),
) -> str:
    """The formula with its numbers, in one line; `delay_ms` is the delay after any cap.

    `byte_unit` is the size and name of the unit of rates in bytes; exact amounts need the usual.
    """
    divisor, name = (1.0, "") if quota in _UNITS else byte_unit
    unit = _UNITS.get(quota, f" {name}")

    def amount(exact: float) -> str:
        return f"{exact:.10g}" if divisor == 1 else f"{exact / divisor:,.2f}"

    if limit is None:
        return "no limit, no delay"
    if quota == QuotaKind.MUTATION:
        return (
            f"{delay_ms} ms until the tokens, {limit:.10g} a second, are no longer below zero"
            if delay_ms
            else "the tokens are not below zero: no delay"
        )
    if rate <= limit or not measured_ms:
        then = f"{delay_ms} ms because of what is owed from before" if delay_ms else "no delay"
        return f"{amount(rate)}{unit} is not above {amount(limit)}{unit}: {then}"
    uncapped_ms = delay_of(rate, limit, measured_ms)
    formula = (
        f"({amount(rate)} - {amount(limit)}){unit} / {amount(limit)}{unit}"
        f" x {measured_ms / 1000:.3f} s = {uncapped_ms:.0f} ms"
    )
    if delay_ms - uncapped_ms > 1:
        return f"{formula}, but {delay_ms} ms because of what is owed from before"
    # Request quotas are capped at one sample window (KIP-124).
    return formula if uncapped_ms - delay_ms < 1 else f"{formula}, at most {delay_ms} ms"
