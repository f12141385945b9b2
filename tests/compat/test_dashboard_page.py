"""The dashboard's page in a real browser, beside a cluster under load.

With MILENA_TEST_DASHBOARD_IMAGE=1, docs/images/dashboard.png is rendered again.
"""

import contextlib
import json
import os
import re
import shutil
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from cluster.client.quota_requests import describe_quotas
from cluster.client.socket_client import SocketClient
from cluster.dashboard.live import WATCHERS_MAX
from cluster.datadir.paths import DataDir
from cluster.metrics.stats_layout import QuotaRow
from cluster.metrics.stats_reader import read_stats
from cluster.model.quotas import QuotaEntity
from tests.compat.dashboard_scene import (
    IS_BESIDE_ITS_HEADING,
    NASTY,
    SUMMARY,
    TOPIC,
    WIDTHS,
    look_at_all,
    row_texts,
)
from tests.compat.web_browser import WebPage
from tests.support.client_quotas import KIB, NamedClient, batch, send_as_many
from tests.support.kafka_wire import produce_request
from tests.support.metric_records import quota_record
from tests.support.open_transactions import begin
from tests.support.running_cluster import HOST, Cluster
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.beyond_pypi]

IMAGE = Path(__file__).parents[2] / "docs" / "images" / "dashboard.png"
UNFOLD = "document.querySelectorAll('main details').forEach((each) => { each.open = true; })"
HEIGHT = "document.body.offsetHeight"
PHONE_MAX = 2_500
"""The pixels that no view exceeds on a phone before something is opened."""


@pytest.fixture(scope="module")
def cluster(watched: Cluster) -> Cluster:
    """Not shared with other modules: a broker is killed."""
    return watched


def figures(page: WebPage, client_id: str, quota: str = "produce") -> dict[str, str]:
    """The texts of a client's quota in the list, by column; empty where there is none."""
    found: dict[str, str] = page.ask(
        f"""(() => {{
          const links = [...document.querySelectorAll('.client [data-client]')];
          const client = links.find((each) => each.dataset.client === {json.dumps(client_id)})
            ?.closest('.client');
          const cells = client?.querySelectorAll('[data-quota={quota}] [data-cell]') ?? [];
          const texts = [...cells].map((cell) => [cell.dataset.cell, cell.textContent]);
          if (texts.length === 0) return {{}};
          return {{ who: client.querySelector('.who').textContent,
            state: client.querySelector('.state').textContent, ...Object.fromEntries(texts) }};
        }})()"""
    )
    return found


def counted(cluster: Cluster, client_id: str, broker: int = 0) -> QuotaRow | None:
    """What the broker itself says of a client that produces."""
    rows = read_stats(DataDir(cluster.data_dir).run / f"broker-{broker}.stats").rows
    return next((row for row in rows if (row.client_id, row.quota) == (client_id, "produce")), None)


def as_rate(bytes_per_s: float) -> str:
    """A rate formatted like those on the page."""
    number, unit = bytes_per_s, "B/s"
    for larger in ("KiB/s", "MiB/s"):
        if number >= KIB:
            number, unit = number / KIB, larger
    return f"{number:.{0 if number >= 100 or unit == 'B/s' else 1 if number >= 10 else 2}f} {unit}"


def test_a_row_shows_the_figures_of_its_broker(cluster: Cluster, page: WebPage, url: str) -> None:
    page.show(url + "#clients")
    written: set[str] = set()
    shown: set[str] = set()

    def has_followed() -> bool:
        """Whether the page shows a figure that the broker has had, and that is new."""
        row, texts = counted(cluster, "burst"), figures(page, "burst")
        if row is not None:
            written.add(as_rate(row.rate))
        if not texts or texts["rate"] not in written - shown:
            return False
        shown.add(texts["rate"])
        return True

    for _ in range(3):
        with NamedClient(cluster.addresses[0], "burst") as client:
            client.call(produce_request(TOPIC, batch(200_000)))
        wait_until(has_followed, "the broker's figure on the page")
    row = wait_until(lambda: figures(page, "payments"), "the other client")
    assert row["limit"] == as_rate(64 * KIB)
    told = counted(cluster, "payments")
    assert told is not None
    library = row["who"].removeprefix("payments").partition(", ")[0]
    assert library == told.software or "…" in library
    page.wait_for("/[1-9][0-9]* throttled now/.test(document.querySelector('.summary').innerText)")
    throttled = "document.querySelector('.client[data-rank=\"0\"] .state')?.innerText"
    page.wait_for(f"/throttled: produce by up to [0-9.]+ m?s/.test({throttled})")
    assert page.ask("document.querySelector('.client:not(.headings)').dataset.rank") == "0"
    assert page.ask("document.documentElement.scrollWidth <= innerWidth")


def test_own_and_idle_clients_are_hidden_until_they_are_asked_for(
    cluster: Cluster, page: WebPage, url: str
) -> None:
    cluster.command("topics", "--list")
    names = "[...document.querySelectorAll('[data-client]')].map((each) => each.dataset.client)"
    page.show(url + "#clients")
    page.wait_for(
        "document.querySelector('.hidden-clients p').innerText.includes(\"Milena's own\")"
    )
    assert not [each for each in page.ask(names) if each.startswith("milena-")]
    assert re.fullmatch(
        "Show [0-9]+ more", page.ask("document.getElementById('show-hidden').innerText")
    )
    page.ask("document.getElementById('show-hidden').click()")
    wait_until(lambda: "milena-topics" in page.ask(names), "the tool in the list")
    assert page.ask("location.hash") == "#clients?all=1"
    page.ask("document.getElementById('show-hidden').click()")
    assert "milena-topics" not in page.ask(names)


def test_users_are_not_shown_if_nobody_has_logged_in(page: WebPage, url: str) -> None:
    page.show(url + "#clients")
    wait_until(lambda: figures(page, "payments"), "a client")
    assert "ANONYMOUS" not in page.ask("document.querySelector('main').innerText")


