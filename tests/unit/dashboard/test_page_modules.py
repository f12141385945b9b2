"""What a visitor of the page loads: the first view at once, each other view when it is visited."""

import re
from importlib.resources.abc import Traversable

from cluster.dashboard.page_modules import STATIC, modules_of

FIRST_VIEW_MAX = 250_000
TEMPLATE = STATIC.joinpath("../templates/index.html")


def text_of(module: str) -> str:
    return STATIC.joinpath(module).read_text(encoding="utf-8")


def size_of(*files: Traversable) -> int:
    return sum(len(file.read_bytes()) for file in files)


def test_first_view_is_less_than_250_kb_before_compression() -> None:
    named = re.findall(r'(?:href|src)="static/([^{"]+)"', TEMPLATE.read_text(encoding="utf-8"))
    files = {"app.js", "page.css", "uplot/uPlot.iife.min.js"}
    assert files <= set(named), "the page is composed otherwise"
    loaded = {*named, *modules_of("app.js")}
    assert size_of(TEMPLATE, *map(STATIC.joinpath, loaded)) < FIRST_VIEW_MAX


def test_first_view_loads_no_other_view() -> None:
    on_demand = set(re.findall(r'import\("\./(\w+\.js)"\)', text_of("views.js")))
    assert {"clients.js", "topics.js", "messages.js", "change.js"} <= on_demand
    assert on_demand.isdisjoint(modules_of("app.js"))


def test_every_module_is_loaded_by_some_view() -> None:
    on_demand = re.findall(r'import\("\./(\w+\.js)"\)', text_of("views.js"))
    loaded = {"theme.js"}.union(*map(modules_of, ["app.js", *on_demand]))
    assert {each.name for each in STATIC.iterdir() if each.name.endswith(".js")} == loaded
