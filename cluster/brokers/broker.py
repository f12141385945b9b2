"""The wiring of one broker process: makes the parts, connects them, runs the loop, shuts down.

Decides nothing about records, roles or requests itself.
"""

import logging
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from cluster.brokers import options
from cluster.brokers.checkpoint_writer import CheckpointWriter
from cluster.brokers.control_requests import ControlRequests
from cluster.brokers.handlers import HANDLERS
from cluster.brokers.log.directory_work import DirectoryWork
from cluster.brokers.log.log_directory import LogDirectory
from cluster.brokers.log_flusher import LogFlusher
from cluster.brokers.metadata_cache import MetadataCache
from cluster.brokers.metrics.counters import open_counters
from cluster.brokers.metrics.publisher import TICK_MS, MetricPublisher, Watched
from cluster.brokers.metrics.topic import MetricTopic
from cluster.brokers.network.channel import Channel
from cluster.brokers.network.purgatory import Purgatory
from cluster.brokers.network.socket_server import Listener, SocketServer
from cluster.brokers.peer_pings import PeerPings
from cluster.brokers.pipeline import Pipeline
from cluster.brokers.producer_ids import ProducerIds
from cluster.brokers.quotas.client_quotas import ClientQuotas
from cluster.brokers.quotas.quota_changes import QuotaChanges
from cluster.brokers.quotas.throttle import QuotaThrottle
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.brokers.replication.replica_roles import ReplicaRoles
from cluster.brokers.replication.replication_link import ReplicationLink
from cluster.brokers.replication.role_changes import RoleChanges
from cluster.brokers.services import Services
from cluster.config import broker as keys
from cluster.config.settings import Settings, topic_settings
from cluster.config.topic import UNCLEAN_LEADER_ELECTION_ENABLE
from cluster.coordinator.controller.config_requests import ConfigRequests
from cluster.coordinator.controller.control_link import ControlLink
from cluster.coordinator.controller.controller_driver import ControllerDriver
from cluster.coordinator.controller.controller_requests import ControllerRequests
from cluster.coordinator.controller.topic_plans import TopicRules
from cluster.coordinator.registry.client.kazoo_session import KazooSession
from cluster.model.cluster import BrokerRegistration
from cluster.model.errors import StorageFailed
from cluster.model.ids import BrokerEpoch, BrokerId
from cluster.protocol.api_versions import ApiVersionsAnswers
from cluster.protocol.peer.control import AlterTopicConfigs, Ping, ProduceMetrics
from cluster.runtime import collector
from cluster.runtime.background_thread import BackgroundThread
from cluster.runtime.clock import SystemClock
from cluster.runtime.limits import raise_descriptor_limit
from cluster.runtime.logs import report_left_out
from cluster.runtime.loop import EventLoop
from cluster.runtime.slices import Slices
from cluster.runtime.zmq_link import ZmqContext

log = logging.getLogger(__name__)

_CLOSE_TIMEOUT_MS: Final = 3_000
_REGISTER_RETRY_MS: Final = 500
_SWITCH_INTERVAL_S: Final = 0.0005
"""How long a background thread that computes may keep the loop's thread from going on: each call of
the system that the loop makes for a client may cost that once (Python's own is 5 ms)."""
_REPORT_LEFT_OUT_MS: Final = 5_000


def run_broker(
    settings: Settings, run_dir: Path, on_ready: Callable[[dict[str, Any]], None]
) -> None:
    """Run one broker until SIGTERM or SIGINT; `on_ready` is called when it serves clients.

    Raises UserError or StorageFailed, in one line for a person, when it cannot start.
    """
    raise_descriptor_limit()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    broker = Broker(settings, run_dir)
    try:
        broker.start()
        on_ready({"ports": broker.ports, "cluster_id": broker.cluster_id})
        broker.run()
    finally:
        broker.close()


