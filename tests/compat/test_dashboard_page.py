"""The dashboard's page in a real browser, beside a cluster under load.

With MILENA_TEST_DASHBOARD_IMAGE=1, docs/images/dashboard.png is rendered again.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from cluster.client.quota_requests import describe_quotas
from cluster.client.socket_client import SocketClient
from cluster.dashboard.live import WATCHERS_MAX
from cluster.datadir.paths import DataDir
from cluster.metrics.stats_layout import QuotaRow
from cluster.metrics.stats_reader import read_stats
from cluster.model.quotas import QuotaEntity
from tests.compat.axe import axe_core
from tests.compat.web_browser import WebPage, web_page
from tests.support.client_quotas import KIB, NamedClient, batch, send_as_many
from tests.support.kafka_wire import produce_request
from tests.support.metric_records import quota_record
from tests.support.open_transactions import begin
from tests.support.running_cluster import HOST, Cluster
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.beyond_pypi]

IMAGE = Path(__file__).parents[2] / "docs" / "images" / "dashboard.png"
LIMITS = {"payments": 64 * KIB, "orders-eu": 256 * KIB}
LOADS = {**LIMITS, "clickstream": None}
NASTY = (
    '<img src=x onerror="window.wasRun=1">',
    "quotes \" ' ` and <b>bold</b> &amp; \N{BALLOON}",
    "two\nlines\tand\x00more",
    "long " + "x" * 10_000,
)
TOPIC = "watched"
WIDTHS = (1300, 390)
IS_BESIDE_ITS_HEADING = """[...document.querySelectorAll('.list td:not(:empty)')].every((cell) => {
  const heading = getComputedStyle(cell, '::before');
  return heading.display === 'none' || cell.offsetParent === null
    || parseFloat(getComputedStyle(cell).paddingLeft) >= parseFloat(heading.width);
})"""
"""On a phone, of each cell of a table that is seen."""


UNFOLD = "document.querySelectorAll('main details').forEach((each) => { each.open = true; })"
HEIGHT = "document.body.offsetHeight"
PHONE_MAX = 2_500
"""The pixels that no view exceeds on a phone before something is opened."""


class Load:
    """Producers, one per client id, that send small requests as fast as they may."""

    def __init__(self, cluster: Cluster) -> None:
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(cluster.bootstrap, client_id))
            for client_id in LOADS
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, bootstrap: str, client_id: str) -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": client_id,
                "queue.buffering.max.messages": 8,
            }
        )
        while not self._is_over.wait(0.01):
            with contextlib.suppress(BufferError):
                producer.produce(TOPIC, b"x" * 4_000)
            producer.poll(0)
        producer.purge()

    def close(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebPage]:
    with web_page(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="module")
def cluster(page: WebPage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers of this module's own: one is killed. After `page`, which may skip."""
    folder = tmp_path_factory.mktemp("dashboard")
    with Cluster(folder, brokers=2, dashboard=True) as running:
        create_topic(running, TOPIC, assignments=[[0, 1]])
        for client_id, limit in LIMITS.items():
            running.command(
                *("quotas", "set", "--client-id", client_id, "--producer-byte-rate", str(limit))
            )
        load = Load(running)
        try:
            yield running
        finally:
            load.close()


@pytest.fixture
def url(cluster: Cluster) -> str:
    return f"http://{HOST}:{cluster.dashboard_port}/"


@pytest.fixture(scope="module")
def axe() -> str:
    """The text of axe-core."""
    return axe_core()


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
    assert page.ask("document.querySelector('.headings + .client').dataset.rank") == "0"
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


def cells(page: WebPage, row: str) -> dict[str, str]:
    """The texts of a row of a table of topics or partitions, by column; empty if it is not there.

    `row` is an expression.
    """
    found: dict[str, str] = page.ask(
        f"Object.fromEntries([...({row})?.querySelectorAll('[role=cell]') ?? []].map((cell) =>"
        " [cell.dataset.cell, cell.textContent]))"
    )
    return found


def row_of(topic: str) -> str:
    """The row of a topic in the list, as an expression."""
    return f"document.querySelector('[data-key=\"{topic}\"]')?.closest('[role=row]')"


