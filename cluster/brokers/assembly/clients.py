"""Assembles the services of client requests: their quotas, security and handlers."""

from dataclasses import dataclass
from uuid import UUID

from cluster.brokers.assembly.control import Control
from cluster.brokers.assembly.foundation import Foundation
from cluster.brokers.assembly.groups import Groups
from cluster.brokers.assembly.limits import Limits
from cluster.brokers.assembly.membership import Membership
from cluster.brokers.assembly.replication import Replication
from cluster.brokers.assembly.security import Security, assemble_security
from cluster.brokers.assembly.services import assemble_services
from cluster.brokers.assembly.storage import Storage
from cluster.brokers.assembly.transactions import Transactions
from cluster.brokers.client_metrics.client_metrics import ClientMetrics
from cluster.brokers.dispatch.pipeline import Pipeline
from cluster.brokers.dispatch.table import HANDLERS
from cluster.brokers.handlers.services import ServicesOfFamilies
from cluster.brokers.stored.document_follower import FollowerGroup
from cluster.brokers.stored.quota_changes import QuotaChanges
from cluster.brokers.throttling.quota_events import quota_noter
from cluster.config import broker as keys
from cluster.runtime.long_work import LongWork


@dataclass(frozen=True, slots=True)
class Clients:
    """Lifecycle: `start`, `close`. The broker's core loads the stored documents."""

    foundation: Foundation
    control: Control
    security: Security
    quota_changes: QuotaChanges
    client_metrics: ClientMetrics
    long_work: LongWork
    services: ServicesOfFamilies
    pipeline: Pipeline

    @property
    def follower(self) -> FollowerGroup:
        """The function that applies stored changes of quotas, credentials, tokens and ACLs."""
        acls = self.security.acls
        return FollowerGroup(
            [
                self.quota_changes.follower,
                self.client_metrics.configs.follower,
                self.security.authentication.follower,
                *([] if acls is None else [acls.follower]),
            ]
        )

    def start(self) -> None:
        """Start the timers that remove expired delegation tokens and forget silent clients."""
        self.client_metrics.start()
        self.foundation.ports.loop.call_every(
            self.foundation.live[keys.DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS],
            self._remove_expired_tokens,
        )

    def _remove_expired_tokens(self) -> None:
        if self.control.driver.is_active:
            self.security.authentication.tokens.remove_expired()

    def close(self) -> None:
        """Stop the threads that fetch keys and check batches."""
        self.security.authentication.close()
        self.long_work.close()


def assemble_clients(
    foundation: Foundation,
    membership: Membership,
    storage: Storage,
    replication: Replication,
    groups: Groups,
    transactions: Transactions,
    limits: Limits,
    control: Control,
) -> Clients:
    """Raises SettingError if the settings of logins contradict each other."""
    ports, loop = foundation.ports, foundation.ports.loop
    quota_changes = _quota_changes(foundation, limits, control)
    security = assemble_security(foundation)
    client_metrics = ClientMetrics(
        ports.store,
        loop,
        ports.clock,
        lambda: UUID(int=ports.random.getrandbits(128), version=4),
        foundation.live[keys.TELEMETRY_MAX_BYTES],
    )
    long_work = LongWork(
        ports.background, loop.call_from_thread, loop.time, ports.clock.thread_cpu_ns
    )
    services = assemble_services(
        foundation,
        membership,
        storage,
        replication,
        groups,
        transactions,
        control,
        security,
        quota_changes,
        client_metrics,
        limits.connected,
        long_work,
    )
    pipeline = Pipeline(
        HANDLERS, services, limits.quotas, limits.throttle, ports.counters, ports.clock, loop
    )
    return Clients(
        foundation,
        control,
        security,
        quota_changes,
        client_metrics,
        long_work,
        services,
        pipeline,
    )


def _quota_changes(foundation: Foundation, limits: Limits, control: Control) -> QuotaChanges:
    """Applies stored changes of the quotas of clients and hosts."""
    ports = foundation.ports
    return QuotaChanges(
        ports.store,
        ports.loop,
        ports.clock,
        limits.quotas,
        limits.throttle,
        foundation.slices,
        quota_noter(foundation.event_log, lambda: control.driver.is_active),
        limits.connection_rates.take_quotas,
    )
