"""Reports on generated windows: numbers, plots, a well-formed page."""

import base64
import contextlib
import csv
import fcntl
import hashlib
import json
import math
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cluster.tools.main import main
from cluster.views import quantities
from tests.support.metric_records import START_MS, generated_records, quota_record

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from cluster.analytics.reports import html_report, terminal_plot
from cluster.analytics.reports.page_templates import REPORTS
from cluster.analytics.reports.svg_shapes import LABEL_HEIGHT, spread
from cluster.analytics.reports.usage_history import (
    SERIES_COLUMNS,
    TOTALS_COLUMNS,
    ClientUsage,
    Span,
    add_series,
    busiest,
    totals,
    usages,
)
from cluster.analytics.reports.usage_report import UsageReport, usage_report
from cluster.analytics.reports.usage_table import usage_table
from cluster.analytics.windows import store
from cluster.analytics.windows.deltas import PieceResult, write_delta
from cluster.analytics.windows.directory import WindowDirectory
from cluster.analytics.windows.kinds import QUOTA
from cluster.analytics.windows.layout import delta_path
from cluster.analytics.windows.store import LocalStore
from tests.support.many_clients import write_windows
from tests.support.window_directories import (
    merge_all,
    reached,
    sums_of,
    windows_of_records,
    written,
)

MIB = 1 << 20
ROOT = Path(__file__).parents[4]
START_S = START_MS // 1000
SPAN = Span(START_S, START_S + 40, 10)


def windows(records) -> pa.Table:
    return windows_of_records(records, QUOTA, "10s")


def noisy(seconds: int = 40, **fields) -> list[dict[str, object]]:
    """A client at its limit on two brokers, throttled in every second."""
    return [
        quota_record(
            ts=START_MS + 1000 * (second + 1),
            broker=broker,
            **{"usage": 0.95 * MIB, "rate": float(MIB), **fields},
        )
        for second in range(seconds)
        for broker in (0, 1)
    ]


def found(records) -> list[ClientUsage]:
    """The usages in the order of a report, with their series."""
    table = windows(records)
    listed = list(usages(totals([table.select(TOTALS_COLUMNS)])))
    add_series(listed, [table.select(SERIES_COLUMNS)])
    return listed


def only(records) -> ClientUsage:
    (usage,) = found(records)
    return usage


def reported(records, source: str = "here") -> UsageReport:
    table = windows(records)
    report = usage_report(totals([table]), 10, 100, source, with_own=False)
    add_series(report.plotted, [table])
    return report


def row(usage: ClientUsage) -> dict[str, str]:
    """The row of a report with this usage only, by column."""
    table = usage_table([usage])
    (cells,) = table.rows
    return {name: cell for (name, _), cell in zip(table.columns, cells, strict=True)}


def drawing(records) -> ElementTree.Element:
    """The page's only chart."""
    page = html_report.page(reported(records))
    begin, end = page.index('<svg class="chart"'), page.index('<div class="tools">\n<button')
    return ElementTree.fromstring(page[begin:end].removesuffix("</div>\n"))


def chart_data(records) -> dict[str, Any]:
    """What the script of the page reads of its only chart."""
    page = html_report.page(reported(records))
    text = page.partition('<script type="application/json">')[2].partition("</script>")[0]
    found: dict[str, Any] = json.loads(text)
    return found


def test_averages_are_per_broker_and_count_active_seconds():
    usage = only(noisy(seconds=25))
    assert usage.active_seconds == 50
    assert usage.rate_avg == pytest.approx(0.95 * MIB)
    assert usage.percent_of_limit == pytest.approx(95.0)
    assert (usage.throttled_percent, usage.throttle_ms) == (10.0, 50 * 12.5)
    assert usage.throttle_ms_max == 12.5


def test_averages_do_not_depend_on_how_often_brokers_write():
    once = [
        quota_record(ts=START_MS + at_ms, interval_ms=5000, usage=5.0 * MIB, limit=2.0 * MIB)
        for at_ms in range(5000, 40_001, 5000)
    ]
    usage = only(once)
    assert usage.rate_avg == pytest.approx(1.0 * MIB)
    assert usage.active_seconds == 40
    assert usage.percent_of_limit == pytest.approx(50)