def test_the_cluster_view_shows_what_the_api_says(page: WebPage, url: str) -> None:
    page.show(url + "#cluster")
    table = (
        "[...document.querySelectorAll('table')].find((t) => t.caption?.innerText === 'Brokers')"
    )
    wait_until(
        lambda: len(page.ask(f"[...({table})?.tBodies[0].rows ?? []].map(() => 1)")) == 2,
        "both brokers",
    )
    view = httpx.get(url + "api/cluster", timeout=30).json()
    rows = page.ask(
        f"[...({table}).tBodies[0].rows].map((r) => [...r.cells].map((c) => c.innerText))"
    )
    for row, told in zip(rows, view["brokers"], strict=True):
        assert [int(row[4]), int(row[5])] == [told["leaders"], told["replicas"]]
        assert row[1].endswith("running")
        assert ("controller" in row[0]) == (view["controller"] == told["id"])
    health = page.ask("document.querySelector('.health').innerText").split("\n")
    assert health[health.index("Brokers serving") + 1] == "2 of 2"
    assert health[health.index("Partitions") + 1] == str(view["health"]["partitions"])


ADDRESSED = "[document.title, document.querySelector('dialog').open, location.hash]"


def test_views_and_dialogs_have_addresses_and_back_leaves_them(page: WebPage, url: str) -> None:
    """What a colleague opens, and what the browser's own buttons do."""

    def wait_for_address(title: str, is_open: bool, address: str) -> None:
        wanted = [f"Milena: {title}", is_open, address]
        wait_until(lambda: page.ask(ADDRESSED) == wanted, f"{wanted}")

    name = "50 % off/#?&"
    page.show(url + "#clients")
    router = f"import('{url}static/router.js')"
    address = page.ask(f"{router}.then((it) => it.addressOf('topics', [{json.dumps(name)}]))")
    assert address == "#topics/50%20%25%20off%2F%23%3F%26"
    page.show(url + address)
    wait_for_address(name, False, address)
    page.wait_for("document.querySelector('.problem')?.innerText.includes('no topic 50 %')")
    page.ask("document.querySelector('.trail a').click()")
    wait_for_address("Topics", False, "#topics")
    page.wait_for(f"Boolean(document.querySelector('[data-key={TOPIC}]'))")
    page.ask(f"document.querySelector('[data-key={TOPIC}]').click()")
    wait_for_address(TOPIC, False, f"#topics/{TOPIC}")
    page.wait_for("Boolean(document.querySelector('.topic .actions')?.offsetParent)")
    page.ask("document.querySelector('.topic .actions a:last-child').click()")
    produce = f"#topics/{TOPIC}/produce"
    wait_for_address(f"Produce a message to {TOPIC}", True, produce)
    page.ask("document.querySelector('dialog button').click()")
    wait_for_address(TOPIC, False, f"#topics/{TOPIC}")
    page.wait_for(f"document.activeElement.hash === {json.dumps(produce)}")
    page.show(url + produce)  # as a colleague opens it: over the page of its topic
    wait_for_address(f"Produce a message to {TOPIC}", True, produce)
    page.wait_for("document.getElementById('topic-title') !== null")
    page.ask("document.querySelector('dialog button').click()")
    wait_for_address(TOPIC, False, f"#topics/{TOPIC}")
    page.ask("location.hash = '#change'")
    wait_for_address("Change", False, "#change")
    page.ask("history.back()")
    wait_for_address(TOPIC, False, f"#topics/{TOPIC}")
    assert page.ask("document.querySelector('nav [aria-current]').innerText") == "Topics"


def limits(cluster: Cluster) -> Any:
    """Those of the client that `submit` changes."""
    with SocketClient.connect(cluster.addresses, "test") as client:
        return describe_quotas(client).get(QuotaEntity(None, "clickstream"), {})


def submit(page: WebPage, action: str) -> None:
    """Set or remove a limit in the view of changes."""
    page.ask("document.querySelector('.result code')?.remove()")
    page.ask(
        f"""(() => {{
          document.getElementById('who-client-id').value = 'clickstream';
          document.getElementById('limit-producer_byte_rate').value = '2MiB';
          document.querySelector('button[value={action}]').click();
        }})()"""
    )
    page.wait_for("document.querySelector('.result code')?.innerText")


def test_a_quota_is_set_and_removed(cluster: Cluster, page: WebPage, url: str) -> None:
    page.show(url + "#change")
    submit(page, "set")
    assert limits(cluster) == {"producer_byte_rate": 2 * KIB * KIB}
    page.ask("location.hash = '#clients'")
    wait_until(
        lambda: figures(page, "clickstream").get("limit") == "2.00 MiB/s", "the limit in the table"
    )
    page.ask("location.hash = '#change'")
    page.wait_for("document.getElementById('who-client-id') !== null")
    submit(page, "remove")
    assert limits(cluster) == {}


def quotas_listed(page: WebPage) -> list[list[str]]:
    """Whom, what, the limit and the command line of every limit in the view of changes."""
    found: list[list[str]] = page.ask(
        "[...document.querySelectorAll('#quotas tbody tr')].map((row) => [...row.cells].map("
        "(cell) => (cell.querySelector('code') ?? cell).textContent))"
    )
    return found


def test_command_lines_are_shown_before_anything_is_done(
    cluster: Cluster, page: WebPage, url: str
) -> None:
    page.show(url + "#change")
    page.ask(
        """(() => {
          document.getElementById('who-client-id').value = "it's";
          const limit = document.getElementById('limit-producer_byte_rate');
          limit.value = '2MiB';
          limit.dispatchEvent(new Event('input', { bubbles: true }));
        })()"""
    )
    page.wait_for("document.querySelectorAll('#quota-command code').length === 2")
    lines = page.ask(
        "[...document.querySelectorAll('#quota-command code')].map((each) => each.textContent)"
    )
    whom = """'--client-id=it'"'"'s'"""
    assert lines[0].endswith(f" quotas set {whom} --producer-byte-rate=2097152")
    assert lines[1].endswith(f" quotas unset {whom} --producer-byte-rate")
    page.wait_for("document.querySelectorAll('[data-broker]').length === 2")
    actions = page.ask(
        "[...document.querySelectorAll('[data-broker=\"1\"] [data-action]')].map((each) =>"
        " [each.getAttribute('href'), each.hidden])"
    )
    launcher = lines[0].partition(" quotas")[0]
    assert actions == [
        ["#brokers/1/kill", False],
        ["#brokers/1/kill-and-keep-down", False],
        ["#brokers/1/pause", False],
        ["#brokers/1/resume", True],
        ["#brokers/1/restart", False],
    ]
    for action, command in {"pause": "pause 1", "kill-and-keep-down": "kill 1 --stay-down"}.items():
        page.ask(f"location.hash = '#brokers/1/{action}'")
        line = "document.querySelector('dialog code')?.textContent"
        page.wait_for(f"{line} === {json.dumps(f'{launcher} {command}')}")
        page.ask("document.querySelector('dialog button').click()")
        page.wait_for("location.hash === '#change'")
    with SocketClient.connect(cluster.addresses, "test") as client:
        assert QuotaEntity(None, "it's") not in describe_quotas(client)


