"""One broker process: opens what it needs of the world, runs the core on its loop, shuts down."""

import logging
import signal
import sys
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from cluster.brokers.assembly import options
from cluster.brokers.assembly.ports import BrokerPorts
from cluster.brokers.core import BrokerCore
from cluster.brokers.dispatch.table import HANDLERS
from cluster.brokers.metrics.counters import BrokerCounters, open_counters
from cluster.brokers.network.socket_server import SocketServer
from cluster.brokers.network.tls_listeners import TlsListeners
from cluster.brokers.security.first_user import store_first_user
from cluster.brokers.storage.log_repairs import Extent, LoadingReports, LogRepairs
from cluster.config import broker as keys
from cluster.config.listeners import client_listeners
from cluster.config.settings import Settings
from cluster.coordinator.controller.control_link import ControlLink
from cluster.coordinator.registry.client.kazoo_session import KazooSession
from cluster.coordinator.registry.client.registry_settings import access_of
from cluster.log.log_directory import LogDirectory, open_all
from cluster.model.broker_state import BrokerState
from cluster.model.cluster import BrokerRegistration
from cluster.model.cluster_view import ClusterView
from cluster.model.errors import StorageFailed
from cluster.model.ids import BrokerId
from cluster.model.recovery_progress import RecoveryProgress
from cluster.runtime import collector
from cluster.runtime.acceptor import Listener
from cluster.runtime.background_thread import BackgroundThread
from cluster.runtime.boot import boot_id, machine_name
from cluster.runtime.clock import SystemClock
from cluster.runtime.helper_process import HelperProcess
from cluster.runtime.limits import raise_descriptor_limit
from cluster.runtime.local_link import UnixSockets
from cluster.runtime.logs import report_left_out
from cluster.runtime.loop import EventLoop
from cluster.runtime.stop_signals import CLUSTER_STOPS
from cluster.runtime.zmq_link import ZmqContext, key_of

log = logging.getLogger(__name__)

_CLOSE_TIMEOUT_MS: Final = 3_000
_SWITCH_INTERVAL_S: Final = 0.0005
"""How long a background thread that computes may keep the GIL while the loop's thread waits for it:
each system call of the loop may cost that once (Python's default is 5 ms)."""
_DRAIN_MS: Final = 500
_LOOK_AGAIN_MS: Final = 10
_REPORT_LEFT_OUT_MS: Final = 5_000


def run_broker(
    settings: Settings,
    run_dir: Path,
    on_ready: Callable[[dict[str, Any]], None],
    on_progress: Callable[[RecoveryProgress], None],
    on_view: Callable[[ClusterView], None],
    first_user: Path | None = None,
) -> None:
    """Run one broker until SIGTERM or SIGINT. Raises UserError or StorageFailed if it cannot start.

    `on_progress` is called now and then while logs are recovered; a signal then ends the process at
    once, and the next start recovers them again. `on_ready` is called with the ports and the
    cluster id when the broker serves clients, `on_view` with each new view of the cluster.
    `first_user` names the file of a user to be stored (`first_user.py`).
    """
    signal.signal(CLUSTER_STOPS, signal.SIG_IGN)  # until the broker serves
    raise_descriptor_limit()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    broker = Broker(settings, run_dir, on_progress, on_view)
    try:
        broker.start(first_user)
        broker.heed_signals()
        on_ready({"ports": broker.ports, "cluster_id": broker.cluster_id})
        broker.run()
    finally:
        broker.close()