def test_a_changed_limit_counts_for_its_time_and_does_not_double_a_window():
    usage = only([*noisy(15), *noisy(40, limit=0.5 * MIB)[30:]])
    assert usage.limit == 0.5 * MIB
    assert usage.percent_of_limit == pytest.approx(100 * 0.95 * 40 / (15 + 25 * 0.5))
    assert [point.start_s - START_S for point in usage.series[0]] == [0, 10, 20, 30]
    assert usage.series[0][1].rate == pytest.approx(0.95 * MIB)


def test_a_limit_that_held_for_a_part_of_the_time_is_compared_with_the_usage_of_that_part():
    free = noisy(30, limit=None, rule=None, usage=0.1 * MIB)
    usage = only([*free, *noisy(40, usage=0.9 * MIB)[60:]])
    assert usage.rate_avg == pytest.approx((30 * 0.1 + 10 * 0.9) / 40 * MIB)
    assert (usage.active_seconds, usage.limited_seconds) == (80, 20)
    assert usage.percent_of_limit == pytest.approx(90.0)
    told = usage.as_json()
    assert told["limited_seconds"] == 20
    assert told["limited_rate_avg"] == pytest.approx(0.9 * MIB)
    shown = row(usage)
    assert (shown["avg rate"], shown["of limit"], shown["limited"]) == ("307 KiB/s", "90 %", "25 %")
    (note,) = usage_table([usage]).notes
    assert "AVG RATE is over all of the active time" in note


def test_the_table_says_nothing_of_time_without_a_limit_where_it_always_held():
    table = usage_table(found([*noisy(), *noisy(client_id="free", limit=None, rule=None)]))
    assert "limited" not in [name for name, _ in table.columns]
    assert table.notes == []
    changed = usage_table([only([*noisy(15), *noisy(40, limit=0.5 * MIB)[30:]])])
    assert changed.rows[0][3] == "512 KiB/s *"
    assert "the latest of several limits" in changed.notes[0]


def test_nan_counts_as_zero_and_json_is_valid():
    table = windows(noisy())
    broken = {
        name: pa.array([math.nan, math.inf] + [1.0] * (table.num_rows - 2))
        for name in ("usage_sum", "rate_avg", "rate_max", "throttle_ms_sum", "throttle_ms_max")
    }
    for name, values in broken.items():
        table = table.set_column(table.schema.get_field_index(name), name, values)
    report = usage_report(totals([table]), 10, 100, "here", with_own=False)
    add_series(report.plotted, [table])
    assert report.shown[0].rate_max == 1.0
    assert "nan" not in html_report.page(report)
    assert plain(report.terminal_plots[0])
    json.dumps(report.shown[0].as_json(), allow_nan=False)


def test_pieces_add_up_to_the_same_as_one_table():
    table = windows([each for each in generated_records(5, seconds=120) if each["kind"] == "quota"])
    pieces = [table.slice(start, 17) for start in range(0, table.num_rows, 17)]
    at_once, in_pieces = (
        [each.as_json() for each in usages(totals(how))] for how in ([table], pieces)
    )
    assert [each["client_id"] for each in in_pieces] == [each["client_id"] for each in at_once]
    for one, other in zip(at_once, in_pieces, strict=True):
        assert one == {name: pytest.approx(value) for name, value in other.items()}


def test_without_a_limit_there_is_no_share_of_it():
    usage = only(noisy(limit=None, rule=None))
    assert usage.percent_of_limit is None
    assert (row(usage)["rule"], row(usage)["limit"]) == ("-", "-")


def test_the_most_throttled_come_first_then_the_limited():
    records = [
        quota_record(client_id="free", limit=None, throttle_ms=0),
        quota_record(client_id="quiet", throttle_ms=0),
        quota_record(client_id="noisy", throttle_ms=50),
        quota_record(client_id="noisier", throttle_ms=90),
    ]
    names = [usage.name for usage in found(records)]
    assert names == ["noisier", "noisy", "quiet", "free"]


def test_the_busiest_broker_gives_the_rate_and_all_the_throttle_time():
    records = [
        quota_record(broker=0, usage=100.0, throttle_ms=1),
        quota_record(broker=1, usage=300.0, throttle_ms=2),
    ]
    (point,) = busiest(only(records)).values()
    assert (point.rate, point.throttle_ms) == (30.0, 3.0)