def test_every_quota_that_is_set_is_listed_and_can_be_removed(
    cluster: Cluster, page: WebPage, url: str
) -> None:
    nobody = '<b>nobody</b> "here"'
    cluster.command("quotas", "set", "--user", nobody, "--consumer-byte-rate", "5MiB")
    cluster.command("quotas", "set", "--user-default", "--request-percentage", "150")
    page.show(url + "#change")
    wanted = {"all other users (default)", f"user {nobody}"}
    wait_until(lambda: wanted <= {row[0] for row in quotas_listed(page)}, "both in the list")
    by_name = {(row[0], row[1]): row for row in quotas_listed(page)}
    assert by_name["client id payments", "Produce"][2] == "64.0 KiB/s"
    assert by_name["all other users (default)", "Request time"][2] == "150.0 %"
    row = by_name[f"user {nobody}", "Fetch"]
    assert row[2] == "5.00 MiB/s"
    assert "quotas unset" in row[3]
    assert row[3].endswith("--consumer-byte-rate")
    page.ask("document.querySelector('[data-remove=consumer_byte_rate]').click()")
    page.wait_for("Boolean(document.getElementById('confirm'))")
    assert page.ask("document.querySelector('dialog p').innerText") == (
        f"Remove the limit of 5.00 MiB/s (consumer_byte_rate) of user {nobody}? The next less"
        " specific limit applies at once, if there is one."
    )
    page.ask("document.getElementById('confirm').click()")
    page.wait_for("document.querySelector('dialog .result').innerText.includes('quotas unset')")
    page.ask("document.querySelector('dialog button').click()")
    wait_until(lambda: row[:2] not in [each[:2] for each in quotas_listed(page)], "it to be gone")
    with SocketClient.connect(cluster.addresses, "test") as client:
        assert QuotaEntity(nobody, None) not in describe_quotas(client)
    cluster.command("quotas", "unset", "--user-default", "--request-percentage")


def test_a_client_is_explained_beside_its_history(page: WebPage, url: str) -> None:
    page.show(url + "#clients")
    page.wait_for("document.querySelector('[data-client=payments]')?.isConnected")
    page.ask("document.querySelector('[data-client=payments]').click()")
    page.wait_for("document.querySelectorAll('dialog .arithmetic').length > 0")
    page.wait_for("Boolean(document.querySelector('dialog .empty'))")
    text = page.ask("document.querySelector('dialog').innerText")
    assert "65536 B/s" in text
    rules = "The eight rules, the most specific first"
    assert (
        page.ask(f"document.querySelectorAll('[aria-label={json.dumps(rules)}] tbody tr').length")
        == 8
    )
    assert "✓ this one" in text
    assert "The rollup has not written any window yet. This makes them:" in text
    page.wait_for("document.querySelectorAll('dialog code').length === 2")
    lines = page.ask("[...document.querySelectorAll('dialog code')].map((c) => c.textContent)")
    assert lines[0].endswith(" quotas set --client-id=payments --producer-byte-rate=65536")
    assert lines[-1].endswith(" rollup")
    sentence = "document.querySelector('dialog .sentence')"
    page.wait_for(f"/^Throttled.*against a limit of 64.0 KiB.s/.test({sentence}.innerText)")
    assert page.ask(f"{sentence}.dataset.standing") == "throttled"
    assert page.ask("document.getElementById('dialog-title').innerText") == "payments"
    page.ask("document.querySelector('dialog [data-quota=request]').click()")
    page.wait_for("location.hash === '#clients/ANONYMOUS/payments?quota=request'")
    page.wait_for("document.querySelector('dialog').innerText.includes('No limit applies')")
    page.call(
        "Input.dispatchKeyEvent",
        type="keyDown",
        key="Escape",
        code="Escape",
        windowsVirtualKeyCode=27,
    )
    page.wait_for("document.activeElement.dataset.client === 'payments'")
    for _ in range(2):  # the rows change places, and the focus stays
        page.ask("document.querySelector('.headings .sort').click()")
        assert page.ask("document.activeElement.dataset.client") == "payments"


@pytest.fixture
def rolled_up(cluster: Cluster) -> Iterator[None]:
    """Windows of the last half hour about one client, as the rollup writes them."""
    pytest.importorskip("pyarrow", reason="needs the extra `rollup`")
    from tests.support.window_directories import written

    place = cluster.data_dir / "rollup"
    newest = datetime.now(UTC).replace(second=0, microsecond=0)
    client = {"client_id": "payments", "limit": 65_536.0, "rate": 70_000.0}
    records = [
        quota_record(
            **client,
            usage=60 * (50_000.0 + number),
            ts=int((newest - timedelta(minutes=number)).timestamp()) * 1000 + 1000,
        )
        for number in range(30)
    ]
    written(place, records)
    yield
    shutil.rmtree(place)


@pytest.mark.usefixtures("rolled_up")
def test_the_history_from_the_rollup_is_drawn_beside(
    page: WebPage, url: str, tmp_path: Path
) -> None:
    page.show(url + "#clients")
    page.wait_for("Boolean(document.querySelector('[data-client=payments]'))")
    page.ask("document.querySelector('[data-client=payments]').click()")
    page.wait_for("document.querySelectorAll('dialog[open] .uplot canvas').length === 2")
    titles = page.ask("[...document.querySelectorAll('dialog .u-title')].map((t) => t.innerText)")
    assert titles == [
        "Produce: rate on its busiest broker, and the limit",
        "Windows of 60 s from the rollup",
    ]
    labels = page.ask("[...document.querySelectorAll('dialog .u-label')].map((t) => t.innerText)")
    assert [each.rstrip(":") for each in labels][-3:] == ["average", "highest", "limit"]
    page.screenshot(tmp_path / "history.png")
    page.ask("document.querySelector('dialog[open]').close()")


