"""The parts of `bench/beside_kafka.py` that need neither Kafka nor a cluster."""

import socket
import struct
import threading
from pathlib import Path

import pytest

from bench.beside_loads import LOADS
from bench.beside_run import TITLES, chosen_loads
from bench.beside_systems import ROOT, checked_ports
from bench.beside_table import (
    Figure,
    Row,
    cell,
    check_section,
    marks_of,
    quantile,
    ratio,
    table,
    write_section,
)
from bench.foreign_clients import ToolFailed, consumed_mb_per_s, produced_records_per_s
from bench.raw_client import Answers, Problem, RawConnection, drive
from cluster.model.errors import UserError

MARKS = marks_of("bench.beside_kafka")
LATENCY = Figure("p50", "{:,.0f}", "us")
SPEED = Figure("", "{:,.0f}", "MB/s", more_is_better=True)

PRODUCED = """\
20000 records sent, 19821.6 records/sec (18.90 MB/sec), 3.1 ms avg latency, 210.0 ms max latency.
50000 records sent, 29446.407538 records/sec (28.08 MB/sec), 1.90 ms avg latency, 223.00 ms max \
latency, 1 ms 50th, 5 ms 95th, 12 ms 99th, 20 ms 99.9th.
"""
CONSUMED = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, \
rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-01-02 03:04:05:678, 2026-01-02 03:04:07:901, 286.1023, 128.7011, 3000500, 1349752.58, \
223, 2000, 143.0512, 1500250.0000
"""


def test_a_cell_has_the_median_and_the_spread_of_several_rounds() -> None:
    assert cell(LATENCY, [561.4, 1540.0, 540.0]) == "561 us (540-1,540)"
    assert cell(LATENCY, [561.4]) == "561 us"
    assert cell(LATENCY, []) == "not measured"


def test_a_ratio_is_above_1_if_ours_is_better() -> None:
    assert ratio(LATENCY, [500, 100, 120], [240, 30, 300]) == "2.00x"
    assert ratio(SPEED, [10.0], [40.0]) == "0.25x"
    assert ratio(SPEED, [400.0], [10.0]) == "40x"
    assert ratio(LATENCY, [], [1.0]) == ""
    assert ratio(LATENCY, [0.0], [1.0]) == ""


def test_a_table_keeps_the_order_and_leaves_out_rows_without_any_value() -> None:
    rows = [
        Row("b", SPEED, {"ours": [10, 30], "theirs": [20, 20]}),
        Row("unknown", SPEED, {}),
        Row("a", LATENCY, {"theirs": [7]}),
    ]
    assert table(rows, ["ours", "theirs"]) == [
        "| what | ours | theirs | ratio |",
        "| --- | --- | --- | --- |",
        "| b | 20 MB/s (10-30) | 20 MB/s (20-20) | 1.00x |",
        "| a | not measured | 7 us |  |",
    ]
    assert table(rows, ["theirs"])[0] == "| what | theirs |"


def test_quantiles_are_of_nearest_rank() -> None:
    values = list(range(100, 0, -1))
    assert [quantile(values, part) for part in (0.0, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]
    assert quantile([5], 0.99) == 5


def test_a_section_is_replaced_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "figures.md"
    write_section(path, MARKS, "first")
    path.write_text(f"# Before\n\n{path.read_text()}\n## After\n")
    write_section(path, MARKS, "second\n")
    assert path.read_text() == f"# Before\n\n{MARKS.begin}\n\nsecond\n\n{MARKS.end}\n\n## After\n"


def test_a_file_without_the_marks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "figures.md"
    path.write_text("# Other figures\n")
    with pytest.raises(UserError, match="no section to replace"):
        write_section(path, MARKS, "text")
    with pytest.raises(UserError, match="no section to replace"):
        check_section(path, MARKS)
    assert path.read_text() == "# Other figures\n"


def test_the_documentation_has_a_place_for_the_table() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    assert text.count(MARKS.begin) == text.count(MARKS.end) == 1


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    check_section(tmp_path / "new.md", MARKS)
    for path in (tmp_path / "no" / "new.md", tmp_path):
        with pytest.raises(UserError):
            check_section(path, MARKS)


def test_the_rate_of_producer_performance_is_that_of_its_last_line() -> None:
    assert produced_records_per_s(PRODUCED, 50_000) == pytest.approx(29_446.4, abs=0.1)


@pytest.mark.parametrize("output", ["", PRODUCED, "Exception in thread main\n"])
def test_an_unfinished_producer_performance_is_an_error(output: str) -> None:
    with pytest.raises(ToolFailed, match="did not send 60000 records"):
        produced_records_per_s(output, 60_000)


def test_the_rate_of_consumer_performance_leaves_out_the_rebalance() -> None:
    assert consumed_mb_per_s(f"WARN: old\n{CONSUMED}", 3_000_000) == pytest.approx(150.0, abs=0.1)


@pytest.mark.parametrize("output", ["", CONSUMED, CONSUMED.splitlines()[0]])
def test_an_unfinished_consumer_performance_is_an_error(output: str) -> None:
    with pytest.raises(ToolFailed, match="did not read 4000000 records"):
        consumed_mb_per_s(output, 4_000_000)


def _answer(error: int) -> bytes:
    return struct.pack(">iihi", 10, 1, error, 0)


def test_answers_are_counted_however_they_are_cut() -> None:
    answers = Answers(size=14, error_at=8)
    data = _answer(0) * 3
    assert [answers.count(data[a:b]) for a, b in ((0, 5), (5, 30), (30, 42))] == [0, 2, 1]


@pytest.mark.parametrize("code", [-1, 3, 256])
def test_one_error_among_many_answers_is_noticed(code: int) -> None:
    with pytest.raises(Problem, match=f"error {code}$"):
        Answers(size=14, error_at=8).count(_answer(0) * 50 + _answer(code) + _answer(0))


def _answer_every_request(listener: socket.socket, request: bytes, answer: bytes) -> None:
    """Answer all requests of the first connection, until it is closed."""
    connection, _ = listener.accept()
    with connection:
        received = 0
        while data := connection.recv(1 << 16):
            received += len(data)
            connection.sendall(answer * (received // len(request)))
            received %= len(request)


@pytest.mark.parametrize("depth", [1, 20])
def test_a_connection_is_driven_until_every_request_is_answered(depth: int) -> None:
    request, answer = b"produce", _produced("t")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = threading.Thread(
            target=_answer_every_request, args=(listener, request, answer), daemon=True
        )
        broker.start()
        with RawConnection(listener.getsockname(), "t", request) as connection:
            driven = drive([connection], depth, 0.05)
        broker.join()
    assert driven.requests >= depth
    assert len(driven.waits_us) == (driven.requests if depth == 1 else 0)
    assert driven.rate <= driven.requests / 0.05


def _produced(topic: str) -> bytes:
    """An answer to Produce v7 without an error."""
    name = topic.encode()
    body = struct.pack(">iih", 1, 1, len(name)) + name
    body += struct.pack(">iihqqqi", 1, 0, 0, 0, -1, 0, 0)
    return struct.pack(">i", len(body)) + body


def test_row_names_are_unique_within_a_cluster_size() -> None:
    names = [(load.brokers, name) for load in LOADS for name, _ in load.row_names()]
    assert len(names) == len(set(names))
    assert {load.brokers for load in LOADS} == set(TITLES)


def test_loads_are_chosen_by_the_names_of_their_rows() -> None:
    assert chosen_loads(LOADS, "") == list(LOADS)
    chosen = chosen_loads(LOADS, "three brokers.*acks=all, 8 connections: p99")
    assert [(load.brokers, load.name) for load in chosen] == [
        (3, "raw 100 B, acks=all, 8 connections")
    ]


@pytest.mark.parametrize("pattern", ["no such row", "("])
def test_a_useless_pattern_is_one_line(pattern: str) -> None:
    with pytest.raises(UserError) as raised:
        chosen_loads(LOADS, pattern)
    assert "\n" not in str(raised.value)


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} .*already in use.*--port"):
            checked_ports("a broker", port, 1)