def test_topics_are_listed_with_the_brokers_own_figures(
    cluster: Cluster, page: WebPage, url: str
) -> None:
    page.show(url + "#topics")

    def with_rates() -> dict[str, str] | None:
        """The row; other tests may have paused or killed a broker just before."""
        found = cells(page, row_of(TOPIC))
        is_ready = found.get("records", "-") != "-" and found.get("in_sync") == "2 of 2"
        return found if is_ready else None

    row = wait_until(with_rates, "the topic in sync with its rates")
    assert (row["partitions"], row["replication"]) == ("1", "2")
    assert row["policy"] == "delete"
    assert float(row["records"].replace(",", "")) > 0  # the load
    own = "[...document.querySelectorAll('.topics [data-key]')].map((each) => each.dataset.key)"
    assert "__cluster_metrics" not in page.ask(own)
    page.ask("document.getElementById('show-internal').click()")
    page.wait_for(f"{own}.includes('__cluster_metrics')")
    assert page.ask("location.hash") == "#topics?internal=1"
    page.ask(
        "(() => { const filter = document.getElementById('topic-filter'); filter.value = 'WATCH';"
        " filter.dispatchEvent(new Event('input')); })()"
    )
    assert page.ask(own) == [TOPIC]
    page.ask("[...document.querySelectorAll('.topics .sort')][1].click()")
    assert page.ask("location.hash") == "#topics?internal=1&filter=WATCH&sort=bytes"
    assert page.ask("document.querySelector('.topics [aria-sort]').dataset.cell") == "bytes"


def test_a_topics_page_says_what_describe_and_log_dirs_say(
    cluster: Cluster, page: WebPage, url: str, tmp_path: Path
) -> None:
    """Nobody writes to the topic meanwhile, so its figures stay the same."""
    name = "still"
    create_topic(cluster, name, assignments=[[0, 1], [1, 0]], configs={"retention.ms": "777000"})
    lines = tmp_path / "lines"
    lines.write_text("".join(f"k{number}:{'v' * 500}\n" for number in range(40)))
    cluster.command(
        *("produce", "--topic", name, "--property", "parse.key=true"),
        *("--property", "key.separator=:", "--file", str(lines)),
    )
    cluster.command(
        *("consume", "--topic", name, "--group", "readers", "--from-beginning"),
        *("--max-messages", "40"),
    )
    (told,) = json.loads(cluster.command("topics", "--describe", "--topic", name, "--json").stdout)
    directories = json.loads(
        cluster.command("log-dirs", "--describe", "--topic-list", name, "--json").stdout
    )
    sizes = {
        (broker["broker"], each["partition"]): each["size"]
        for broker in directories["brokers"]
        for directory in broker["logDirs"]
        for each in directory["partitions"]
    }
    page.show(url + f"#topics/{name}")
    term = "document.querySelector('.topic [data-term=\"{}\"] dd')?.innerText"
    page.wait_for(f"{term.format('Records')} === '40'")
    shown = httpx.get(url + "api/topic", params={"name": name}, timeout=30).json()
    for row, each in zip(shown["partition_rows"], told["partitions"], strict=True):
        assert row[:4] == [each["partition"], each["leader"], each["replicas"], each["isr"]]
        assert row[6] == sizes[row[1], f"{name}-{row[0]}"]
    rows = page.ask(
        "[...document.querySelectorAll('.topic .rows-body [role=row]')].map((row) =>"
        " [...row.children].map((cell) => cell.textContent))"
    )
    assert [row[1] for row in rows] == [f"broker {each[1]}" for each in shown["partition_rows"]]
    assert sum(int(row[6]) for row in rows) == 40
    changed = page.ask(
        "[...document.querySelector('[aria-label=\"Configs that are not Kafka\\'s defaults\"]')"
        ".querySelectorAll('tbody tr')].map((row) => [...row.cells].map((c) => c.innerText))"
    )
    assert ["retention.ms", "777000", "topic", "604800000", ""] in changed
    page.wait_for("document.querySelector('[data-group=readers]') !== null")
    assert page.ask("document.querySelector('[data-group=readers]').hash") == "#groups/readers"
    cluster.command("topics", "--delete", "--topic", name)
    page.wait_for("document.querySelector('.problem').innerText === 'Topic still was deleted.'")
    assert page.ask("document.querySelector('.topic .rows').offsetParent") is None
    page.show(url + f"#topics/{name}")
    page.wait_for("document.querySelector('.problem').innerText === 'There is no topic still.'")