@pytest.fixture
def two_days(cluster: Cluster) -> Iterator[None]:
    """Windows of the last two days of a cluster that is known."""
    pytest.importorskip("pyarrow", reason="needs the extra `rollup`")
    from tests.support.capacity_history import DAY_S, HOUR_S, Truth, written

    end_s = int(datetime.now(UTC).timestamp()) // HOUR_S * HOUR_S
    written(cluster.data_dir / "rollup", Truth(days=2, first_s=end_s - 2 * DAY_S).rows())
    yield
    shutil.rmtree(cluster.data_dir / "rollup")


def test_capacity_without_a_history_names_the_command(page: WebPage, url: str) -> None:
    # What was read with windows, of another test, is kept for a while.
    wait_until(
        lambda: "report" not in httpx.get(url + "api/capacity", timeout=30).json(),
        "the windows to be gone",
    )
    page.show(url + "#capacity")
    page.wait_for("document.querySelector('main .command')?.innerText.includes('rollup')")
    assert page.ask("document.querySelector('main .uplot')") is None


@pytest.mark.usefixtures("two_days")
@pytest.mark.parametrize("width", WIDTHS)
def test_capacity_shows_the_figures_of_the_report(
    page: WebPage, url: str, axe: str, width: int, tmp_path: Path
) -> None:
    # What was read without windows is kept for half a minute.
    wait_until(
        lambda: "report" in httpx.get(url + "api/capacity", timeout=30).json(),
        "the windows to be read",
    )
    page.show(url + "#capacity", width=width, height=2600)
    page.wait_for("Boolean(document.querySelector('main .uplot canvas'))")
    if width == min(WIDTHS):
        assert page.ask(HEIGHT) <= PHONE_MAX
    page.ask(UNFOLD)
    told = httpx.get(url + "api/capacity", timeout=30).json()
    shown = page.ask("document.querySelector('main').innerText")
    for table in told["tables"]:
        for row in table["rows"]:
            assert all(cell in shown for cell in row), row
    page.wait_for("document.querySelectorAll('main .mark').length === 5")
    titles = page.ask("[...document.querySelectorAll('main .mark')].map((mark) => mark.title)")
    assert "election: orders: 3 partitions have other leaders" in titles
    cells = "document.querySelectorAll('.heat tbody td')"
    assert page.ask(f"{cells}.length") == 7 * 24
    assert page.ask(f"[...{cells}].filter((cell) => cell.classList.contains('none')).length") > 0
    assert page.ask("document.documentElement.scrollWidth <= innerWidth")
    page.screenshot(tmp_path / "capacity.png")
    page.ask(axe + ";0")
    found = page.ask(
        "axe.run().then((found) => found.violations.map((each) =>"
        " [each.id, each.nodes.map((node) => node.target.join(' ')).slice(0, 5)]))"
    )
    assert found == []


@pytest.mark.usefixtures("two_days")
@pytest.mark.parametrize("width", WIDTHS)
def test_another_size_is_supposed_by_keyboard(
    page: WebPage, url: str, axe: str, width: int, tmp_path: Path
) -> None:
    wait_until(
        lambda: "report" in httpx.get(url + "api/capacity", timeout=30).json(),
        "the windows to be read",
    )
    page.show(url + "#capacity", width=width, height=2200)
    page.wait_for("Boolean(document.querySelector('.what-if')?.offsetParent)")
    said = "document.querySelector('.what-if .told').innerText"

    def type_into(field: str, text: str) -> None:
        page.ask(f"document.getElementById('what-if-{field}').focus()")
        page.ask("document.activeElement.select()")
        page.call("Input.insertText", text=text)
        for kind in ("keyDown", "keyUp"):
            page.call("Input.dispatchKeyEvent", type=kind, key="Enter", text="\r", code="Enter")

    def axe_finds() -> Any:
        return page.ask(
            "axe.run().then((found) => found.violations.map((each) =>"
            " [each.id, each.nodes.map((node) => node.target.join(' ')).slice(0, 5)]))"
        )

    page.ask(axe + ";0")
    type_into("growth", "<b>much</b>")
    problem = "document.getElementById('what-if-growth-problem')"
    page.wait_for(f"{problem}.innerText === 'Must be a percentage such as 30%, not <b>much</b>'")
    assert page.ask("document.activeElement.getAttribute('aria-invalid')") == "true"
    assert page.ask("document.activeElement.id") == "what-if-growth"
    page.screenshot(tmp_path / "refused.png")
    assert axe_finds() == []
    type_into("growth", "")
    page.wait_for(f"{said}.startsWith('Name at least one of')")
    page.ask("document.getElementById('what-if-growth').value = '-20%'")
    page.ask("document.getElementById('what-if-retention').value = '1d orders=6h'")
    page.ask("document.getElementById('what-if-quota').value = 'producer_byte_rate=2MB'")
    type_into("brokers", "+1")
    page.wait_for(f"{said}.startsWith('Supposed: 4 instead of 3 brokers, 20 % less traffic')")
    assert page.ask(f"{problem}.hidden")
    query: dict[str, Any] = {"brokers": "+1", "growth": "-20%", "quota": "producer_byte_rate=2MB"}
    query["retention"] = ["1d", "orders=6h"]
    told = httpx.get(url + "api/capacity/what-if", params=query, timeout=30).json()
    page.ask(UNFOLD)
    shown = page.ask("document.querySelector('.supposed').innerText")
    assert [table["title"] for table in told["tables"]][-1] == "Throttled client ids"
    for table in told["tables"]:
        for row in table["rows"]:
            assert all(cell in shown for cell in row), row
    assert all(note in shown for note in told["what_if"]["notes"])
    assert "capacity what-if --brokers +1 --growth -20%" in page.ask(
        "document.querySelector('.supposed code').textContent"
    )
    assert page.ask("document.documentElement.scrollWidth <= innerWidth")
    if width == min(WIDTHS):
        assert page.ask(IS_BESIDE_ITS_HEADING)
    page.screenshot(tmp_path / "what-if.png")
    assert axe_finds() == []
    page.ask("document.querySelector('.what-if button[type=reset]').click()")
    page.wait_for("document.querySelector('.supposed').innerText === ''")
    page.ask("document.querySelector('.what-if button[type=submit]').click()")
    page.wait_for(f"{said}.startsWith('Name at least one of')")


