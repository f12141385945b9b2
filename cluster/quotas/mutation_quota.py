"""Limits the partitions that a request may create or delete (KIP-599). Pure.

`controller_mutation_rate`, Kafka's `StrictControllerMutationQuota` and
`PermissiveControllerMutationQuota`. Both admit a change while the bucket is not below zero, and
count its partitions. Above the limit the strict one refuses, the permissive one admits; the
response contains the delay, and the channel is muted.
"""

from collections.abc import Callable

from cluster.model.clocks import MonotonicMs
from cluster.model.errors import ErrorCode, Refused
from cluster.model.quotas import QuotaClient, QuotaKind
from cluster.quotas.account import Account, Delay
from cluster.quotas.client_quotas import ClientQuotas


class MutationQuota:
    """The quota of one request; each topic is counted once, however often its change is planned."""

    def __init__(
        self, account: Account, now_ms: Callable[[], MonotonicMs], *, is_strict: bool
    ) -> None:
        self._account = account
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._admitted: set[str] = set()
        self._is_over = False

    def admit(self, topic: str, partition_count: int) -> None:
        """Count the partitions that a topic is about to gain or lose. Raises Refused above the
        limit.
        """
        if topic in self._admitted:
            return
        now_ms = self._now_ms()
        if self._is_strict and self._account.delay_ms(now_ms):
            self._is_over = True
            raise Refused(
                ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded."
            )
        delay_ms = self._account.record(partition_count, now_ms)
        self._admitted.add(topic)
        if delay_ms and not self._is_strict:
            self._is_over = True

    def larger(self, other: Delay | None) -> Delay | None:
        """The longer of this quota's delay and another one."""
        delay_ms = self._account.delay_ms(self._now_ms()) if self._is_over else 0
        if not delay_ms or (other is not None and other.ms >= delay_ms):
            return other
        return Delay(delay_ms, self._account)


def admit_of(
    quotas: ClientQuotas, client: QuotaClient, now_ms: Callable[[], MonotonicMs]
) -> Callable[[str, int], None]:
    """A strict quota for a client whose request another broker has."""
    account = quotas.account(QuotaKind.MUTATION, client, now_ms())
    return MutationQuota(account, now_ms, is_strict=True).admit