def test_a_message_is_produced_and_its_place_is_told(
    cluster: Cluster, page: WebPage, url: str
) -> None:
    name = "by-hand"
    create_topic(cluster, name, assignments=[[0, 1]] * 3)
    page.show(url + f"#topics/{name}/produce")
    page.wait_for("document.querySelectorAll('#message-partition option').length === 4")
    value = '<img src=x onerror="window.wasRun=1">'
    page.ask(
        f"""(() => {{
          const type = (id, text) => {{
            const input = document.getElementById(id);
            input.value = text;
            input.dispatchEvent(new Event('input', {{ bubbles: true }}));
          }};
          type('message-key', "it's");
          type('message-value', {json.dumps(value)});
          document.getElementById('message-partition').value = '2';
          document.querySelector('.header-list + button').click();
          const [first, second] = document.querySelectorAll('.header-list input');
          first.value = 'origin';
          second.value = 'page';
          second.dispatchEvent(new Event('input', {{ bubbles: true }}));
        }})()"""
    )
    line = "document.querySelector('#produce-command code').textContent"
    page.wait_for(f"{line}.includes('--partition=2') && {line}.includes('origin=page')")
    page.ask("document.getElementById('produce').focus()")
    page.ask("document.getElementById('produce').click()")
    said = "document.querySelector('dialog .result').innerText"
    page.wait_for(f"{said}.includes('Written to partition 2 at offset 0')")
    assert page.ask("document.activeElement.id") == "produce"
    page.ask("document.getElementById('message-tombstone').click()")
    page.ask("document.getElementById('produce').click()")
    page.wait_for(f"{said}.includes('Written to partition 2 at offset 1')")
    link = "document.getElementById('written').hash"
    assert page.ask(link) == f"#topics/{name}/messages?partition=2&from=1"
    read = cluster.command(
        *("consume", "--topic", name, "--from-beginning", "--max-messages", "2"),
        *("--property", "print.key=true", "--property", "print.headers=true"),
        *("--property", "print.partition=true"),
    ).stdout
    assert read.splitlines() == [
        f"Partition:2\torigin:page\tit's\t{value}",
        "Partition:2\torigin:page\tit's\tnull",
    ]
    page.ask("location.hash = '#topics/nowhere/produce'")
    page.wait_for(f"{said}.includes('There is no topic nowhere.')")
    page.ask("document.getElementById('produce').click()")
    page.wait_for(f"{said}.includes('not written: there is no topic nowhere')")
    page.ask("window.kept = fetch; window.fetch = () => Promise.reject(); 0")
    page.ask("document.getElementById('produce').click()")
    page.wait_for(f"{said}.includes('The dashboard does not answer. The message may have been')")
    page.ask("window.fetch = kept; 0")
    assert page.ask("window.wasRun") is None


def test_only_rows_in_sight_are_in_the_document(page: WebPage, url: str) -> None:
    page.show(url + "#topics")
    page.wait_for("document.querySelector('.topics .rows-body [role=row]') !== null")
    page.ask(
        f"""import('{url}static/rows.js').then(({{ rowsTable }}) => {{
          const text = (each) => each.name;
          window.many = rowsTable({{ caption: 'Many', sort: 'number', keyOf: text, columns: [
            {{ name: 'name', label: 'Name', text, value: text, href: text }},
            {{ name: 'number', label: 'Number', text: (each) => String(each.number),
              value: (each) => each.number, isNumber: true }}] }});
          document.getElementById('main').replaceChildren(many.root);
          window.items = Array.from({{ length: 10000 }}, (_, number) => ({{
            name: `<b>${{number}}`, number: number === 5 ? null : number }}));
          many.update(items, '');
        }})"""
    )
    rows = "[...document.querySelectorAll('.rows-body [role=row]')]"
    names = f"{rows}.map((row) => row.firstChild.textContent)"
    page.wait_for(f"{rows}.length > 10")
    assert page.ask(f"{rows}.length") < 100
    assert page.ask("document.querySelector('[role=table]').ariaRowCount") == "10001"
    assert page.ask(names)[:3] == ["<b>9999", "<b>9998", "<b>9997"]
    page.ask("document.querySelectorAll('.rows-body a')[1].focus()")
    page.ask("document.querySelector('.rows-scroll').scrollTop = 1e9")
    page.wait_for(f"{names}.at(-1) === '<b>5'")  # what is not known comes last
    assert page.ask(f"{rows}.at(-1).getAttribute('aria-rowindex')") == "10001"
    assert page.ask("document.activeElement.textContent") == "<b>9998"
    tops = page.ask(f"{rows}.map((row) => parseFloat(row.style.top))")
    assert tops[1:] == sorted(tops[1:])  # the first is the one with the focus, or all are in order
    page.ask("many.update(items.map((each) => ({ ...each, number: -each.number })), '')")
    assert page.ask("document.activeElement.textContent") == "<b>9998"
    page.ask("many.update([], 'Nothing is here.')")
    assert page.ask("document.querySelector('.rows .empty').innerText") == "Nothing is here."


def test_a_paused_broker_leaves_the_pages_of_topics_working(
    cluster: Cluster, page: WebPage, url: str
) -> None:
    name = "half-paused"
    create_topic(cluster, name, assignments=[[0, 1], [1, 0]])
    page.show(url + f"#topics/{name}")
    ends = (
        "[...document.querySelectorAll('.topic .rows-body [data-cell=end]')]"
        ".map((cell) => cell.textContent)"
    )
    note = "document.querySelector('.topic h3').previousElementSibling"
    page.wait_for(f'JSON.stringify({ends}) === \'["0","0"]\'')
    assert page.ask(f"{note}.hidden")
    cluster.command("pause", "1")
    try:
        page.wait_for(f"!{note}.hidden && {ends}[1] === '-'")
        assert "not respond" in page.ask(f"{note}.innerText")
        assert page.ask(f"{ends}[0]") == "0"
        page.ask("location.hash = '#topics'")
        page.wait_for(f"Boolean({row_of(name)})")
    finally:
        cluster.command("resume", "1")
    page.ask(f"location.hash = '#topics/{name}'")
    page.wait_for(f'{note}.hidden && JSON.stringify({ends}) === \'["0","0"]\'')


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


