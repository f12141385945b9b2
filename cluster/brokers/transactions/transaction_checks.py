"""Asks the coordinator of a transaction whether partitions belong to it, or to add them (KIP-890).

Kafka: `AddPartitionsToTxnManager`. The questions of one turn to one broker go in one message.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from itertools import zip_longest
from typing import Final, NamedTuple

from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.transactions.numbered import numbered, partitions_in
from cluster.brokers.transactions.transaction_coordinator import TransactionCoordinator
from cluster.coordinator.controller.control_link import ControlLink, Reply
from cluster.coordinator.transactions.requests import (
    AddPartitions,
    ProducerIdentity,
    VerifyPartitions,
)
from cluster.coordinator.transactions.transaction import EPOCH_BUMPED_AT_END
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId, TopicPartition
from cluster.protocol.peer.control import Refusal
from cluster.protocol.peer.transactions import (
    CheckTransactions,
    PartitionErrors,
    TransactionPartitions,
)
from cluster.runtime.loop import EventLoop

_TIMEOUT_MS: Final = 5_000
_CHECKS_MAX: Final = 1_000
"""One message asks about so many at most."""

Codes = Mapping[TopicPartition, ErrorCode]
OnChecked = Callable[[Codes], None]


class TransactionCheck(NamedTuple):
    """Partitions of a producer's transaction."""

    transactional_id: str
    producer: ProducerIdentity
    partitions: frozenset[TopicPartition]
    is_added: bool
    """Whether they become part of it; otherwise they must be part of it."""


class TransactionChecks:
    """Owned by the broker's thread."""

    def __init__(
        self,
        local_id: BrokerId,
        metadata: MetadataCache,
        link: ControlLink,
        coordinator: TransactionCoordinator,
        loop: EventLoop,
    ) -> None:
        self._local_id = local_id
        self._metadata = metadata
        self._link = link
        self._coordinator = coordinator
        self._loop = loop
        self.failed_count = 0
        """Partitions that were refused, since the start."""
        self.time_ms = 0
        """The sum of the times of all checks."""
        self._due: dict[BrokerId, list[tuple[TransactionCheck, OnChecked]]] = defaultdict(list)
        """Asked at the end of this turn."""

    def check(self, check: TransactionCheck, on_checked: OnChecked) -> None:
        """Ask; `on_checked` is called once with a code for each partition, perhaps at once.

        NETWORK_EXCEPTION stands for a coordinator that does not answer.
        """
        began_ms = self._loop.now_ms

        def on_counted(codes: Codes) -> None:
            self.time_ms += self._loop.now_ms - began_ms
            self.failed_count += sum(1 for each in codes.values() if each is not ErrorCode.none)
            on_checked(codes)

        self._check(check, on_counted)

    def _check(self, check: TransactionCheck, on_checked: OnChecked) -> None:
        try:
            if not check.transactional_id:
                raise Refused(ErrorCode.invalid_request)
            if check.producer.producer_id < 0:
                raise Refused(ErrorCode.invalid_producer_id_mapping)
            leader = self._leader(check.transactional_id)
        except Refused as refused:
            on_checked(dict.fromkeys(check.partitions, refused.code))
            return
        if leader == self._local_id:
            self._check_here(check, on_checked)
            return
        if not self._due:
            self._loop.defer(self._ask_due)
        self._due[leader].append((check, on_checked))

    def _leader(self, transactional_id: str) -> BrokerId:
        partition = self._coordinator.partition_of(transactional_id)
        state = None if partition is None else self._metadata.partition(partition)
        if state is None or state.leader not in self._metadata.brokers:
            raise Refused(ErrorCode.coordinator_not_available)
        return state.leader

    def _check_here(self, check: TransactionCheck, on_checked: OnChecked) -> None:
        transactional_id, producer, partitions, is_added = check
        try:
            led = self._coordinator.find(transactional_id)
        except Refused as refused:
            on_checked(dict.fromkeys(partitions, refused.code))
            return
        if not is_added:
            on_checked(led.ask(VerifyPartitions(transactional_id, producer, partitions)))
            return
        led.submit(
            AddPartitions(transactional_id, producer, partitions, EPOCH_BUMPED_AT_END),
            lambda code: on_checked(dict.fromkeys(partitions, code)),
        )

    def _ask_due(self) -> None:
        due, self._due = self._due, defaultdict(list)
        for leader, checks in due.items():
            for begin in range(0, len(checks), _CHECKS_MAX):
                self._ask(leader, checks[begin : begin + _CHECKS_MAX])

    def _ask(self, leader: BrokerId, checks: list[tuple[TransactionCheck, OnChecked]]) -> None:
        registration = self._metadata.brokers.get(leader)
        if registration is None:
            for check, on_checked in checks:
                on_checked(dict.fromkeys(check.partitions, ErrorCode.coordinator_not_available))
            return
        request = CheckTransactions(
            tuple(
                TransactionPartitions(
                    check.transactional_id,
                    check.producer.producer_id,
                    check.producer.epoch,
                    check.is_added,
                    numbered(check.partitions),
                )
                for check, _ in checks
            )
        )

        def on_reply(answer: PartitionErrors | Refusal | None) -> None:
            codes = answer.codes if isinstance(answer, PartitionErrors) else ()
            for asked, (check, on_checked), found in zip_longest(
                request.transactions, checks, codes[: len(checks)]
            ):
                lost = dict.fromkeys(check.partitions, ErrorCode.network_exception)
                known = dict(zip(partitions_in(asked.topics), found or (), strict=False))
                on_checked({**lost, **known})

        self._link.ask(registration.control_endpoint, request, on_reply, _TIMEOUT_MS)

    # -- the coordinator's side --------------------------------------------------------------------

    def on_request(self, request: CheckTransactions, reply: Reply) -> None:
        """A leader asks about transactions that this broker coordinates."""
        codes: list[list[ErrorCode]] = [[] for _ in request.transactions]
        left = len(request.transactions)
        if not left:
            reply(PartitionErrors(()))

        def on_checked(number: int, partitions: list[TopicPartition], found: Codes) -> None:
            nonlocal left
            codes[number] = [found[each] for each in partitions]
            left -= 1
            if not left:
                reply(PartitionErrors(codes))

        for number, each in enumerate(request.transactions):
            partitions = partitions_in(each.topics)
            check = TransactionCheck(
                each.transactional_id,
                ProducerIdentity(each.producer_id, each.producer_epoch),
                frozenset(partitions),
                each.is_added,
            )
            self._check_here(check, partial(on_checked, number, partitions))
