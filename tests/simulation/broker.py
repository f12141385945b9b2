"""One broker of a simulation: the real parts, wired as `brokers/broker.py` wires them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from cluster.brokers.control_requests import ControlRequests
from cluster.brokers.handlers import produce
from cluster.brokers.handlers.request import NotYet
from cluster.brokers.log.log_directory import LogDirectory
from cluster.brokers.log.options import LogOptions
from cluster.brokers.metadata_cache import MetadataCache
from cluster.brokers.network.purgatory import Purgatory
from cluster.brokers.replication.follower_fetcher import FetchOptions
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.brokers.replication.replica_roles import ReplicaRoles
from cluster.brokers.replication.replication_link import ReplicationLink
from cluster.brokers.replication.role_changes import RoleChanges
from cluster.coordinator.controller.control_link import ControlLink
from cluster.coordinator.controller.controller_driver import ControllerDriver
from cluster.coordinator.controller.controller_requests import ControllerRequests
from cluster.coordinator.controller.topic_plans import TopicRules
from cluster.model.cluster import BrokerRegistration, Endpoint
from cluster.model.ids import BrokerEpoch, BrokerId, TopicPartition
from cluster.protocol.produce_codec import ProducedTopic, ProduceRequest
from cluster.runtime.slices import Slices
from tests.simulation.registry import SimulatedSession
from tests.simulation.world import Node, SimulatedLoop, World
from tests.support.fake_registry import FakeTree

CLUSTER_ID = "simulated"
LAG_MS = 1_000
LOG_OPTIONS = LogOptions(
    segment_bytes=2_000, index_interval_bytes=200, preallocate_step_bytes=4_096
)
SHUTDOWN_TIMEOUT_MS = 3_000


class SimulatedBroker:
    """One life; the directory stays for the next one."""

    def __init__(
        self,
        world: World,
        tree: FakeTree,
        number: int,
        life: int,
        root: Path,
        *,
        min_insync_replicas: int,
        by_file: bool,
    ) -> None:
        self.world = world
        self.id = BrokerId(number)
        self.node = Node(world, number, life)
        self.loop: Any = SimulatedLoop(self.node)
        self.session: Any = SimulatedSession(world, self.node, tree)
        self._context: Any = self.node
        self._directory = LogDirectory.open(root, CLUSTER_ID, number)
        random = Random(world.random.random())

        def options_of(_overrides: Mapping[str, str]) -> tuple[LogOptions, int]:
            return LOG_OPTIONS, min_insync_replicas

        self.table = PartitionTable([self._directory], self.id, options_of)
        self.table.load(world.wall_ms())
        self.metadata = MetadataCache(CLUSTER_ID)
        purgatory = Purgatory(self.loop.call_at)
        self.roles = ReplicaRoles(
            self.id,
            self.table,
            LAG_MS,
            self.loop.defer,
            purgatory.check,
            lambda partition, proposal: self.control.propose_isr(partition, proposal),
        )
        self.slices = Slices(world.monotonic_us, self.loop.next_turn)
        self.changes = RoleChanges(
            self.roles, self.table, self.metadata, self.slices, lambda: self.loop.now_ms
        )
        self.control = ControlRequests(
            self.id, self.loop, self.metadata, self.roles, self.changes, lambda: self.requests
        )
        self.control_link = ControlLink(self._context, self.loop, "sim", self.control.on_request)
        self.control.use_link(self.control_link)
        self.replication = ReplicationLink(
            self._context,
            self.loop,
            world,
            "sim",
            FetchOptions(self.id, "here", 500, 3_000, 100, by_file),
            1_500,
            self.roles,
            random,
            self.roles.on_high_watermark_moved,
        )
        self.roles.use_link(self.replication)
        self.driver = ControllerDriver(
            self.id,
            self.session,
            self.control_link,
            self.loop,
            world,
            TopicRules(1, 1, lambda overrides: None),
            lambda overrides: False,
            random,
        )
        self.requests = ControllerRequests(self.driver)
        self._services: Any = SimpleNamespace(
            clock=world,
            loop=self.loop,
            metadata=self.metadata,
            liveness=SimpleNamespace(is_lost=lambda broker, now_ms: False),
            partitions=self.table,
            roles=self.roles,
            purgatory=purgatory,
            counters=None,
        )
        self.session.on_session_lost = self._on_session_lost
        self.session.on_session_begun = self._register_again

    @property
    def is_up(self) -> bool:
        """It runs, and reacts."""
        return self.node.is_alive and not self.node.is_paused

    def start(self) -> None:
        """Register and serve. Raises UserError while a former life is still registered."""
        self.control.broker_epoch = self.session.call(
            lambda store: store.register_broker(self._registration(), self.world.wall_ms())
        )
        self.driver.campaign()
        self.loop.call_every(LAG_MS // 2, self.changes.look_round)
        self.loop.call_every(2_000, self.table.write_checkpoints)
        self.node.run_deferred()

    def stop_cleanly(self, on_stopped: Callable[[], None]) -> None:
        """Controlled shutdown, then the end of the process."""

        def close(_is_done: bool) -> None:
            self.driver.stop()
            self.replication.close()
            self.control_link.close()
            self.table.close()
            self.die()
            self.session.client.expire()
            on_stopped()

        self.node.run(lambda: self.control.ask_controlled_shutdown(close, SHUTDOWN_TIMEOUT_MS))

    def die(self) -> None:
        """As kill -9: what was written is in the page cache, what was not is lost."""
        self.node.die()
        self.replication._files.close()
        self._directory.close()

    def produce(
        self, partition: TopicPartition, batch: bytes, acks: int, on_answer: Callable[[Any], None]
    ) -> None:
        """A client's request, through the real handler; `on_answer` gets the partition's result."""

        def answer(response: Any) -> None:
            on_answer(response[0][0][2][0])

        context: Any = SimpleNamespace(
            version=9,
            listener="PLAINTEXT",
            channel=SimpleNamespace(on_close=None),
            answer=answer,
        )
        topic = ProducedTopic(partition.topic, None, [(partition.partition, memoryview(batch))])

        def handle() -> None:
            request = ProduceRequest(None, acks, 1_500, [topic])
            response = produce.handle(request, context, self._services)
            if not isinstance(response, NotYet):
                answer(response)

        self.node.run(handle)

    def _registration(self) -> BrokerRegistration:
        return BrokerRegistration(
            self.id,
            BrokerEpoch(-1),
            (Endpoint("PLAINTEXT", "PLAINTEXT", "sim", 9_092 + self.id),),
            None,
            self.control_link.endpoint,
            self.replication.endpoint,
            "here",
        )

    def _on_session_lost(self) -> None:
        self.control.broker_epoch = BrokerEpoch(-1)
        self.driver.resign()
        self.metadata.forget_controller()
        self.changes.on_session_lost()

    def _register_again(self) -> None:
        registration = self._registration()
        wall_ms = self.world.wall_ms()

        def on_registered(epoch: BrokerEpoch) -> None:
            self.control.broker_epoch = epoch
            self.driver.campaign()

        self.session.submit(
            lambda store: store.register_broker(registration, wall_ms),
            on_registered,
            lambda _error: self.loop.call_after(500, self._register_again),
        )