class Broker:
    """Lifecycle: start (blocking), run (the loop), close. One per process."""

    def __init__(self, settings: Settings, run_dir: Path) -> None:
        self._settings = settings
        self._run_dir = run_dir
        self._id = BrokerId(settings[keys.BROKER_ID])
        self._clock = SystemClock()
        self._loop = EventLoop(self._clock)
        self._slices = Slices(self._clock.monotonic_us, self._loop.next_turn)
        self._zmq = ZmqContext()
        self._random = Random()
        self._machine = socket.gethostname()
        self.ports: dict[str, int] = {}
        self.cluster_id = ""
        self._is_stopping = False
        self._directories: list[LogDirectory] = []
        self._registry = KazooSession(
            settings[keys.ZOOKEEPER_CONNECT],
            settings[keys.ZOOKEEPER_SESSION_TIMEOUT_MS],
            run_dir / f"broker-{self._id}.session",
            self._loop.call_from_thread,
            identity=settings[keys.REGISTRY_AUTH],
            protects_znodes=settings[keys.ZOOKEEPER_SET_ACL],
        )
        self._server = SocketServer(self._loop, options.network_options(settings), self._on_frame)

    # -- start -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect, open the logs, register, accept. Raises UserError or StorageFailed."""
        settings = self._settings
        for listener in settings[keys.LISTENERS]:
            self.ports[listener.name] = self._server.bind(
                Listener(listener.name, listener.host, listener.port)
            )
        self._registry.connect(settings[keys.ZOOKEEPER_CONNECTION_TIMEOUT_MS])
        self._registry.call(lambda store: store.prepare())
        self.cluster_id = self._registry.call(lambda store: store.cluster_id())
        self._directories = [
            LogDirectory.open(Path(path), self.cluster_id, self._id)
            for path in settings[keys.LOG_DIRS]
        ]
        self._maker, self._remover = BackgroundThread("log-maker"), BackgroundThread("log-remover")
        self._table = PartitionTable(
            self._directories,
            self._id,
            lambda overrides: options.log_options(settings, overrides),
            DirectoryWork(self._maker.do, self._remover.do),
        )
        self._table.load(self._clock.wall_ms())
        self._connect_parts()
        self._quota_changes.load_at_start()
        self._register_at_start()
        self._registry.on_session_lost = self._on_session_lost
        self._registry.on_session_begun = self._register_again
        self._controller.campaign()
        self._start_timers()
        self._server.start_accepting()

    def _connect_parts(self) -> None:
        settings = self._settings
        host = settings[keys.CONTROL_HOST]
        self._metadata = MetadataCache(self.cluster_id)
        self._purgatory = Purgatory(self._loop.call_at)
        self._roles = ReplicaRoles(
            self._id,
            self._table,
            settings[keys.REPLICA_LAG_TIME_MAX_MS],
            self._loop.defer,
            self._purgatory.check,
            lambda partition, proposal: self._control.propose_isr(partition, proposal),
        )
        self._changes = RoleChanges(
            self._roles, self._table, self._metadata, self._slices, lambda: self._loop.now_ms
        )
        self._control = ControlRequests(
            self._id,
            self._loop,
            self._metadata,
            self._roles,
            self._changes,
            lambda: self._controller_requests,
        )
        self._control_link = ControlLink(
            self._zmq, self._loop, host, self._control.on_request, settings[keys.CONTROL_PORT]
        )
        self._control.use_link(self._control_link)
        self._peers = PeerPings(
            self._id,
            settings[keys.ZOOKEEPER_SESSION_TIMEOUT_MS],
            self._loop,
            self._metadata,
            self._purgatory,
        )
        self._peers.use_link(self._control_link)
        self._control.serve(Ping, self._peers.on_ping)
        self._replication = ReplicationLink(
            self._zmq,
            self._loop,
            self._clock,
            host,
            options.fetch_options(settings, self._machine),
            settings[keys.REPLICA_FETCH_MAX_BYTES],
            self._roles,
            self._random,
            self._roles.on_high_watermark_moved,
            settings[keys.REPLICATION_PORT],
        )
        self._roles.use_link(self._replication)
        post_back = self._loop.call_from_thread
        self._flusher = LogFlusher(self._table, self._slices, post_back)
        self._checkpoint_thread = BackgroundThread("checkpoints")
        self._checkpoints = CheckpointWriter(
            self._table, self._slices, self._checkpoint_thread.do, post_back
        )
        self._controller = ControllerDriver(
            self._id,
            self._registry,
            self._control_link,
            self._loop,
            self._clock,
            TopicRules(
                settings[keys.NUM_PARTITIONS],
                settings[keys.DEFAULT_REPLICATION_FACTOR],
                lambda overrides: _ignore(topic_settings(settings, overrides)),
            ),
            lambda overrides: options.stored_topic_settings(settings, overrides)[
                UNCLEAN_LEADER_ELECTION_ENABLE
            ],
            self._random,
        )
        self._controller_requests = ControllerRequests(self._controller)
        self._control.serve(AlterTopicConfigs, ConfigRequests(self._controller).on_request)
        self._quotas = ClientQuotas(options.quota_windows(settings))
        self._counters = open_counters(
            settings[keys.METRICS_ENABLE],
            self._run_dir,
            self._id,
            self._clock.wall_ms(),
            [handler.api.key for handler in HANDLERS],
        )
        self._control.counters = self._counters
        self._throttle = QuotaThrottle(self._loop)
        self._quota_changes = QuotaChanges(
            self._registry, self._loop, self._clock, self._quotas, self._throttle
        )
        self._pipeline = Pipeline(
            HANDLERS,
            self._services(),
            self._quotas,
            self._throttle,
            self._counters,
            self._clock,
            self._loop,
        )

    def _services(self) -> Services:
        settings = self._settings
        return Services(
            broker_id=self._id,
            settings=settings,
            clock=self._clock,
            loop=self._loop,
            slices=self._slices,
            metadata=self._metadata,
            liveness=self._peers.liveness,
            partitions=self._table,
            roles=self._roles,
            purgatory=self._purgatory,
            controller=self._controller_requests,
            request_topic_creation=self._control.request_topic_creation,
            alter_topic_configs=self._control.alter_topic_configs,
            producer_ids=ProducerIds(
                lambda on_done, on_failed: self._registry.submit(
                    lambda store: store.next_producer_ids(self._id),
                    on_done,
                    on_failed,
                )
            ),
            topic_settings=lambda overrides: topic_settings(settings, overrides),
            quota_changes=self._quota_changes,
            fetch_max_bytes=settings[keys.FETCH_MAX_BYTES],
            api_versions=ApiVersionsAnswers(handler.api for handler in HANDLERS),
            counters=self._counters,
        )

    def _start_timers(self) -> None:
        settings = self._settings
        every = self._loop.call_every
        lag_ms = settings[keys.REPLICA_LAG_TIME_MAX_MS]
        every(max(50, min(lag_ms // 2, 1_000)), self._changes.look_round)
        every(
            settings[keys.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS],
            self._checkpoints.on_tick,
        )
        every(
            min(1_000, settings[keys.LOG_FLUSH_SCHEDULER_INTERVAL_MS]),
            lambda: self._flusher.on_tick(self._clock.wall_ms()),
        )
        collector.leave_out_what_is_there()
        every(_REPORT_LEFT_OUT_MS, report_left_out)
        self._start_metrics()

    def _start_metrics(self) -> None:
        settings, loop = self._settings, self._loop
        topic = MetricTopic(
            self._id,
            loop,
            self._clock,
            self._metadata,
            self._table,
            self._roles,
            self._control_link,
        )
        # Also where it is switched off: peers may have records for a partition that we lead.
        self._control.serve(ProduceMetrics, topic.on_request)
        if self._counters is None:
            return
        is_written = settings[keys.METRICS_TOPIC_ENABLE]
        publisher = MetricPublisher(
            self._id,
            self._counters,
            Watched(
                self._server,
                self._table,
                self._purgatory,
                self._metadata,
                self._replication,
                self._quotas,
            ),
            topic if is_written else None,
            settings[keys.METRICS_INTERVAL_MS],
            loop.now_ms,
            self._slices,
        )
        replicas = settings[keys.DEFAULT_REPLICATION_FACTOR]

        def tick() -> None:
            publisher.on_tick(loop.now_ms, self._clock.wall_ms())
            if is_written and self._controller.is_active:
                topic.create_if_missing(self._controller_requests, replicas)

        loop.call_every(TICK_MS, tick)

    # -- registration ----------------------------------------------------------------------------

    def _registration(self) -> BrokerRegistration:
        return BrokerRegistration(
            self._id,
            BrokerEpoch(-1),
            options.advertised_endpoints(self._settings, self.ports),
            self._settings[keys.BROKER_RACK],
            self._control_link.endpoint,
            self._replication.endpoint,
            self._machine,
        )

    def _register_at_start(self) -> None:
        registration = self._registration()
        wall_ms = self._clock.wall_ms()
        self._control.broker_epoch = self._registry.call(
            lambda store: store.register_broker(registration, wall_ms)
        )

    def _on_session_lost(self) -> None:
        """Others may have taken over: lead nothing and serve no reads until registered again."""
        log.warning("session with the registry is lost")
        self._control.broker_epoch = BrokerEpoch(-1)
        self._controller.resign()
        self._metadata.forget_controller()
        self._changes.on_session_lost()

    def _register_again(self) -> None:
        if self._is_stopping:
            return
        registration = self._registration()
        wall_ms = self._clock.wall_ms()

        def on_registered(epoch: BrokerEpoch) -> None:
            log.info("registered again with epoch %d", epoch)
            self._control.broker_epoch = epoch
            self._controller.campaign()
            self._quota_changes.reload()

        def on_failed(error: Exception) -> None:
            log.warning("cannot register: %s", error)
            self._loop.call_after(_REGISTER_RETRY_MS, self._register_again)

        self._registry.submit(
            lambda store: store.register_broker(registration, wall_ms),
            on_registered,
            on_failed,
        )

    # -- run and stop ----------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until a signal asks to stop."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        log.info("broker %d of cluster %s serves %s", self._id, self.cluster_id, self.ports)
        self._loop.run()

    def _on_signal(self, _number: int, _frame: object) -> None:
        # Only a flag and a wake-up here: the handler interrupts the loop anywhere.
        self._loop.call_from_thread(self._begin_shutdown)

    def _begin_shutdown(self) -> None:
        if self._is_stopping:
            return
        self._is_stopping = True
        if not self._settings[keys.CONTROLLED_SHUTDOWN_ENABLE]:
            self._loop.stop()
            return
        log.info("controlled shutdown")
        self._control.ask_controlled_shutdown(self._on_leaderships_moved, _CLOSE_TIMEOUT_MS)

    def _on_leaderships_moved(self, is_done: bool) -> None:
        if not is_done:
            log.info("stopping without having moved leaderships away")
        self._loop.stop()

    def close(self) -> None:
        """Close everything that was opened, clients first, logs before the session."""
        self._is_stopping = True
        self._server.close()
        if hasattr(self, "_controller"):
            self._controller.stop()
            self._replication.close()
            self._control_link.close()
            self._flusher.close()
            self._checkpoint_thread.close()
        if hasattr(self, "_table"):
            self._close_logs()
            self._maker.close(drop=True)
            self._remover.close(drop=True)
        for directory in self._directories:
            directory.close()
        self._registry.close(_CLOSE_TIMEOUT_MS)
        self._zmq.close()
        log.info("stopped")

    def _close_logs(self) -> None:
        try:
            self._table.close()
        except StorageFailed as failure:
            log.error("the next start will run recovery: %s", failure)  # noqa: TRY400

    def _on_frame(self, channel: Channel, frame: memoryview) -> None:
        self._pipeline.on_frame(channel, frame)


def _ignore(_value: object) -> None:
    return
