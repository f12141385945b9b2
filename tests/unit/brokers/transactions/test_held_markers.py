"""Markers that cannot be written now, by partition."""

from cluster.brokers.transactions.held_markers import FIRST_DELAY_MS, LAST_DELAY_MS, HeldMarkers
from cluster.brokers.transactions.marker_job import MarkerJob
from cluster.coordinator.transactions.requests import EndMarkers, ProducerIdentity
from cluster.model.clocks import MonotonicMs
from cluster.model.ids import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
STATE = TopicPartition("__transaction_state", 0)


def a_job(number: int, *partitions: TopicPartition, began_ms: int = 0) -> MarkerJob:
    wanted = frozenset(partitions or (P0,))
    message = EndMarkers(f"id-{number}", ProducerIdentity(number, 0), 1, True, wanted)
    return MarkerJob(message, STATE, MonotonicMs(began_ms))


def at(now_ms: int) -> MonotonicMs:
    return MonotonicMs(now_ms)


def test_a_marker_that_was_not_sent_is_due_at_once() -> None:
    held, job = HeldMarkers(), a_job(1)
    assert not held
    held.add(job, P0)
    assert held
    assert held.is_due(P0, at(0))
    assert not held.may_send(a_job(2), P0)
    assert held.may_send(a_job(2), P1)


def test_a_partition_is_tried_with_one_marker_at_a_time() -> None:
    held, first, second = HeldMarkers(), a_job(1), a_job(2)
    held.add(first, P0)
    held.add(second, P0)
    assert held.probe(P0) is first
    assert held.may_send(first, P0)
    assert not held.may_send(second, P0)
    assert not held.is_due(P0, at(10_000))
    held.on_failed(first, P0, at(0))
    assert not held.is_due(P0, at(2 * FIRST_DELAY_MS - 1))
    assert held.is_due(P0, at(2 * FIRST_DELAY_MS))
    assert held.probe(P0) is second, "another one"


def test_the_delay_grows_up_to_a_limit_and_begins_anew_after_a_success() -> None:
    held, job = HeldMarkers(), a_job(1)
    now_ms = 0
    delays = []
    held.on_failed(job, P0, at(now_ms))
    for _ in range(8):
        delay_ms = next(each for each in range(10_000) if held.is_due(P0, at(now_ms + each)))
        delays.append(delay_ms)
        now_ms += delay_ms
        held.probe(P0)
        held.on_failed(job, P0, at(now_ms))
    assert delays == [50, 100, 200, 400, 800, 1_000, 1_000, 1_000]
    assert delays[-1] == LAST_DELAY_MS
    held.probe(P0)
    assert list(held.release(P0)) == []
    assert not held
    held.on_failed(job, P0, at(0))
    assert held.is_due(P0, at(FIRST_DELAY_MS))


def test_a_success_releases_the_markers_that_wait() -> None:
    held = HeldMarkers()
    jobs = [a_job(number) for number in range(4)]
    for job in jobs:
        held.add(job, P0)
    assert held.probe(P0) is jobs[0]
    assert list(held.release(P0)) == jobs[1:]
    assert list(held.release(P0)) == []


def test_the_oldest_jobs_are_taken() -> None:
    held = HeldMarkers()
    jobs = [a_job(number, began_ms=number * 100) for number in range(4)]
    for job in jobs:
        held.add(job, P0)
    assert held.take_older(P0, -1, 9) == []
    assert held.take_older(P0, 150, 9) == jobs[:2]
    assert held.take_older(P1, 150, 9) == []
    assert held.take_older(P0, 10_000, 1) == jobs[2:3]
    assert held.take_older(P0, 10_000, 9) == jobs[3:]
    assert not held


def test_a_job_that_failed_is_taken_although_it_is_behind_later_ones() -> None:
    held = HeldMarkers()
    jobs = [a_job(number, began_ms=number * 100) for number in range(3)]
    for job in jobs:
        held.add(job, P0)
    assert held.probe(P0) is jobs[0]
    held.on_failed(jobs[0], P0, at(200))
    assert held.take_older(P0, 99, 9) == [jobs[0]]
    assert held.take_older(P0, 200, 9) == jobs[1:]


def test_a_job_that_has_ended_is_dropped_everywhere() -> None:
    held, job, other = HeldMarkers(), a_job(1, P0, P1), a_job(2)
    for partition in (P0, P1):
        held.add(job, partition)
    held.add(other, P0)
    assert held.probe(P0) is job
    held.drop(job)
    assert held.is_due(P0, at(0))
    assert held.probe(P0) is other
    held.drop(other)
    assert not held
