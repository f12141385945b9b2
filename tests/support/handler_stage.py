"""One broker without sockets: real handlers, pipeline, logs and roles, with a fake clock.

Requests are given as frames and responses parsed by kio, so that versions and encodings are tested
too. The controller's decisions are given as its update messages; requests of this broker to the
controller stay in `stage.link` until a test answers them.
"""

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Self

from kio.index import load_response_schema

from cluster.brokers.assembly.ports import BrokerPorts
from cluster.brokers.core import BrokerCore
from cluster.brokers.dispatch.pipeline import Pipeline
from cluster.brokers.dispatch.table import HANDLERS
from cluster.brokers.handlers.services import ServicesOfFamilies
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.network.pending_answers import PendingAnswers, QueuedAnswer
from cluster.brokers.replication.leader_fetches import LeaderActions
from cluster.brokers.replication.leader_replica import IsrProposal
from cluster.brokers.replication.partition import Partition
from cluster.brokers.stored.producer_ids import ProducerIds
from cluster.config.settings import broker_settings
from cluster.log.log_directory import open_all
from cluster.model.cluster import OfflinePartitions, TopicState
from cluster.model.errors import ErrorCode, PeerError, StorageFailed
from cluster.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, Offset, TopicPartition
from cluster.protocol.peer.control import AlterPartition, ClusterUpdate
from cluster.runtime.background_thread import Background
from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import EventLoop
from cluster.runtime.loop_time import Payer
from cluster.runtime.peer_sockets import LocalSockets, PeerSockets
from tests.support.cluster_states import a_broker
from tests.support.fake_clock import FakeClock
from tests.support.fake_control_link import FakeControlLink
from tests.support.fake_registry import FakeClient, FakeSession, FakeTree, store_of
from tests.support.fake_sockets import FakeSockets, NoLocalSockets
from tests.support.inline_background import InlineBackground
from tests.support.inline_helper import inline_helpers
from tests.support.kafka_wire import WireClient, frame_of
from tests.support.scripted_controller import ScriptedController

BROKER, OTHER, THIRD = BrokerId(1), BrokerId(2), BrokerId(3)
LAG_MS = 10_000
SUSPICION_MS = 18_000
BROKER_EPOCH = BrokerEpoch(100)
"""Of every broker; `a_broker` has it as its default."""