def plain(usage: ClientUsage, span: Span = SPAN, columns: int = 40) -> str:
    lines = terminal_plot.plot(usage, span, columns)
    return "\n".join("".join(text for text, _ in pieces) for pieces in lines)


def test_the_terminal_plot_shows_bars_up_to_the_limit_and_throttling():
    text = plain(only(noisy()))
    assert "1.00 ┤" in text
    assert "████████████████" in text
    assert "throttle" in text
    assert "at most 250 ms per window" in text
    assert "14:13:20" in text


def test_many_windows_are_drawn_in_as_many_columns_as_there_are():
    span = Span(START_S, START_S + 600, 10)
    lines = plain(only(noisy(600)), span, columns=20).splitlines()
    assert len(lines[1]) <= 20 + 13


@pytest.mark.parametrize("records", [noisy(1), noisy(limit=None), noisy(40, usage=0.0, rate=0.0)])
def test_plots_of_odd_histories(records):
    assert plain(only(records))
    assert drawing(records).tag == "svg"


def test_the_svg_has_a_line_per_broker_one_for_the_limit_and_bars():
    svg = drawing(noisy())
    paths = {element.get("class"): element.get("d", "") for element in svg.iter("path")}
    assert {"line s0 k0 place0", "line s1 k1 place1", "line limit"} <= paths.keys()
    assert paths["bar s0 k0"].count("M") == paths["bar s1 k1"].count("M") == 4


EVIL = [
    '<script>alert("1")</script>&',
    """' onload='alert(1)' x="><img src=x onerror=alert(1)>""",
    "{{ 7 * 7 }}{% raw %}",
    "]]><!--",
]


def test_time_without_data_is_a_gap_in_every_line():
    records = noisy()
    with_gap = [each for each in records if not 10_000 < int(str(each["ts"])) - START_MS <= 30_000]
    svg = drawing(with_gap)
    lines = [
        each.attrib["d"] for each in svg.iter() if each.attrib.get("class", "").startswith("line ")
    ]
    assert len(lines) == 3  # of two brokers, and the limit
    assert {line.count("M") for line in lines} == {2}
    cells = [
        "".join(text for text, _ in line) for line in terminal_plot.plot(only(with_gap), SPAN, 4)
    ]
    rows = [line[13:] for line in cells if "┤" in line]
    assert all(row[4:12].strip() == "" for row in rows)  # the two windows in the middle
    assert any(row[:4].strip() for row in rows)


@pytest.mark.parametrize("evil", EVIL)
def test_the_page_needs_nothing_else_and_escapes_what_clients_chose(evil):
    page = html_report.page(reported(noisy(client_id=evil, user=evil), evil))
    seen = _Reader()
    seen.feed(page)
    assert seen.tags & {"img", "link", "iframe"} == set()
    assert not any(name.startswith("on") or name in ("src", "style") for name in seen.attributes)
    assert all(address.startswith("#chart-") for address in seen.addresses)
    assert seen.programs == [files(REPORTS).joinpath("report.js").read_text()]
    policy = page.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    assert hashed(seen.programs[0]) in policy
    assert hashed(files(REPORTS).joinpath("report.css").read_text()) in policy
    assert "unsafe" not in policy
    assert "url(" not in page
    assert page.count('<svg class="chart"') == 1
    assert any(evil in text for text in seen.texts), "a reader sees the name as it is"
    assert any(evil in label for label in seen.labels)


def test_chart_data_are_the_values_of_the_windows_and_null_in_a_gap():
    records = noisy(limit=1_048_576.0)
    told = chart_data(
        [each for each in records if not 10_000 < int(str(each["ts"])) - START_MS <= 30_000]
    )
    series = {each["column"]: each["values"] for each in told["series"]}
    assert (told["first"], told["step"]) == (START_S, 10)
    rate = pytest.approx(0.95 * MIB, abs=0.5)
    assert series["broker 0, B/s"] == [rate, None, None, rate]
    assert series["limit, B/s"] == [MIB, None, None, MIB]
    assert series["broker 1, throttle time in ms"] == [125, None, None, 125]


def test_labels_of_equal_lines_do_not_touch_and_stay_in_the_chart():
    for heights in ([50.0] * 4, [10.0, 11.0, 190.0, 191.0], [190.0] * 9, []):
        found = spread(heights, 10, 192)
        assert len(found) == len(heights)
        assert all(10 <= y <= 192 for y in found)
        assert all(after - y >= LABEL_HEIGHT for y, after in pairwise(found))
    assert spread([20.0, 90.0], 10, 192) == [20.0, 90.0]


