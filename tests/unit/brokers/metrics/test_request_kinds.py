"""Requests are counted one by one, and a share of them is chosen to be timed."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.brokers.metrics.request_times import TIMED_MAX, WEIGHT_MAX, RequestKind
from cluster.protocol.api import ApiKey


def take(kind: RequestKind, requests: int) -> list[int]:
    """Let `count` requests pass; returns the weights of the timed ones."""
    return [kind.on_timed() for _ in range(requests) if kind.tickets.pop()]


def test_few_requests_are_all_timed():
    kind = RequestKind(ApiKey.PRODUCE)
    for _ in range(10):
        assert take(kind, TIMED_MAX) == [1] * TIMED_MAX
        assert kind.take_count() == TIMED_MAX


def test_share_of_many_requests_is_timed_with_its_weight():
    kind = RequestKind(ApiKey.PRODUCE)
    requests = 25_000
    weights = take(kind, requests)
    assert len(weights) <= 4 * (TIMED_MAX + 1) + requests // WEIGHT_MAX
    assert abs(sum(weights) - requests) < 2 * WEIGHT_MAX
    assert kind.take_count() == requests
    assert len(take(kind, requests)) <= requests // WEIGHT_MAX + 1


def test_all_requests_are_timed_again_when_they_get_fewer():
    kind = RequestKind(ApiKey.PRODUCE)
    take(kind, 100 * WEIGHT_MAX)
    for _ in range(5):
        kind.take_count()
    assert take(kind, 3) == [1, 1, 1]
    assert kind.take_count() == 3


def test_client_with_a_rhythm_is_timed_at_every_phase():
    kind = RequestKind(ApiKey.PRODUCE)
    take(kind, 100 * WEIGHT_MAX)
    beats = [0] * 8
    for number in range(80 * WEIGHT_MAX):
        if kind.tickets.pop():
            beats[number % 8] += kind.on_timed()
    assert min(beats) > 0


@given(st.lists(st.integers(0, 3_000), max_size=12))
def test_every_request_is_counted_once(ticks: list[int]):
    kind = RequestKind(ApiKey.FETCH)
    for requests in ticks:
        stood_for = sum(take(kind, requests))
        assert abs(stood_for - requests) < 2 * WEIGHT_MAX
        assert kind.take_count() == requests
