"""Assembles what serves clients: who they are, what they may do, and the handlers of requests."""

from dataclasses import dataclass

from cluster.brokers.assembly import options
from cluster.brokers.assembly.control import Control
from cluster.brokers.assembly.foundation import Foundation
from cluster.brokers.assembly.groups import Groups
from cluster.brokers.assembly.limits import Limits
from cluster.brokers.assembly.membership import Membership
from cluster.brokers.assembly.replication import Replication
from cluster.brokers.assembly.storage import Storage
from cluster.brokers.dispatch.pipeline import Pipeline
from cluster.brokers.dispatch.services import Services
from cluster.brokers.dispatch.table import HANDLERS
from cluster.brokers.security.authentication import Authentication
from cluster.brokers.security.authorizer import Authorizer
from cluster.brokers.stored.acl_changes import AclChanges
from cluster.brokers.stored.document_follower import FollowerGroup
from cluster.brokers.stored.producer_ids import ProducerIds
from cluster.brokers.stored.quota_changes import QuotaChanges
from cluster.brokers.throttling.quota_events import quota_noter
from cluster.config import broker as keys
from cluster.protocol.api_versions import ApiVersionsAnswers
from cluster.runtime.long_work import LongWork


@dataclass(frozen=True, slots=True)
class Security:
    """Who clients are, and what they may do."""

    authentication: Authentication
    authorizer: Authorizer | None
    """None: everybody may do everything."""
    acls: AclChanges | None
    """None without an authorizer."""


@dataclass(frozen=True, slots=True)
class Clients:
    """Lifecycle: `start`, `close`. The store's documents are loaded by the broker's core."""

    foundation: Foundation
    control: Control
    security: Security
    quota_changes: QuotaChanges
    long_work: LongWork
    services: Services
    pipeline: Pipeline[Services]

    @property
    def follower(self) -> FollowerGroup:
        """Follows the quotas, the credentials and tokens of users, and the ACLs."""
        acls = self.security.acls
        return FollowerGroup(
            [
                self.quota_changes.follower,
                self.security.authentication.follower,
                *([] if acls is None else [acls.follower]),
            ]
        )

    def start(self) -> None:
        """Start the timer that removes expired delegation tokens."""
        self.foundation.ports.loop.call_every(
            self.foundation.live[keys.DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS],
            self._remove_expired_tokens,
        )

    def _remove_expired_tokens(self) -> None:
        if self.control.driver.is_active:
            self.security.authentication.tokens.remove_expired()

    def close(self) -> None:
        """End the threads that fetch keys and check batches."""
        self.security.authentication.close()
        self.long_work.close()


def assemble_clients(
    foundation: Foundation,
    membership: Membership,
    storage: Storage,
    replication: Replication,
    groups: Groups,
    limits: Limits,
    control: Control,
) -> Clients:
    """Raises SettingError where the settings of logins do not fit together."""
    ports, loop = foundation.ports, foundation.ports.loop
    quota_changes = _quota_changes(foundation, limits, control)
    security = _security(foundation)
    long_work = LongWork(
        ports.background, loop.call_from_thread, loop.time, ports.clock.thread_cpu_ns
    )
    authentication = security.authentication
    services = Services(
        broker_id=foundation.id,
        settings=foundation.live,
        clock=ports.clock,
        loop=loop,
        slices=foundation.slices,
        long_work=long_work,
        metadata=membership.metadata,
        liveness=control.pings.liveness,
        partitions=storage.table,
        moves=storage.moves,
        events=replication.events,
        purgatory=replication.purgatory,
        controller=control.requests,
        groups=groups.coordinator,
        group_configs=groups.configs,
        request_topic_creation=membership.asks.request_topic_creation,
        alter_topic_configs=membership.asks.alter_topic_configs,
        producer_ids=_producer_ids(foundation),
        topic_settings=foundation.topic_settings,
        quota_changes=quota_changes,
        credentials=authentication.credentials,
        tokens=authentication.tokens,
        logins=authentication.logins,
        setting_changes=foundation.setting_changes,
        fetch_max_bytes=foundation.live[keys.FETCH_MAX_BYTES],
        api_versions=ApiVersionsAnswers(
            (handler.api for handler in HANDLERS), options.features(foundation.live.now)
        ),
        counters=ports.counters,
        authorizer=security.authorizer,
        acls=security.acls,
    )
    pipeline = Pipeline(
        HANDLERS, services, limits.quotas, limits.throttle, ports.counters, ports.clock, loop
    )
    return Clients(foundation, control, security, quota_changes, long_work, services, pipeline)


def _quota_changes(foundation: Foundation, limits: Limits, control: Control) -> QuotaChanges:
    """Follows the stored quotas, of clients and of hosts."""
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


def _security(foundation: Foundation) -> Security:
    ports, live = foundation.ports, foundation.live
    authentication = Authentication(
        ports.store,
        ports.loop,
        ports.clock.wall_ms,
        live,
        options.token_rules(live.now),
        ports.counters,
    )
    authorizer = options.authorizer(live.now)
    acls = None
    if authorizer is not None:
        acls = AclChanges(ports.store, ports.loop, ports.clock, authorizer.take_rules)
    return Security(authentication, authorizer, acls)


def _producer_ids(foundation: Foundation) -> ProducerIds:
    store = foundation.ports.store
    return ProducerIds(
        lambda on_done, on_failed: store.submit(
            lambda blocking: blocking.ids.next_producer_ids(foundation.id), on_done, on_failed
        )
    )
