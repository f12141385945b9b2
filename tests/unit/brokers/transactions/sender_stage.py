"""A marker sender on broker 1 with a control link, a writer and metadata that tests control."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.transactions.marker_sender import MarkerSender
from cluster.coordinator.transactions.requests import (
    EndMarkers,
    PartitionsMarked,
    ProducerIdentity,
)
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition
from cluster.protocol.peer.control import ClusterUpdate
from cluster.protocol.peer.transactions import PartitionErrors, WriteMarkers
from cluster.records.markers import EndMarker
from cluster.runtime.loop import EventLoop
from tests.support.cluster_states import a_broker, a_partition, a_topic
from tests.support.fake_clock import FakeClock
from tests.support.fake_control_link import Asked, FakeControlLink

NONE = ErrorCode.none
HERE, OTHER, THIRD = 1, 2, 3
STATE_0, STATE_1 = (TopicPartition("__transaction_state", number) for number in range(2))
OnWritten = Callable[[Mapping[TopicPartition, ErrorCode]], None]


class ScriptedWriter:
    """Keeps what is to be written here, until a test answers."""

    def __init__(self) -> None:
        self.written: list[tuple[EndMarker, list[TopicPartition], OnWritten]] = []
        self.leader_epochs: list[Mapping[TopicPartition, int]] = []
        """Those that each of them was to be written in."""

    def write(
        self,
        marker: EndMarker,
        partitions: Iterable[TopicPartition],
        on_written: OnWritten,
        leader_epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> None:
        self.written.append((marker, list(partitions), on_written))
        self.leader_epochs.append(leader_epochs)


class SenderStage:
    """Topic `t` has a partition for each leader that `leaders` is given."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.loop = EventLoop(self.clock)
        self.metadata = MetadataCache("stage")
        self.link = FakeControlLink()
        self.writer = ScriptedWriter()
        link: Any = self.link
        writer: Any = self.writer
        self.sender = MarkerSender(BrokerId(HERE), self.metadata, link, writer, self.loop)
        self.reports: list[tuple[PartitionsMarked, TopicPartition]] = []
        self.sender.report_to(lambda event, place: self.reports.append((event, place)))

    def leaders(
        self,
        *leaders: int,
        live: tuple[int, ...] = (HERE, OTHER, THIRD),
        topic: str = "t",
        epoch: int = 0,
    ) -> None:
        """The controller's newest update: no leaders, no topic. `epoch`: of every leader."""
        partitions = [
            a_partition((HERE, OTHER, THIRD), leader=each, leader_epoch=epoch) for each in leaders
        ]
        self.metadata.apply(
            ClusterUpdate(
                BrokerId(OTHER),
                ControllerEpoch(1),
                BrokerEpoch(100),
                True,
                tuple(a_broker(number) for number in live),
                (a_topic(topic, *partitions),) if partitions else (),
                (),
                offline=(),
                full=(),
                full_brokers=(),
            )
        )

    def end(
        self,
        *numbers: int,
        producer: int = 7,
        coordinator: TopicPartition = STATE_0,
        is_commit: bool = True,
    ) -> EndMarkers:
        """End a transaction with partitions of `t`."""
        message = EndMarkers(
            f"id-{producer}",
            ProducerIdentity(producer, 3),
            9,
            is_commit,
            frozenset(TopicPartition("t", number) for number in numbers),
        )
        self.sender.send(message, coordinator)
        return message

    def turn(self) -> None:
        self.loop.run_once(max_wait_ms=0)

    def pass_time(self, duration_ms: int) -> None:
        """Time passes in steps, with a turn after each."""
        for _ in range(duration_ms // 10):
            self.clock.pass_time(10)
            self.turn()

    def asked(self) -> list[Asked]:
        """The requests since the last call, at the end of the turn."""
        self.turn()
        return self.link.take()

    def marked(self) -> list[tuple[str, int]]:
        """The transactional ids and partitions that were reported."""
        return sorted(
            (event.transactional_id, place.partition)
            for event, _ in self.reports
            for place in event.partitions
        )


@contextmanager
def a_sender_stage() -> Iterator[SenderStage]:
    stage = SenderStage()
    try:
        yield stage
    finally:
        stage.loop.close()


def places(asked: Asked) -> list[tuple[int, list[int]]]:
    """Producers and partitions of a request."""
    assert isinstance(asked.request, WriteMarkers)
    return [
        (each.producer_id, [number for topic in each.topics for number in topic.partitions])
        for each in asked.request.markers
    ]


def answer(asked: Asked, code: ErrorCode = NONE) -> None:
    """The same code for every partition."""
    asked.on_reply(PartitionErrors([[code] * len(numbers) for _, numbers in places(asked)]))
