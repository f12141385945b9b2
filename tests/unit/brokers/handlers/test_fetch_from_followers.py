"""Consumers that read from followers (KIP-392): who serves them, what they see, who wakes them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.fetching.read_replicas import RACK_AWARE
from cluster.model.errors import ErrorCode
from cluster.model.ids import Offset
from cluster.model.quotas import QuotaEntity, QuotaKind
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import (
    WALL_MS,
    a_batch,
    codes_of,
    fetched_in,
    list_offsets_of,
    offsets_in,
)
from tests.support.handler_stage import BROKER, OTHER, THIRD, HandlerStage
from tests.support.kafka_wire import fetch_from, produce_to, wanted
from tests.support.transactional_batches import ABORT, data, marker

REPLICAS = [BROKER, OTHER, THIRD]
RACKS = {BROKER: "a", OTHER: "b", THIRD: "c"}
SIZE = len(a_batch(b"x" * 100))
COMMITTED = 1


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path, {"replica.selector.class": RACK_AWARE}, racks=RACKS) as made:
        yield made


def follow(stage: HandlerStage, count: int, epoch: int = 0) -> None:
    """This broker follows, and has so many records, of which none is known to be committed."""
    state = a_partition(REPLICAS, None, OTHER, epoch, epoch)
    stage.update(a_topic("t", state))
    for _ in range(count):
        append_as_follower(stage, a_batch(b"x" * 100))


def append_as_follower(stage: HandlerStage, batch: bytes) -> None:
    log = stage.partition("t").log
    stamped = bytearray(batch)
    stamped[:8] = int(log.log_end_offset).to_bytes(8, "big")
    log.append_as_follower(memoryview(stamped), WALL_MS)


def learn(stage: HandlerStage, high_watermark: int) -> None:
    """The leader has told its high watermark."""
    partition = stage.partition("t")
    assert partition.learn_high_watermark(Offset(high_watermark))
    stage.events.on_high_watermark_moved(partition)
    stage.turn()


def fetch(stage: HandlerStage, offset: int = 0, epoch: int = -1, **options: Any) -> Any:
    asked = fetch_from(("t", [wanted(0, offset, leader_epoch=epoch)]), **options)
    (found,) = fetched_in(stage.connect().call(asked))
    return found


# -- followers -------------------------------------------------------------------------------------


def test_a_follower_serves_what_is_committed(stage: HandlerStage) -> None:
    follow(stage, 3)
    learn(stage, 2)
    found = fetch(stage)
    assert (found.error_code, found.high_watermark, found.log_start_offset) == (0, 2, 0)
    assert len(found.records) == 2 * SIZE
    assert found.preferred_read_replica == -1
    assert not fetch(stage, 2).records
    assert not fetch(stage, 3).records
    assert fetch(stage, 4).error_code == ErrorCode.offset_out_of_range


def test_a_follower_compares_leader_epochs(stage: HandlerStage) -> None:
    follow(stage, 1, epoch=5)
    learn(stage, 1)
    codes = [0, ErrorCode.fenced_leader_epoch, 0, ErrorCode.unknown_leader_epoch]
    assert [fetch(stage, epoch=epoch).error_code for epoch in (-1, 4, 5, 6)] == codes


def test_a_follower_refuses_consumers_that_know_nothing_of_followers(stage: HandlerStage) -> None:
    follow(stage, 1)
    learn(stage, 1)
    elsewhere = ErrorCode.not_leader_or_follower
    assert [fetch(stage, version=version).error_code for version in (4, 10, 11)] == [
        elsewhere,
        elsewhere,
        0,
    ]


def test_a_replica_without_a_leader_refuses(stage: HandlerStage) -> None:
    follow(stage, 1)
    learn(stage, 1)
    stage.roles.resign_all()
    stage.turn()
    assert fetch(stage).error_code == ErrorCode.not_leader_or_follower


def test_followers_are_not_asked_for_offsets(stage: HandlerStage) -> None:
    follow(stage, 1)
    answer = stage.connect().call(list_offsets_of("t", (0, -1)))
    assert codes_of(offsets_in(answer)) == [ErrorCode.not_leader_or_follower]


def test_a_waiting_consumer_of_a_follower_is_woken_by_its_high_watermark(
    stage: HandlerStage,
) -> None:
    follow(stage, 1)
    client = stage.connect()
    assert client.call(fetch_from(("t", [wanted(0)]), max_wait_ms=500)) is None
    learn(stage, 1)
    (found,) = fetched_in(client.receive())
    assert len(found.records) == SIZE


def test_a_session_with_a_follower_tells_its_offsets(stage: HandlerStage) -> None:
    follow(stage, 2)
    learn(stage, 1)
    client = stage.connect()
    opened = client.call(fetch_from(("t", [wanted(0, 1)]), session=(0, 0)))
    session = opened.session_id
    assert not client.call(fetch_from(session=(session, 1))).responses
    assert client.call(fetch_from(session=(session, 2), max_wait_ms=500)) is None
    learn(stage, 2)
    (found,) = fetched_in(client.receive())
    assert (found.high_watermark, len(found.records)) == (2, SIZE)


def test_a_consumer_of_a_follower_is_told_of_the_next_epoch(stage: HandlerStage) -> None:
    follow(stage, 1)
    client = stage.connect()
    asked = fetch_from(("t", [wanted(0, leader_epoch=0)]), max_wait_ms=500, version=11)
    assert client.call(asked) is None
    follow(stage, 0, epoch=1)
    assert codes_of(fetched_in(client.receive())) == [ErrorCode.fenced_leader_epoch]


def test_the_quota_of_a_consumer_applies_on_followers(stage: HandlerStage) -> None:
    follow(stage, 1)
    learn(stage, 1)
    stage.quotas.replace_quotas({QuotaEntity(None, "wire"): {QuotaKind.FETCH: 10.0}})
    client = stage.connect()
    first, second = (client.call(fetch_from(("t", [wanted(0)]))) for _ in range(2))
    assert first.throttle_time.total_seconds() > 1
    assert second.responses == ()


def test_read_committed_from_a_follower_ends_before_an_open_transaction(
    stage: HandlerStage,
) -> None:
    follow(stage, 1)
    for batch in (data(1, 7), a_batch(b"x" * 100)):
        append_as_follower(stage, batch)
    learn(stage, 3)
    before = fetch(stage, isolation_level=COMMITTED)
    assert (before.high_watermark, before.last_stable_offset) == (3, 1)
    assert len(before.records) == SIZE

    client = stage.connect()
    asked = fetch_from(("t", [wanted(0, 1)]), isolation_level=COMMITTED, max_wait_ms=500)
    assert client.call(asked) is None
    append_as_follower(stage, marker(3, 7, ABORT))
    learn(stage, 4)
    (found,) = fetched_in(client.receive())
    assert found.last_stable_offset == 4
    assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions] == [
        (7, 1)
    ]


# -- leaders ---------------------------------------------------------------------------------------


def lead(stage: HandlerStage) -> None:
    """This broker leads; the follower in rack b has both records, that in rack c the first."""
    stage.update(a_topic("t", a_partition(REPLICAS)))
    client = stage.connect()
    for _ in range(2):
        client.call(produce_to(("t", 0, a_batch(b"x" * 100)), acks=1))
    partition = stage.partition("t")
    assert partition.leader is not None
    stage.follower_fetches(OTHER, partition, 2)
    stage.follower_fetches(THIRD, partition, 1)
    for follower in (OTHER, THIRD):
        partition.leader.on_follower_log_start(follower, Offset(0))


def test_a_leader_names_the_follower_in_the_consumers_rack(stage: HandlerStage) -> None:
    lead(stage)
    found = fetch(stage, rack="b", max_wait_ms=500, min_bytes=1_000)
    assert (found.error_code, found.preferred_read_replica, found.records) == (0, OTHER, b"")
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (1, 1, 0)


def test_a_leader_serves_those_that_no_follower_can(stage: HandlerStage) -> None:
    lead(stage)
    several: list[dict[str, Any]] = [{"rack": ""}, {"rack": "a"}, {"rack": "d"}]
    for options in several:
        found = fetch(stage, **options)
        assert (found.preferred_read_replica, len(found.records)) == (-1, SIZE), options
    assert fetch(stage, 2, rack="c").preferred_read_replica == -1
    assert fetch(stage, 1, rack="c").preferred_read_replica == THIRD


def test_a_leader_compares_epochs_before_it_names_a_follower(stage: HandlerStage) -> None:
    lead(stage)
    found = fetch(stage, epoch=3, rack="b")
    assert (found.error_code, found.preferred_read_replica) == (
        ErrorCode.unknown_leader_epoch,
        -1,
    )


def test_an_offset_that_nobody_has_is_out_of_range(stage: HandlerStage) -> None:
    lead(stage)
    assert fetch(stage, 3, rack="b").error_code == ErrorCode.offset_out_of_range


def test_a_session_names_the_follower_until_the_client_has_left(stage: HandlerStage) -> None:
    lead(stage)
    client = stage.connect()
    opened = client.call(fetch_from(("t", [wanted(0)]), session=(0, 0), rack="b"))
    session = opened.session_id
    for epoch in (1, 2):
        asked = fetch_from(session=(session, epoch), rack="b", max_wait_ms=500)
        (found,) = fetched_in(client.call(asked))
        assert found.preferred_read_replica == OTHER
    gone = fetch_from(session=(session, 3), forgotten=[("t", [0])], rack="b")
    assert client.call(gone).session_id == 0


def test_consumers_read_from_leaders_without_a_selector(tmp_path: Path) -> None:
    with HandlerStage(tmp_path, racks=RACKS) as stage:
        lead(stage)
        found = fetch(stage, rack="b")
        assert (found.preferred_read_replica, len(found.records)) == (-1, SIZE)
