"""Records usage by a client's user and client id, for tests of quotas."""

from collections.abc import Iterator

from cluster.model.clocks import MonotonicMs
from cluster.model.quotas import QuotaClient, QuotaKind
from cluster.quotas.client_quotas import ClientQuotas


def run_to_end(job: Iterator[None], _steps_at_once: int) -> None:
    """All steps of a job at once, in place of `Slices.start`."""
    for _ in job:
        pass


def record(
    quotas: ClientQuotas,
    kind: QuotaKind,
    user: str,
    client_id: str,
    value: float,
    now_ms: MonotonicMs,
) -> int:
    """Record on the client's account; the delay in ms."""
    return quotas.account(kind, QuotaClient(user, client_id), now_ms).record(value, now_ms)


def on_throttled(
    quotas: ClientQuotas,
    kind: QuotaKind,
    user: str,
    client_id: str,
    delay_ms: int,
    now_ms: MonotonicMs,
) -> None:
    """A channel of the client is muted."""
    quotas.account(kind, QuotaClient(user, client_id), now_ms).on_throttled(delay_ms, now_ms)


def delay_ms(
    quotas: ClientQuotas, kind: QuotaKind, user: str, client_id: str, now_ms: MonotonicMs
) -> int | None:
    """The delay in ms of a request without usage; None for an unknown client."""
    state = quotas.state_of(kind, user, client_id, now_ms)
    return None if state is None else state.delay_ms