class StageConnection:
    """A client's connection, in place of a channel: what it is answered, and why it was closed."""

    def __init__(self, stage: "HandlerStage", listener: str, number: int) -> None:
        self._stage = stage
        self._correlation_id = 0
        self._expected: list[tuple[int, Any]] = []
        self._frames: list[bytes | None] = []
        self.listener_name = listener
        self.peer = f"client {number}"
        self.host = "127.0.0.1"
        self.principal = "ANONYMOUS"
        self.login: Any = None
        self.session: Any = None
        self.deadline: Any = None
        self.max_frame_bytes = 100 << 20
        self.payer = Payer()
        self.software = ("", "")
        self.routes: dict[int, Any] = {}
        self.on_close: Any = None
        self.is_open = True
        self.is_in_progress = False
        """A request was handed over that is not answered and may not be overtaken."""
        self.held_bytes = 0
        self.is_worked_on = False
        self.client_id = "wire"
        self.closed_because: str | None = None
        self.mute_reasons = 0
        self.arrived_ns = stage.loop.turn_ns
        self.answered: list[Any] = []
        self.pending_count = 0
        self._pending = PendingAnswers(self._on_first_given)

    # -- the channel's side ------------------------------------------------------------------------

    def respond(self, buffers: "list[Any] | None") -> None:
        """The answer to the request in progress; None when it has none."""
        if not self.is_open:
            return
        assert self.is_waiting, "answered twice"
        self.on_close = None
        self.is_in_progress = False
        if buffers is None:
            self._expected.pop()
            return
        assert not self.pending_count, "answered before earlier requests"
        self._take_answer(buffers)

    def _take_answer(self, buffers: "list[Any]") -> None:
        now_ns = self._stage.loop.monotonic_ns()
        for note in self.answered:
            note(now_ns, now_ns)
        self.answered.clear()
        parts = [b if isinstance(b, bytes | bytearray) else b.view() for b in buffers]
        self._frames.append(b"".join(parts))

    def go_on(self, weight: int) -> QueuedAnswer:
        self.is_in_progress = False
        on_close, self.on_close = self.on_close, None
        self.pending_count += 1
        return self._pending.add(weight, self.arrived_ns, on_close)

    def _on_first_given(self) -> None:
        out: deque[Any] = deque()
        self.pending_count -= self._pending.take_given(out, self.answered)
        for buffer in out:  # an answer to Produce is a single one
            self._take_answer([buffer])
        after = self._pending.after
        if after is not None and not self.pending_count:
            self._pending.after = None
            after()

    def after_earlier(self, callback: Callable[[], None]) -> None:
        if self.pending_count:
            self._pending.after = callback
        else:
            callback()

    def end(self, reason: str | None) -> None:
        self.after_earlier(lambda: self.close(reason))

    def hold(self, size_bytes: int, *, is_worked_on: bool = False) -> None:
        self.held_bytes = size_bytes
        self.is_worked_on = is_worked_on

    def let_go(self) -> None:
        self.held_bytes = 0
        self.is_worked_on = False

    kept_bytes = 0

    def arrived_bytes(self) -> int:
        return 0

    def mute(self, reason: int) -> None:
        self.mute_reasons |= reason

    def unmute(self, reason: int) -> None:
        self.mute_reasons &= ~reason

    # -- the client's side -------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """A request was sent and has neither answer nor end."""
        return len(self._expected) > len(self._frames)

    def send(self, message: Any, version: int | None = None) -> None:
        """Hand a request over, if asked under another version than its own.

        A broken protocol closes the connection, as a channel does.
        """
        assert self.is_open
        assert not self.is_in_progress, "an earlier request is in progress"
        assert not self.pending_count or message.__api_key__ == 0, "answers are pending"
        self.is_in_progress = True
        self.arrived_ns = self._stage.loop.turn_ns
        self._correlation_id += 1
        self._expected.append((self._correlation_id, message))
        frame = bytearray(frame_of(message, self._correlation_id, self.client_id))[4:]
        if version is not None:
            frame[2:4] = version.to_bytes(2, "big")
        try:
            self._stage.pipeline.on_frame(self, memoryview(frame))
        except PeerError as error:
            self.end(str(error))

    def take_frame(self) -> bytes | None:
        """The answer to the oldest request as it came, unread."""
        self._expected.pop(0)
        return self._frames.pop(0)

    def receive(self) -> Any:
        """The answer to the oldest request that has none yet; None while it has to wait."""
        if not self._frames:
            return None
        frame = self._frames.pop(0)
        correlation_id, asked = self._expected.pop(0)
        assert frame is not None
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        schema = load_response_schema(type(asked).__api_key__, type(asked).__version__)
        return WireClient.parse(frame[4:], schema, correlation_id)

    def call(self, message: Any) -> Any:
        """Send a request, finish the turn and return its answer, None if it waits."""
        self.send(message)
        self._stage.turn()
        return self.receive()

    def exchange(self, frame: bytes) -> bytes | None:
        """Hand over the bytes of a request, without their size; those of its answer, if it has one.

        For requests that Kafka does not have. A broken protocol closes the connection.
        """
        self._expected.append((0, frame))
        try:
            self._stage.pipeline.on_frame(self, memoryview(bytearray(frame)))
        except PeerError as error:
            self.closed_because = str(error)
            self.close()
            return None
        while not self._stage.slices.is_idle:
            self._stage.turn()
        return self.take_frame()

    def close(self, reason: str | None = None) -> None:
        """The connection is gone, from either side."""
        self.is_open = False
        self.closed_because = self.closed_because or reason
        if self.deadline is not None:
            self.deadline.cancel()
        self.pending_count = 0
        self._pending.drop(self.answered)
        if self.on_close is not None:
            self.on_close()
            self.on_close = None


