"""The page's groups and transactions in a real browser, beside what the commands print."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.compat.dashboard_scene import (
    SUMMARY,
    WIDTHS,
    look_at_all,
    row_texts,
)
from tests.compat.web_browser import WebPage
from tests.support.open_transactions import begin
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.beyond_pypi]

GROUP, MEMBER = "readers", "reader-one"


@pytest.fixture(scope="module")
def cluster(watched: Cluster) -> Cluster:
    """Not shared with other modules: its brokers are paused."""
    return watched


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
            "max.poll.interval.ms": 3_600_000,  # nobody polls while the tests look at the group
            "session.timeout.ms": 300_000,
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
    plain = re.sub(r"[0-9.:-]+(\s+(ms|s|min|h|%))?", "", text)
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
    broker = coordinator.removeprefix("broker ")
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


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("colors", ["light", "dark"])
def test_axe_finds_no_accessibility_violation(
    page: WebPage, url: str, axe: str, colors: str, width: int, tmp_path: Path, grouped: str
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
            "transactions": f"{SUMMARY}.includes('held back')",
            "groups": f"document.querySelector('[data-group={GROUP}]')",
            f"groups/{GROUP}": "document.querySelectorAll('.one-group table').length === 2"
            " && document.querySelector('.one-group canvas')"
            " && document.querySelector('.explained').innerText !== ''",
            f"groups/{GROUP}/reset": "document.querySelector('dialog[open] table')",
        },
    )