READ_MESSAGES = "/^[0-9,]+ messages?; /.test(document.querySelector('.told')?.textContent)"
SHOWN_MESSAGES = """[...document.querySelectorAll('.messages > li > details > summary')].map(
  (each) => [...each.children].map((cell) => (cell.lastChild ?? cell).textContent))"""
"""Partition, offset, time, key, value and size of each."""


@pytest.fixture(scope="module")
def letters(cluster: Cluster) -> dict[tuple[int, int], str]:
    """A topic of two partitions, with the value of each record by partition and offset."""
    create_topic(cluster, "letters", assignments=[[0], [1]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": "lz4"})
    values: dict[tuple[int, int], str] = {}

    def on_written(problem: Any, message: Any) -> None:
        assert problem is None
        values[message.partition(), message.offset()] = message.value().decode()

    first_ms = int(datetime.now(UTC).timestamp() * 1000) - 3_600_000
    for number in range(130):
        producer.produce(
            "letters",
            json.dumps({"number": number, "id": 2**63 - 1}),
            key=f"key {number}",
            partition=number % 2,
            timestamp=first_ms + number * 1000,
            on_delivery=on_written,
        )
        producer.flush()
    return values


def press_pager(page: WebPage, label: str) -> bool:
    """Go to a page of messages; whether there is one."""
    button = (
        f"[...document.querySelectorAll('.pager button')].find((b) => /{label}/.test(b.innerText))"
    )
    if page.ask(f"{button}.disabled"):
        return False
    before = page.ask("location.hash")
    page.ask(f"{button}.click()")
    wait_until(lambda: page.ask("location.hash") != before, "the address of the page")
    page.wait_for(READ_MESSAGES)
    return True


def test_pages_of_messages_neither_skip_nor_repeat(
    page: WebPage, url: str, letters: dict[tuple[int, int], str]
) -> None:
    page.show(url + "#topics/letters/messages?limit=50")
    page.wait_for(READ_MESSAGES)
    found = page.ask(SHOWN_MESSAGES)
    newest_first = [*found]
    while press_pager(page, "Older"):
        newest_first += page.ask(SHOWN_MESSAGES)
    assert len(newest_first) == len(letters)
    assert {(int(row[0]), int(row[1])): row[4] for row in newest_first} == letters
    numbers = [json.loads(row[4])["number"] for row in newest_first]
    assert numbers == [*range(129, -1, -1)]
    while press_pager(page, "Newer"):
        pass
    assert page.ask(SHOWN_MESSAGES) == found


def test_messages_are_read_from_an_offset_a_time_and_by_a_text(
    page: WebPage, url: str, letters: dict[tuple[int, int], str]
) -> None:
    page.show(url + "#topics/letters/messages?partition=1&from=60")
    page.wait_for(READ_MESSAGES)
    assert [row[:2] for row in page.ask(SHOWN_MESSAGES)] == [["1", str(n)] for n in range(60, 65)]
    page.show(
        url + "#topics/letters/messages?from=2001-01-01T00:00:00Z&limit=20", width=min(WIDTHS)
    )
    page.wait_for(READ_MESSAGES)
    assert page.ask("document.documentElement.scrollWidth <= innerWidth")
    assert page.ask(
        "document.getElementById('messages-time').getBoundingClientRect().bottom <="
        " document.getElementById('messages-partition').getBoundingClientRect().top"
    )
    assert [json.loads(row[4])["number"] for row in page.ask(SHOWN_MESSAGES)] == [*range(20)]
    page.ask("document.getElementById('messages-filter').focus()")
    page.call("Input.insertText", text="KEY 12")
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key="Enter", text="\r", code="Enter")
    page.wait_for("document.querySelector('.told').textContent.startsWith('11 messages; ')")
    assert "130 looked through" in page.ask("document.querySelector('.told').textContent")
    assert {row[3] for row in page.ask(SHOWN_MESSAGES)} == {
        "key 12",
        *(f"key {number}" for number in range(120, 130)),
    }
    assert "filter=KEY+12" in page.ask("location.hash")


def test_messages_are_text_and_can_be_seen_whole(
    cluster: Cluster, page: WebPage, url: str, tmp_path: Path, axe: str
) -> None:
    create_topic(cluster, "odd", assignments=[[0]], configs={"max.message.bytes": "3000000"})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 3_000_000})
    records: list[tuple[bytes | None, bytes | None]] = [
        (NASTY[0].encode(), NASTY[0].encode()),
        (None, b""),
        (b"", None),
        (b"deep", b"[" * 10_000 + b"]" * 10_000),
        (b"exact", b'{"id": 9223372036854775807, "price": 1.10, "half": "\\ud800"}'),
        (b"\xff\x00", b"\xed\xa0\x80"),
        (b"long", b"<b>x</b>" * 125_000),
        (b"bytes", bytes(range(128, 228))),
    ]
    for key, value in records:
        producer.produce("odd", value, key=key, headers=[(NASTY[0], NASTY[0].encode()), ("", None)])
    producer.flush()
    page.show(url + "#topics/odd/messages?partition=0&from=beginning")
    page.wait_for(READ_MESSAGES)
    rows = page.ask(SHOWN_MESSAGES)
    assert [row[3:5] for row in rows[:3]] == [
        [NASTY[0]] * 2,
        ["null", "(empty)"],
        ["(empty)", "null"],
    ]
    assert rows[7][4] == f"{bytes(range(128, 192)).hex(' ')} …"  # as much as a row has room for

    def opened(offset: int) -> str:
        """A message, whose summary is pressed by keyboard."""
        item = f"document.querySelectorAll('.messages > li')[{offset}]"
        page.ask(f"{item}.querySelector('summary').focus()")
        for kind in ("keyDown", "keyUp"):
            page.call("Input.dispatchKeyEvent", type=kind, key="Enter", text="\r", code="Enter")
        page.wait_for(f"Boolean({item}.querySelector('.part'))")
        return item

    nasty = page.ask(f"{opened(0)}.innerText")
    assert nasty.count(NASTY[0]) >= 5  # summary, key, value, header
    assert "CreateTime" in nasty
    deep = opened(3)
    page.wait_for(f"{deep}.querySelectorAll('.json details').length === 3")
    exact = page.ask(f"{opened(4)}.querySelector('.json').innerText")
    assert '"id": 9223372036854775807' in exact
    assert '"price": 1.10' in exact
    assert r'"half": "\ud800"' in exact
    assert "ed a0 80" in page.ask(f"{opened(5)}.querySelector('pre').textContent")
    long = opened(6)
    assert page.ask(f"{long}.querySelector('pre').textContent.length") == 2_000
    show_all = f"[...{long}.querySelectorAll('button')].find((b) => b.innerText === 'Show all')"
    page.ask(f"{show_all}.click()")
    page.wait_for(f"{long}.querySelector('pre').textContent.length === 1000000")
    link = page.ask(f"{long}.querySelector('a[download]').href")
    assert httpx.get(link, timeout=30).content == records[6][1]
    page.ask(f"{long}.querySelector('summary').click()")
    assert page.ask("document.querySelector('main img, main b')") is None
    assert page.ask("window.wasRun") is None
    page.ask(axe + ";0")
    for colors in ("light", "dark"):
        page.prefer(colors)
        for width in WIDTHS:
            page.call(
                "Emulation.setDeviceMetricsOverride",
                **{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
            )
            assert page.ask("document.documentElement.scrollWidth <= innerWidth"), width
            found = page.ask(
                "axe.run().then((found) => found.violations.map((each) =>"
                " [each.id, each.nodes.map((node) => node.target.join(' ')).slice(0, 5)]))"
            )
            assert found == [], (colors, width)
            page.screenshot(tmp_path / f"messages-{colors}-{width}.png")


def test_messages_that_cannot_be_read_are_explained_in_a_line(
    cluster: Cluster, page: WebPage, url: str, letters: dict[tuple[int, int], str]
) -> None:
    told = "document.querySelector('.told.problem')?.innerText"

    def refusal(address: str) -> str:
        page.show(f"{url}#topics/{address}")
        found: str = page.wait_for(told)
        return found

    assert refusal("letters/messages?partition=1&from=99") == (
        "Offset 99 is out of range: partition 1 of letters holds offsets 0 to 64"
    )
    assert (
        refusal("letters/messages?partition=7") == "Topic letters has no partition 7; it has 0 to 1"
    )
    assert refusal("%3Cb%3E/messages") == "There is no topic <b>"
    page.show(f"{url}#topics/letters/messages?from=5")
    problem = "document.getElementById('messages-problem').innerText"
    page.wait_for(f"{problem} === 'An offset belongs to one partition: choose one'")
    assert page.ask("document.activeElement.id") == "messages-partition"
    page.ask("document.getElementById('messages-from').value = 'time'")
    page.ask("document.getElementById('messages-from').dispatchEvent(new Event('change'))")
    page.ask("document.querySelector('.ask button').click()")
    page.wait_for(f"{problem} === 'Enter a time.'")
    assert page.ask("document.activeElement.id") == "messages-time"
    create_topic(cluster, "leaving", assignments=[[0]])
    page.show(f"{url}#topics/leaving/messages")
    page.wait_for(READ_MESSAGES)
    assert "0 messages" in page.ask("document.querySelector('.told').innerText")
    cluster.command("topics", "--delete", "--topic", "leaving")
    page.ask("document.querySelector('.ask button').click()")
    page.wait_for(f"{told} === 'There is no topic leaving'")
    cluster.command("pause", "1")
    try:
        page.show(f"{url}#topics/letters/messages?limit=100")
        page.wait_for(READ_MESSAGES)
        note = page.ask("document.querySelector('.message-page .problem:not([hidden])').innerText")
        assert "Cannot read partition 1: its leader, broker 1, does not answer" in note
        assert {row[0] for row in page.ask(SHOWN_MESSAGES)} == {"0"}
    finally:
        cluster.command("resume", "1")


def test_the_message_browser_leaves_no_trace(
    cluster: Cluster, page: WebPage, url: str, letters: dict[tuple[int, int], str]
) -> None:
    """It joins no group, and its client id is that of the page."""
    page.show(url + "#topics/letters/messages")
    page.wait_for(READ_MESSAGES)
    groups = cluster.command("groups", "--list").stdout
    assert "milena" not in groups
    assert "dashboard" not in groups

    def fetching() -> set[str]:
        rows = read_stats(DataDir(cluster.data_dir).run / "broker-0.stats").rows
        fetching = {row.client_id for row in rows if row.quota == "fetch"}
        return fetching - {"console-consumer"}  # of other tests

    wait_until(lambda: "milena-dashboard" in fetching(), "the page among clients that fetch")


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
    page.ask(
        "(() => { const filter = document.getElementById('filter'); filter.value = '!ALONE';"
        " filter.dispatchEvent(new Event('input')); })()"
    )
    page.wait_for(f"Boolean(document.querySelector('[data-client={json.dumps(alone)}]'))")


def row_texts(page: WebPage, caption: str) -> list[list[str]]:
    """The cells of a table in the view, without the buttons that a phone needs."""
    found: list[list[str]] = page.ask(
        f"""(() => {{
          const table = [...document.querySelectorAll('main table')].find(
            (each) => each.caption?.innerText === {json.dumps(caption)});
          return [...table?.tBodies[0].rows ?? []].map((row) => [...row.cells].map((cell) => {{
            const copy = cell.cloneNode(true);
            copy.querySelectorAll('.opener').forEach((each) => each.remove());
            return copy.textContent;
          }}));
        }})()"""
    )
    return found


def test_an_open_transaction_is_explained_and_terminated(
    cluster: Cluster, page: WebPage, url: str
) -> None:
    name, topic = unique_name("paying"), create_topic(cluster, replication_factor=2)
    begin(cluster, name, topic, records=3)
    place = ("--group", name, "--topic", topic)
    cluster.command("groups", "--reset-offsets", *place, "--to-earliest", "--execute")
    page.show(url + f"#groups/{name}")
    page.wait_for(f"document.querySelector('main').innerText.includes('transaction: {topic}-0.')")

    def listed(caption: str) -> list[str]:
        return next((row for row in row_texts(page, caption) if row[0] == name), [])

    page.show(url + "#transactions")
    wait_until(
        lambda: listed("Open transactions")[5:6] == [f"3 records in {topic}-0"],
        "the transaction and what it holds back",
    )
    row = listed("Open transactions")
    assert (row[1], row[4]) == ("Ongoing", f"{topic}-0")
    assert row[3].startswith(f"client-of-{name} at ")
    page.ask(f"document.querySelector('[data-id={name}]').click()")
    page.wait_for("Boolean(document.querySelector('dialog .printed')?.textContent)")
    shown = page.ask("document.querySelector('dialog .printed').textContent").splitlines()
    printed = cluster.command("transactions", "explain", "--transactional-id", name).stdout
    assert [line for line in shown if "to end it now" not in line] == [
        line for line in printed.splitlines()[-len(shown) :] if "to end it now" not in line
    ]
    sentence = page.ask("document.querySelector('dialog .sentence').innerText")
    assert sentence.startswith(f"'{name}': a transaction has been open for ")
    assert page.ask("location.hash") == f"#transactions/{name}"
    page.ask("document.querySelector('dialog button').click()")
    page.wait_for("location.hash === '#transactions'")
    page.ask(f"document.querySelector('[href=\"#terminate/{name}\"]').click()")
    page.wait_for("Boolean(document.getElementById('confirm'))")
    asked = page.ask("document.querySelector('dialog p').innerText")
    assert asked.startswith(f"Abort the open transaction of '{name}'? Its coordinator writes abort")
    line = page.ask("document.querySelector('dialog code').textContent")
    assert line.endswith(f" transactions force-terminate --transactional-id {name}")
    page.ask("document.getElementById('confirm').click()")
    page.wait_for("document.querySelector('dialog .result').innerText.includes('fenced the')")
    page.ask("document.querySelector('dialog button').click()")
    wait_until(lambda: listed("Other transactional ids"), "the id without a transaction")
    assert listed("Open transactions") == []
    told = json.loads(cluster.command("transactions", "describe", name, "--json").stdout)
    assert listed("Other transactional ids")[1] == told["state"]


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
        page.wait_for("document.getElementById('quotas').innerText.includes('No quota is set.')")
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
    page: WebPage,
    url: str,
    axe: str,
    colors: str,
    width: int,
    tmp_path: Path,
    grouped: str,
) -> None:
    """Pictures of all that it looks at are kept in the test's folder."""
    wait_until(
        lambda: "empty" in httpx.get(url + "api/capacity", timeout=30).json(),
        "windows of other tests to be forgotten",
    )
    page.prefer(colors)
    page.show(url + "#clients", width=width)
    page.ask(axe + ";0")
    wrong: dict[str, Any] = {}
    steps = {
        "home": "document.querySelectorAll('.home canvas').length === 6"
        " && document.querySelectorAll('.events li').length > 1",
        "clients": "document.querySelector('[data-client=payments]')",
        "transactions": "document.querySelector('main .summary')?.innerText.includes('held back')",
        "access": "document.querySelector('main .summary')?.innerText.includes('no authorizer')",
        "cluster": "document.querySelectorAll('main table').length >= 3",
        "capacity": "document.querySelector('main .command')",
        "topics": "document.querySelector('[data-key]')",
        f"topics/{TOPIC}": "document.querySelectorAll('.topic [role=cell]').length > 0",
        f"topics/{TOPIC}/produce": "document.querySelector('#produce-command code')",
        "groups": f"document.querySelector('[data-group={GROUP}]')",
        f"groups/{GROUP}": "document.querySelectorAll('.one-group table').length === 2"
        " && document.querySelector('.one-group canvas')"
        " && document.querySelector('.explained').innerText !== ''",
        f"groups/{GROUP}/reset": "document.querySelector('dialog[open] table')",
        "change": "document.querySelectorAll('[data-broker]').length === 2"
        " && document.querySelectorAll('#quotas tbody tr').length > 0",
        "clients, a client opened": "document.querySelector('[data-client=payments]')",
    }
    for view, is_drawn in steps.items():
        page.ask(f"location.hash = '#{view.split(',')[0]}'")
        page.wait_for(f"Boolean({is_drawn})")
        if "opened" in view:
            page.ask(f"{is_drawn}.click()")
            page.wait_for("Boolean(document.querySelector('dialog[open] table'))")
        found = page.ask(
            "axe.run().then((found) => found.violations.map((each) =>"
            " [each.id, each.nodes.map((node) => node.target.join(' ')).slice(0, 5)]))"
        )
        wrong |= {view: found} if found else {}
        page.screenshot(tmp_path / f"{re.sub('[^a-z]+', '-', view)}.png")
        dialog = page.ask("document.querySelector('dialog[open]') ? location.hash : ''")
        page.ask("document.querySelector('dialog[open]')?.close()")
        page.wait_for(
            f"location.hash !== {json.dumps(dialog)}"
        )  # it goes back, which takes a while
        assert page.ask("document.documentElement.scrollWidth <= innerWidth"), view
        heights = page.ask(
            "[...document.querySelectorAll('.client [role=cell]')].map((cell) => cell.offsetHeight)"
        )
        assert max(heights, default=0) < 100, view  # no text runs down a narrow cell
        if width == min(WIDTHS):
            assert page.ask(IS_BESIDE_ITS_HEADING), view
    assert wrong == {}


