"""What the dashboard samples: figures between two readings, rings, clients, events."""

import json
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from cluster.dashboard.sampling.changes import Elections, LimitChanges, Rebalances
from cluster.dashboard.sampling.client_past import SAMPLES, SERIES_MAX, ClientPast
from cluster.dashboard.sampling.figures import FIGURES, figures, kept
from cluster.dashboard.sampling.recorder import RANGES_S, Recorder
from cluster.dashboard.sampling.rings import Ring
from cluster.dashboard.sampling.sampler import Sampler
from cluster.metrics.broker_metrics import BY_KEY
from cluster.metrics.histogram import BUCKETS, Histogram, bucket_of
from cluster.metrics.stats_layout import QuotaRow
from cluster.metrics.stats_reader import Stats
from cluster.model.errors import UserError
from cluster.views.client_states import ALIVE, DEAD, SILENT, BrokerStats
from cluster.views.group_lags import GroupLags

START_MS = 1_800_000_000_000


def times(*durations_us: int) -> Histogram:
    counts = [0] * BUCKETS
    for each in durations_us:
        counts[bucket_of(each)] += 1
    return Histogram(sum(durations_us), tuple(counts))


def broker(
    number: int = 0,
    written_ms: int = 0,
    *rows: QuotaRow,
    state: str = ALIVE,
    pid: int = 1,
    apis: dict[str, Histogram] | None = None,
    groups: bytes = b"",
    **values: float,
) -> BrokerStats:
    named = {BY_KEY[key].name: value for key, value in values.items()}
    requests = {api: {"TotalTimeMs": found} for api, found in (apis or {}).items()}
    stats = Stats(f"broker-{number}", pid, 5, 0, written_ms, named, list(rows), 0, groups, requests)
    return BrokerStats(number, state, 0, stats)


def row(client_id: str = "c", **fields: Any) -> QuotaRow:
    return QuotaRow(**{"quota": "produce", "user": "u", "client_id": client_id, **fields})


# ---------------------------------------------------------------------------- figures


def test_figures_add_up_the_brokers_between_two_readings() -> None:
    before = [
        broker(0, 1_000, BytesInPerSec=100, BusyTimeUs=0, apis={"Produce": times(10)}),
        broker(1, 1_000, BytesInPerSec=0, BytesOutPerSec=50, ThrottledRequestsPerSec=1),
    ]
    after = [
        broker(
            *(0, 3_000),
            BytesInPerSec=2_100,
            BusyTimeUs=500_000,
            apis={"Produce": times(10, *[3_000] * 98, 300_000)},
        ),
        broker(
            *(1, 5_000),
            BytesInPerSec=400,
            BytesOutPerSec=450,
            ThrottledRequestsPerSec=5,
            ThrottleTimeMs=1_000,
            apis={"Produce": times(3_000)},
        ),
    ]
    found = figures(after, kept(before), 7.0)
    assert found["bytes_in"] == 1_000 + 100
    assert found["bytes_out"] == 100
    assert found["throttled"] == 1
    assert found["throttle_ms"] == 250
    assert found["lag"] == 7
    assert 2 <= (found["produce_p50_ms"] or 0) <= 4.1
    assert 2 <= (found["produce_p99_ms"] or 0) <= 4.1  # 99 of 100 took 3 ms
    assert found["fetch_p50_ms"] is None
    assert found["busy:0"] == 0.25


@pytest.mark.parametrize(
    "after",
    [
        broker(0, 3_000, state=DEAD, BytesInPerSec=500),
        broker(0, 3_000, state=SILENT, BytesInPerSec=500),
        broker(0, 3_000, pid=2, BytesInPerSec=500),
        broker(0, 1_000, BytesInPerSec=100),
    ],
    ids=["dead", "silent", "started again", "unchanged"],
)
def test_figures_are_unknown_of_a_broker_that_did_not_write_all_the_time(
    after: BrokerStats,
) -> None:
    former = kept([broker(0, 1_000, BytesInPerSec=100)])
    assert figures([after], former, 0.0) == dict.fromkeys(FIGURES)


# ---------------------------------------------------------------------------- rings


def test_ring_keeps_its_span_and_returns_what_is_new() -> None:
    ring = Ring(2, 10)
    for second in range(0, 40, 2):
        assert ring.is_due(second * 1_000)
        ring.add(second * 1_000, {"a": second, "b": None if second < 36 else 1.23456789})
        assert not ring.is_due(second * 1_000 + 1_400)
    assert ring.since(0) == (
        [28_000, 30_000, 32_000, 34_000, 36_000, 38_000],
        {"a": [28, 30, 32, 34, 36, 38], "b": [None] * 4 + [1.2346] * 2},
    )
    assert ring.since(36_000) == ([38_000], {"a": [38], "b": [1.2346]})