class Broker:
    """Lifecycle: start (blocking), run (the loop), close. One per process."""

    def __init__(
        self,
        settings: Settings,
        run_dir: Path,
        on_progress: Callable[[RecoveryProgress], None],
        on_view: Callable[[ClusterView], None],
    ) -> None:
        self._settings = settings
        self._run_dir = run_dir
        self._on_progress = on_progress
        self._on_view = on_view
        self._id = BrokerId(settings[keys.BROKER_ID])
        self._clock = SystemClock()
        self._loop = EventLoop(self._clock)
        # Where anybody may write registrations, the keys in them prove nothing.
        has_keys = settings[keys.REGISTRY_AUTH] is not None
        self._zmq = ZmqContext(self._find_link_keys if has_keys else None)
        self.ports: dict[str, int] = {}
        self.cluster_id = ""
        self._is_stopping = False
        self._is_cluster_stopping = False
        self._storage_failure: StorageFailed | None = None
        self._directories: list[LogDirectory] = []
        self._core: BrokerCore | None = None
        self._counters: BrokerCounters | None = None
        self._registry = KazooSession(
            settings[keys.ZOOKEEPER_CONNECT],
            settings[keys.ZOOKEEPER_SESSION_TIMEOUT_MS],
            run_dir / f"broker-{self._id}.session",
            self._loop.call_from_thread,
            access=access_of(settings),
            protects_znodes=settings[keys.ZOOKEEPER_SET_ACL],
        )
        self._server = SocketServer(self._loop, options.network_options(settings))
        self._tls = TlsListeners(settings, self._loop, self._clock)

    def start(self, first_user: Path | None) -> None:
        """Connect, open the logs, register, accept. Raises UserError or StorageFailed."""
        settings = self._settings
        for listener in client_listeners(settings):
            self.ports[listener.name] = self._server.bind(
                Listener(listener.name, listener.host, listener.port), self._tls.open(listener)
            )
        self._registry.connect(settings[keys.ZOOKEEPER_CONNECTION_TIMEOUT_MS])
        self._registry.call(lambda store: store.brokers.prepare())
        self._registry.call(lambda store: store.brokers.check_free(self._id))
        if first_user is not None:
            store_first_user(self._registry, first_user, self._clock.wall_ms())
        self.cluster_id = self._registry.call(lambda store: store.ids.cluster_id())
        self._directories = open_all(
            *([Path(path) for path in settings[keys.LOG_DIRS]], self.cluster_id, self._id),
            boot_id(),
        )
        self._counters = open_counters(
            settings[keys.METRICS_ENABLE],
            self._run_dir,
            self._id,
            self._clock.wall_ms(),
            [handler.api.key for handler in HANDLERS],
        )
        self._enter(BrokerState.STARTING)
        self._core = core = BrokerCore(settings, self._ports())
        self._limit_connections(core.foundation.live.now)
        core.foundation.live.subscribe(self._limit_connections)
        core.foundation.live.subscribe(self._tls.on_settings)
        core.start(options.advertised_endpoints(settings, self.ports))
        core.transactions.producer_ids.fetch_ahead()
        collector.leave_out_what_is_there()
        self._loop.call_every(_REPORT_LEFT_OUT_MS, report_left_out)
        self._server.limit_rates(core.limits.connection_rates)
        self._server.serve(
            core.clients.pipeline.on_frame,
            core.limits.connected.on_closed,
            core.clients.security.authentication.logins.on_connected,
            core.clients.pipeline.may_go_ahead,
        )
        self._enter(BrokerState.RUNNING)

    def _enter(self, state: BrokerState) -> None:
        """Publish the state of the broker in its metrics."""
        if self._counters is not None:
            self._counters.set("BrokerState", state)

    def _find_link_keys(self, on_found: Callable[[Collection[bytes] | None], None]) -> None:
        """Look up the keys of all brokers that are registered now."""

        def on_brokers(brokers: list[BrokerRegistration]) -> None:
            on_found({key for one in brokers if (key := key_of(one.control_endpoint)) is not None})

        self._registry.submit(
            lambda store: store.brokers.live(), on_brokers, lambda _error: on_found(None)
        )

    def _limit_connections(self, settings: Settings) -> None:
        self._server.limit_connections(options.network_options(settings))

    def _repair_logs(self, settings: Settings) -> None:
        """Repair the logs on a separate loop: nothing else happens before they are open."""
        self._enter(BrokerState.RECOVERY)
        loop = EventLoop(self._clock)
        try:
            LogRepairs(
                options.log_options(settings, {})[0],
                Extent(settings[keys.NUM_RECOVERY_THREADS_PER_DATA_DIR]),
                self._clock,
                self._on_progress,
                loop,
                partial(HelperProcess, loop),
            ).run(self._directories)
        finally:
            loop.close()

    def _ports(self) -> BrokerPorts:
        settings = self._settings
        return BrokerPorts(
            cluster_id=self.cluster_id,
            machine=machine_name(),
            boot_id=boot_id(),
            clock=self._clock,
            loop=self._loop,
            random=Random(),
            store=self._registry,
            control_link=ControlLink(
                self._zmq, self._loop, settings[keys.CONTROL_HOST], settings[keys.CONTROL_PORT]
            ),
            sockets=self._zmq,
            local_sockets=UnixSockets(),
            directories=self._directories,
            background=BackgroundThread,
            helpers=partial(HelperProcess, self._loop),
            counters=self._counters,
            clients=self._server,
            give_up=self._on_storage_lost,
            on_view=self._on_view,
            before_logs_are_opened=self._repair_logs,
            on_logs_opened=LoadingReports(self._clock, self._on_progress).on_opened,
        )

    def heed_signals(self) -> None:
        """Let SIGTERM and SIGINT end it cleanly from here on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(CLUSTER_STOPS, self._on_cluster_stops)

    def run(self) -> None:
        """Serve until a signal asks to stop. Raises StorageFailed when no log directory is left."""
        log.info("broker %d of cluster %s serves %s", self._id, self.cluster_id, self.ports)
        self._loop.run()
        if self._storage_failure is not None:
            raise self._storage_failure

    def _on_storage_lost(self, failure: StorageFailed) -> None:
        self._storage_failure = failure
        self._loop.stop()

    def _on_signal(self, _number: int, _frame: object) -> None:
        # Only a flag and a wake-up here: the handler interrupts the loop anywhere.
        self._loop.call_from_thread(self._begin_shutdown)

    def _on_cluster_stops(self, _number: int, _frame: object) -> None:
        self._loop.call_from_thread(self._leave_everything_as_it_is)

    def _leave_everything_as_it_is(self) -> None:
        if self._core is None or self._is_stopping or self._is_cluster_stopping:
            return
        log.info("the cluster is stopping: client connections are closed")
        self._is_cluster_stopping = True
        self._server.close()
        self._core.end_with_cluster()

    def _stop_when_drained(self, deadline_ms: int) -> None:
        """Wait up to a deadline for followers, so that all replicas have the same records."""
        if self._core is None or self._core.is_drained() or self._loop.now_ms >= deadline_ms:
            self._loop.stop()
        else:
            self._loop.call_after(_LOOK_AGAIN_MS, lambda: self._stop_when_drained(deadline_ms))

    def _begin_shutdown(self) -> None:
        if self._is_stopping:
            return
        self._is_stopping = True
        if self._is_cluster_stopping:
            self._enter(BrokerState.SHUTTING_DOWN)
            self._stop_when_drained(self._loop.now_ms + _DRAIN_MS)
            return
        if self._core is None or not self._settings[keys.CONTROLLED_SHUTDOWN_ENABLE]:
            self._loop.stop()
            return
        log.info("controlled shutdown")
        self._enter(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
        self._core.prepare_shutdown(self._on_leaderships_moved)

    def _on_leaderships_moved(self, is_done: bool) -> None:
        if not is_done:
            log.info("stopping, although this broker still leads partitions")
        self._loop.stop()

    def close(self) -> None:
        """Close everything that was opened, clients first, logs before the session."""
        self._is_stopping = True
        self._enter(BrokerState.SHUTTING_DOWN)
        self._server.close()
        self._tls.close()
        if self._core is not None:
            self._core.close()
        for directory in self._directories:
            directory.close()
        self._registry.close(_CLOSE_TIMEOUT_MS)
        self._zmq.close()
        log.info("stopped")