def test_names_are_text(cluster: Cluster, page: WebPage, url: str) -> None:
    for client_id in NASTY:
        with NamedClient(cluster.addresses[0], client_id) as client:
            client.call(produce_request(TOPIC, batch(100)))
    page.show(url + "#clients")
    for client_id in NASTY:
        wait_until(
            lambda each=client_id: page.ask(
                "[...document.querySelectorAll('[data-client]')]"
                f".some((button) => button.dataset.client.startsWith({json.dumps(each[:50])}))"
            ),
            f"{client_id[:40]!r}",
        )
    # `innerText` of a row that is not in sight is empty (content-visibility).
    texts = page.ask("[...document.querySelectorAll('[data-client]')].map((b) => b.textContent)")
    assert NASTY[0] in texts
    assert "two\ufffdlines\ufffdand\ufffdmore" in texts
    assert max(map(len, texts)) <= 40
    page.ask(
        "[...document.querySelectorAll('[data-client]')]"
        f".find((button) => button.dataset.client === {json.dumps(NASTY[0])}).click()"
    )
    page.wait_for("Boolean(document.querySelector('dialog .sentence[data-standing]'))")
    assert NASTY[0] in page.ask("document.getElementById('dialog-title').innerText")
    assert page.ask("document.querySelector('main img, dialog img, main b, dialog b')") is None
    assert page.ask("window.wasRun") is None


