"""One broker put together from its ports; used unchanged by the process, the simulation and tests.

What touches the world comes in from outside: clocks and loop, links to peers, the store of the
cluster, log directories, background threads. Decides nothing about records, roles or requests.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

from cluster.brokers.assembly import options
from cluster.brokers.assembly.log_integrity import LogIntegrity
from cluster.brokers.assembly.metric_timers import start_metrics
from cluster.brokers.assembly.ports import BrokerPorts
from cluster.brokers.dispatch.pipeline import Pipeline
from cluster.brokers.dispatch.services import Services
from cluster.brokers.dispatch.table import HANDLERS
from cluster.brokers.groups.cluster_topics import ClusterTopics
from cluster.brokers.groups.group_coordinator import GroupCoordinator
from cluster.brokers.groups.history_handover import HistoryHandover
from cluster.brokers.groups.log_ends import LeaderLogEnds
from cluster.brokers.membership.controller_asks import ControllerAsks
from cluster.brokers.membership.controller_updates import ControllerUpdates
from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.membership.offline_report import OfflineReport
from cluster.brokers.membership.peer_pings import PeerPings
from cluster.brokers.membership.registration import Registration
from cluster.brokers.metrics.counters import isr_counter
from cluster.brokers.metrics.topic import MetricTopic
from cluster.brokers.network.purgatory import Purgatory
from cluster.brokers.replication.internal_topics import InternalTopics
from cluster.brokers.replication.isr_changes import IsrChanges
from cluster.brokers.replication.partition_events import PartitionEvents
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.brokers.replication.replica_roles import ReplicaRoles
from cluster.brokers.replication.replication_link import ReplicationLink
from cluster.brokers.replication.role_changes import RoleChanges
from cluster.brokers.security.acl_changes import AclChanges
from cluster.brokers.security.authentication import Authentication
from cluster.brokers.storage.checkpoint_writer import CheckpointWriter
from cluster.brokers.storage.directory_failures import DirectoryFailures
from cluster.brokers.storage.directory_record import DirectoryRecord
from cluster.brokers.storage.full_directories import LOOK_PERIOD_MS, FullDirectories
from cluster.brokers.storage.log_cleaner import LogCleaner
from cluster.brokers.storage.log_flusher import LogFlusher
from cluster.brokers.storage.log_retention import FIRST_CHECK_MS, LogRetention
from cluster.brokers.storage.option_changes import OptionChanges
from cluster.brokers.storage.replica_moves import ReplicaMoves
from cluster.brokers.stored.group_configs import GroupConfigs
from cluster.brokers.stored.producer_ids import ProducerIds
from cluster.brokers.stored.quota_changes import QuotaChanges
from cluster.brokers.stored.setting_changes import SettingChanges
from cluster.brokers.throttling.connected_clients import ConnectedClients
from cluster.brokers.throttling.quota_events import quota_noter
from cluster.brokers.throttling.throttle import QuotaThrottle
from cluster.config import broker as keys
from cluster.config.live_settings import LiveSettings
from cluster.config.settings import Settings
from cluster.config.topic import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE
from cluster.coordinator.controller.controller_driver import ControllerDriver
from cluster.coordinator.controller.controller_requests import ControllerRequests
from cluster.coordinator.controller.topic_plans import TopicRules
from cluster.log.directory_work import DirectoryWork
from cluster.metrics.events import EventLog
from cluster.model.cluster import BrokerRegistration, Endpoint
from cluster.model.errors import StorageFailed
from cluster.model.ids import BrokerId
from cluster.protocol.api_versions import ApiVersionsAnswers
from cluster.protocol.peer.control import (
    AskLogEnds,
    ClusterUpdate,
    KeepHistories,
    Ping,
    ProduceMetrics,
)
from cluster.quotas.client_quotas import ClientQuotas
from cluster.quotas.connection_rates import ConnectionRates
from cluster.quotas.mutation_quota import admit_of
from cluster.runtime.long_work import LongWork
from cluster.runtime.slices import Slices

log = logging.getLogger(__name__)

_SHUTDOWN_TIMEOUT_MS: Final = 3_000
_SHARE_OF_DIRECTORIES: Final = 0.2
"""Of a processor: nobody waits for directories to be made or removed."""


class BrokerCore:
    """Lifecycle: construction opens the logs, `start` registers, `close` closes the logs.

    Owned by the loop's thread. Logs that cannot be opened are offline.
    """

    def __init__(self, settings: Settings, ports: BrokerPorts) -> None:
        self.live = LiveSettings(settings)
        self._ports = ports
        self.id = BrokerId(settings[keys.BROKER_ID])
        loop, clock = ports.loop, ports.clock
        self.slices = Slices(clock.monotonic_us, loop.next_turn)
        self.event_log = EventLog()
        self.setting_changes = SettingChanges(self.id, ports.store, loop, clock, self.live)
        self.setting_changes.load_at_start()
        self._maker = ports.background("log-maker", _SHARE_OF_DIRECTORIES)
        self._remover = ports.background("log-remover", _SHARE_OF_DIRECTORIES)
        self._flush_thread = ports.background("log-flusher", 1.0)
        self._checkpoint_thread = ports.background("checkpoints", 1.0)
        self._mover = ports.background("replica-mover", _SHARE_OF_DIRECTORIES)
        self.long_work = LongWork(
            ports.background, loop.call_from_thread, loop.time, clock.thread_cpu_ns
        )
        directory_work = DirectoryWork(
            self._maker.do, self._remover.do, self._later, self._on_directory_work_failed
        )
        self.table = PartitionTable(
            ports.directories,
            self.id,
            lambda overrides: options.log_options(self.live.now, overrides),
            directory_work,
        )
        ports.before_logs_are_opened(self.live.now)
        self.table.load(clock.wall_ms(), ports.on_logs_opened)
        self.checkpoints = CheckpointWriter(
            self.table, self.slices, self._checkpoint_thread.do, loop.call_from_thread
        )
        self.directory_record = DirectoryRecord(
            self.id,
            self.table,
            ports.store,
            ports.boot_id,
            self._checkpoint_thread.do,
            loop.call_from_thread,
            loop.call_after,
        )
        self.moves = ReplicaMoves(
            self.table,
            directory_work,
            self._mover.do,
            loop.call_from_thread,
            self.checkpoints.when_written,
            loop.call_after,
            clock.wall_ms,
            lambda: self.live[keys.REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND],
        )
        self.metadata = MetadataCache(ports.cluster_id)
        self.purgatory = Purgatory(loop.call_at, loop.time)
        self.registration = Registration(ports.store, loop, clock)
        self.asks = ControllerAsks(
            self.id, loop, self.metadata, ports.control_link, self.registration
        )
        self.cleaner = LogCleaner(
            self.live,
            self.table,
            self.slices,
            ports.helpers,
            loop.call_after,
            self._remover.do,
            clock.wall_ms,
            clock.monotonic_ms,
        )
        self._assemble_replication()
        self._assemble_control()
        self._assemble_clients()

    def _later(self, delay_ms: int, call: Callable[[], None]) -> None:
        """Make a call on the loop's thread after a while; on any thread."""
        loop = self._ports.loop

        def start_timer() -> None:
            loop.call_after(delay_ms, call)

        loop.call_from_thread(start_timer)

    def _assemble_replication(self) -> None:
        settings, ports = self.live, self._ports
        loop = ports.loop
        self.events = PartitionEvents(loop.defer)
        self.isr_changes = IsrChanges(
            self.table, self.events, self.asks, lambda: loop.now_ms, isr_counter(ports.counters)
        )
        self.replication = ReplicationLink(
            ports.sockets,
            loop,
            ports.clock,
            settings[keys.CONTROL_HOST],
            options.fetch_options(settings.now, ports.machine, lambda: self.registration.epoch),
            settings[keys.REPLICA_FETCH_MAX_BYTES],
            self.isr_changes,
            ports.random,
            self.events.on_high_watermark_moved,
            settings[keys.REPLICATION_PORT],
        )
        leader_side = self.replication.leader_side
        self.events.appended_listeners.append(leader_side.on_appended)
        self.events.watermark_listeners.append(leader_side.on_high_watermark_moved)
        self.events.start_listeners.append(leader_side.on_log_start_moved)
        self.events.role_listeners += [leader_side.on_role_changed, self.purgatory.check]
        self.events.moved_listeners.append(self.purgatory.check)
        self.internal_topics = InternalTopics(self.table, self.events, ports.clock, loop)
        self.roles = ReplicaRoles(
            self.id,
            self.table,
            settings[keys.REPLICA_LAG_TIME_MAX_MS],
            self.events,
            self.isr_changes,
            self.replication,
            ports.clock.wall_ms,
        )
        self.group_configs = GroupConfigs(ports.store, loop, ports.clock, settings)
        self.topics = ClusterTopics(self.metadata)
        self.groups = GroupCoordinator(
            options.coordinator_options(settings.now),
            self.internal_topics,
            self.metadata,
            self.slices,
            ports.clock,
            loop,
            lambda: str(UUID(int=ports.random.getrandbits(128), version=4)),
            self.topics,
            self.group_configs.timings,
            self.event_log,
        )
        self.histories = HistoryHandover(
            self.id, self.groups.former, self.metadata, ports.control_link, ports.clock
        )
        self.groups.on_unloaded = self.histories.on_unloaded
        self.integrity = LogIntegrity(
            self.id,
            self.live,
            ports,
            self.table,
            self.metadata,
            self.events,
            self.slices,
            self.cleaner,
        )
        self.directory_failures = DirectoryFailures(
            self.table, self.roles, loop.defer, ports.give_up
        )
        self.changes = RoleChanges(
            self.roles, self.table, self.metadata, self.slices, lambda: loop.now_ms
        )
        self.live.listeners.append(
            OptionChanges(self.table, self.metadata, self.slices).on_settings_changed
        )

    def _assemble_control(self) -> None:
        settings, ports = self.live, self._ports
        loop, link = ports.loop, ports.control_link
        self.updates = ControllerUpdates(loop, self.metadata, self.changes, self.registration)
        self.pings = PeerPings(
            self.id,
            settings[keys.ZOOKEEPER_SESSION_TIMEOUT_MS],
            loop,
            self.metadata,
            self.purgatory,
            link,
        )
        self.updates.before_update.append(self.pings.on_update)
        self.updates.on_topics_gone.append(self.groups.on_topics_gone)
        self.updates.before_update.append(self._note_reshaped_topics)
        self.offline_report = OfflineReport(
            self.id, self.table.offline, self.asks, loop.defer, loop.call_after
        )
        reserve_bytes = settings[keys.LOG_DIR_RESERVE_BYTES]
        self.full_directories = FullDirectories(self.id, self.table, self.asks, loop, reserve_bytes)
        self.updates.before_update += [
            self.offline_report.on_update,
            self.full_directories.on_update,
            self.registration.on_update,
            self.directory_record.on_update,
        ]
        self.controller = ControllerDriver(
            self.id,
            ports.store,
            link,
            loop,
            ports.clock,
            TopicRules(
                settings[keys.NUM_PARTITIONS],
                settings[keys.DEFAULT_REPLICATION_FACTOR],
                self._check_topic_configs,
                lambda overrides: self._of_topic(overrides)[MIN_INSYNC_REPLICAS],
            ),
            lambda overrides: self._of_topic(overrides)[UNCLEAN_LEADER_ELECTION_ENABLE],
            ports.random,
            options.leader_returns(settings.now),
            lambda: self.metadata.brokers,
            self.event_log,
        )
        self.controller_requests = ControllerRequests(
            self.controller,
            lambda name: options.automatic_topic(settings.now, name),
            lambda client: admit_of(self.quotas, client, lambda: loop.now_ms),
        )
        self.live.listeners.append(self.controller.on_settings_changed)
        self.metric_topic = MetricTopic(self.id, loop, self.metadata, self.internal_topics, link)
        self.log_ends = LeaderLogEnds(self.table, self.metadata, link)
        link.serve(AskLogEnds, self.log_ends.on_request)
        link.serve(ClusterUpdate, self.updates.on_update)
        link.serve(Ping, self.pings.on_ping)
        self.controller_requests.serve(link)
        # Also where metrics are switched off: peers may have records for a partition that we lead.
        link.serve(ProduceMetrics, self.metric_topic.on_request)
        link.serve(KeepHistories, self.histories.on_request)

    def _assemble_clients(self) -> None:
        settings, ports = self.live, self._ports
        self.quotas = ClientQuotas(
            options.quota_windows(settings.now), options.mutation_windows(settings.now)
        )
        self.connected = ConnectedClients()
        throttle = QuotaThrottle(ports.loop, self.connected, self.slices.start)
        on_quotas = quota_noter(self.event_log, lambda: self.controller.is_active)
        self.quota_changes = QuotaChanges(
            ports.store, ports.loop, ports.clock, self.quotas, throttle, self.slices, on_quotas
        )
        self.authentication = Authentication(
            ports.store,
            ports.loop,
            ports.clock.wall_ms,
            settings,
            options.token_rules(settings.now),
            ports.counters,
        )
        authorizer = options.authorizer(settings.now)
        self.acls = None
        if authorizer is not None:
            self.acls = AclChanges(ports.store, ports.loop, ports.clock, authorizer)
        self.connection_rates = ConnectionRates(options.quota_windows(settings.now))
        self.connection_rates.limit(options.creation_rates(settings.now))
        self.quota_changes.listeners.append(self.connection_rates.take_quotas)
        settings.listeners.append(
            lambda now: self.connection_rates.limit(options.creation_rates(now))
        )
        self.services = Services(
            broker_id=self.id,
            settings=settings,
            clock=ports.clock,
            loop=ports.loop,
            slices=self.slices,
            long_work=self.long_work,
            metadata=self.metadata,
            liveness=self.pings.liveness,
            partitions=self.table,
            moves=self.moves,
            events=self.events,
            purgatory=self.purgatory,
            controller=self.controller_requests,
            groups=self.groups,
            group_configs=self.group_configs,
            request_topic_creation=self.asks.request_topic_creation,
            alter_topic_configs=self.asks.alter_topic_configs,
            producer_ids=ProducerIds(
                lambda on_done, on_failed: ports.store.submit(
                    lambda store: store.next_producer_ids(self.id), on_done, on_failed
                )
            ),
            topic_settings=self._of_topic,
            quota_changes=self.quota_changes,
            credentials=self.authentication.credentials,
            tokens=self.authentication.tokens,
            logins=self.authentication.logins,
            setting_changes=self.setting_changes,
            fetch_max_bytes=settings[keys.FETCH_MAX_BYTES],
            api_versions=ApiVersionsAnswers(
                (handler.api for handler in HANDLERS), options.features(settings.now)
            ),
            counters=ports.counters,
            authorizer=authorizer,
            acls=self.acls,
        )
        self.pipeline = Pipeline(
            HANDLERS,
            self.services,
            self.quotas,
            throttle,
            ports.counters,
            ports.clock,
            ports.loop,
        )

        if ports.counters is not None:
            topics = ports.counters.topics
            topics.known = self.metadata.topics
            self.events.append_listeners.append(
                lambda partition: topics.on_appended(partition.id.topic, partition.leader)
            )
            ports.counters.topic_name = self.metadata.topic_name

    def _of_topic(self, overrides: Mapping[str, str]) -> Settings:
        return options.stored_topic_settings(self.live.now, overrides)

    def _check_topic_configs(self, overrides: Mapping[str, str]) -> None:
        self.live.of_topic(overrides)

    def _on_directory_work_failed(self, path: Path, failure: StorageFailed) -> None:
        """On any thread."""
        self._ports.loop.call_from_thread(lambda: self.table.note_path_failure(path, failure))

    def _note_reshaped_topics(self, update: ClusterUpdate) -> None:
        """Before the update is applied; the group coordinator is told at the end of the turn."""
        names = self.topics.reshaped_by(update)
        if names:
            self._ports.loop.defer(lambda: self.groups.on_topics_changed(names))

    # -- start -------------------------------------------------------------------------------------

    def start(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register with these client endpoints and start the timers. Raises UserError."""
        settings, store = self.live, self._ports.store
        self.quota_changes.load_at_start()
        self.authentication.load_at_start()
        self.group_configs.load_at_start()
        if self.acls is not None:
            self.acls.load_at_start()
        self.registration.begin(
            BrokerRegistration(
                self.id,
                self.registration.epoch,
                endpoints,
                settings[keys.BROKER_RACK],
                self._ports.control_link.endpoint,
                self.replication.endpoint,
                self._ports.machine,
                self.directory_record.find_condition(),
            )
        )
        store.on_session_lost = self._on_session_lost
        store.on_session_begun = self._on_session_begun
        self.controller.campaign()
        self._start_timers()
        self.moves.resume()

    def _start_timers(self) -> None:
        settings, ports = self.live, self._ports
        loop, clock = ports.loop, ports.clock
        lag_ms = settings[keys.REPLICA_LAG_TIME_MAX_MS]
        self.flusher = LogFlusher(
            self.table,
            self.slices,
            self._flush_thread.do,
            loop.call_from_thread,
            clock.monotonic_us,
        )
        retention = LogRetention(self.table, self.events, self.slices, clock.wall_ms)
        check_ms = settings[keys.LOG_RETENTION_CHECK_INTERVAL_MS]
        if check_ms > FIRST_CHECK_MS:
            loop.call_after(FIRST_CHECK_MS, retention.on_tick)
        loop.call_every(check_ms, retention.on_tick)
        self.full_directories.while_full = retention.on_tick
        loop.call_every(LOOK_PERIOD_MS, self.full_directories.look)
        loop.call_every(max(50, min(lag_ms // 2, 1_000)), self.changes.look_round)
        loop.call_every(
            settings[keys.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS], self.checkpoints.on_tick
        )
        loop.call_every(
            min(1_000, settings[keys.LOG_FLUSH_SCHEDULER_INTERVAL_MS]),
            lambda: self.flusher.on_tick(clock.monotonic_ms()),
        )
        loop.call_every(
            settings[keys.DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS], self._remove_expired_tokens
        )
        self.cleaner.start()
        self.integrity.start()
        if ports.counters is not None:
            start_metrics(self, ports.loop, ports.clock, ports.counters, ports.clients)

    def _remove_expired_tokens(self) -> None:
        if self.controller.is_active:
            self.authentication.tokens.remove_expired()

    # -- the session with the store ----------------------------------------------------------------

    def _on_session_lost(self) -> None:
        """Others may have taken over: lead nothing and serve no reads until registered again."""
        log.warning("session with the registry is lost")
        self.registration.on_session_lost()
        self.controller.resign()
        self.metadata.forget_controller()
        self.changes.on_session_lost()

    def _on_session_begun(self) -> None:
        self.registration.again(self._on_registered_again)

    def _on_registered_again(self) -> None:
        self.controller.campaign()
        self.quota_changes.reload()
        self.authentication.reload()
        self.group_configs.reload()
        self.setting_changes.reload()
        if self.acls is not None:
            self.acls.on_new_session()

    # -- stop --------------------------------------------------------------------------------------

    def prepare_shutdown(self, on_done: Callable[[bool], None]) -> None:
        """Have leaderships moved away; calls back once, with whether that was done in time."""
        self.registration.end()
        self.directory_record.on_stopping()
        self.asks.ask_controlled_shutdown(on_done, _SHUTDOWN_TIMEOUT_MS)

    def end_with_cluster(self) -> None:
        """Every broker stops now: elect nobody, and leave leaders and in-sync replicas as they are,
        so that each of them may lead at the next start.
        """
        self.registration.end()
        self.controller.stop()
        self.directory_record.on_stopping()

    def is_drained(self) -> bool:
        """Whether the in-sync replicas have everything that is led here."""
        return self.directory_record.is_stored and all(
            partition.leader is None
            or partition.leader.has_all_in_sync(partition.log.log_end_offset)
            for partition in self.table
        )

    def close(self) -> None:
        """Leave the cluster, close both links and the logs; the caller closes the session."""
        self.registration.end()
        self.controller.stop()
        self.replication.close()
        self._ports.control_link.close()
        self.cleaner.close()
        self.integrity.close()
        self.authentication.close()
        self.long_work.close()
        self._flush_thread.close()
        self._checkpoint_thread.close()
        self._mover.close(drop=True)
        try:
            self.table.close()
        except StorageFailed as failure:
            log.error("the next start will run recovery: %s", failure)  # noqa: TRY400
        self._maker.close(drop=True)
        self._remover.close(drop=True)