class HandlerStage:
    """One broker of three, with nothing on it until `update`; use as a context manager."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        number: int = BROKER,
        clock: FakeClock | SystemClock | None = None,
        sockets: PeerSockets | None = None,
        local_sockets: LocalSockets | None = None,
        machine: str = "here",
        counters: BrokerCounters | None = None,
        more_directories: Sequence[Path] = (),
        background: Callable[[str, float], Background] = InlineBackground,
        racks: Mapping[BrokerId, str] | None = None,
    ) -> None:
        self._racks = racks or {}
        self.settings = broker_settings(
            {
                "broker.id": str(number),
                "milena.log.preallocate.step.bytes": "65536",
                "replica.lag.time.max.ms": str(LAG_MS),
                "zookeeper.session.timeout.ms": str(SUSPICION_MS),
                "fetch.max.bytes": str(1 << 20),
                **(settings or {}),
            }
        )
        self.clock: Any = FakeClock() if clock is None else clock
        self._connection_numbers = itertools.count()
        self.loop = EventLoop(self.clock)
        self.directories = open_all([directory, *more_directories], "stage", number)
        self.directory = self.directories[0]
        self.storage_failures: list[StorageFailed] = []
        """Why the broker was to stop: all log directories have failed."""
        self.alive = {OTHER, THIRD}
        """The peers that answer a ping at once."""
        self.link = FakeControlLink(
            lambda endpoint: endpoint in {a_broker(b).control_endpoint for b in self.alive}
        )
        tree = FakeTree()
        store_of(FakeClient(tree)).brokers.prepare()
        self.store = FakeSession(tree, self.loop.call_from_thread)
        link: Any = self.link
        store: Any = self.store
        no_clients: Any = SimpleNamespace()
        self.core = BrokerCore(
            self.settings,
            BrokerPorts(
                cluster_id="stage",
                machine=machine,
                boot_id="boot",
                clock=self.clock,
                loop=self.loop,
                random=Random(number),
                store=store,
                control_link=link,
                sockets=FakeSockets() if sockets is None else sockets,
                local_sockets=NoLocalSockets() if local_sockets is None else local_sockets,
                directories=self.directories,
                background=background,
                helpers=inline_helpers(self.loop.next_turn),
                counters=counters,
                clients=no_clients,
                give_up=self.storage_failures.append,
            ),
        )
        self.core.membership.registration.epoch = BrokerEpoch(BROKER_EPOCH)
        self.table = self.core.storage.table
        self.metadata = self.core.membership.metadata
        self.purgatory = self.core.replication.purgatory
        self.commit_waits = self.core.replication.commit_waits
        self.events = self.core.replication.events
        self.roles = self.core.replication.roles
        self.isr_proposals = self.core.replication.isr_proposals
        self.leader_actions = LeaderActions(
            self.table.find,
            self.events.on_high_watermark_moved,
            self.events.on_moved,
            self.isr_proposals.propose,
            self.table.note_failure,
        )
        self.changes = self.core.replication.changes
        self.slices = self.core.foundation.slices
        self.control = self.core.membership.controller_client
        self.quotas = self.core.limits.quotas
        self.liveness = self.core.control.pings.liveness
        self.controller = ScriptedController()
        self.producer_id_blocks: list[tuple[Any, Any]] = []
        self.services = self._scripted_services()
        self.pipeline = Pipeline(
            HANDLERS,
            self.services,
            self.quotas,
            self.core.limits.throttle,
            counters,
            self.clock,
            self.loop,
        )

    def _scripted_services(self) -> ServicesOfFamilies:
        """Those of the core, but what clients ask of the controller, and of the store for producer
        ids, stays here until a test answers it.
        """
        services = self.core.clients.services
        controller: Any = self.controller
        return ServicesOfFamilies(
            services.data,
            services.groups,
            replace(
                services.transactions,
                producer_ids=ProducerIds(
                    lambda on_done, on_failed: self.producer_id_blocks.append((on_done, on_failed))
                ),
            ),
            replace(services.admin, controller=controller),
            replace(services.security, controller=controller),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for directory in self.directories:
            directory.close()
        self.loop.close()

    # -- what the controller decides ---------------------------------------------------------------

    def update(self, *topics: TopicState, **options: Any) -> ErrorCode | None:
        """Send an update and end the turn; returns the code of the answer in this turn."""
        replies = self.send_update(*topics, **options)
        self.turn()
        return replies[0].code if replies else None

    def send_update(
        self,
        *topics: TopicState,
        brokers: tuple[int, ...] = (BROKER, OTHER, THIRD),
        deleted: tuple[str, ...] = (),
        is_full: bool = False,
        controller_epoch: int = 1,
        broker_epoch: int = BROKER_EPOCH,
        offline: tuple[OfflinePartitions, ...] = (),
        full: tuple[OfflinePartitions, ...] = (),
        full_brokers: tuple[BrokerId, ...] = (),
    ) -> list[Any]:
        """An update of the controller, broker 2; answers come into the list that is returned."""
        replies: list[Any] = []
        update = ClusterUpdate(
            BrokerId(OTHER),
            ControllerEpoch(controller_epoch),
            BrokerEpoch(broker_epoch),
            is_full,
            tuple(a_broker(number, rack=self._racks.get(BrokerId(number))) for number in brokers),
            topics,
            deleted,
            offline=offline,
            full=full,
            full_brokers=full_brokers,
        )
        self.link.receive(update, replies.append)
        return replies

    # -- what peers do -----------------------------------------------------------------------------

    @property
    def proposals(self) -> list[tuple[TopicPartition, IsrProposal]]:
        """The ISRs that the controller is being asked for."""
        return [
            (
                TopicPartition(asked.request.topic, asked.request.partition),
                IsrProposal(
                    asked.request.isr, asked.request.leader_epoch, asked.request.partition_epoch
                ),
            )
            for asked in self.link.asked
            if isinstance(asked.request, AlterPartition)
        ]

    def end_pings(self, *, has_answered: bool) -> None:
        """The open pings are answered, or time out."""
        self.link.end_pings(has_answered=has_answered)
        self.turn()

    def break_connection(self, peer: int) -> None:
        """A peer's process has ended."""
        self.alive.discard(BrokerId(peer))
        self.link.tell_connection(a_broker(peer).control_endpoint, stands=False)
        self.turn()

    def reconnect(self, peer: int) -> None:
        """The connection to a peer is established again."""
        self.link.tell_connection(a_broker(peer).control_endpoint, stands=True)
        self.turn()

    # -- what happens ------------------------------------------------------------------------------

    def connect(self, listener: str = "PLAINTEXT") -> StageConnection:
        """Another client."""
        connection = StageConnection(self, listener, next(self._connection_numbers))
        self.core.clients.security.authentication.logins.on_connected(connection)
        return connection

    def turn(self) -> None:
        """Run one turn of the loop: due timers and deferred calls."""
        self.loop.run_once(max_wait_ms=0)

    def look_round(self) -> None:
        """Run the leaders' periodic check of their followers."""
        self.turn()
        self.changes.look_round()
        self.turn()

    def pass_time(self, duration_ms: int) -> None:
        """Advance the clock and run the timers that are due by then."""
        self.clock.pass_time(duration_ms)
        self.turn()

    def partition(self, topic: str, number: int = 0) -> Partition:
        """A replica here."""
        partition = self.table.find(TopicPartition(topic, number))
        assert partition is not None
        return partition

    def follower_fetches(self, follower: int, partition: Partition, offset: int) -> None:
        """A follower has every record before an offset."""
        assert partition.leader is not None
        moved, _ = partition.leader.on_follower_fetch(
            BrokerId(follower), Offset(offset), self.loop.now_ms
        )
        if moved:
            self.events.on_high_watermark_moved(partition)
        self.turn()
