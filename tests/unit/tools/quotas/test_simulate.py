"""A simulated load is throttled as the broker's own enforcement would; its timeline adds up."""

import heapq
import io
import itertools
import json
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.brokers.throttling.connected_clients import ConnectedClients
from cluster.brokers.throttling.throttle import QuotaThrottle
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import UserError
from cluster.model.quotas import QuotaEntity, QuotaKind
from cluster.quotas.client_accounts import ClientAccounts
from cluster.quotas.client_quotas import ClientQuotas
from cluster.quotas.connection_rates import ConnectionRates
from cluster.quotas.sampled_rate import WindowCredit, WindowOptions
from cluster.tools.main import main
from cluster.tools.quotas.simulate import recorded
from cluster.tools.quotas.simulation import (
    Offer,
    Simulated,
    Step,
    simulate,
    steady_load,
    timeline,
)
from tests.support.quota_accounts import run_to_end

PRODUCE, FETCH, REQUEST = QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST
MUTATION, CONNECTION = QuotaKind.MUTATION, QuotaKind.CONNECTION


class Timers:
    """The loop of a broker: it runs what is due, earliest first."""

    def __init__(self) -> None:
        self.now_ms = MonotonicMs(1)
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Any:
        heapq.heappush(self._due, (deadline_ms, next(self._numbers), callback))
        return self

    def next_ms(self) -> int:
        return self._due[0][0]

    def turn_to(self, now_ms: int) -> None:
        self.now_ms = MonotonicMs(now_ms)
        while self._due and self._due[0][0] <= now_ms:
            heapq.heappop(self._due)[2]()


class Client:
    """A connection that sends what is due as long as it is read."""

    def __init__(self, offers: list[Offer]) -> None:
        self.waiting = deque(offers)
        self.is_open = True
        self.is_muted = False
        self.kept_bytes = 0
        self.software = ("", "")
        self.on_close: Callable[[], None] | None = None

    def mute(self, _reason: int) -> None:
        self.is_muted = True

    def unmute(self, _reason: int) -> None:
        self.is_muted = False

    def respond(self, _buffers: object) -> None:
        pass

    def arrived_bytes(self) -> int:
        return 0


def broker_takes(what: Simulated, offers: list[Offer]) -> list[tuple[int, int, int]]:
    """(time, connection, delay) of each produce request, by the broker's accounts and mutes."""
    timers = Timers()
    quotas = ClientQuotas(what.windows)
    for kind, limit in what.limits.items():
        quotas.set_quota(QuotaEntity(None, "app"), kind, limit)
    throttle = QuotaThrottle(timers, ConnectedClients(), run_to_end)
    numbers = sorted({offer.connection for offer in offers})
    clients = {n: Client([o for o in offers if o.connection == n]) for n in numbers}
    accounts = {number: ClientAccounts(quotas, "u", "app") for number in numbers}
    taken: list[tuple[int, int, int]] = []
    while any(client.waiting for client in clients.values()):
        now_ms = timers.now_ms
        due = [
            (client.waiting[0].at_ms, number)
            for number, client in clients.items()
            if client.waiting and not client.is_muted and 1 + client.waiting[0].at_ms <= now_ms
        ]
        if due:
            _, number = min(due)
            channel: Any = clients[number]
            offer = channel.waiting.popleft()
            delay = accounts[number].on_produced(what.request_us, offer.amount, now_ms)
            taken.append((now_ms - 1, number, 0 if delay is None else delay.ms))
            if delay is not None:
                throttle.respond(channel, None, delay)
        else:
            timers.turn_to(now_ms + 1)
    return taken


loads = st.lists(
    st.builds(Offer, st.integers(0, 400), st.integers(0, 3_000), st.integers(0, 2)), max_size=25
).map(sorted)


@given(
    loads,
    st.integers(3_000, 20_000),
    st.none() | st.floats(5.0, 50.0),
    st.integers(0, 5_000),
    st.sampled_from(list(WindowCredit)),
)
def test_a_simulation_is_what_the_broker_does(offers, limit, percent, request_us, credit):
    limits = {PRODUCE: float(limit)}
    if percent is not None:
        limits[REQUEST] = percent
    what = Simulated(limits, WindowOptions(3, 100, credit), request_us=request_us)
    steps = [(step.at_ms, step.connection, step.delay_ms) for step in simulate(what, offers)]
    assert sorted(steps) == sorted(broker_takes(what, offers))


@given(loads, st.booleans())
def test_a_timeline_adds_up(offers, fetches):
    limits = {FETCH if fetches else PRODUCE: 5_000.0}
    what = Simulated(limits, WindowOptions(3, 1_000), FETCH if fetches else PRODUCE)
    steps = list(simulate(what, offers))
    rows = timeline(offers, steps, 50)
    assert sum(row.offered for row in rows) == sum(offer.amount for offer in offers)
    assert sum(row.taken for row in rows) == sum(offer.amount for offer in offers)
    assert sum(row.requests for row in rows) == len(steps)
    assert sum(row.muted_ms for row in rows) == sum(step.delay_ms for step in steps)
    assert [row.begin_ms for row in rows] == list(range(0, 50 * len(rows), 50))