@pytest.fixture
def crowded(page: WebPage, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster whose clients do not push those of other tests out of the rows."""
    with Cluster(tmp_path, brokers=1, dashboard=True) as running:
        create_topic(running, TOPIC, replication_factor=1)
        yield running


def test_the_filter_finds_clients_beyond_the_rows(crowded: Cluster, page: WebPage) -> None:
    alone = "!alone"  # of those that use nothing any more, the first by name is left out first
    send_as_many(crowded, TOPIC, [alone, *(f"one-of-many-{number}" for number in range(950))])
    url = f"http://{HOST}:{crowded.dashboard_port}/"
    page.show(url + "#clients")
    page.wait_for("document.getElementById('notice').innerText.includes('the filter finds them')")

    def is_left_out() -> bool:
        with httpx.stream("GET", url + "api/live", timeout=30) as answer:
            line = next(each for each in answer.iter_lines() if each.startswith("data: "))
        return all(row[2] != alone for row in json.loads(line[6:])["new"])

    wait_until(is_left_out, "the client to be left out")
    names = "[...document.querySelectorAll('.block [data-client]')].map((it) => it.dataset.client)"
    in_order = "every((name, at, all) => at === 0 || all[at - 1] < name)"
    choose = "(() => {{ const sort = document.getElementById('sort'); sort.value = '{}'; {} }})()"
    for order in ("name", "urgency", "name"):  # they move from block to block
        page.ask(choose.format(order, "sort.dispatchEvent(new Event('change'));"))
    assert page.ask(f"{names}.length") > 400
    assert page.ask(f"{names}.{in_order}")
    page.ask(
        "(() => { const filter = document.getElementById('filter'); filter.value = '!ALONE';"
        " filter.dispatchEvent(new Event('input')); })()"
    )
    page.wait_for(f"Boolean(document.querySelector('[data-client={json.dumps(alone)}]'))")


def test_no_view_is_long_on_a_phone(cluster: Cluster, page: WebPage, url: str) -> None:
    for number in range(12):
        create_topic(cluster, f"{unique_name('many')}-{number}", replication_factor=1)
    begin(cluster, unique_name("open"), TOPIC).abort_transaction()
    views = page.show(url, width=390, height=844).ask(
        f"import('{url}static/views.js').then((it) => it.VIEWS.map((each) => each.name))"
    )
    assert {"home", "clients", "topics", "groups", "transactions", "cluster"} <= {*views}
    heights = {}
    for name in views:
        page.ask(f"location.hash = '#{name}'")
        page.wait_for("document.querySelector('main').innerText.trim().split('\\n').length > 2")
        page.wait_for("!document.querySelector('main').innerText.includes('Reading …')")
        heights[name] = page.ask(HEIGHT)
        assert page.ask("document.documentElement.scrollWidth <= innerWidth"), name
        edge = "document.querySelector('nav a[aria-current]')?.getBoundingClientRect().right ?? 0"
        assert page.ask(f"({edge}) <= innerWidth"), name
    assert {name: height for name, height in heights.items() if height > PHONE_MAX} == {}


def test_a_row_opens_on_a_phone_and_stays_open(page: WebPage, url: str) -> None:
    page.show(url + "#cluster", width=390, height=844)
    rows = "document.querySelector('.growing').querySelectorAll('tbody tr')"  # of brokers
    page.wait_for(f"{rows}.length === 2")
    seen = f"[...{rows}].map((row) =>"
    seen += " [...row.cells].filter((cell) => cell.offsetParent !== null).length)"
    assert page.ask(seen) == [2, 2]
    page.ask("document.querySelector('.growing .opener').focus()")
    page.ask("document.activeElement.click()")
    page.ask("window.before = document.querySelector('.growing table')")
    page.wait_for("document.querySelector('.growing table') !== window.before")  # drawn anew
    first, second = page.ask(seen)
    assert (first > 8, second) == (True, 2)
    focused = "document.activeElement"
    assert page.ask(f"{focused}.getAttribute('aria-label')").startswith("Details of 0")
    assert page.ask(f"{focused}.getAttribute('aria-expanded')") == "true"


def test_the_page_of_a_secure_cluster_works_for_whoever_has_its_password(
    page: WebPage, tmp_path: Path
) -> None:
    """Also where both are in the address, from which a browser fetches nothing."""
    with Cluster(tmp_path / "data", brokers=1, dashboard=True, secure=True) as secure:
        password = DataDir(secure.data_dir).dashboard_password.read_text().strip()
        own = f"{HOST}:{secure.dashboard_port}/"
        page.call("Page.navigate", url=f"http://milena:{password}@{own}#change")
        page.wait_for(f"location.href === 'http://{own}#change'")
        page.wait_for("document.getElementById('cluster-line')?.innerText.includes('1 of 1')")
        page.wait_for("document.getElementById('quotas')?.innerText.includes('No quota is set.')")
        page.wait_for("document.querySelectorAll('[data-action]').length === 5")
        submit(page, "set")
        page.wait_for("document.getElementById('quotas').innerText.includes('2.00 MiB/s')")
        page.ask("location.hash = '#cluster'")
        page.wait_for("document.querySelector('.health')?.innerText.includes('1 of 1')")
        users_and_rules_are_those_of_the_commands(secure, page)


def users_and_rules_are_those_of_the_commands(secure: Cluster, page: WebPage) -> None:
    secure.command("users", "add", "alice", "--generate", "--iterations", "5000")
    for words in (
        "--allow-principal User:alice --consumer --topic orders --group billing",
        "--deny-principal User:* --deny-host 10.0.0.1 --operation Write --topic o"
        " --resource-pattern-type prefixed",
        "--allow-principal User:bob --operation Describe --cluster",
    ):
        secure.command("acls", "--add", *words.split())
    page.ask(
        "[...document.querySelectorAll('nav a')].find((each) => each.hash === '#access').click()"
    )
    users = json.loads(secure.command("users", "list", "--json").stdout)
    rules = json.loads(secure.command("acls", "--list", "--json").stdout)
    wait_until(lambda: len(row_texts(page, "Access rules")) == len(rules), "the rules")
    wanted = {
        (each["principal"], f"{each['permission']} {each['operation']}".title().replace("_", ""))
        for each in rules
    }
    assert {(row[0], row[1]) for row in row_texts(page, "Access rules")} == wanted
    ways = {
        each["user"]: "".join(
            f"{key}, {count:,} iterations" for key, count in sorted(each["mechanisms"].items())
        )
        for each in users
    }
    shown = row_texts(page, "Users who log in by SCRAM")
    assert {row[0].removesuffix(" super user"): row[1] for row in shown} == ways
    assert [row[0] for row in shown if row[0].endswith(" super user")] == ["admin super user"]
    assert page.ask("document.querySelector('.access .summary').innerText").endswith(
        "Super users may do everything: User:admin. A resource without a rule is closed to all"
        " others."
    )
    page.ask(
        "(() => { const filter = document.getElementById('principal-filter'); filter.value = 'BOB';"
        " filter.dispatchEvent(new Event('input')); })()"
    )
    wait_until(lambda: len(row_texts(page, "Access rules")) == 1, "the rule of bob alone")
    assert page.ask("location.hash") == "#access?principal=BOB"
    page.ask("document.querySelector('.access td details summary').click()")
    line = page.ask("document.querySelector('.access td details code').textContent")
    _, _, words = line.partition(" acls ")
    secure.command("acls", *words.split(), "--force")
    wait_until(lambda: row_texts(page, "Access rules") == [], "the rule to be gone")
    assert [
        each["principal"]
        for each in json.loads(secure.command("acls", "list", "--json").stdout)
        if each["principal"] == "User:bob"
    ] == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("colors", ["light", "dark"])
def test_axe_finds_no_accessibility_violation(
    page: WebPage, url: str, axe: str, colors: str, width: int, tmp_path: Path
) -> None:
    """Pictures of all that it looks at are kept in the test's folder."""
    wait_until(
        lambda: "empty" in httpx.get(url + "api/capacity", timeout=30).json(),
        "windows of other tests to be forgotten",
    )
    page.prefer(colors)
    look_at_all(
        page,
        url,
        axe,
        width,
        tmp_path,
        {
            "home": "document.querySelectorAll('.home canvas').length === 6"
            " && document.querySelectorAll('.events li').length > 1",
            "clients": "document.querySelector('[data-client=payments]')",
            "access": f"{SUMMARY}.includes('no authorizer')",
            "cluster": "document.querySelectorAll('main table').length >= 3",
            "capacity": "document.querySelector('main .command')",
            "change": "document.querySelectorAll('[data-broker]').length === 2"
            " && document.querySelectorAll('#quotas tbody tr').length > 0",
            "clients, a client opened": "document.querySelector('[data-client=payments]')",
        },
    )


def remembered(url: str, name: str = "2m") -> Any:
    """The samples and events of a range, as the home view gets them."""
    return httpx.get(url + "api/series", params={"range": name}, timeout=30).json()


def press(page: WebPage, key: str) -> None:
    page.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key)
    page.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)


def chart_named(title: str) -> str:
    """The chart of the home view with that title, as an expression."""
    return (
        "[...document.querySelectorAll('.history')].find((each) =>"
        f" each.querySelector('h3').innerText === {json.dumps(title)}).querySelector('.plot')"
    )


def test_home_has_a_past_when_it_is_opened_and_its_figures_are_those_of_the_brokers(
    cluster: Cluster, page: WebPage, url: str
) -> None:
    def sent() -> float:
        """The bytes that clients have sent, as the brokers themselves count them."""
        told = json.loads(cluster.command("metrics", "--json", "--totals").stdout)
        return float(sum(each["values"]["BytesInPerSec"] for each in told["brokers"]))

    def remembered_since(since_ms: int) -> float:
        found = remembered(url)
        times, rates = found["ts"], found["values"]["bytes_in"]
        return sum(
            rate * (time - former) / 1_000
            for former, time, rate in zip(times, times[1:], rates[1:], strict=False)
            if former >= since_ms and rate is not None
        )

    first_ms = wait_until(lambda: (remembered(url)["ts"] or [None])[-1], "the first sample")
    before = sent()
    # The longer it lasts, the less it matters that both are not read at the same moment.
    wait_until(
        lambda: remembered_since(first_ms) == pytest.approx(sent() - before, rel=0.2, abs=1),
        "the chart's figures to be the brokers'",
    )
    page.show(url)
    page.wait_for("document.querySelector('.home')?.dataset.range === '15m'")
    page.ask(f"{chart_named('Throughput')}.focus()")
    press(page, "Home")
    label = page.ask(f"{chart_named('Throughput')}.getAttribute('aria-label')")
    seen = re.search(r"Throughput at .*?(\d\d):(\d\d):(\d\d): in .*, out ", label)
    assert seen is not None, label
    opened = page.ask(
        "(([h, m, s]) => { const then = new Date(performance.timeOrigin); then.setHours(h, m, s);"
        " return performance.timeOrigin - then; })"
        f"({json.dumps([int(each) for each in seen.groups()])})"
    )
    assert opened > 2_000, "the first sample was taken before the page was opened"
    shown = page.ask(f"{chart_named('Throughput')}.previousSibling.querySelector('b').innerText")
    rates = remembered(url, "15m")["values"]["bytes_in"]
    assert shown in {as_rate(rate) for rate in rates if rate is not None}


