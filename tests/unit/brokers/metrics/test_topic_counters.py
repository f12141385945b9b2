"""Counters of topics, of which a bounded number have a row."""

from cluster.brokers.metrics.topic_counters import GAUGES, TopicTable
from cluster.brokers.replication.partition import AppendCounts
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_reader import read_memory

ONES = [1] * len(GAUGES)


class Table:
    """A table with two rows and the one for all other topics."""

    def __init__(self) -> None:
        self.stats = MmapStats.in_memory(slots=1, rows=0, topics=3)
        self.table = TopicTable(self.stats)
        self.known = {"a", "b", "c", "d"}
        self.table.count_for(self.known)

    def append(self, *topics: str) -> None:
        for topic in topics:
            self.table.on_appended(topic, AppendCounts(1, 2, 100))
        self.table.sum_up()

    def stored(self, key: str = "MessagesInPerSec") -> dict[str, int]:
        self.table.sum_up()
        self.table.store()
        topics = read_memory(memoryview(self.stats.memory)).topics
        return {topic: values[key] for topic, values in topics.items()}


def test_topics_without_a_row_are_added_up():
    table = Table()
    table.append("a", "b", "c", "d", "a", "_other")
    assert table.stored() == {"a": 4, "b": 2, "_other": 4}
    assert (table.table.messages_in, table.table.bytes_in) == (12, 600)


def test_unknown_topic_gets_no_row():
    table = Table()
    for number in range(10):
        table.append(f"unknown{number}")
        table.table[f"unknown{number}"].note_refused()
    table.table[None].note_refused()
    table.append("a")
    assert table.stored() == {"a": 2}
    assert len(table.table) == 1
    assert table.table.messages_in == 22


def test_row_of_a_deleted_topic_is_reused():
    table = Table()
    table.append("a", "b", "c")
    table.known -= {"a"}
    table.append("a")
    table.table.set_gauges({"b": ONES, "c": ONES})
    assert table.stored() == {"b": 2, "c": 0, "_other": 2}
    table.append("c")
    assert table.stored() == {"b": 2, "c": 2, "_other": 2}
    assert table.table.messages_in == 10


def test_topics_without_a_place_are_counted():
    table = Table()
    table.append("a", "b")
    table.table.set_gauges({"a": ONES, "b": ONES})
    assert table.table.without_row_count == 0
    table.append("c")
    table.table.set_gauges({"a": ONES, "b": ONES, "d": ONES})
    assert table.table.without_row_count == 2
    table.known -= {"c", "d"}
    table.table.set_gauges({"a": ONES, "b": ONES})
    assert table.table.without_row_count == 0


def test_gauges_are_replaced():
    table = Table()
    table.append("a")
    table.table.set_gauges({"b": ONES, "x": ONES, "y": ONES})
    assert table.stored("Size") == {"a": 0, "b": 1, "_other": 2}
    table.table.set_gauges({"a": [7] * len(GAUGES)})
    assert table.stored("Size") == {"a": 7, "b": 0, "_other": 0}
