"""Markers reach the leader of every partition, whatever happens meanwhile, in few messages."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from cluster.brokers.transactions.marker_sender import MARKERS_PER_TURN
from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.protocol.peer.control import NumberedPartitions, Refusal
from cluster.protocol.peer.transactions import MarkersOfProducer, PartitionErrors, WriteMarkers
from cluster.records.markers import EndMarker
from tests.support.cluster_states import a_broker
from tests.unit.brokers.transactions.sender_stage import (
    HERE,
    NONE,
    OTHER,
    STATE_0,
    STATE_1,
    THIRD,
    SenderStage,
    a_sender_stage,
    answer,
    places,
)

SHORT, NOT_LEADER = ErrorCode.not_enough_replicas, ErrorCode.not_leader_or_follower


@pytest.fixture
def stage() -> Iterator[SenderStage]:
    with a_sender_stage() as made:
        yield made


# -- sending ---------------------------------------------------------------------------------------


def test_the_markers_of_a_turn_go_in_one_message_to_each_broker(stage: SenderStage) -> None:
    stage.leaders(OTHER, THIRD, OTHER)
    stage.end(0, 1, 2)
    stage.end(0, producer=8)
    asked = stage.asked()
    assert [each.endpoint for each in asked] == [
        a_broker(OTHER).control_endpoint,
        a_broker(THIRD).control_endpoint,
    ]
    assert [places(each) for each in asked] == [[(7, [0, 2]), (8, [0])], [(7, [1])]]
    assert asked[0].request.markers[0][:4] == (7, 3, 9, True)
    for each in asked:
        answer(each)
    assert stage.marked() == [("id-7", 0), ("id-7", 1), ("id-7", 2), ("id-8", 0)]
    assert {place for _, place in stage.reports} == {STATE_0}
    assert stage.sender.unmarked_count == 0


def test_a_marker_names_the_epoch_of_the_leader_at_each_try(stage: SenderStage) -> None:
    """A leader that gets it in another epoch refuses: it may have been held up for long."""
    stage.leaders(OTHER, OTHER, epoch=4)
    stage.end(0, 1)
    (asked,) = stage.asked()
    assert asked.request.markers[0].leader_epochs == (4, 4)
    answer(asked, ErrorCode.fenced_leader_epoch)
    stage.leaders(OTHER, THIRD, epoch=5)
    stage.pass_time(100)
    assert [each.request.markers[0].leader_epochs for each in stage.asked()] == [(5,), (5,)]


def test_markers_of_partitions_that_are_led_here_are_written_here(stage: SenderStage) -> None:
    stage.leaders(HERE, OTHER, HERE)
    stage.end(0, 1, 2, is_commit=False)
    (asked,) = stage.asked()
    ((marker, partitions, on_written),) = stage.writer.written
    assert marker == EndMarker(7, 3, 9, is_commit=False)
    assert sorted(partitions) == [TopicPartition("t", 0), TopicPartition("t", 2)]
    on_written(dict.fromkeys(partitions, NONE))
    assert stage.marked() == [("id-7", 0), ("id-7", 2)]
    assert stage.sender.unmarked_count == 1
    answer(asked)
    assert stage.sender.unmarked_count == 0


def test_a_turn_sends_its_share_of_large_and_of_many_transactions(stage: SenderStage) -> None:
    share = MARKERS_PER_TURN
    stage.leaders(*[OTHER] * (2 * share), HERE)
    stage.end(*range(2 * share))
    for producer in range(100, 100 + share):
        stage.end(producer % 2 * 2 * share, producer=producer)
    sizes, written = [], []
    for _ in range(4):
        asked = stage.asked()
        sizes.append(sum(len(numbers) for each in asked for _, numbers in places(each)))
        written.append(len(stage.writer.written))
        for each in asked:
            answer(each)
    assert sizes == [share, share, share // 2, 0]
    assert written == [0, 0, share // 2, share // 2]
    assert len(stage.marked()) == 2 * share + share // 2
    assert stage.sender.unmarked_count == share // 2


def test_markers_that_wait_for_their_turn_are_not_sent_for_a_lost_coordinator(
    stage: SenderStage,
) -> None:
    stage.leaders(OTHER)
    for producer in range(2 * MARKERS_PER_TURN):
        stage.end(0, producer=producer)
    stage.end(0, producer=7_000, coordinator=STATE_1)
    (asked,) = stage.asked()
    stage.sender.forget(STATE_0)
    assert stage.sender.unmarked_count == 1
    answer(asked)
    assert stage.marked() == []
    assert stage.asked() == []
    (asked,) = stage.asked()
    assert places(asked) == [(7_000, [0])]


# -- trying again ----------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [None, Refusal(ErrorCode.invalid_request, "why")])
def test_a_message_without_an_answer_is_sent_again(stage: SenderStage, reply: Any) -> None:
    stage.leaders(OTHER)
    stage.end(0)
    (asked,) = stage.asked()
    asked.on_reply(reply)
    assert stage.reports == []
    stage.pass_time(100)
    (asked,) = stage.asked()
    answer(asked)
    assert stage.marked() == [("id-7", 0)]


@pytest.mark.parametrize("codes", [[], [[]], [[NONE]], [[NONE], []]])
def test_partitions_without_an_outcome_in_the_answer_are_sent_again(
    stage: SenderStage, codes: list[list[ErrorCode]]
) -> None:
    stage.leaders(OTHER, OTHER)
    stage.end(0, 1)
    stage.end(1, producer=8)
    (asked,) = stage.asked()
    asked.on_reply(PartitionErrors(codes))
    for _ in range(5):
        stage.pass_time(1_100)
        for each in stage.asked():
            answer(each)
    assert set(stage.marked()) == {("id-7", 0), ("id-7", 1), ("id-8", 1)}
    assert stage.sender.unmarked_count == 0


@pytest.mark.parametrize(
    "codes", [[[NONE, NONE, NONE], [NONE]], [[NONE], [NONE], [NONE]], [[NONE, SHORT], [SHORT]]]
)
def test_an_answer_with_more_outcomes_than_were_asked_for_is_taken(
    stage: SenderStage, codes: list[list[ErrorCode]]
) -> None:
    stage.leaders(OTHER)
    stage.end(0)
    (asked,) = stage.asked()
    asked.on_reply(PartitionErrors(codes))
    assert stage.marked() == [("id-7", 0)]


def test_a_marker_follows_the_leadership(stage: SenderStage) -> None:
    stage.leaders(OTHER)
    stage.end(0)
    (asked,) = stage.asked()
    answer(asked, NOT_LEADER)
    stage.leaders(THIRD)
    stage.pass_time(100)
    (asked,) = stage.asked()
    assert asked.endpoint == a_broker(THIRD).control_endpoint
    answer(asked, NOT_LEADER)
    stage.leaders(HERE)
    stage.pass_time(200)
    ((_, partitions, on_written),) = stage.writer.written
    on_written(dict.fromkeys(partitions, NONE))
    assert stage.marked() == [("id-7", 0)]


@pytest.mark.parametrize("live", [(HERE, THIRD), (HERE, OTHER, THIRD)])
def test_a_marker_waits_while_the_partition_has_no_leader(
    stage: SenderStage, live: tuple[int, ...]
) -> None:
    stage.leaders(OTHER if OTHER not in live else -1, live=live)
    stage.end(0)
    stage.pass_time(60_000)
    assert stage.asked() == []
    stage.leaders(OTHER)
    stage.pass_time(100)
    (asked,) = stage.asked()
    answer(asked)
    assert stage.marked() == [("id-7", 0)]


def test_a_partition_that_refuses_markers_is_tried_with_one_of_them(stage: SenderStage) -> None:
    """Ten thousand held transactions must not cost more than one."""
    stage.leaders(OTHER, THIRD)
    count = MARKERS_PER_TURN // 2 - 1
    for producer in range(count):
        stage.end(0, producer=producer)
    stage.end(1, producer=count)
    refused, fine = stage.asked()
    answer(refused, SHORT)
    answer(fine)
    tries = 0
    producers = set()
    for _ in range(100):
        stage.pass_time(100)
        stage.end(0, producer=1_000 + tries)
        for each in stage.asked():
            ((producer, _),) = places(each)
            producers.add(producer)
            tries += 1
            answer(each, SHORT)
    assert 10 <= tries <= 16, "after 50, 100, ... ms, and then every second"
    assert len(producers) == tries, "another one each time: it may be the cause"
    stage.pass_time(1_100)
    (asked,) = stage.asked()
    answer(asked)
    left = stage.asked()
    assert len(left) == 1, "all others in one message"
    answer(left[0])
    assert stage.sender.unmarked_count == 0


def test_many_markers_that_are_released_or_dropped_take_turns(stage: SenderStage) -> None:
    share = MARKERS_PER_TURN
    stage.leaders(-1)
    for producer in range(3 * share):
        stage.end(0, producer=producer, coordinator=STATE_0 if producer % 3 else STATE_1)
    stage.pass_time(100)
    assert stage.asked() == []
    stage.sender.forget(STATE_1)
    assert stage.sender.unmarked_count == 2 * share
    stage.leaders(OTHER)
    stage.pass_time(100)
    (tried,) = stage.asked()
    answer(tried)
    sizes = []
    while asked := stage.asked():
        sizes.append(sum(len(places(each)) for each in asked))
        for each in asked:
            answer(each)
    assert max(sizes) <= share
    assert sum(sizes) == 2 * share - 1
    assert stage.sender.unmarked_count == 0
    assert stage.sender.without_leader_count == 0


# -- partitions that do not exist ------------------------------------------------------------------


def test_a_transaction_ends_without_a_topic_that_was_deleted(stage: SenderStage) -> None:
    stage.leaders()
    stage.end(0, 1)
    stage.pass_time(4_900)
    assert stage.reports == []
    stage.pass_time(200)
    assert stage.marked() == [("id-7", 0), ("id-7", 1)]
    assert stage.sender.unmarked_count == 0
    assert stage.link.asked == []


def test_many_transactions_end_without_a_deleted_topic_some_in_each_turn(
    stage: SenderStage,
) -> None:
    stage.leaders()
    count = 4 * MARKERS_PER_TURN + 1
    for producer in range(count):
        stage.end(0, producer=producer)
    stage.pass_time(4_900)
    ended = [len(stage.reports)]
    for _ in range(30):
        stage.pass_time(10)
        ended.append(len(stage.reports))
    assert (ended[0], ended[-1]) == (0, count)
    # A turn may begin a look and go on with it.
    assert max(after - before for before, after in pairwise(ended)) <= 2 * MARKERS_PER_TURN


def test_a_topic_that_becomes_known_gets_its_markers(stage: SenderStage) -> None:
    """Its producer has learned of it earlier than this broker."""
    stage.leaders()
    stage.end(0)
    stage.pass_time(3_000)
    stage.leaders(OTHER)
    stage.pass_time(100)
    (asked,) = stage.asked()
    answer(asked)
    assert stage.marked() == [("id-7", 0)]


def test_a_topic_may_be_deleted_while_its_marker_is_tried_again(stage: SenderStage) -> None:
    stage.leaders(OTHER)
    stage.end(0)
    (asked,) = stage.asked()
    answer(asked, SHORT)
    stage.pass_time(30_000)
    for each in stage.asked():
        answer(each, NOT_LEADER)
    stage.leaders()
    stage.pass_time(2_000)
    assert stage.marked() == [("id-7", 0)]


# -- other coordinators and producers --------------------------------------------------------------


def test_a_partition_with_a_later_epoch_of_the_producer_needs_no_marker(stage: SenderStage) -> None:
    stage.leaders(OTHER)
    stage.end(0)
    (asked,) = stage.asked()
    answer(asked, ErrorCode.invalid_producer_epoch)
    assert stage.marked() == [("id-7", 0)]


def test_a_fenced_coordinator_stops(stage: SenderStage) -> None:
    stage.leaders(OTHER, THIRD, OTHER)
    stage.end(0, 1, 2)
    stage.end(0, producer=8)
    first, second = stage.asked()
    fenced = ErrorCode.transaction_coordinator_fenced
    first.on_reply(PartitionErrors([[SHORT, fenced], [SHORT]]))
    answer(second)
    assert stage.marked() == []
    stage.pass_time(2_000)
    (again,) = stage.asked()
    assert places(again) == [(8, [0])]
    answer(again)
    assert stage.sender.unmarked_count == 0


@pytest.mark.parametrize("is_fenced_first", [False, True])
def test_a_fenced_transaction_releases_the_markers_of_others(
    stage: SenderStage, *, is_fenced_first: bool
) -> None:
    """The leader takes markers, so those of other transactions do not wait for the next try."""
    stage.leaders(OTHER, OTHER, OTHER)
    stage.end(0, 1, 2)
    stage.end(0, 1, 2, producer=8)
    (asked,) = stage.asked()
    answer(asked, SHORT)
    stage.pass_time(100)
    (tried,) = stage.asked()
    assert places(tried) == [(7, [0, 1, 2])]
    codes = [NONE, ErrorCode.transaction_coordinator_fenced]
    if is_fenced_first:
        codes.reverse()
    tried.on_reply(PartitionErrors([[*codes, SHORT]]))
    (released,) = stage.asked()
    assert places(released) == [(8, [0, 1])]
    answer(released)
    stage.pass_time(1_100)
    (last,) = stage.asked()
    assert places(last) == [(8, [2])], "not one of the transaction that has ended"
    answer(last)
    assert [each for each in stage.marked() if each[0] == "id-8"] == [
        ("id-8", 0),
        ("id-8", 1),
        ("id-8", 2),
    ]
    assert stage.sender.unmarked_count == 0


@pytest.mark.parametrize("is_fenced_first", [False, True])
def test_a_leader_that_fences_in_one_partition_takes_markers_in_the_others(
    stage: SenderStage, *, is_fenced_first: bool
) -> None:
    stage.leaders(OTHER, OTHER)
    stage.end(0, 1)
    (first,) = stage.asked()
    stage.end(0, 1, producer=8)
    (second,) = stage.asked()
    answer(second, SHORT)
    codes = [NONE, ErrorCode.transaction_coordinator_fenced]
    if is_fenced_first:
        codes.reverse()
    first.on_reply(PartitionErrors([codes]))
    (released,) = stage.asked()
    assert places(released) == [(8, [0, 1])]


def test_markers_are_forgotten_with_their_coordinator(stage: SenderStage) -> None:
    stage.leaders(OTHER, -1)
    stage.end(0, 1)
    stage.end(0, producer=8, coordinator=STATE_1)
    (asked,) = stage.asked()
    stage.end(0, producer=9)  # due at the end of this turn
    stage.sender.forget(STATE_0)
    answer(asked)
    assert stage.marked() == [("id-8", 0)]
    assert stage.sender.unmarked_count == 0
    stage.leaders(OTHER, OTHER)
    stage.pass_time(2_000)
    assert stage.asked() == []


def test_a_forgotten_marker_does_not_hold_back_those_of_others(stage: SenderStage) -> None:
    stage.leaders(OTHER)
    stage.end(0)
    stage.end(0, producer=8, coordinator=STATE_1)
    (asked,) = stage.asked()
    answer(asked, SHORT)
    stage.pass_time(100)
    (tried,) = stage.asked()
    ((producer, _),) = places(tried)
    stage.sender.forget(STATE_0 if producer == 7 else STATE_1)
    stage.pass_time(2_000)
    (again,) = stage.asked()
    ((other, _),) = places(again)
    assert {producer, other} == {7, 8}
    answer(again)
    answer(tried)
    assert [name for name, _ in stage.marked()] == [f"id-{other}"]


def test_the_next_coordinator_sends_all_markers_again(stage: SenderStage) -> None:
    stage.leaders(OTHER)
    stage.end(0)
    (first,) = stage.asked()
    stage.sender.forget(STATE_0)
    stage.end(0)
    (second,) = stage.asked()
    answer(first)
    assert stage.marked() == []
    answer(second)
    assert stage.marked() == [("id-7", 0)]


def test_markers_of_partitions_without_a_leader_are_counted(stage: SenderStage) -> None:
    stage.leaders(OTHER, -1, OTHER)
    stage.end(0, 1)
    stage.end(1, 2, producer=8)
    (asked,) = stage.asked()
    assert stage.sender.without_leader_count == 2
    answer(asked, SHORT)
    assert stage.sender.without_leader_count == 2, "a leader has refused the others"
    stage.leaders(OTHER, THIRD, OTHER)
    assert stage.sender.without_leader_count == 0


# -- the leader's side -----------------------------------------------------------------------------


def test_a_request_of_another_coordinator_is_answered_when_all_are_written(
    stage: SenderStage,
) -> None:
    replies: list[Any] = []
    topics = (NumberedPartitions("a", (0, 2)), NumberedPartitions("b", (1,)))
    request = WriteMarkers(
        (
            MarkersOfProducer(7, 3, 9, True, topics, (5, 6, 0)),
            MarkersOfProducer(8, 0, 4, False, (NumberedPartitions("a", (0,)),), (5,)),
        )
    )
    stage.sender.on_request(request, replies.append)
    first, second = stage.writer.written
    assert (first[0], second[0]) == (EndMarker(7, 3, 9, True), EndMarker(8, 0, 4, False))
    places_of_first = [TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)]
    assert stage.writer.leader_epochs == [
        dict(zip(places_of_first, (5, 6, 0), strict=True)),
        {TopicPartition("a", 0): 5},
    ]
    second[2]({TopicPartition("a", 0): SHORT})
    assert replies == []
    first[2](
        {TopicPartition("b", 1): NOT_LEADER, TopicPartition("a", 2): NONE}
        | {TopicPartition("a", 0): NONE}
    )
    assert replies == [PartitionErrors([[NONE, NONE, NOT_LEADER], [SHORT]])]


def test_an_empty_request_is_answered(stage: SenderStage) -> None:
    replies: list[Any] = []
    stage.sender.on_request(WriteMarkers(()), replies.append)
    assert replies == [PartitionErrors(())]
