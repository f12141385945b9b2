"""One broker put together from its ports; used unchanged by the process, the simulation and tests.

What touches the world comes in from outside: clocks and loop, links to peers, the store of the
cluster, log directories, background threads. This module orders the start and the end of the parts;
`brokers/assembly/` makes them, a module for each group of parts.
"""

import logging
from collections.abc import Callable
from typing import Final

from cluster.brokers.assembly.clients import assemble_clients
from cluster.brokers.assembly.control import assemble_control
from cluster.brokers.assembly.foundation import lay_foundation
from cluster.brokers.assembly.groups import assemble_groups
from cluster.brokers.assembly.limits import assemble_limits
from cluster.brokers.assembly.maintenance import assemble_maintenance
from cluster.brokers.assembly.membership import assemble_membership
from cluster.brokers.assembly.metrics import assemble_metrics
from cluster.brokers.assembly.ports import BrokerPorts
from cluster.brokers.assembly.replication import assemble_replication
from cluster.brokers.assembly.storage import assemble_storage
from cluster.brokers.assembly.transactions import assemble_transactions
from cluster.brokers.stored.document_follower import FollowerGroup
from cluster.config import broker as keys
from cluster.config.settings import Settings
from cluster.model.cluster import BrokerRegistration, Endpoint

log = logging.getLogger(__name__)

_SHUTDOWN_TIMEOUT_MS: Final = 3_000


class BrokerCore:
    """Lifecycle: construction opens the logs, `start` registers, `close` closes the logs.

    Owned by the loop's thread. Logs that cannot be opened are offline.
    """

    def __init__(self, settings: Settings, ports: BrokerPorts) -> None:
        self.foundation = made = lay_foundation(settings, ports)
        self.storage = storage = assemble_storage(made)
        self.membership = membership = assemble_membership(made)
        self.limits = limits = assemble_limits(made)
        self.replication = replication = assemble_replication(made, membership, storage)
        self.maintenance = assemble_maintenance(made, membership, storage, replication)
        self.groups = assemble_groups(made, membership, storage, replication)
        self.transactions = assemble_transactions(made, membership, replication, self.groups)
        self.control = control = assemble_control(
            made, membership, storage, replication, self.maintenance, self.groups, limits
        )
        self.clients = assemble_clients(
            made,
            membership,
            storage,
            replication,
            self.groups,
            self.transactions,
            limits,
            control,
        )
        self.metrics = assemble_metrics(
            made,
            membership,
            storage,
            replication,
            self.maintenance,
            self.groups,
            self.transactions,
            limits,
            control,
            self.clients.client_metrics,
        )
        self._followed = FollowerGroup([self.clients.follower, self.groups.configs.follower])

    # -- start -------------------------------------------------------------------------------------

    def start(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register with these client endpoints and start the timers. Raises UserError."""
        self._load_stored()
        self._register(endpoints)
        self.foundation.ports.store.follow_session(self._on_session_lost, self._on_session_begun)
        self.control.driver.campaign()
        self._start_timers()
        self.storage.moves.resume()

    def _load_stored(self) -> None:
        """Load the documents of the store that clients are served by; this blocks."""
        self.clients.security.authentication.load_secret()
        self._followed.load_at_start()

    def _register(self, endpoints: tuple[Endpoint, ...]) -> None:
        ports, registration = self.foundation.ports, self.membership.registration
        registration.begin(
            BrokerRegistration(
                self.foundation.id,
                registration.epoch,
                endpoints,
                self.foundation.live[keys.BROKER_RACK],
                ports.control_link.endpoint,
                self.replication.link.endpoint,
                ports.machine,
                self.storage.directory_record.find_condition(),
            )
        )

    def _start_timers(self) -> None:
        """Start all timers. Those that are due in the same turn are called in this order."""
        self.maintenance.start_retention()
        self.replication.start()
        self.storage.start()
        self.clients.start()
        self.maintenance.start_cleaning()
        self.metrics.start()

    # -- the session with the store ----------------------------------------------------------------

    def _on_session_lost(self) -> None:
        """Others may have taken over: lead nothing and serve no reads until registered again."""
        log.warning("the session with the registry is lost")
        self.membership.registration.on_session_lost()
        self.control.driver.resign()
        self.membership.metadata.forget_controller()
        self.replication.changes.on_session_lost()

    def _on_session_begun(self) -> None:
        self.membership.registration.again(self._on_registered_again)

    def _on_registered_again(self) -> None:
        self.control.driver.campaign()
        self._followed.on_new_session()
        self.foundation.setting_changes.follower.on_new_session()

    # -- stop --------------------------------------------------------------------------------------

    def prepare_shutdown(self, on_done: Callable[[bool], None]) -> None:
        """Have leaderships moved away; calls back once, with whether that was done in time."""
        self.membership.registration.end()
        self.storage.directory_record.on_stopping()
        self.membership.controller_client.ask_controlled_shutdown(on_done, _SHUTDOWN_TIMEOUT_MS)

    def end_with_cluster(self) -> None:
        """Every broker stops now: elect nobody, and leave leaders and in-sync replicas as they are,
        so that each of them may lead at the next start.
        """
        self.membership.registration.end()
        self.control.driver.stop()
        self.storage.directory_record.on_stopping()

    def is_drained(self) -> bool:
        """Whether the in-sync replicas have every record of the partitions that this broker leads,
        and the registry has the record of its log directories.
        """
        return self.storage.directory_record.is_stored and all(
            partition.leader is None
            or partition.leader.has_all_in_sync(partition.log.log_end_offset)
            for partition in self.storage.table
        )

    def close(self) -> None:
        """Leave the cluster, close both links and the logs; the caller closes the session."""
        self.membership.registration.end()
        self.control.driver.stop()
        self.replication.link.close()
        self.foundation.ports.control_link.close()
        self.maintenance.close()
        self.clients.close()
        self.storage.close()