def test_a_steady_load_is_held_to_its_quota():
    what = Simulated({PRODUCE: 1_000_000.0}, WindowOptions())
    offers = list(steady_load(3_000_000, 4, 10_000, 12_000))
    assert sum(offer.amount for offer in offers) == 36_000_000
    steps = list(simulate(what, offers))
    taken = sum(step.amount for step in steps if 20_000 <= step.at_ms < 30_000)
    assert taken == pytest.approx(10_000_000, rel=0.02)


def test_a_fetch_that_is_throttled_is_repeated_and_takes_a_part():
    what = Simulated({FETCH: 1_000.0}, WindowOptions(), FETCH)
    steps = list(simulate(what, [Offer(0, 1_500, 0)]))
    assert [step.amount for step in steps if not step.delay_ms] == [250] * 6
    assert all(step.amount == 0 for step in steps if step.delay_ms)


def test_changes_of_topics_have_a_burst_and_then_their_rate():
    what = Simulated({MUTATION: 2.0}, WindowOptions(), MUTATION)
    offers = list(steady_load(20.0, 1, 4, 10_000))
    steps = list(simulate(what, offers))
    assert [step.amount for step in steps[:7]] == [4, 4, 4, 4, 4, 4, 4]  # 22 tokens, and 2 more
    first = next(step for step in steps if step.delay_ms)
    assert (first.at_ms, first.amount, first.delay_ms) == (1_400, 0, 1_600)
    assert steps[steps.index(first) + 1][:2] == (3_000, 0)
    assert sum(step.amount for step in steps) == 200
    assert steps[-1].at_ms == pytest.approx(1_000 * (200 - 22) / 2, abs=2_100)


def test_each_change_that_is_let_through_is_one_that_the_broker_lets_through():
    what = Simulated({MUTATION: 3.0}, WindowOptions(3, 500), MUTATION)
    offers = [Offer(at_ms, 1 + at_ms % 5, 0) for at_ms in range(0, 6_000, 70)]
    quotas = ClientQuotas(WindowOptions(), WindowOptions(3, 500))
    quotas.set_quota(QuotaEntity("u", None), MUTATION, 3.0)
    accounts = ClientAccounts(quotas, "u", "app")
    for step in simulate(what, offers):
        now_ms = MonotonicMs(1 + step.at_ms)
        delay_ms = accounts.mutations(now_ms).delay_ms(now_ms)
        assert step.delay_ms == delay_ms
        assert (step.amount == 0) == (delay_ms > 0)
        accounts.mutations(now_ms).record(step.amount, now_ms)


def test_connections_above_the_rate_of_their_address_come_again():
    what = Simulated({CONNECTION: 10.0}, WindowOptions(), CONNECTION)
    offers = list(steady_load(50.0, 20, 1, 4_000))
    rates = ConnectionRates(WindowOptions())
    rates.take_quotas({QuotaEntity(None, None, "10.0.0.1"): {CONNECTION: 10.0}})
    steps = list(simulate(what, offers))
    for step in steps:
        now_ms = MonotonicMs(1 + step.at_ms)
        assert step.delay_ms == rates.close_after_ms("10.0.0.1", now_ms)
        assert step.amount == (0 if step.delay_ms else 1)
        assert step.delay_ms <= 1_000
    assert sum(step.amount for step in steps) == 200
    let_in = sum(step.amount for step in steps if step.at_ms < 15_000)
    assert let_in == pytest.approx(150, abs=15)


@pytest.mark.parametrize(
    ("rate", "quota", "first"),
    [
        (
            "20",
            "controller_mutation_rate=5",
            "controller_mutation_rate 5.00 partitions/s; 40 requests, connections: 1",
        ),
        (
            "20/s",
            "connection_creation_rate=5",
            "connection_creation_rate 5.00 connections/s; 40 requests, connections: 1",
        ),
    ],
)
def test_the_command_counts_partitions_and_connections(capsys, rate, quota, first):
    words = ("--rate", rate, "--duration", "2", "--quota", quota)
    status, told = run(capsys, *words)
    assert status == 0
    assert told.out.splitlines()[0] == first
    assert f"; 40.0 {first.split()[2].removesuffix('/s;')} taken within" in told.out
    _, told = run(capsys, *words, "--json")
    assert json.loads(told.out)["sum"]["taken"] == 40


def test_recorded_changes_are_counted(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("t,count\n0,30\n0.1,1\n"))
    _, told = run(capsys, "-", "--quota", "controller_mutation_rate=2", "--json")
    (throttled,) = json.loads(told.out)["throttlings"]
    assert throttled["delay_ms"] == 3_900  # 22 tokens, 8 more were taken, 0.1 s has paid 0.2