def test_a_client_is_named_once_with_all_of_its_quotas_and_users_only_where_there_are_some():
    records = [*noisy(), *noisy(quota="request", limit=None, rule=None), *noisy(client_id="other")]
    page = html_report.page(reported(records))
    table = page.partition('<table class="clients"')[2].partition("</table>")[0]
    assert table.count("loader-1") == 1
    assert 'rowspan="2"' in table
    assert "ANONYMOUS" not in page
    assert "this client id" in table
    assert "no limit" in table
    assert ">-<" not in table
    assert "user alice" in html_report.page(reported([*records, *noisy(user="alice")]))


def test_the_page_begins_with_one_sentence():
    told = html_report.page(
        reported([*noisy(), *noisy(client_id="quiet", throttled=0, throttle_ms=0)])
    )
    assert (
        '<p class="answer">1 of 2 clients was throttled, most of all loader-1: its produce quota'
        " delayed it by 1.0 s in all, at 95\u00a0% of a limit of 1.00 MiB/s per broker.</p>" in told
    )
    calm = html_report.page(reported(noisy(throttled=0, throttle_ms=0)))
    assert '<p class="answer">No client was throttled.</p>' in calm
    assert "never throttled" in calm


def test_milenas_own_clients_are_on_the_page_only_in_a_closed_part():
    page = html_report.page(reported([*noisy(), *noisy(client_id="milena-topics")]))
    before, _, after = page.partition('<details class="hidden-clients">')
    assert "milena-topics" not in before
    assert "1 more: 1 of Milena" in after
    assert "milena-topics" in after.partition("</details>")[0]
    assert page.count('<svg class="chart"') == 1


def test_control_characters_are_spelled_out_on_the_page():
    name = "a\x1b[2J\u202eb\nc"
    page = html_report.page(reported(noisy(client_id=name, user=name)))
    assert set(page).isdisjoint("\x1b\u202e")
    assert r"a\x1b[2J\u202eb\nc" in page