def test_ring_has_a_gap_where_samples_are_missing() -> None:
    ring = Ring(2, 100)
    for now_ms in (0, 4_000, 10_000):
        ring.add(now_ms, {"a": 1.0})
    assert ring.since(-1) == ([0, 4_000, 6_000, 10_000], {"a": [1, 1, None, 1]})
    ring.add(22_000, {"a": 1.0}, expected_s=5)  # the dashboard itself reads less often
    assert ring.since(10_000) == ([22_000], {"a": [1]})


def test_ring_drops_the_future_when_the_clock_is_set_back() -> None:
    ring = Ring(2, 100)
    for now_ms in (10_000, 12_000, 14_000, 11_000):
        assert ring.is_due(now_ms)
        ring.add(now_ms, {"a": float(now_ms)})
    assert ring.since(0) == ([10_000, 11_000], {"a": [10_000, 11_000]})


# ---------------------------------------------------------------------------- clients


def test_client_past_has_the_broker_nearest_to_the_limit_and_gaps() -> None:
    past = ClientPast()
    near, far = row(rate=150.0, limit=200.0), row(rate=900.0, limit=9_000.0)
    past.add(1_000, [broker(0, 0, far), broker(1, 0, near)])
    past.add(3_000, [broker(0, 0), broker(1, 0, near, state=DEAD)])
    past.add(5_000, [broker(1, 0, row(rate=0.0), row("idle"), row("other", rate=1.0))])
    assert past.to_json(0, ("u", "c")) == {
        "ts": [1_000, 3_000, 5_000],
        "series": [["u", "c", "produce", [150, None, 0], [200, None, None]]],
    }
    assert [each[1] for each in past.to_json(3_000)["series"]] == ["c", "other"]


def test_client_past_is_bounded_and_forgets_idle_clients() -> None:
    past = ClientPast()
    crowd = [row(f"c{number}", rate=1.0) for number in range(SERIES_MAX + 9)]
    past.add(0, [broker(0, 0, *crowd)])
    assert len(past) == SERIES_MAX
    late = row("late", rate=2.0)
    for number in range(1, 2 * SAMPLES + 1):
        past.add(number * 2_000, [broker(0, 0, late)])
    assert [each[1] for each in past.to_json(0)["series"]] == ["late"]
    assert len(past.to_json(0)["ts"]) == SAMPLES


# ---------------------------------------------------------------------------- events


def test_limit_changes_are_told_once_for_all_brokers_and_clients_of_a_rule() -> None:
    changes = LimitChanges()

    def taken(now_ms: int, *limits: float | None) -> list[tuple[str, str]]:
        brokers = [
            broker(
                number,
                0,
                row("a", limit=limit, rule="default-client" if limit else None),
                row("b", limit=limit, rule="default-client" if limit else None),
            )
            for number, limit in enumerate(limits)
        ]
        return [(each.subject, each.text) for each in changes.take(now_ms, brokers)]

    assert taken(0, 1024.0, 1024.0) == []
    told = [
        ("client a of u and 1 more", "produce limit 1.00 KiB/s → 2.00 KiB/s (rule: default-client)")
    ]
    assert taken(1_000, 1024.0, 2048.0) == told
    assert taken(3_000, 2048.0, 2048.0) == []
    (back,) = taken(5_000, 1024.0, 1024.0)
    assert back[1].startswith("produce limit 2.00 KiB/s → 1.00 KiB/s")
    assert taken(7_000, 2048.0, 2048.0) == told, "a limit that returns is a change, too"
    (removed,) = taken(60_000, None, None)
    assert removed[1] == "produce limit 2.00 KiB/s → none (rule: default-client)"


def group(generation: int, members: int = 2, name: str = "g") -> GroupLags:
    return GroupLags({"group": name, "generation": generation, "members": members, "lag": 0})


def test_rebalances_are_new_generations() -> None:
    rebalances = Rebalances()
    assert rebalances.take([group(3)]) == []
    assert rebalances.take([]) == []
    assert rebalances.take([group(3)]) == []
    (once, new) = rebalances.take([group(4, 1), group(1, 1, "new")])
    assert (once.subject, once.text) == ("group g", "rebalanced (generation 4), 1 member")
    assert new.subject == "group new"
    (often,) = rebalances.take([group(7)])
    assert often.text == "rebalanced 3 times, 2 members"
    assert rebalances.take([group(12, 0, "loaded")]) == []
    (left,) = rebalances.take([group(8, 0)])
    assert left.text == "rebalanced (generation 8), 0 members"