GROUP, MEMBER = "readers", "reader-one"


@pytest.fixture(scope="module")
def grouped(cluster: Cluster) -> Iterator[str]:
    """A topic that a group with one member has read half of; the member stays."""
    topic = create_topic(cluster, "grouped", partitions=2, replication_factor=2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(20):
        producer.produce(topic, b"value", partition=number % 2)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            **{"group.id": GROUP, "client.id": MEMBER, "enable.auto.commit": False},
        }
    )
    consumer.subscribe([topic])
    wait_until(lambda: consumer.poll(1) or consumer.assignment(), "an assignment")
    half = [TopicPartition(topic, number, 5 + number) for number in range(2)]
    consumer.commit(offsets=half, asynchronous=False)
    yield topic
    consumer.close()


def described(cluster: Cluster, group: str) -> list[list[str]]:
    """Partition, committed offset, end, lag and client id, as `groups --describe` prints them."""
    rows = cluster.command("groups", "--describe", "--group", group).stdout.splitlines()
    cells = [each.split() for each in rows if each.startswith(f"{group} ")]
    return [[*each[2:6], each[-1]] for each in cells]


def cells_of(page: WebPage, caption: str) -> list[list[str]]:
    """The rows of the table with that caption."""
    found: list[list[str]] = page.ask(
        f"""[...document.querySelectorAll('table')]
          .filter((each) => each.caption.innerText === {json.dumps(caption)})
          .flatMap((each) => [...each.tBodies[0].rows])
          .map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"""
    )
    return found


