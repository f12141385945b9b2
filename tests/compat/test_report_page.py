"""The HTML reports in a real browser, from a file: nothing is cut off, and every control works."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

from cluster.analytics.capacity import page as capacity_page
from cluster.analytics.capacity.report import report as capacity_report
from cluster.analytics.reports import html_report
from cluster.analytics.reports.usage_history import add_series, totals
from cluster.analytics.reports.usage_report import usage_report
from cluster.analytics.windows.kinds import QUOTA
from tests.compat.axe import violations
from tests.compat.web_browser import WebPage
from tests.support.capacity_history import Truth, history
from tests.support.metric_records import START_MS, Record, quota_record
from tests.support.window_directories import windows_of_records

pytestmark = pytest.mark.slow

MIB = 1 << 20
CLIENTS = 60
LONG_NAME = "billing-service-" + "x" * 200
EVIL = "<img src=x onerror=alert(1)>=1+1"

CUT_OFF = """[...document.querySelectorAll('body *')].filter((each) =>
  !each.closest('svg, .unseen, thead, details:not([open])') && each.clientWidth > 0
  && each.scrollWidth > each.clientWidth + 1).map((each) => each.outerHTML.slice(0, 80))"""
BEYOND = """[...document.querySelectorAll('body *, .chart text')].filter((each) => {
  const place = each.getBoundingClientRect();
  return !each.closest('.unseen, thead') && place.width > 0
    && (place.right > document.documentElement.clientWidth + 1 || place.left < -1);
}).map((each) => each.outerHTML.slice(0, 80))"""
KEEP_FILES = """window.files = [];
  URL.createObjectURL = (blob) => { files.push({ blob }); return 'blob:kept'; };
  HTMLAnchorElement.prototype.click = function () { files.at(-1).name = this.download; }; 0"""


def client(name: str, seconds: int = 60, **fields: Any) -> list[Record]:
    """A client with the same rate on three brokers, whose lines lie upon each other."""
    return [
        quota_record(
            ts=START_MS + 1000 * (second + 5),
            interval_ms=5000,
            broker=broker,
            client_id=name,
            **{"usage": 5 * 0.95 * MIB, "rate": 0.95 * MIB, **fields},
        )
        for second in range(0, seconds, 5)
        for broker in range(3)
    ]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The addresses of a report of quotas and of one of capacity."""
    records = [
        *client("loader-1", throttle_ms=900),
        *client("loader-1", quota="request", usage=100.0, rate=20.0, limit=25.0),
        *client(LONG_NAME, user="someone with a long name" * 3),
        *client(EVIL),
        *client("milena-dashboard"),
    ]
    for number in range(CLIENTS - 3):
        records += client(f"client-{number:02}", 10, throttle_ms=0, throttled=0)
    table = windows_of_records(records, QUOTA, "10s")
    quotas = usage_report(totals([table]), 10, 500, "here", with_own=False)
    add_series(quotas.plotted, [table])
    pages = {
        "quotas": html_report.page(quotas),
        "capacity": capacity_page.page(capacity_report(history(Truth().rows())), "here"),
    }
    place = tmp_path_factory.mktemp("reports")
    for name, text in pages.items():
        (place / f"{name}.html").write_text(text)
    return {name: (place / f"{name}.html").as_uri() for name in pages}


@pytest.fixture(autouse=True)
def as_on_a_screen(page: WebPage) -> Iterator[None]:
    yield
    page.call("Emulation.setEmulatedMedia", media="", features=[])
    assert page.problems == []


@pytest.mark.parametrize("colors", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 820, 390])
@pytest.mark.parametrize("name", ["quotas", "capacity"])
def test_no_column_is_cut_off_and_axe_is_satisfied(
    page: WebPage, files: dict[str, str], axe: str, name: str, width: int, colors: str
) -> None:
    page.prefer(colors)
    page.show(files[name], width=width, height=900)
    page.ask("for (const each of document.querySelectorAll('details')) each.open = true")
    assert page.ask("document.documentElement.scrollWidth <= innerWidth")
    assert page.ask(CUT_OFF) == []
    assert page.ask(BEYOND) == []
    assert violations(page, axe) == []