class _Reader(HTMLParser):
    """Collects the content of a page as a browser would."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.labels: list[str] = []
        self.texts: list[str] = []
        self.addresses: list[str] = []
        self.programs: list[str] = []
        """The texts of scripts that a browser would run."""
        self._is_program = False

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.labels += [value for name, value in attrs if name == "aria-label"]
        self.addresses += [value for name, value in attrs if name == "href"]
        self._is_program = tag == "script" and ("type", "application/json") not in attrs

    def handle_data(self, data) -> None:
        self.texts.append(data)
        if self._is_program:
            self.programs.append(data)
            self._is_program = False


def hashed(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_numbers_as_people_read_them():
    assert quantities.rate("produce", 1.5 * MIB) == "1.50 MiB/s"
    assert quantities.rate("request", 12.34) == "12.3 %"
    assert quantities.rate("fetch", None) == "-"
    assert [quantities.duration(ms) for ms in (0, 820, 12_345, 182_000, 7_260_000)] == [
        *("0", "820 ms", "12.3 s", "3 min 02 s", "2 h 01 min"),
    ]
    assert quantities.round_steps(0.97, 4)[-1] >= 0.97
    assert quantities.round_steps(0, 4) == [0.0, 1.0]
    assert quantities.time_steps(0, 60, 9) == [0, 10, 20, 30, 40, 50, 60]


# -- the command ---------------------------------------------------------------------------------


@pytest.fixture
def output(tmp_path) -> Path:
    return written(tmp_path / "rollup", list(generated_records(2, seconds=90)))


def report(output: Path, *words: str) -> int:
    return main(["quotas", "report", "--data-dir", str(output.parent), *words])


def test_table_and_plots_for_every_client(output, capsys):
    assert report(output) == 0
    text = capsys.readouterr().out
    assert all(f"client-{number}" in text for number in range(4))
    assert text.startswith("2 of 4 clients were throttled, most of all client-")
    assert "THROTTLE TIME" in text
    assert "ANONYMOUS" not in text
    assert "busiest broker" in text
    assert "\x1b" not in text, "no colors into a pipe"


def test_a_client_id_is_text_in_table_and_plot_and_no_line_is_cut(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    name = "[red]loader[/red]\x1b[2J" + "x" * 200
    assert report(written(tmp_path / "rollup", noisy(client_id=name))) == 0
    text = capsys.readouterr().out
    shown = name.replace("\x1b", "\\x1b")
    lines = [line for line in text.splitlines() if line.startswith(shown)]
    assert len(lines) == 2, "a row of the table, the title of a plot"
    assert lines[0].endswith("ms")
    assert "\x1b" not in text


def test_only_the_chosen_clients_and_both_widths(output, capsys):
    for width in ("10s", "1m"):
        assert report(output, "--client-id", "client-2", "--width", width) == 0
        text = capsys.readouterr().out
        assert "client-2" in text
        assert "client-1" not in text


def test_last_option_selects_the_last_seconds(output, capsys):
    assert report(output, "--last", "20s", "--json") == 0
    assert '"active_seconds"' in capsys.readouterr().out


def test_a_period_from_one_time_to_another(output, capsys):
    times = ("--since", "2026-09-21T14:13:30", "--until", "2026-09-21T14:13:50")
    assert report(output, *times, "--json") == 0
    assert all(usage["active_seconds"] <= 20 * 3 for usage in json.loads(capsys.readouterr().out))
    assert report(output, *times) == 0
    assert "2026-09-21 14:13:30 to 2026-09-21 14:13:50 UTC" in capsys.readouterr().out
    assert report(output, "--since", "2026-09-22T01:00+02:00") == 1
    err = capsys.readouterr().err
    assert err.startswith("error: there are no windows from 2026-09-21 23:00:00 UTC in ")


def test_user_option_selects_one_user(output, capsys):
    assert report(output, "--user", "ANONYMOUS", "--json") == 0
    users = {usage["user"] for usage in json.loads(capsys.readouterr().out)}
    assert users == {"ANONYMOUS"}
    assert report(output, "--user", "alice") == 1
    assert "no windows of user alice; there are ANONYMOUS" in capsys.readouterr().err


def test_the_table_as_csv_has_the_values_of_json(tmp_path, capsys):
    name = 'a "quoted", long\nname'
    written(tmp_path / "rollup", noisy(client_id=name))
    path = tmp_path / "table.csv"
    assert report(tmp_path / "rollup", "--csv", str(path), "--json") == 0
    (told,) = json.loads(capsys.readouterr().out)
    with path.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["client_id"] == name
    assert row["brokers"] == "0 1"
    assert float(row["rate_avg"]) == told["rate_avg"]
    assert list(row) == list(told)


def test_csv_quotes_a_client_id_that_a_spreadsheet_would_evaluate(tmp_path, capsys):
    name = '=HYPERLINK("http://example.com")'
    written(tmp_path / "rollup", noisy(client_id=name))
    path = tmp_path / "table.csv"
    assert report(tmp_path / "rollup", "--csv", str(path)) == 0
    with path.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["client_id"] == f"'{name}"


def test_a_picture_without_a_browser_is_refused_before_anything_else(output, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")
    assert report(output, "--png", "page.png") == 1
    assert "--png needs Chromium or Chrome" in capsys.readouterr().err


def test_a_picture_of_the_page(output, tmp_path, capsys):
    if not any(map(shutil.which, ("chromium", "google-chrome"))):
        pytest.skip("no Chromium or Chrome here")
    picture = tmp_path / "page.png"
    assert report(output, "--png", str(picture)) == 0, capsys.readouterr().err
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(head[16:20], "big") == 1200
    assert [path.name for path in tmp_path.glob("page*")] == ["page.png"]


@pytest.mark.parametrize(("lines", "columns"), [(24, 80), (10, 50)])
def test_on_a_terminal_it_has_colors_and_plots_fit(output, lines, columns):
    text, status = in_terminal(["quotas", "report", "--rollup", str(output)], lines, columns)
    assert status == 0
    assert "\x1b[" in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    plots = [line for line in plain.splitlines() if "┤" in line or "┼" in line]
    assert len(plots) >= 7
    assert all(len(line) <= columns for line in plots)


def in_terminal(words: list[str], lines: int, columns: int) -> tuple[str, int]:
    """The output of a command on a terminal of this size, and its exit status."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    environment = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")
    }
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "cluster", *words],
        stdin=its,
        stdout=its,
        stderr=its,
        env={**environment, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"},
    )
    os.close(its)
    shown = bytearray()
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while piece := os.read(ours, 65_536):
            shown += piece
    os.close(ours)
    return shown.decode(), process.wait(60)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--output", "/nowhere"], "there are no windows in /nowhere: run `"),
        (["--client-id", "nobody"], "no windows of client nobody; there are client-0, client-1"),
        (["--html", "/nowhere/page.html"], "cannot write /nowhere/page.html: No such file"),
    ],
)
def test_mistakes_are_reported_in_one_line(output, capsys, words, reason):
    assert report(output, *words) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {reason}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("kind", ["half", "foreign"])
def test_broken_file_is_reported_in_one_line(output, capsys, kind):
    (path,) = output.glob("kind=quota/width=10s/*/*.parquet")
    if kind == "half":
        path.write_bytes(path.read_bytes()[:99])
    else:
        pq.write_table(pa.table({"a": [1]}), path)
    assert report(output) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error: cannot read the windows: {path} ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("--since", "2026-09-22T12:00", "--until", "2026-09-22T18:00"),
        ("--last", "1h"),
        ("--last", "1h", "--width", "1m"),
    ],
)
def test_files_of_days_that_are_not_asked_for_are_not_read(tmp_path, capsys, words):
    place = tmp_path / "rollup"
    starts = (START_MS, START_MS + 86_400_000)
    written(
        place,
        [quota_record(ts=start + 1000 * second) for start in starts for second in range(1, 41)],
    )
    for path in place.glob("kind=quota/width=*/day=2026-09-21/*.parquet"):
        path.write_bytes(b"not to be read")
    assert report(place, *words, "--json") == 0, capsys.readouterr().err
    (told,) = json.loads(capsys.readouterr().out)
    assert told["active_seconds"] == 40


def test_report_shows_the_most_throttled_clients_and_exports_all(tmp_path, capsys):
    records = [quota_record(client_id=f"c{n:04}", throttle_ms=n) for n in range(150)]
    written(tmp_path / "rollup", records)
    page, data = tmp_path / "page.html", tmp_path / "table.csv"
    for words, most in (((), 100), (("--top", "2"), 2)):
        files = ("--html", str(page), "--csv", str(data))
        assert report(tmp_path / "rollup", *words, *files) == 0
        text = capsys.readouterr().out
        assert f"{150 - most} more: --top, --csv, --json" in text
        assert ("c0149" in text, "c0049" in text) == (True, False)
        assert page.read_text().count("<tr>") == 1 + most
        assert f"{150 - most} more, less throttled, are left out" in page.read_text()
        assert len(data.read_text().splitlines()) == 1 + 150
    assert report(tmp_path / "rollup", "--json", "--top", "2") == 2
    assert "--json has all rows" in capsys.readouterr().err


def test_milenas_own_clients_are_left_out_unless_they_are_asked_for(tmp_path, capsys):
    names = ("loader-1", "milena-dashboard", "milena-topics")
    records = [record for name in names for record in noisy(client_id=name)]
    place = written(tmp_path / "rollup", records)
    assert report(place) == 0
    text = capsys.readouterr().out
    assert "milena-" not in text
    assert "2 of Milena's own clients are not shown: --all" in text
    for words in (("--all",), ("--client-id", "milena-topics")):
        assert report(place, *words) == 0
        text = capsys.readouterr().out
        assert "milena-topics" in text
        assert "not shown" not in text
    assert report(place, "--json") == 0
    told = {each["client_id"]: each["own_client"] for each in json.loads(capsys.readouterr().out)}
    assert told == {"loader-1": False, "milena-dashboard": True, "milena-topics": True}


def with_impossible_times(place: Path) -> Path:
    """A directory as rollups of earlier versions may have left it, which accepted every clock."""
    written(place, noisy())
    sums = sums_of([quota_record()])["quota"]
    at = sums.schema.get_field_index("window_start")
    with WindowDirectory.open(LocalStore(place)) as directory:
        deltas = []
        for name, year in (("1", 1971), ("2", 2099)):
            start = pa.array([datetime(year, 1, 1, tzinfo=UTC)], sums.schema.types[at])
            moved = sums.set_column(at, "window_start", start)
            path = delta_path(directory.next_change, name)
            deltas.append(write_delta(directory.store, path, {"quota": moved}))
        directory.append([PieceResult(deltas, {}, {})], reached(1_000))
        merge_all(directory)
    return place


def test_windows_of_impossible_times_are_left_out_and_told_of(tmp_path, capsys):
    place = with_impossible_times(tmp_path / "rollup")
    for words in ((), ("--last", "1h"), ("--width", "1m")):
        assert report(place, *words) == 0
        printed = capsys.readouterr()
        assert "\n2026-09-21 14:13:" in printed.out
        assert "2 windows that begin before 2020 or later than now left out: `" in printed.err
        assert "rollup --repair` removes such" in printed.err
    assert report(place, "--until", "2026-09-22", "--since", "2026-09-21") == 0
    assert capsys.readouterr().err == ""
    assert report(place, "--since", "2090-01-01") == 1
    assert "1 window that begins" in capsys.readouterr().err


