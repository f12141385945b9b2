"""Records of topics: one for each interval with a change, one a minute while idle."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cluster.brokers.metrics.topic_counters import GAUGES, TopicTable
from cluster.brokers.metrics.topic_intervals import UNCHANGED_MS, DueTopic, TopicIntervals
from cluster.brokers.replication.partition import AppendCounts
from cluster.metrics.mmap_stats import MmapStats
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.topics import METRICS_TOPIC

WALL_MS = 1_700_000_000_000


def gauges(size: int, partitions: int = 1, leaders: int = 1) -> list[int]:
    known = {"Size": size, "PartitionCount": partitions, "LeaderCount": leaders}
    return [known.get(key, 0) for key in GAUGES]


class World:
    """A table of topics, sampled when a test says so."""

    def __init__(self, places: int = 3) -> None:
        self.table = TopicTable(MmapStats.in_memory(slots=1, rows=0, topics=places))
        self.known = {"a", "b", "c"}
        self.table.count_for(self.known)
        self.now_ms = 1_000
        self.intervals = TopicIntervals(
            self.table, MonotonicMs(self.now_ms), WallMs(WALL_MS + self.now_ms)
        )
        self.replicas: dict[str, list[int]] = {}

    def append(self, topic: str, size_bytes: int = 100) -> None:
        """Append two records of a client."""
        self.table.on_appended(topic, AppendCounts(1, 2, size_bytes))

    def look(self, after_ms: int = 1_000) -> list[DueTopic]:
        self.now_ms += after_ms
        self.table.sum_up()
        self.table.set_gauges(self.replicas)
        moment = MonotonicMs(self.now_ms), WallMs(WALL_MS + self.now_ms)
        return [due for due in self.intervals.look(*moment) if due is not None]


def shown(due: list[DueTopic]) -> list[dict[str, Any]]:
    """The nonzero fields, with `ts` and `interval_ms`."""
    return [
        {
            **{name: value for name, value in each.figures._asdict().items() if value},
            "ts": each.wall_ms - WALL_MS,
            "interval_ms": each.interval_ms,
        }
        for each in due
    ]


def test_an_interval_with_traffic_has_a_record_of_what_was_counted_in_it():
    world = World()
    world.replicas = {"a": gauges(100)}
    world.append("a")
    counters = world.table["a"]
    counters.note_refused()
    counters.bytes_out, counters.fetches, counters.failed_fetches = 70, 3, 1
    (first,) = shown(world.look())
    assert first == {
        "topic": "a",
        "bytes_in": 100,
        "bytes_out": 70,
        "messages_in": 2,
        "produces": 2,
        "failed_produces": 1,
        "fetches": 3,
        "failed_fetches": 1,
        "size": 100,
        "partitions": 1,
        "leaders": 1,
        "ts": 2_000,
        "interval_ms": 1_000,
    }
    world.append("a", 40)
    world.replicas = {"a": gauges(140)}
    (second,) = shown(world.look())
    assert (second["bytes_in"], second["messages_in"], second["size"]) == (40, 2, 140)
    assert (second["ts"], second["interval_ms"]) == (3_000, 1_000)


def test_idle_topic_has_a_record_a_minute_and_at_the_end_of_its_idle_time():
    world = World()
    world.replicas = {"a": gauges(100)}
    assert len(world.look()) == 1
    rests = [shown(world.look()) for _ in range(UNCHANGED_MS // 1_000)]
    rest = {"topic": "a", "size": 100, "partitions": 1, "leaders": 1}
    assert rests[:-1] == [[]] * (len(rests) - 1)
    assert rests[-1] == [{**rest, "ts": 52_000, "interval_ms": 50_000}]
    assert shown(world.look()) == []
    assert shown(world.look()) == []
    world.append("a", 7)
    assert shown(world.look()) == [
        {**rest, "ts": 54_000, "interval_ms": 2_000},
        {
            **rest,
            "bytes_in": 7,
            "messages_in": 2,
            "produces": 1,
            "ts": 55_000,
            "interval_ms": 1_000,
        },
    ]


def test_growing_own_topic_has_a_record_every_ten_seconds():
    world = World()
    world.known |= {METRICS_TOPIC}
    due = []
    for number in range(31):
        world.replicas = {METRICS_TOPIC: gauges(number)}
        due += shown(world.look())
    assert [(each["size"], each["ts"], each["interval_ms"]) for each in due[1:]] == [
        (10, 12_000, 10_000),
        (20, 22_000, 10_000),
        (30, 32_000, 10_000),
    ]
    world.replicas = {METRICS_TOPIC: gauges(30)}
    assert [shown(world.look()) for _ in range(49)] == [[]] * 49
    assert len(world.look()) == 1
    world.replicas = {METRICS_TOPIC: gauges(31, leaders=0)}
    assert [each["ts"] for each in shown(world.look())] == [83_000]


def test_topics_without_a_row_are_combined_and_reported_only_after_changes():
    world = World(places=2)
    assert world.look() == []
    world.append("a")
    world.append("b", 5)
    world.append("c", 6)
    found = {each.figures.topic: each.figures.bytes_in for each in world.look()}
    assert found == {"a": 100, "_other": 11}
    assert world.look(UNCHANGED_MS) == []  # no replica is here


def test_recreated_topic_has_separate_records():
    world = World()
    world.replicas = {"a": gauges(100)}
    world.append("a")
    world.look()
    world.append("a", 30)
    world.known -= {"a"}
    world.replicas = {}
    last = shown(world.look())
    assert last == [
        {
            "topic": "a",
            "bytes_in": 30,
            "messages_in": 2,
            "produces": 1,
            "ts": 3_000,
            "interval_ms": 1_000,
        }
    ]
    assert world.look() == []
    world.known |= {"a"}
    world.append("a", 9)
    assert [each.figures.bytes_in for each in world.look()] == [9]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c", None]), st.integers(0, 90), st.integers(1, 70_000)
        ),
        max_size=40,
    )
)
def test_records_of_a_topic_add_up_and_leave_no_gaps(steps: list[tuple[str | None, int, int]]):
    world = World(places=4)
    world.replicas = {topic: gauges(1) for topic in "abc"}
    sent = dict.fromkeys("abc", 0)
    told: list[DueTopic] = []
    for topic, size_bytes, after_ms in steps:
        if topic is not None:
            world.append(topic, size_bytes)
            sent[topic] += size_bytes
        told += world.look(after_ms)
    told += world.look(UNCHANGED_MS)
    for topic in "abc":
        records = [each for each in told if each.figures.topic == topic]
        assert sum(each.figures.bytes_in for each in records) == sent[topic]
        covered = sorted((each.wall_ms - each.interval_ms, each.wall_ms) for each in records)
        assert covered[0][0] == WALL_MS + 1_000
        assert [end for _, end in covered[:-1]] == [begin for begin, _ in covered[1:]]
        assert all(each.figures.size == 1 for each in records)