def test_a_group_shows_what_the_command_prints(
    cluster: Cluster, page: WebPage, url: str, grouped: str
) -> None:
    page.show(url + "#groups")
    link = f"document.querySelector('main [data-group={GROUP}]')"
    page.wait_for(f"{link}?.closest('tr').cells[4].innerText.trim() === '9'")
    row = page.ask(f"[...{link}.closest('tr').cells].map((cell) => cell.innerText)")
    assert [row[1][-6:], *row[2:4], row[5]] == ["Stable", "classic", "1", "5"]
    page.ask(f"{link}.click()")
    wait_until(lambda: len(cells_of(page, "Partitions")) == 2, "its partitions")
    shown = [[*row[1:5], row[6]] for row in cells_of(page, "Partitions")]
    assert shown == described(cluster, GROUP)
    (member,) = cells_of(page, "Members")
    assert [member[0], *member[3:5]] == [MEMBER, "2", f"{grouped} 0, 1"]
    assert "confluent-kafka-python" in member[2]
    page.wait_for("document.querySelector('.explained').innerText.includes('What to do')")
    assert page.ask("document.querySelector('.sentence').innerText").startswith(
        f"Group '{GROUP}' has been stable for "
    )
    printed = cluster.command("groups", "explain", GROUP, "--verbose").stdout
    told = page.ask("document.querySelector('.explained').innerText")
    assert figureless(told) == figureless(printed)
    page.wait_for("document.querySelectorAll('.one-group canvas').length === 1")
    page.ask("document.getElementById('reset-offsets').click()")
    page.wait_for("document.querySelector('dialog [role=status]').innerText.includes('Stop them')")
    # Offsets of a group that consumes change all the time: a screen reader must not read them all.
    assert (
        page.ask("document.querySelector('dialog [aria-live], dialog [role=status] table')") is None
    )
    assert f"1 member: {MEMBER} at " in page.ask("document.querySelector('dialog').innerText")
    assert page.ask("document.getElementById('confirm').disabled")