def test_the_open_hour_is_in_the_report(tmp_path, capsys):
    place = written(tmp_path / "rollup", noisy(), is_merged=False)
    assert not list(place.glob("kind=*"))
    for words in ((), ("--width", "1h"), ("--last", "20s")):
        assert report(place, *words, "--json") == 0
        (told,) = json.loads(capsys.readouterr().out)
        assert told["active_seconds"] == (40 if words == ("--last", "20s") else 80)


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("ftp://host/windows", "error: cannot "),
        ("nonsense://host/windows", "error: cannot "),
    ],
)
def test_unknown_scheme_is_reported_in_one_line(tmp_path, capsys, place, says):
    for words in (["quotas", "report"], ["groups", "report"], ["quotas", "recommend"]):
        assert main([*words, "--data-dir", str(tmp_path), "--rollup", place]) == 1
        printed = capsys.readouterr()
        assert printed.err.startswith(says)
        assert printed.err.count("\n") == 1


@pytest.mark.parametrize("top", ["1", "3", "99999999999"])
def test_any_value_of_top_is_accepted(output, capsys, top):
    assert report(output, "--top", top) == 0
    assert "client-" in capsys.readouterr().out


def test_windows_in_an_object_store(output, tmp_path, monkeypatch, capsys):
    files = pyarrow.fs.LocalFileSystem()
    monkeypatch.setattr(store, "open_store", lambda uri: store.RemoteStore(files, str(output), uri))
    uri = "s3://key:secret@bucket/rollup?region=x"
    assert main(["quotas", "report", "--data-dir", str(tmp_path), "--rollup", uri]) == 0
    assert "client-1" in capsys.readouterr().out
    words = ["--since", "2020-01-01", "--until", "2021-01-01"]
    assert main(["quotas", "report", "--data-dir", str(tmp_path), "--rollup", uri, *words]) == 1
    err = capsys.readouterr().err
    assert "there are no windows from 2020-01-01" in err
    assert "secret" not in err


