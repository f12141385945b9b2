"""How fast a page of the dashboard is loaded and scrolls in Chromium.

    PYTHONPATH=. .venv/bin/python -m bench.page_times URL [--rows SELECTOR] [--width PX]

The page is loaded with an empty cache, then scrolled down by 60 pixels for every frame; a frame
that takes longer than the sixtieth of a second is one that a user may see jump.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Final

import pytest

from tests.compat.web_browser import web_page

ROWS: Final = "main tbody tr, main [role=row] + [role=row], main canvas"
SECONDS: Final = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--rows", default=ROWS, help="what is shown when the page has its figures")
    parser.add_argument("--width", type=int, default=1400)
    options = parser.parse_args()
    print(in_a_browser(options.url, options.rows, options.width))


def in_a_browser(url: str, rows: str = ROWS, width: int = 1400) -> str:
    """Two lines: how the page loads, and how it scrolls."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        try:
            with web_page(Path(profile)) as page:
                page.show(url, width=width)
                shown_ms = page.ask(SHOWN_MS % repr(rows))
                told = page.ask(LOADED)
                frames = sorted(page.ask(SCROLLED % (SECONDS * 1000)))
                height = page.ask("document.documentElement.scrollHeight")
                count = page.ask(f"document.querySelectorAll({rows!r}).length")
        except pytest.skip.Exception as problem:
            return str(problem)
    late = sum(each > 25 for each in frames)
    return (
        f"in Chromium: loaded after {told['loaded_ms']:.0f} ms, painted first after"
        f" {told['painted_ms']:.0f} ms, the first rows after {shown_ms:.0f} ms;"
        f" {told['bytes'] / 1000:.0f} KB in {told['requests']} requests, the stream aside\n"
        f"scrolling {height} px with {count} rows: {len(frames) / SECONDS:.0f} frames/s,"
        f" p50 {statistics.median(frames):.0f} ms, p99 {frames[int(len(frames) * 0.99)]:.0f} ms,"
        f" longest {frames[-1]:.0f} ms, {late / len(frames):.1%} above 25 ms"
    )


SHOWN_MS: Final = """new Promise((done) => {
  const look = () => document.querySelector(%s)
    ? done(performance.now()) : requestAnimationFrame(look);
  look();
})"""
"""When the first rows are seen, on the page's clock."""

LOADED: Final = """(() => {
  const [page] = performance.getEntriesByType('navigation');
  const [painted] = performance.getEntriesByName('first-contentful-paint');
  const all = [page, ...performance.getEntriesByType('resource')];
  return {
    loaded_ms: page.loadEventEnd,
    painted_ms: painted.startTime,
    bytes: all.reduce((sum, each) => sum + each.transferSize, 0),
    requests: all.length,
  };
})()"""

SCROLLED: Final = """new Promise((done) => {
  const frames = [];
  const began = performance.now();
  let last = began, step = 60;
  const next = (now) => {
    if (now > last) frames.push(now - last);
    last = now;
    if (now - began > %d) return done(frames);
    const end = document.documentElement.scrollHeight - innerHeight;
    if (scrollY + step > end || scrollY + step < 0) step = -step;
    scrollBy(0, step);
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
})"""
"""The milliseconds of each frame, down to the end of the page and up again."""


if __name__ == "__main__":
    main()