@pytest.mark.parametrize("name", ["quotas", "capacity"])
def test_charts_follow_the_width_of_the_window_and_their_texts_keep_their_size(
    page: WebPage, files: dict[str, str], name: str
) -> None:
    page.show(files[name], width=1400, height=900)
    look = """(() => {
      const chart = document.querySelector('svg.chart').getBoundingClientRect();
      const text = document.querySelector('.chart .tick').getBoundingClientRect();
      return [chart.width, chart.height, text.height];
    })()"""
    wide = page.ask(look)
    page.call(
        "Emulation.setDeviceMetricsOverride",
        width=390,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    narrow = page.ask(look)
    assert wide[0] > 1100
    assert narrow[0] < 320
    assert narrow[1] == wide[1]
    assert narrow[2] >= 0.9 * wide[2]


def test_lines_that_lie_upon_each_other_differ_in_more_than_color(
    page: WebPage, files: dict[str, str]
) -> None:
    page.show(files["quotas"], width=1400, height=900)
    looks = page.ask(
        """[...document.querySelectorAll('#chart-1 .chart path.line')].map((line) => {
          const look = getComputedStyle(line);
          return [line.getAttribute('d'), look.strokeDasharray, look.strokeWidth];
        })"""
    )
    limit, *lines = looks
    assert len({line for line, _, _ in lines}) == 1, "the example has equal lines"
    assert len({dashes for _, dashes, _ in lines}) == len({width for _, _, width in lines}) == 3
    assert float(limit[2][:-2]) > max(float(width[:-2]) for _, _, width in lines)
    marks = page.ask(
        """[...document.querySelectorAll('#chart-1 .chart .mark')].map((mark) =>
          [mark.getAttribute('x'), mark.firstElementChild.getAttribute('d')])"""
    )
    assert len({form for _, form in marks}) == 3
    assert len({x for x, _ in marks}) == len(marks), "no mark covers another"
    names = "[...document.querySelectorAll('#chart-1 .chart .end')].map((each) => each.textContent)"
    assert page.ask(names) == ["limit", "broker 0", "broker 1", "broker 2"]


def press(page: WebPage, key: str) -> None:
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)


def test_values_are_told_at_the_pointer_and_by_keys(page: WebPage, files: dict[str, str]) -> None:
    page.show(files["quotas"], width=1400, height=900)
    page.ask("document.querySelector('#chart-1 .frame').focus()")
    press(page, "ArrowRight")
    said = page.ask("document.getElementById('said').textContent")
    brokers = "; ".join(f"broker {each} 0.95 MiB/s, throttled 1.80 s" for each in range(3))
    assert said == f"2026-09-21 14:13:20 UTC; {brokers}; limit 1.00 MiB/s"
    press(page, "Escape")
    tip = "document.querySelector('#chart-1 .values-here')"
    assert page.ask(f"{tip}.hidden")
    place = page.ask(
        """(() => { const place = document.querySelector('#chart-1 .frame').getBoundingClientRect();
          scrollBy(0, place.top - 100); return [place.right - 3, 180]; })()"""
    )
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
    page.wait_for(f"!{tip}.hidden")
    assert page.ask(f"{tip}.innerText").startswith("2026-09-21 14:14:10 UTC")
    assert page.ask(f"{tip}.getBoundingClientRect().right <= innerWidth")


def test_a_line_is_hidden_by_its_name(page: WebPage, files: dict[str, str]) -> None:
    page.show(files["quotas"], width=1400, height=900)
    shown = (
        "[...document.querySelectorAll('#chart-1 path.line.k1, #chart-1 .end.k1')].map((each) =>"
    )
    shown += " getComputedStyle(each).display !== 'none')"
    assert page.ask(shown) == [True, True]
    page.ask("document.querySelector('#chart-1 [data-line=k1]').click()")
    assert page.ask(shown) == [False, False]
    assert page.ask("document.querySelector('#chart-1 [data-line=k1]').ariaPressed") == "false"
    page.ask("document.querySelector('#chart-1 [data-line=k1]').click()")
    assert page.ask(shown) == [True, True]


@pytest.mark.parametrize("name", ["quotas", "capacity"])
def test_each_chart_is_saved_as_a_table_and_as_a_picture_without_a_network(
    page: WebPage, files: dict[str, str], name: str
) -> None:
    page.fetched.clear()
    page.show(files[name], width=1400, height=900)
    page.ask(KEEP_FILES)
    page.ask("document.querySelector('#charts [data-do=all]')?.click()")
    charts = page.ask("document.querySelectorAll('figure.plot').length")
    for kind in ("csv", "png"):
        page.ask(
            "files.length = 0; for (const each of"
            f" document.querySelectorAll('[data-do={kind}]')) each.click()"
        )
        page.wait_for(f"files.length === {charts} && files.every((each) => each.name)")
        names = page.ask("files.map((each) => each.name)")
        assert all(each.endswith(f".{kind}") and "/" not in each for each in names)
        if kind == "csv":
            texts = page.ask("Promise.all(files.map((each) => each.blob.text()))")
    sizes = page.ask(
        "Promise.all(files.map(async ({ blob }) => { const image = await createImageBitmap(blob);"
        " return [image.width, image.height, blob.size]; }))"
    )
    assert all(width > 2000 and height > 300 and size > 10_000 for width, height, size in sizes)
    rows = list(csv.reader(io.StringIO(texts[0])))
    told = json.loads(page.ask("document.querySelector('figure.plot script').textContent"))
    assert len(rows) == 1 + len(told["series"][0]["values"])
    for at, series in enumerate(told["series"], 1):
        column = [row[at] for row in rows]
        assert column[0] == series["column"]
        assert [float(cell) if cell else None for cell in column[1:]] == series["values"]
    assert all(each.startswith(("file:", "data:", "about:")) for each in page.fetched)
    page.ask("document.querySelector('[data-do=table]').click()")
    assert page.ask("document.querySelectorAll('.as-table tbody tr').length") == len(rows) - 1


