"""The page's topics and messages in a real browser, beside the figures and records of a cluster."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from cluster.datadir.paths import DataDir
from cluster.metrics.stats_reader import read_stats
from tests.compat.dashboard_scene import NASTY, TOPIC, WIDTHS, look_at_all
from tests.compat.web_browser import WebPage
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.beyond_pypi]


@pytest.fixture(scope="module")
def cluster(watched: Cluster) -> Cluster:
    """Not shared with other modules: its brokers are paused."""
    return watched


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
        page.wait_for(f"Boolean({item}.querySelector('.message-part'))")
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


def test_more_lines_of_json_get_the_focus_of_the_button_that_showed_them(
    page: WebPage, url: str
) -> None:
    page.show(url + "#topics")
    page.ask(
        f"""import('{url}static/message_value.js').then(({{ content }}) => {{
          const items = Array.from({{ length: 250 }}, (_, at) => [1, null, 'number', String(at)]);
          const lines = [[0, null, 'array', items.length], ...items];
          document.querySelector('main').replaceChildren(content({{ kind: 'json', lines }}));
          document.querySelector('.json summary').click();
        }})"""
    )
    page.wait_for("document.querySelector('.json button') !== null")
    for first in ("100", "200"):
        page.ask("document.querySelector('.json button').focus()")
        page.ask("document.activeElement.click()")
        assert page.ask("document.activeElement.innerText") == first
    assert page.ask("document.querySelector('.json button')") is None


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


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("colors", ["light", "dark"])
def test_axe_finds_no_accessibility_violation(
    page: WebPage, url: str, axe: str, colors: str, width: int, tmp_path: Path
) -> None:
    """Pictures of all that it looks at are kept in the test's folder."""
    page.prefer(colors)
    look_at_all(
        page,
        url,
        axe,
        width,
        tmp_path,
        {
            "topics": "document.querySelector('[data-key]')",
            f"topics/{TOPIC}": "document.querySelectorAll('.topic [role=cell]').length > 0",
            f"topics/{TOPIC}/produce": "document.querySelector('#produce-command code')",
        },
    )
