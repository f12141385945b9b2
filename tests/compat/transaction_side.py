"""A cluster, Kafka's or ours, that is sent requests about transactions as no client would."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any, Final, NamedTuple, Self, TypeVar

from cluster.model.error_codes import ErrorCode
from cluster.protocol.api import ApiKey
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from tests.support.group_requests import find_coordinator
from tests.support.kafka_wire import (
    ClosedByPeer,
    WireClient,
    frame_of,
    metadata_request,
    produce_to,
    request,
)
from tests.support.running_cluster import Address
from tests.support.topics import create_topics_request, unique_name
from tests.support.waiting import wait_until

_GROUP: Final = 0
_TRANSACTION: Final = 1
_BROKER: Final = 4
"""The type of a config resource."""
_PATIENCE_S: Final = 60.0

Place = tuple[str, int]
T = TypeVar("T")


class Who(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int = -1
    epoch: int = -1

    def at(self, change: int) -> "Who":
        """The same producer with an epoch that is higher by `change`."""
        return self._replace(epoch=self.epoch + change)


NOBODY: Final = Who()


class TransactionSide:
    """Requests go to the leader of the partition, or to the coordinator; a context manager.

    The internal topics have one partition each. Methods return error codes, with what a client
    would use of the answer: NOBODY where that is no producer.
    """

    transaction_version = 2
    """The level at which the feature is finalized."""
    watched: Place = ("", 0)
    """A partition in which somebody else has an open transaction."""
    bystander: Who = NOBODY
    """That producer."""
    home: Sequence[int]
    """The brokers that lead new partitions."""

    def __init__(
        self,
        address: Address,
        *,
        is_ours: bool,
        silent_partition: Callable[[], AbstractContextManager[Place]] | None = None,
        client_id: str = "wire",
        source_host: str | None = None,
    ) -> None:
        """`silent_partition` makes a partition whose leader does not answer for some time."""
        self.is_ours = is_ours
        self.home = (0, 1, 2) if is_ours else (1,)
        self._silent_partition = silent_partition
        self._address = address
        self._client_id, self._source_host = client_id, source_host
        self._stack = ExitStack()
        self._clients: dict[Address, WireClient] = {}
        self._leaders: dict[Place, Address] = {}
        self._coordinators: dict[int, Address] = {}
        self._sequences: dict[tuple[Who, Place], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def silent_partition(self) -> AbstractContextManager[Place]:
        """A partition whose leader does not answer meanwhile."""
        assert self._silent_partition is not None
        return self._silent_partition()

    def groups(self) -> WireClient:
        """The coordinator of groups."""
        return self.coordinator(_GROUP)

    def from_host(self, host: str) -> "TransactionSide":
        """Another client, whose connections come from that address."""
        other = TransactionSide(self._address, is_ours=self.is_ours, source_host=host)
        other._coordinators, other._leaders = dict(self._coordinators), dict(self._leaders)
        return other

    def differs(self, *, kafka: T, ours: T) -> T:
        """Where we answer otherwise on purpose."""
        return ours if self.is_ours else kafka

    # -- where requests go -------------------------------------------------------------------------

    def client(self, address: Address | None = None) -> WireClient:
        """A connection that stays open."""
        address = address or self._address
        if address not in self._clients:
            client = WireClient(address, client_id=self._client_id, source_host=self._source_host)
            self._clients[address] = self._stack.enter_context(client)
        return self._clients[address]

    def coordinator(self, kind: int = _TRANSACTION) -> WireClient:
        """A connection to the coordinator of transactions, or to that of groups."""

        def found() -> Address | None:
            answer = self.client().call(find_coordinator("any", version=3, key_type=kind))
            return None if answer.error_code else (answer.host, answer.port)

        if kind not in self._coordinators:
            self._coordinators[kind] = wait_until(found, "a coordinator", _PATIENCE_S)
        return self.client(self._coordinators[kind])

    def leader(self, place: Place) -> WireClient:
        """A connection to the leader of a partition; to any broker if the partition is unknown."""
        return self.client(self.leader_address(place))

    def leader_address(self, place: Place) -> Address:
        """The broker that `leader` connects to."""
        if place not in self._leaders:
            view = self.client().call(metadata_request(place[0]))
            brokers = {each.node_id: (each.host, each.port) for each in view.brokers}
            for each in view.topics[0].partitions:
                if each.leader_id in brokers:
                    self._leaders[place[0], each.partition_index] = brokers[each.leader_id]
        return self._leaders.get(place, self._address)

    def create(self, topic: str, *, partitions: int = 1) -> list[Place]:
        """Make a topic, and wait until its leaders serve; returns its partitions."""
        home = self.home
        self.assign(topic, *([home[each % len(home)]] for each in range(partitions)))
        places = [(topic, number) for number in range(partitions)]

        def is_served(place: Place) -> bool:
            self._leaders.pop(place, None)
            return self._end_of(place).error_code == ErrorCode.none

        for place in places:
            wait_until(partial(is_served, place), f"{place}", _PATIENCE_S)
        return places

    def assign(self, topic: str, *replicas: list[int]) -> None:
        """Make a topic with these replicas of its partitions, if it does not exist."""
        asked = create_topics_request(
            topic, partitions=-1, replication_factor=-1, assignments=replicas
        )

        def is_created() -> bool:
            (made,) = self.client().call(asked).topics
            if made.error_code == ErrorCode.not_controller:
                view = self.client().call(metadata_request())
                brokers = {each.node_id: (each.host, each.port) for each in view.brokers}
                (made,) = self.client(brokers.get(view.controller_id)).call(asked).topics
            return made.error_code in (ErrorCode.none, ErrorCode.topic_already_exists)

        wait_until(is_created, topic, _PATIENCE_S)

    def warm_up(self) -> None:
        """Wait until the coordinators serve: until then they answer with errors of their own."""

        def serves() -> bool:
            return self.init(unique_name("warm-up"))[0] is ErrorCode.none

        self.coordinator(_GROUP)
        wait_until(serves, "the transaction coordinator", _PATIENCE_S)

    # -- the coordinator ---------------------------------------------------------------------------

    def init(
        self,
        transactional_id: str | None,
        who: Who = NOBODY,
        *,
        timeout_ms: int = 60_000,
        version: int = 5,
    ) -> tuple[ErrorCode, Who]:
        """InitProducerId."""
        asked = request(
            ApiKey.INIT_PRODUCER_ID,
            version,
            transactional_id=transactional_id,
            transaction_timeout=timeout_ms,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            enable2_pc=False,
            keep_prepared_txn=False,
        )
        client = self.coordinator() if transactional_id else self.client()
        answer = client.call(asked)
        return ErrorCode(answer.error_code), Who(answer.producer_id, answer.producer_epoch)

    def start(self, transactional_id: str, who: Who = NOBODY, **options: Any) -> Who:
        """InitProducerId, again while an earlier transaction ends."""

        def started() -> Who | None:
            code, now = self.init(transactional_id, who, **options)
            assert code in (ErrorCode.none, ErrorCode.concurrent_transactions), code
            return now if code is ErrorCode.none else None

        return wait_until(started, f"the producer {transactional_id}", _PATIENCE_S)

    def add(
        self, transactional_id: str, who: Who, *places: Place, version: int = 3
    ) -> list[ErrorCode]:
        """AddPartitionsToTxn of a client."""
        asked = request(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=who.producer_id,
            v3_and_below_producer_epoch=who.epoch,
            v3_and_below_topics=_topics(places),
        )
        answer = self.coordinator().call(asked)
        return _codes_of(answer.results_by_topic_v3_and_below, places)

    def add_many(
        self,
        *transactions: tuple[str, Who, bool, tuple[Place, ...]],
        version: int = 5,
    ) -> tuple[ErrorCode, list[list[ErrorCode]]]:
        """AddPartitionsToTxn of a broker: each transactional id with its producer, whether it is
        only verified, and partitions."""
        asked = request(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
            transactions=[
                {
                    "transactional_id": transactional_id,
                    "producer_id": who.producer_id,
                    "producer_epoch": who.epoch,
                    "verify_only": verify_only,
                    "topics": _topics(places),
                }
                for transactional_id, who, verify_only, places in transactions
            ],
        )
        answer = self.coordinator().call(asked)
        found = {
            each.transactional_id: each.topic_results for each in answer.results_by_transaction
        }
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.none:
            return code, []
        return code, [_codes_of(found[each[0]], each[3]) for each in transactions]

    def verify(
        self, transactional_id: str, who: Who, *places: Place, version: int = 4
    ) -> list[ErrorCode]:
        """AddPartitionsToTxn of a broker that only asks, about one transaction."""
        code, results = self.add_many((transactional_id, who, True, places), version=version)
        return [code] if code else results[0]

    def add_new(
        self, transactional_id: str, who: Who, *places: Place, version: int = 5
    ) -> list[ErrorCode]:
        """AddPartitionsToTxn of a broker for a client of transaction version 2."""
        code, results = self.add_many((transactional_id, who, False, places), version=version)
        return [code] if code else results[0]

    def add_offsets(
        self, transactional_id: str, who: Who, group: str, *, version: int = 4
    ) -> ErrorCode:
        """AddOffsetsToTxn."""
        asked = request(
            ApiKey.ADD_OFFSETS_TO_TXN,
            version,
            transactional_id=transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            group_id=group,
        )
        return ErrorCode(self.coordinator().call(asked).error_code)

    def end(
        self, transactional_id: str, who: Who, *, commit: bool = True, version: int = 5
    ) -> tuple[ErrorCode, Who]:
        """EndTxn. Before version 5 the answer has no producer: it remains as it is."""
        asked = request(
            ApiKey.END_TXN,
            version,
            transactional_id=transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            committed=commit,
        )
        answer = self.coordinator().call(asked)
        code = ErrorCode(answer.error_code)
        if version < 5:
            return code, who if code is ErrorCode.none else NOBODY
        return code, Who(answer.producer_id, answer.producer_epoch)

    def end_all(self, transactional_id: str, who: Who, **options: Any) -> tuple[ErrorCode, Who]:
        """EndTxn, and wait until the transaction is complete."""
        outcome = self.end(transactional_id, who, **options)
        self.settle(transactional_id)
        return outcome

    def settle(self, transactional_id: str, state: str = "") -> None:
        """Wait until no markers are on their way, or for that state."""

        def settled() -> bool:
            now: str = self.describe(transactional_id)[1]
            return now == state if state else not now.startswith("Prepare")

        try:
            wait_until(settled, f"the end of a transaction of {transactional_id}", _PATIENCE_S)
        except AssertionError as late:
            raise AssertionError(f"{late}: {self.describe(transactional_id)}") from None

    def describe(self, transactional_id: str) -> tuple[ErrorCode, str, Who, list[Place]]:
        """DescribeTransactions of one."""
        asked = request(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[transactional_id])
        client = self.coordinator()
        client.send(asked)
        (found,) = client.receive_by_ours().transaction_states
        places = [(each.topic, number) for each in found.topics for number in each.partitions]
        who = Who(found.producer_id, found.producer_epoch)
        return ErrorCode(found.error_code), found.transaction_state, who, sorted(places)

    def listed(
        self,
        *states: str,
        producer_ids: tuple[int, ...] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
        version: int = 2,
    ) -> tuple[ErrorCode, list[str], dict[str, str]]:
        """ListTransactions: the code, unknown states, and the state of each transactional id."""
        asked = request(
            ApiKey.LIST_TRANSACTIONS,
            version,
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=duration_ms,
            transactional_id_pattern=pattern,
        )
        answer = self.coordinator().call(asked)
        found = {e.transactional_id: e.transaction_state for e in answer.transaction_states}
        return ErrorCode(answer.error_code), sorted(answer.unknown_state_filters), found

    # -- leaders -----------------------------------------------------------------------------------

    def produce(
        self,
        place: Place,
        who: Who,
        sequence: int | None = None,
        *,
        transactional_id: str | None = None,
        is_transactional: bool = True,
        version: int = 12,
        acks: int = -1,
    ) -> ErrorCode:
        """Produce one record; by default with the next sequence number of the producer there."""
        if sequence is None:
            sequence = self._sequences.get((who, place), 0)
        batch = build_batch(
            [NewRecord(b"r", timestamp_ms=time.time_ns() // 1_000_000)],
            producer=ProducerIdentity(who.producer_id, who.epoch, sequence),
            is_transactional=is_transactional,
        )
        topic: str | uuid.UUID = place[0]
        asked = produce_to(
            (topic, place[1], bytes(batch)),
            acks=acks,
            timeout_ms=10_000,
            version=version,
            transactional_id=transactional_id,
        )
        answer = self.leader(place).call(asked)
        (result,) = answer.responses[0].partition_responses
        code = ErrorCode(result.error_code)
        if code is ErrorCode.none:
            self._sequences[who, place] = sequence + 1
        return code

    def produce_unanswered(
        self, place: Place, who: Who, sequence: int, *, transactional_id: str, version: int
    ) -> bool:
        """Produce one record of a transaction with acks=0; whether the connection stays open."""
        asked = produce_to(
            (*place, transactional(who, sequence)),
            acks=0,
            version=version,
            transactional_id=transactional_id,
        )
        with WireClient(self.leader_address(place), client_id=self._client_id) as client:
            client.send_bytes(frame_of(asked, 0, self._client_id))
            try:
                client.call(metadata_request(place[0]))
            except ClosedByPeer:
                return False
            return True

    def write(self, place: Place, batch: bytes, transactional_id: str | None = None) -> None:
        """Produce a batch as it is."""
        asked = produce_to((*place, batch), timeout_ms=10_000, transactional_id=transactional_id)
        answer = self.leader(place).call(asked)
        (result,) = answer.responses[0].partition_responses
        assert result.error_code == ErrorCode.none, result

    def produce_together(
        self, *batches: tuple[Place, Who], transactional_id: str, version: int
    ) -> list[ErrorCode]:
        """Produce one record of each producer in one request to the leader of the first place."""
        asked = produce_to(
            *((*place, transactional(who, 0)) for place, who in batches),
            version=version,
            transactional_id=transactional_id,
        )
        answer = self.leader(batches[0][0]).call(asked)
        return [
            ErrorCode(each.error_code)
            for topic in answer.responses
            for each in topic.partition_responses
        ]

    def set_for_all(self, name: str, value: str) -> None:
        """Change a setting of all brokers; returns when the brokers that lead use it."""
        asked = request(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            resources=[
                {
                    "resource_type": _BROKER,
                    "resource_name": "",
                    "configs": [{"name": name, "config_operation": 0, "value": value}],
                }
            ],
            validate_only=False,
        )
        (answer,) = self.client().call(asked).responses
        assert answer.error_code == ErrorCode.none, answer
        for broker in self.home:
            wait_until(partial(self._is_set, broker, name, value), f"{name}={value}", _PATIENCE_S)

    def _is_set(self, broker: int, name: str, value: str) -> bool:
        view = self.client().call(metadata_request())
        addresses = {each.node_id: (each.host, each.port) for each in view.brokers}
        asked = request(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            resources=[
                {
                    "resource_type": _BROKER,
                    "resource_name": str(broker),
                    "configuration_keys": [name],
                }
            ],
            include_synonyms=False,
            include_documentation=False,
        )
        (answer,) = self.client(addresses[broker]).call(asked).results
        return [each.value for each in answer.configs] == [value]

    def commit_offsets(
        self,
        transactional_id: str,
        who: Who,
        group: str,
        offsets: Mapping[Place, int],
        *,
        member: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str | None = "",
        version: int = 5,
    ) -> list[ErrorCode]:
        """TxnOffsetCommit."""
        asked = request(
            ApiKey.TXN_OFFSET_COMMIT,
            version,
            transactional_id=transactional_id,
            group_id=group,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
            topics=[
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": number,
                            "committed_offset": offset,
                            "committed_leader_epoch": -1,
                            "committed_metadata": metadata,
                        }
                    ],
                }
                for (topic, number), offset in offsets.items()
            ],
        )
        answer = self.coordinator(_GROUP).call(asked)
        codes = {
            (topic.name, each.partition_index): ErrorCode(each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        }
        return _in_order(codes, tuple(offsets))

    def write_markers(
        self,
        who: Who,
        *places: Place,
        commit: bool = False,
        coordinator_epoch: int = 0,
    ) -> list[ErrorCode]:
        """WriteTxnMarkers, to the leader of the first partition."""
        asked = request(
            ApiKey.WRITE_TXN_MARKERS,
            1,
            markers=[
                {
                    "producer_id": who.producer_id,
                    "producer_epoch": who.epoch,
                    "transaction_result": commit,
                    "topics": [
                        {"name": topic, "partition_indexes": [number]} for topic, number in places
                    ],
                    "coordinator_epoch": coordinator_epoch,
                }
            ],
        )
        answer = self.leader(places[0]).call(asked) if places else self.client().call(asked)
        codes = {
            (topic.name, each.partition_index): ErrorCode(each.error_code)
            for marker in answer.markers
            for topic in marker.topics
            for each in topic.partitions
        }
        return _in_order(codes, places)

    def producers(self, place: Place) -> tuple[ErrorCode, dict[int, tuple[int, int, int, int]]]:
        """DescribeProducers: by producer id its epoch, last sequence number, coordinator epoch, and
        first offset of its transaction."""
        asked = request(
            ApiKey.DESCRIBE_PRODUCERS,
            0,
            topics=[{"name": place[0], "partition_indexes": [place[1]]}],
        )
        (found,) = self.leader(place).call(asked).topics[0].partitions
        return ErrorCode(found.error_code), {
            each.producer_id: (
                each.producer_epoch,
                each.last_sequence,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            )
            for each in found.active_producers
        }

    def end_offset(self, place: Place, *, committed: bool = False) -> int:
        """ListOffsets: of the last stable offset with `committed`."""
        found = self._end_of(place, int(committed))
        assert found.error_code == ErrorCode.none, found
        return int(found.offset)

    def offset_at(
        self, place: Place, timestamp: int, *, committed: bool = False
    ) -> tuple[ErrorCode, int]:
        """ListOffsets at a timestamp, or one of the negative ones that stand for something."""
        found = self._end_of(place, int(committed), timestamp)
        return ErrorCode(found.error_code), int(found.offset)

    def _end_of(self, place: Place, isolation_level: int = 0, timestamp: int = -1) -> Any:
        asked = request(
            ApiKey.LIST_OFFSETS,
            7,
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[
                {
                    "name": place[0],
                    "partitions": [
                        {
                            "partition_index": place[1],
                            "current_leader_epoch": -1,
                            "timestamp": timestamp,
                        }
                    ],
                }
            ],
        )
        client = self.leader(place)
        client.send(asked)
        (found,) = client.receive_by_ours().topics[0].partitions
        return found


def transactional(
    who: Who, sequence: int, timestamp_ms: int | None = None, *, is_plain: bool = False
) -> bytes:
    """The batch of one record, written now unless a time is given; a plain one is of no
    transaction."""
    if timestamp_ms is None:
        timestamp_ms = time.time_ns() // 1_000_000
    batch = build_batch(
        [NewRecord(b"r", timestamp_ms=timestamp_ms)],
        producer=ProducerIdentity(who.producer_id, who.epoch, sequence),
        is_transactional=not is_plain,
    )
    return bytes(batch)


def _topics(places: tuple[Place, ...]) -> list[dict[str, Any]]:
    return [{"name": topic, "partitions": [number]} for topic, number in places]


def _codes_of(results: Any, places: tuple[Place, ...]) -> list[ErrorCode]:
    """The codes of an AddPartitionsToTxn."""
    codes = {
        (topic.name, each.partition_index): ErrorCode(each.partition_error_code)
        for topic in results
        for each in topic.results_by_partition
    }
    return _in_order(codes, places)


def _in_order(codes: Mapping[Place, ErrorCode], places: tuple[Place, ...]) -> list[ErrorCode]:
    """The codes in the order of the request; Kafka answers in any order."""
    assert codes.keys() == set(places)
    return [codes[each] for each in places]
