"""One broker of a simulation: the production assembly on simulated ports."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from cluster.brokers.assembly.ports import BrokerPorts
from cluster.brokers.core import BrokerCore
from cluster.brokers.handlers import delete_records, produce
from cluster.brokers.handlers.request import Handler, NotYet
from cluster.config.settings import broker_settings
from cluster.coordinator.controller.control_link import ControlLink
from cluster.coordinator.groups.requests import CommitOffsets, OffsetToCommit
from cluster.log.log_directory import open_all
from cluster.model.cluster import Endpoint
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId, TopicPartition
from cluster.protocol.messages import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from cluster.protocol.produce_codec import ProducedTopic, ProduceRequest
from cluster.quotas.client_accounts import ClientAccounts
from tests.simulation.local_lines import LocalLines, SimulatedLocalSockets
from tests.simulation.registry import SESSION_TIMEOUT_MS, SimulatedSession
from tests.simulation.world import Node, SimulatedLoop, World
from tests.support.fake_registry import FakeTree
from tests.support.fake_sockets import NoLocalSockets
from tests.support.inline_background import InlineBackground
from tests.support.inline_helper import inline_helpers

CLUSTER_ID = "simulated"
SETTINGS = {
    "log.segment.bytes": "2000",
    "log.index.interval.bytes": "200",
    "milena.log.preallocate.step.bytes": "4096",
    "replica.lag.time.max.ms": "1000",
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.response.max.bytes": "3000",
    "replica.fetch.max.bytes": "1500",
    "replica.fetch.backoff.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "2000",
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
}


class _Channel:
    """A client's connection, as far as handlers use it; it never breaks."""

    def __init__(self, broker: "SimulatedBroker") -> None:
        self.payer = broker.loop.time.exempt
        self.is_open = True
        self.peer = "sim"
        self.on_close: Callable[[], None] | None = None

    def hold(self, size_bytes: int, *, is_worked_on: bool = False) -> None:
        """Memory does not count here."""

    def let_go(self) -> None:
        """Nor here."""


class _Context:
    """The `RequestContext` of one request."""

    def __init__(
        self, broker: "SimulatedBroker", version: int, answer: Callable[[Any], None]
    ) -> None:
        self.version = version
        self.answer = answer
        self.channel = _Channel(broker)
        self.accounts = ClientAccounts(broker.core.limits.quotas, "", "")
        self.listener = "PLAINTEXT"
        self.client_id = "sim"
        self.user = self.host = ""
        self.weight = 1