def test_elections_are_counted_of_each_controller() -> None:
    elections = Elections()

    def taken(*brokers: BrokerStats) -> list[str]:
        return [each.subject for each in elections.take(brokers)]

    def controller(count: int, pid: int = 1, state: str = ALIVE) -> BrokerStats:
        return broker(0, 0, LeaderElectionRateAndTimeMs=count, pid=pid, state=state)

    assert taken(controller(5)) == []
    assert taken(controller(5, state=SILENT)) == []
    assert taken(controller(6)) == ["1 partition"]
    assert taken(controller(6)) == []
    assert taken(controller(4, pid=2)) == ["4 partitions"]


# ---------------------------------------------------------------------------- recorder


def groups(*found: dict[str, Any]) -> bytes:
    return b"\n".join(
        json.dumps({"kind": "group", "ts": 0, "state_ms": {}, **each}).encode() for each in found
    )


def test_recorder_keeps_both_resolutions_and_events_of_a_range() -> None:
    recorder = Recorder()
    told = groups({"group": "g", "generation": 1, "members": 1, "lag": 30})
    for second in range(0, 122, 2):
        recorder.take(
            START_MS + second * 1_000,
            [broker(0, second * 1_000, BytesInPerSec=second * 1_000, groups=told)],
        )
    now_ms = START_MS + 120_000
    event = {"ts": now_ms - 5_000, "kind": "death", "subject": "broker 1", "text": "was killed"}
    event = {"number": 1, **event}
    recorder.take_events([{**event, "number": 7}])
    recorder.take_events([{**event, "number": 7}])
    fine, coarse = (recorder.series(name, now_ms, 0) for name in ("2m", "6h"))
    assert (len(fine["ts"]), fine["step_s"]) == (60, 2)
    assert (len(coarse["ts"]), coarse["step_s"]) == (6, 20)
    for found in (fine, coarse):
        assert set(found["values"]["bytes_in"]) == {1_000.0}
        assert set(found["values"]["lag"]) == {30.0}
        assert found["events"] == [event]
    assert recorder.series("2m", now_ms, now_ms)["events"] == [event]  # told late
    assert recorder.series("2m", now_ms, 0, since_event=1)["events"] == []
    assert recorder.series("2m", now_ms + 120_000, 0)["events"] == []
    assert recorder.series("2m", now_ms, now_ms - 2_000)["ts"] == [now_ms]
    json.dumps(fine, allow_nan=False)


def test_six_hours_of_samples_take_little_memory() -> None:
    recorder, template = Recorder(), broker(0, 0, BytesInPerSec=1, BusyTimeUs=1)
    fine_s, end_s = RANGES_S["6h"] + 800, RANGES_S["6h"] + 2_000
    tracemalloc.start()
    try:
        # The finer samples have only the last minutes.
        for second in (*range(0, fine_s, 20), *range(fine_s, end_s, 2)):
            stats = replace(template.stats, written_ms=second * 1_000)
            brokers = [replace(template, broker=number, stats=stats) for number in range(8)]
            recorder.take(START_MS + second * 1_000, brokers)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(recorder.series("6h", START_MS + second * 1_000, 0)["ts"]) == 1_080
    assert used < 1_000_000


def test_sampler_samples_without_a_supervisor_and_asks_it_again_when_a_broker_dies() -> None:
    asked: list[str] = []
    present = [broker(0, 1)]
    far_ms = 4_000_000_000_000  # after the clock of any machine
    death = {"ts": far_ms, "kind": "death", "subject": "broker 0", "text": "was killed"}

    def events() -> list[dict[str, Any]]:
        asked.append(present[0].state)
        if present[0].state == ALIVE:
            raise UserError("there is no supervisor")
        return [{**death, "number": 1}]

    sampler = Sampler(lambda: present, events)
    sampler.sample()
    sampler.sample()
    assert asked == [ALIVE]
    present = [replace(present[0], state=DEAD)]
    sampler.sample()
    assert asked == [ALIVE, DEAD]
    sampler.take_events([{**death, "number": 2}])
    told = [{**death, "number": number} for number in (1, 2)]
    assert sampler.series("6h", 0, 0)["events"] == told