@pytest.mark.long
@pytest.mark.slow
def test_a_hundred_thousand_clients_a_table_of_a_hundred(tmp_path, capsys):
    place = tmp_path / "rollup"
    write_windows(place, 100_000, START_S, [0, 10])
    page = tmp_path / "page.html"
    assert report(place, "--html", str(page)) == 0
    text = capsys.readouterr().out
    rows = [line for line in text.splitlines() if line.startswith("client-") and "B/s" in line]
    assert len(rows) == 100
    assert "99,900 more: --top, --csv, --json" in text
    assert "99,994 more plots: --client-id, --html" in text
    assert page.read_text().count("<tr>") == 101
    assert page.read_text().count('<svg class="chart"') == 24
    assert ">100,000</b>" in page.read_text()
    assert report(place, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert len({each["client_id"] for each in told}) == 100_000
    assert {each["active_seconds"] for each in told} == {2}
    throttled = [each["throttle_ms_sum"] for each in told]
    assert throttled == sorted(throttled, reverse=True)


def test_a_time_before_the_calendar_is_everything(output, capsys):
    assert report(output, "--last", "900000d", "--json") == 0
    assert '"active_seconds"' in capsys.readouterr().out


@pytest.mark.parametrize("last", ["99999999999999d", "\u00b2s", "0s", "s", ""])
def test_invalid_time_is_a_usage_error(output, capsys, last):
    with pytest.raises(SystemExit) as ended:
        report(output, "--last", last)
    assert ended.value.code == 2
    assert "argument --last: must be" in capsys.readouterr().err