def test_the_range_of_home_is_in_its_address(page: WebPage, url: str) -> None:
    page.show(url + "#home?range=1h")
    page.wait_for("document.querySelector('.home')?.dataset.range === '1h'")
    assert page.ask("document.querySelector('.ranges :checked').value") == "1h"
    page.ask("document.querySelector('.ranges [value=\"7d\"]').click()")
    page.wait_for("document.querySelector('.home .empty .command')?.innerText.includes('rollup')")
    assert page.ask("location.hash") == "#home?range=7d"
    assert page.ask("document.querySelector('.histories').hidden")
    page.ask("document.querySelector('.ranges [value=\"2m\"]').click()")
    page.wait_for("document.querySelector('.home').dataset.range === '2m'")
    assert not page.ask("document.querySelector('.histories').hidden")


def test_samples_continue_on_the_page_and_gaps_stay_gaps(page: WebPage, url: str) -> None:
    """What the page keeps of a range, and what the charts of clients begin with."""
    page.show(url)
    merged = page.ask(
        f"""import('{url}static/history.js').then(({{ merged }}) => {{
          const first = {{ run: 'a', from_ms: 0, ts: [1, 2, 3], values: {{ x: [1, null, 3] }},
            events: [{{ number: 1, ts: 2 }}] }};
          const next = {{ run: 'a', from_ms: 2, ts: [4], values: {{ x: [null], y: [7] }},
            events: [{{ number: 2, ts: 1.5 }}, {{ number: 3, ts: 2.5 }}] }};
          const {{ ts, values, events }} = merged(merged({{ run: null }}, first), next);
          return [ts, values, events.map((each) => each.number)];
        }})"""
    )
    assert merged == [[2, 3, 4], {"x": [None, 3, None], "y": [None, None, 7]}, [1, 3]]
    whole = page.ask(
        f"""import('{url}static/history.js').then(({{ merged }}) => {{
          const rollup = {{ run: null, from_ms: 0, ts: [1, 2], values: {{ x: [1, 2] }},
            events: [{{ ts: 1 }}] }};
          const {{ ts, values, events }} = merged(rollup, rollup);
          return [ts, values, events];
        }})"""
    )
    assert whole == [[1, 2], {"x": [1, 2]}, [{"ts": 1}]]
    alone = (
        f"import('{url}static/history_chart.js').then((it) => it.alone([1, null, 2, null, 3, 4]))"
    )
    assert page.ask(alone) == [0, 2]
    series = page.ask(
        f"""import('{url}static/series.js').then(({{ Past }}) => {{
          const past = new Past();
          past.add(10, [{{ key: '["u","c","produce"]', rate: 5, limit: 9 }}]);
          past.load({{ ts: [6000, 8000, 10000], series: [
            ['u', 'c', 'produce', [1, null, 3], [9, null, 9]],
            ['u', 'd', 'fetch', [1, 2, 3], [null, null, null]]] }});
          return ['["u","c","produce"]', '["u","d","fetch"]'].map((key) => past.of(key).rates);
        }})"""
    )
    assert series == [[1, None, 5], [1, 2, 3]]


def events(page: WebPage) -> list[list[str]]:
    """The process and the text of each, as the view of the cluster shows them."""
    found: list[list[str]] = page.ask(
        """(() => {
          const tables = [...document.querySelectorAll('table')];
          const events = tables.find((each) => each.caption?.innerText === 'Events');
          return [...events?.tBodies[0].rows ?? []].map(
            (row) => [...row.cells].slice(1).map((cell) => cell.innerText));
        })()"""
    )
    return found


def test_a_killed_broker_is_shown_dead_and_then_alive(
    page: WebPage, url: str, cluster: Cluster
) -> None:
    page.show(url + "#change")
    page.wait_for("document.querySelectorAll('[data-broker]').length === 2")
    line = "document.getElementById('cluster-line')"
    page.wait_for(f"{line}.innerText.includes('2 of 2 brokers serve')")
    before = cluster.pid(1)
    page.ask("[...document.querySelectorAll('[data-action=kill]')][1].click()")
    page.wait_for("Boolean(document.getElementById('confirm'))")
    assert page.ask("document.querySelector('dialog p').innerText") == (
        "Kill broker 1 with SIGKILL? Its partitions get other leaders at once, and the supervisor"
        " starts it again after 1 s."
    )
    page.ask("document.getElementById('confirm').click()")
    page.wait_for("document.querySelector('dialog .result').innerText.includes('kill 1')")
    page.ask("document.querySelector('dialog button').click()")
    wait_until(lambda: cluster.pid(1) not in (None, before), "broker 1 to be started again")
    page.wait_for(f"{line}.innerText.includes('2 of 2 brokers serve')")
    # It is back within a second, which a page that reads every second or two may not see.
    cluster.command("kill", "1", "--stay-down")
    page.wait_for(f"{line}.innerText.includes('1 of 2 brokers serve')")
    wait_until(lambda: remembered(url)["values"]["busy:1"][-1] is None, "a sample without it")
    cluster.command("restart", "1")
    page.wait_for(f"{line}.innerText.includes('2 of 2 brokers serve')")
    page.ask("location.hash = '#cluster'")
    wait_until(
        lambda: (
            [event for event in events(page) if event[1] != "is the controller"][:4]
            == [
                ["broker 1", "is running again"],
                ["broker 1", "is restarted by a command"],
                ["broker 1", "was killed by SIGKILL"],
                ["broker 1", "is sent SIGKILL by a command, and stays down"],
            ]
        ),
        "the newest events, on top",
    )
    page.ask("location.hash = '#home?range=2m'")
    page.wait_for(
        "document.querySelectorAll('.history').length === 6 && [...document.querySelectorAll("
        "'.history')].every((each) => each.querySelector('.event-mark[data-kind=death]'))"
    )
    said = "document.querySelector('.events').textContent"
    assert "death: broker 1 was killed by SIGKILL" in page.ask(said)
    cpu = chart_named("CPU")
    page.ask(f"{cpu}.focus()")

    def is_read(what: str) -> bool:
        """Whether it is, at the cursor or one sample before it."""
        press(page, "ArrowLeft")
        return bool(page.ask(what))

    press(page, "End")
    wait_until(
        lambda: is_read(
            f"{cpu}.querySelector('.tip:not([hidden])')?.innerText.includes('SIGKILL')"
        ),
        "the event under the cursor",
    )
    press(page, "End")
    wait_until(
        lambda: is_read(f"{cpu}.getAttribute('aria-label').includes('broker 1 unknown')"),
        "the gap of the broker that was down",
    )


