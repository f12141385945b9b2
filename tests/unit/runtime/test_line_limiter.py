import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from cluster.runtime.line_limiter import Allowance, Kind, LineLimiter

CLOSED = Kind("network", "closed connection from %s: %s")
REFUSED = Kind("network", "refused %s")


def limiter():
    return LineLimiter(per_peer=Allowance(3, 1.0), per_kind=Allowance(10, 2.0))


def admitted(limits, kind, peer, count, now_s):
    return sum(limits.admits(kind, peer, now_s) for _ in range(count))


def test_a_peer_gets_a_burst_and_then_one_line_a_second():
    limits = limiter()
    assert admitted(limits, CLOSED, "10.0.0.1", 100, 0.0) == 3
    assert admitted(limits, CLOSED, "10.0.0.1", 100, 1.0) == 1
    assert admitted(limits, CLOSED, "10.0.0.1", 100, 100.0) == 3


def test_another_peer_and_another_kind_are_not_held_back():
    limits = limiter()
    admitted(limits, CLOSED, "10.0.0.1", 100, 0.0)
    assert limits.admits(CLOSED, "10.0.0.2", 0.0)
    assert limits.admits(REFUSED, "10.0.0.1", 0.0)


def test_peers_share_the_allowance_of_a_kind():
    limits = limiter()
    peers = [f"10.0.{number}.1" for number in range(200)]
    assert sum(limits.admits(CLOSED, peer, 0.0) for peer in peers) == 10
    assert sum(limits.admits(CLOSED, peer, 1.0) for peer in peers) == 2


def test_a_kind_without_a_peer_is_limited_too():
    limits = limiter()
    assert admitted(limits, CLOSED, None, 100, 0.0) == 10


def test_left_out_lines_are_reported_once_after_a_while():
    limits = limiter()
    admitted(limits, CLOSED, "10.0.0.1", 100, 5.0)
    assert limits.take_left_out(14.9) == []
    (told,) = limits.take_left_out(17.0)
    assert told == (CLOSED, "10.0.0.1", 97, 12.0, None)
    assert str(told) == (
        'left out 97 more lines like "closed connection from %s: %s" because of 10.0.0.1'
        " within 12 s"
    )
    assert limits.take_left_out(100.0, everything=True) == []


def test_a_repeated_line_does_not_suppress_other_lines():
    limits = LineLimiter(Allowance(6, 1.0), Allowance(10, 2.0), per_subject=Allowance(2, 0.5))
    again = [limits.admits(CLOSED, "bob", 0.0, "orders") for _ in range(100)]
    assert (sum(again), again[0]) == (2, True)
    assert limits.admits(CLOSED, "bob", 0.0, "bills")
    assert limits.admits(CLOSED, "eve", 0.0, "orders")
    others = [limits.admits(CLOSED, "bob", 0.0, f"topic-{n}") for n in range(100)]
    assert sum(others) == 3  # with those before, what one peer gets
    told = limits.take_left_out(20.0)
    assert [(one.peer, one.subject, one.lines) for one in told] == [
        ("bob", "orders", 98),
        ("bob", None, 97),
    ]
    assert "because of bob, each about orders, within 20 s" in str(told[0])
    assert limits.admits(CLOSED, "bob", 20.0, "orders")


def test_a_line_that_is_one_too_many_need_not_be_made():
    limits = LineLimiter(Allowance(6, 1.0), Allowance(10, 2.0), per_subject=Allowance(2, 0.5))
    for _ in range(2):
        assert not limits.leaves_out(CLOSED, "bob", 0.0, "orders")
        assert not limits.leaves_out(CLOSED, "bob", 0.0, "orders")  # asking takes nothing
        assert limits.admits(CLOSED, "bob", 0.0, "orders")
    assert all(limits.leaves_out(CLOSED, "bob", 0.0, "orders") for _ in range(7))
    assert [one.lines for one in limits.take_left_out(20.0)] == [7]


def test_long_subjects_and_peers_are_kept_by_their_hashes():
    limiter = LineLimiter()
    kind = Kind("a", "%s")
    tracemalloc.start()
    try:
        for number in range(2_000):
            for at_s in range(2):
                long = f"{number}-" + "x" * 30_000
                limiter.admits(kind, "peer" + long, at_s, "subject" + long)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 6_000_000
    for _ in range(20):
        limiter.admits(kind, None, 1e6, "x" * 400)
    assert not limiter.admits(kind, None, 1e6, "x" * 400)
    assert limiter.admits(kind, None, 1e6, "x" * 399 + "y")


def test_take_left_out_returns_everything_at_the_end():
    limits = limiter()
    admitted(limits, CLOSED, "10.0.0.1", 4, 5.0)
    assert [one.lines for one in limits.take_left_out(5.0, everything=True)] == [1]


def test_a_clock_that_stands_still_gives_nothing_away():
    limits = limiter()
    assert admitted(limits, CLOSED, None, 50, 7.0) + admitted(limits, CLOSED, None, 50, 7.0) == 10


@given(
    st.lists(
        st.tuples(
            st.sampled_from([CLOSED, REFUSED]),
            st.sampled_from([None, "a", "b", "c"]),
            st.floats(0, 20),
            st.integers(1, 40),
        ),
        max_size=30,
    )
)
def test_every_line_is_written_or_counted_once(steps):
    limits = limiter()
    now_s, lines, written, counted = 0.0, 0, 0, 0
    for kind, peer, passed_s, count in steps:
        now_s += passed_s
        lines += count
        written += admitted(limits, kind, peer, count, now_s)
        counted += sum(one.lines for one in limits.take_left_out(now_s))
    counted += sum(one.lines for one in limits.take_left_out(now_s, everything=True))
    assert written + counted == lines
    assert written <= 2 * (10 + 2.0 * now_s)


def test_hundreds_of_thousands_of_peers_are_reported_in_a_few_lines():
    limits = LineLimiter(per_peer=Allowance(1, 0.001), per_kind=Allowance(1_000_000, 1.0))
    peers = [f"10.{number}" for number in range(10_000)]
    written = sum(limits.admits(CLOSED, peer, 0.0) for peer in peers for _ in range(3))
    told = limits.take_left_out(0.0, everything=True)
    assert written + sum(one.lines for one in told) == 30_000
    assert len(told) <= 21