def visible(page: WebPage) -> int:
    found = page.ask(
        "[...document.querySelectorAll('#list tbody')].filter((each) => each.offsetParent).length"
    )
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize(("width", "first"), [(1400, 25), (390, 6)])
def test_the_list_begins_with_some_clients_and_a_filter_finds_all(
    page: WebPage, files: dict[str, str], width: int, first: int
) -> None:
    page.show(files["quotas"], width=width, height=900)
    assert visible(page) == first
    page.ask(
        "document.getElementById('filter').value = 'CLIENT-5';"
        "document.getElementById('filter').dispatchEvent(new Event('input'))"
    )
    assert visible(page) == 7
    assert page.ask("document.getElementById('found').textContent") == f"7 of {CLIENTS}"
    page.ask(
        "document.getElementById('filter').value = '';"
        "document.getElementById('filter').dispatchEvent(new Event('input'))"
    )
    assert visible(page) == first
    page.ask("document.querySelector('#list [data-do=all]').click()")
    assert visible(page) == CLIENTS
    assert page.ask("document.activeElement.closest('tbody') !== null"), "focus goes on"


@pytest.mark.parametrize(("width", "first"), [(1400, 8), (390, 3)])
def test_further_charts_are_shown_by_the_names_of_clients_and_by_a_button(
    page: WebPage, files: dict[str, str], width: int, first: int
) -> None:
    shown = "[...document.querySelectorAll('.chart-card')].filter((each) =>"
    shown += " getComputedStyle(each).display !== 'none').length"
    page.show(files["quotas"], width=width, height=900)
    assert page.ask(shown) == first
    page.ask("location.hash = 'chart-20'")
    assert page.ask(shown) == first + 1
    page.ask("document.querySelector('#charts [data-do=all]').click()")
    assert page.ask(shown) == 24
    assert page.ask("document.activeElement.closest('.chart-card') !== null"), "focus goes on"


def test_tables_of_capacity_begin_with_two_rows_on_a_phone(
    page: WebPage, files: dict[str, str]
) -> None:
    rows = "[...document.querySelectorAll('.listed tbody tr')].filter((each) => each.offsetParent)"
    page.show(files["capacity"], width=1400, height=900)
    whole = page.ask(f"{rows}.length")
    page.show(files["capacity"], width=390, height=844)
    cut = page.ask(f"{rows}.length")
    assert 0 < cut < whole
    assert page.ask("document.documentElement.scrollHeight") < 5_000
    buttons = "[...document.querySelectorAll('.rows [data-do=all]:not([hidden])')]"
    page.ask(f"{buttons}[0].click()")
    assert cut < page.ask(f"{rows}.length")
    assert page.ask("document.activeElement.tagName") == "TD"
    page.ask(f"{buttons}.forEach((each) => each.click())")
    assert page.ask(f"{rows}.length") == whole


def test_paper_has_all_clients_no_buttons_and_a_white_page(
    page: WebPage, files: dict[str, str]
) -> None:
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.show(files["quotas"], width=1000, height=900)
    page.call("Emulation.setEmulatedMedia", media="print", features=features)
    assert visible(page) == CLIENTS
    assert page.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    buttons = "[...document.querySelectorAll('.tools')].filter((each) => each.offsetParent).length"
    assert page.ask(buttons) == 0


def test_the_page_is_whole_where_no_script_runs(page: WebPage, files: dict[str, str]) -> None:
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.show(files["quotas"], width=1400, height=900)
        assert visible(page) == CLIENTS
        assert page.ask("document.querySelectorAll('svg.chart path.line').length") >= 4
        tools = "[...document.querySelectorAll('.tools')].filter((each) => each.offsetParent)"
        assert page.ask(f"{tools}.length") == 0
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)