def test_recorded_loads():
    csv = ["t,bytes,connection", "0.5,100,7", "", "0.25,50,1"]
    assert recorded(csv, 1) == [Offer(250, 50, 1), Offer(500, 100, 7)]
    lines = ['{"t": 0, "bytes": 10}', '{"t": 1.5, "bytes": 20}', '{"t": 2, "bytes": 30}']
    assert recorded(lines, 2) == [Offer(0, 10, 0), Offer(1_500, 20, 1), Offer(2_000, 30, 0)]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["t,size", "1,2"], "line 2: t (seconds) and bytes must be numbers"),
        (["t,bytes", "1,x"], "line 2: t (seconds) and bytes must be numbers"),
        (["t,bytes", "-1,2"], "line 2: t and bytes cannot be negative"),
        (["t,bytes", "nan,2"], "line 2: t and bytes cannot be negative"),
        (['{"t": 1, "bytes": 2}', "3,4"], "line 2: not an object of JSON"),
        (["[]"], "line 1: t"),
    ],
)
def test_an_invalid_record_is_named_by_its_line(lines, reason):
    if lines == ["[]"]:
        assert recorded(lines, 1) == []  # a heading without records
        return
    with pytest.raises(UserError) as refused:
        recorded(lines, 1)
    assert str(refused.value) == reason


def run(capsys: Any, *options: str) -> tuple[int, Any]:
    try:
        status = main(["quotas", "simulate", *options])
    except SystemExit as exit_:
        status = int(str(exit_.code))
    return status, capsys.readouterr()


def test_the_command_prints_the_timeline(capsys, monkeypatch):
    options = ("--rate", "20KB", "--batch", "1KB", "--duration", "2", "--connections", "2")
    limit = ("--quota", "producer_byte_rate=10KB")
    status, told = run(capsys, *options, *limit)
    assert status == 0
    first, _, heading, *rows, _, last = told.out.strip().splitlines()
    assert first == "producer_byte_rate 9.77 KiB/s; 40 requests, connections: 2"
    assert heading.split()[:3] == ["TIME", "OFFERED", "TAKEN"]
    assert len(rows) >= 4
    assert last.startswith("40 requests, ")
    status, told = run(capsys, *options, *limit, "--json")
    found = json.loads(told.out)
    assert found["sum"]["requests"] == 40
    assert found["sum"]["throttled"] == len(found["throttlings"]) > 0
    first = found["throttlings"][0]
    assert first["until_ms"] == first["at_ms"] + first["delay_ms"]
    monkeypatch.setattr("sys.stdin", io.StringIO("t,bytes\n0,30000\n0.1,1000\n"))
    status, told = run(capsys, "-", *limit, "--json")
    assert json.loads(told.out)["throttlings"][0]["delay_ms"] == 2_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--rate", "1MB"], "the following arguments are required: --quota"),
        ([], "arguments are required: --quota (see `bin/cluster quotas simulate --help`)"),
        (
            ["--quota", "producer_byte_rate=1MB", "--size", "5"],
            "there is no option --size (see `bin/cluster quotas simulate --help`)",
        ),
        (["--quota", "x=3"], "argument --quota: must be KEY=AMOUNT"),
        (["--quota", "producer_byte_rate=1MB"], "name the load: either a FILE or --rate"),
        (
            ["x", "--rate", "1", "--quota", "producer_byte_rate=1MB"],
            "name the load: either a FILE or --rate",
        ),
        (["--rate", "1", "--quota", "request_percentage=5"], "needs --request-us"),
        (
            ["--rate", "1", "--quota", "producer_byte_rate=1", "--quota", "consumer_byte_rate=1"],
            "a load is produced or fetched",
        ),
        (["/nowhere", "--quota", "producer_byte_rate=1"], "cannot read /nowhere"),
        (
            [
                *("--rate", "1", "--quota", "producer_byte_rate=1"),
                *("--quota", "controller_mutation_rate=1"),
            ],
            "controller_mutation_rate limits a load of its own: name it alone",
        ),
        (
            ["--rate", "1", "--batch", "2", "--quota", "connection_creation_rate=1"],
            "connections come singly",
        ),
        (["--rate", "x", "--quota", "controller_mutation_rate=1"], "must be a number per second"),
        (["--rate", "1", "--batch", "0", "--quota", "controller_mutation_rate=1"], "1 or more"),
        (
            [
                *("--rate", "1KB", "--batch", "1KB", "--interval", "0.001", "--duration", "1000"),
                *("--quota", "producer_byte_rate=1"),
            ],
            "choose a longer --interval",
        ),
        (
            ["--rate", "1GB", "--batch", "1", "--quota", "producer_byte_rate=1GB"],
            "more than 1,000,000 requests",
        ),
    ],
)
def test_simulate_reports_invalid_options_in_one_line(capsys, options, line):
    status, told = run(capsys, *options)
    assert status in (1, 2)
    (only,) = told.err.splitlines()
    assert line in only


def test_steps_are_told_in_the_order_of_time():
    what = Simulated({PRODUCE: 1_000.0}, WindowOptions())
    steps = list(simulate(what, [Offer(5, 2_000, 0), Offer(5, 1, 0), Offer(6, 1, 1)]))
    assert [(step.at_ms, step.due_ms, step.connection) for step in steps] == [
        (5, 5, 0),
        (6, 6, 1),
        (1_005, 5, 0),
    ]
    assert steps[0] == Step(5, 0, 5, 2_000, 2_000.0, 1_000)