def test_the_page_says_when_the_dashboard_is_gone_and_comes_back(
    cluster: Cluster, page: WebPage, url: str
) -> None:
    page.show(url + "#change")
    page.wait_for("document.documentElement.dataset.reached === 'true'")
    page.ask(
        "new MutationObserver(() => { window.wasLost ||= document.documentElement.dataset.reached"
        " === 'false'; }).observe(document.documentElement, { attributes: true })"
    )
    psutil.Process(cluster.processes()["dashboard"]).kill()
    page.wait_for("window.wasLost && document.documentElement.dataset.reached === 'true'")
    assert "does not answer" not in page.ask("document.getElementById('notice').innerText")
    submit(page, "set")  # it has learnt the token of the new one
    assert limits(cluster) == {"producer_byte_rate": 2 * KIB * KIB}
    submit(page, "remove")
    assert limits(cluster) == {}


def test_one_page_too_many_is_told_so_and_goes_on_when_others_close(
    page: WebPage, url: str, cluster: Cluster
) -> None:
    page.call("Page.navigate", url="about:blank")
    with contextlib.ExitStack() as others:

        def is_watching() -> bool:
            """Whether one more is let in; the page before keeps its place until it is missed."""
            other = others.enter_context(socket.create_connection((HOST, cluster.dashboard_port)))
            other.sendall(f"GET /api/live HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
            return other.recv(12) == b"HTTP/1.1 200"

        for number in range(WATCHERS_MAX):
            wait_until(is_watching, f"watcher {number}")
        page.show(url + "#clients")
        page.wait_for("document.getElementById('notice').innerText.includes('pages are open')")
    wait_until(lambda: figures(page, "payments"), "the first row")


def test_a_view_that_cannot_be_loaded_says_so_and_is_tried_again(page: WebPage, url: str) -> None:
    page.show(url + "#home")
    page.call("Network.setBlockedURLs", urls=["*/static/cluster.js", "*/static/detail.js"])
    page.ask(
        "[...document.querySelectorAll('nav a')].find((each) => each.hash === '#cluster').focus()"
    )
    page.ask("document.activeElement.click()")
    page.wait_for(
        "document.querySelector('main > .problem')?.innerText.includes('cannot be loaded')"
    )
    assert page.ask("document.title") == "Milena: Cluster"
    assert page.ask("document.activeElement.hash") == "#cluster"
    page.ask("location.hash = '#clients/ANONYMOUS/payments'")
    page.wait_for(
        "document.querySelector('dialog .problem')?.innerText.includes('cannot be loaded')"
    )
    page.call("Network.setBlockedURLs", urls=[])
    page.wait_for("document.querySelector('#dialog-title').innerText === 'payments'")
    assert page.ask("document.title") == "Milena: payments"
    page.ask("history.back()")
    page.wait_for("Boolean(document.getElementById('cluster-title'))")
    page.wait_for("!document.querySelector('dialog[open]') && document.title === 'Milena: Cluster'")


def test_the_page_is_small(page: WebPage, url: str) -> None:
    page.call("Network.setCacheDisabled", cacheDisabled=True)
    page.show(url + "#clients")
    sizes = page.ask(
        "performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))"
        ".map((each) => [each.name, each.transferSize])"
    )
    page.call("Network.setCacheDisabled", cacheDisabled=False)
    told = dict(sizes)
    assert told[f"{url}static/uplot/uPlot.iife.min.js"] > 10_000, "all was fetched anew"
    assert sum(told.values()) < 200_000


def test_page_fetches_nothing_from_other_hosts_and_logs_no_error(page: WebPage, url: str) -> None:
    page.show(url + "#clients")
    wait_until(lambda: figures(page, "payments"), "the first row")
    own = re.compile(rf"http://(milena:[^@/]+@)?{re.escape(HOST)}:|data:")  # also of other tests
    assert [each for each in page.fetched if not own.match(each)] == []
    # While the dashboard is gone nothing answers, and its successor refuses the old token once.
    # Refused are one that is one too many, a what-if that cannot be, and a topic that is missing.
    refused = ("400 (Bad", "403 (Forbidden)", "409 (Conflict)", "503 (Service Unavailable)")
    expected = ("net::ERR", *refused)
    assert [each for each in page.problems if not any(what in each for what in expected)] == []


@pytest.mark.skipif("MILENA_TEST_DASHBOARD_IMAGE" not in os.environ, reason="writes into docs/")
def test_readme_image_is_taken(page: WebPage, url: str) -> None:
    page.prefer("light")
    page.show(url + "#clients", height=560)
    page.call("Emulation.setScrollbarsHidden", hidden=True)
    page.ask("document.documentElement.dataset.theme = 'light'")
    page.ask(
        "(() => { const filter = document.getElementById('filter'); filter.value = 'confluent';"
        " filter.dispatchEvent(new Event('input')); })()"
    )
    IMAGE.parent.mkdir(exist_ok=True)
    for _ in range(4):  # until the charts have a past
        page.wait_for("new Promise((ok) => setTimeout(() => ok(true), 25000))")
    page.screenshot(IMAGE)
    assert IMAGE.stat().st_size > 10_000
