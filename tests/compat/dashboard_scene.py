"""A cluster under load whose page is looked at, and how all of a page is looked at."""

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.compat.web_browser import WebPage
from tests.support.client_quotas import KIB
from tests.support.running_cluster import HOST, Cluster
from tests.support.topics import create_topic

LIMITS = {"payments": 64 * KIB, "orders-eu": 256 * KIB}
LOADS = {**LIMITS, "clickstream": None}
NASTY = (
    '<img src=x onerror="window.wasRun=1">',
    "quotes \" ' ` and <b>bold</b> &amp; \N{BALLOON}",
    "two\nlines\tand\x00more",
    "long " + "x" * 10_000,
)
SUMMARY = "document.querySelector('main .summary')?.innerText"
TOPIC = "watched"
WIDTHS = (1300, 390)
IS_BESIDE_ITS_HEADING = """[...document.querySelectorAll('.list td:not(:empty)')].every((cell) => {
  const heading = getComputedStyle(cell, '::before');
  return heading.display === 'none' || cell.offsetParent === null
    || parseFloat(getComputedStyle(cell).paddingLeft) >= parseFloat(heading.width);
})"""
"""On a phone, of each cell of a table that is seen."""


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


@contextlib.contextmanager
def watched_cluster(folder: Path) -> Iterator[Cluster]:
    """Two brokers with a dashboard, under load of clients of which some have limits."""
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


def page_of(cluster: Cluster) -> str:
    """The address of the cluster's page."""
    return f"http://{HOST}:{cluster.dashboard_port}/"


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


def look_at_all(
    page: WebPage, url: str, axe: str, width: int, folder: Path, steps: dict[str, str]
) -> None:
    """Visit addresses, each with an expression that is true when it is drawn; what is after a
    comma is not of the address. axe finds nothing, and nothing is cut off; pictures are kept.
    """
    page.show(url + "#home", width=width)
    page.ask(axe + ";0")
    wrong: dict[str, Any] = {}
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
        page.screenshot(folder / f"{re.sub('[^a-z]+', '-', view)}.png")
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