def figureless(text: str) -> list[str]:
    """The words of an explanation without its times, wherever its lines are broken."""
    plain = re.sub(r"[0-9.:-]+( (ms|s|min|h|%))?", "", text)
    return plain.split()


def test_offsets_are_reset_after_a_preview(
    cluster: Cluster, page: WebPage, url: str, grouped: str
) -> None:
    """The name of the group is shown as text."""
    group = '<img src=x onerror="window.wasReset=1">'
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(grouped, 0, 7)], asynchronous=False)
    consumer.close()
    address = page.show(url).ask(
        "import('/static/router.js').then((it) => it.addressOf('groups',"
        f" [{json.dumps(group)}, 'reset'], {{ target: 'shift-by', amount: -3 }}))"
    )
    page.show(url + address)
    wait_until(
        lambda: (
            cells_of(page, "What would be set") == [[grouped, "0", "7", "4", "\N{MINUS SIGN}3"]]
        ),
        "the preview",
    )
    page.wait_for("document.getElementById('confirm').innerText === 'Reset 1 partition'")
    assert committed_of(cluster, group) == 7
    line = page.ask("document.querySelector('dialog .command').innerText")
    assert "--all-topics --shift-by=-3 --execute" in line
    page.ask("document.getElementById('confirm').click()")
    page.wait_for("document.querySelector('dialog .result').innerText.includes('are set')")
    assert committed_of(cluster, group) == 4
    page.ask("document.querySelector('input[value=to-earliest]').click()")
    wait_until(
        lambda: (
            cells_of(page, "What would be set") == [[grouped, "0", "4", "0", "\N{MINUS SIGN}4"]]
        ),
        "the preview of another target",
    )
    assert "target=to-earliest" in page.ask("location.hash")
    page.ask("document.querySelector('dialog button').click()")
    page.wait_for("!document.querySelector('dialog').open")
    assert page.ask("document.getElementById('group-title').innerText").endswith(group)
    assert page.ask("window.wasReset") is None
    cluster.command("groups", "--delete", f"--group={group}")
    page.wait_for("document.querySelector('.one-group .problem').innerText.includes('no group <')")


def committed_of(cluster: Cluster, group: str) -> int:
    text = cluster.command("groups", "--describe", f"--group={group}").stdout
    return int(text.splitlines()[-1].split(" grouped ")[1].split()[1])


def test_a_group_stays_shown_while_its_coordinator_hangs(
    cluster: Cluster, page: WebPage, url: str, grouped: str
) -> None:
    page.show(url + f"#groups/{GROUP}")
    wait_until(lambda: len(cells_of(page, "Members")) == 1, "its member")
    coordinator = page.ask("document.querySelector('[data-term=Coordinator] dd').innerText")
    broker = coordinator.rpartition("(")[2].rstrip(")")
    cluster.command("pause", broker)
    try:
        problem = "document.querySelector('.one-group .problem')"
        page.wait_for(f"{problem}.innerText.includes('does not answer')")
        shown = [row[1:5] for row in cells_of(page, "Partitions")]
        assert shown == [["0", "5", "10", "5"], ["1", "6", "10", "4"]]
    finally:
        cluster.command("resume", broker)
    page.wait_for(f"{problem}.hidden")
    wait_until(lambda: len(cells_of(page, "Members")) == 1, "its member again")


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