class SimulatedBroker:
    """One broker process from start to death; its directory is kept for the next process."""

    def __init__(
        self,
        world: World,
        tree: FakeTree,
        number: int,
        life: int,
        root: Path,
        boot: int,
        *,
        min_insync_replicas: int,
        by_file: bool,
        lines: LocalLines | None,
        directory_count: int,
        overrides: Mapping[str, str],
    ) -> None:
        """Its log directories are below `root`; `boot` counts the starts of its machine. `lines`:
        the local connections that it may use.
        """
        self.world = world
        self.id = BrokerId(number)
        self.node = Node(world, number, life)
        loop: Any = SimulatedLoop(self.node)
        self.loop = loop
        self.session: Any = SimulatedSession(world, self.node, tree)
        self.paths = [root / f"disk{slot}" for slot in range(directory_count)]
        self.directories = open_all(self.paths, CLUSTER_ID, number, str(boot))
        clock: Any = world
        sockets: Any = self.node
        local_sockets: Any = NoLocalSockets()
        if lines is not None:
            local_sockets = SimulatedLocalSockets(lines, self.node)
            self.node.on_death.append(lines.on_death)
        no_clients: Any = SimpleNamespace()
        settings = broker_settings(
            {
                **SETTINGS,
                "broker.id": str(number),
                "min.insync.replicas": str(min_insync_replicas),
                "replica.fetch.shared.memory": str(by_file).lower(),
                **overrides,
            }
        )
        self.core = BrokerCore(
            settings,
            BrokerPorts(
                cluster_id=CLUSTER_ID,
                machine="here",
                boot_id=str(boot),
                clock=clock,
                loop=loop,
                random=Random(world.random.random()),
                store=self.session,
                control_link=ControlLink(sockets, loop, "sim"),
                sockets=sockets,
                local_sockets=local_sockets,
                directories=self.directories,
                background=InlineBackground,
                helpers=inline_helpers(loop.next_turn),
                counters=None,
                clients=no_clients,
                give_up=lambda _failure: self.die(),
            ),
        )
        self.table = self.core.storage.table
        self.metadata = self.core.membership.metadata
        self.driver = self.core.control.driver
        self.requests = self.core.control.requests

    @property
    def is_up(self) -> bool:
        """It runs, and reacts."""
        return self.node.is_alive and not self.node.is_paused

    def start(self) -> None:
        """Register and serve. Raises UserError while a former life is still registered."""
        self.core.start((Endpoint("PLAINTEXT", "PLAINTEXT", "sim", 9_092 + self.id),))
        self.node.run_deferred()

    def stop_cleanly(self, on_stopped: Callable[[], None]) -> None:
        """Controlled shutdown, then the end of the process."""

        def close(_is_done: bool) -> None:
            self.core.close()
            self.die()
            self.session.client.expire()
            on_stopped()

        self.node.run(lambda: self.core.prepare_shutdown(close))

    def end_with_cluster(self, on_stopped: Callable[[], None]) -> None:
        """Stop with the whole cluster: elect no leaders, and end once all is drained."""
        deadline_ms = self.loop.now_ms + 500

        def look() -> None:
            if self.core.is_drained() or self.loop.now_ms >= deadline_ms:
                self.core.close()
                self.die()
                self.session.client.expire()
                on_stopped()
            else:
                self.loop.call_after(10, look)

        self.node.run(self.core.end_with_cluster)
        self.loop.call_after(self.world.random.choice([0, 10, 100]), look)

    def die(self) -> None:
        """Die by SIGKILL: what was written is in the page cache, everything else is lost."""
        self.node.die()
        for directory in self.directories:
            directory.close()

    def produce(
        self, partition: TopicPartition, batch: bytes, acks: int, on_answer: Callable[[Any], None]
    ) -> None:
        """A client's request, through the real handler; `on_answer` gets the partition's result."""

        topic = ProducedTopic(partition.topic, None, [(partition.partition, memoryview(batch))])
        request = ProduceRequest(None, acks, 1_500, [topic])
        self.handle(produce.HANDLER, 9, request, lambda answer: on_answer(answer[0][0][2][0]))

    def delete_records(
        self, partition: TopicPartition, offset: int, on_answer: Callable[[Any], None]
    ) -> None:
        """A client's request, through the real handler; `on_answer` gets the partition's result."""
        asked = DeleteRecordsPartition(partition_index=partition.partition, offset=offset)
        topic = DeleteRecordsTopic(name=partition.topic, partitions=(asked,))
        request = DeleteRecordsRequest(topics=(topic,), timeout=timedelta(seconds=1.5))
        self.handle(
            delete_records.HANDLER,
            2,
            request,
            lambda response: on_answer(response.topics[0].partitions[0]),
        )

    def handle(
        self, handler: Handler, version: int, request: Any, on_answer: Callable[[Any], None]
    ) -> None:
        """Give a client's request to a handler of the dispatch table; `on_answer` gets what the
        handler answers, in the turn in which it does."""

        def answer_if_final(response: Any) -> None:
            if not isinstance(response, NotYet):
                on_answer(response)

        services = self.core.clients.services.by_type()[handler.takes]
        context: Any = _Context(self, version, answer_if_final)
        self.node.run(lambda: answer_if_final(handler.handle(request, context, services)))

    def commit(
        self, group: str, topic: str, offset: int, on_code: Callable[[ErrorCode], None]
    ) -> None:
        """Commit an offset of partition 0 for a group without members."""

        def handle() -> None:
            request = CommitOffsets(group, (OffsetToCommit(topic, 0, offset),))
            try:
                found = self.core.groups.coordinator.find(group)
            except Refused as refused:
                on_code(refused.code)
            else:
                found.submit(request, lambda reply: on_code(reply.partitions[0].error))

        self.node.run(handle)
