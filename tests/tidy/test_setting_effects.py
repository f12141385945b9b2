"""The declared effects of settings agree with the code; `setting_reads` explains the method."""

from pathlib import Path
from typing import Any

import pytest

from cluster.config import broker, client_metrics, group, topic
from cluster.config.broker import OWN_SETTINGS
from cluster.config.client_metrics import CLIENT_METRICS_SETTINGS
from cluster.config.group import GROUP_SETTINGS
from cluster.config.setting import Setting
from cluster.config.topic import TOPIC_SETTINGS
from tests.tidy.setting_reads import Handle, handles_read

PACKAGE = Path(__file__).parents[2] / "cluster"
HANDLES: dict[Handle, Setting[Any]] = {
    Handle(name, handle): setting
    for name, table in (
        ("broker", broker),
        ("topic", topic),
        ("group", group),
        ("client_metrics", client_metrics),
    )
    for handle, setting in vars(table).items()
    if isinstance(setting, Setting)
}
READ_FOR_OTHERS = {"jaas.py", "listeners.py"}
"""Modules of the tables' own folder that hand values to the parts of a broker."""
ALL = [*OWN_SETTINGS, *TOPIC_SETTINGS, *GROUP_SETTINGS, *CLIENT_METRICS_SETTINGS]


def settings_read() -> frozenset[str]:
    """The names of the settings that the product reads.

    A broker setting is also read where a setting of topics or groups is that follows it.
    """
    read = handles_read(
        path.read_text()
        for path in PACKAGE.rglob("*.py")
        if path.parent != PACKAGE / "config" or path.name in READ_FOR_OTHERS
    )
    followed = {
        setting.broker_setting.name
        for handle, setting in HANDLES.items()
        if handle in read and setting.broker_setting
    }
    return frozenset({HANDLES[handle].name for handle in read & HANDLES.keys()} | followed)


def test_every_setting_of_the_tables_has_a_handle():
    assert {setting.name for setting in HANDLES.values()} == {setting.name for setting in ALL}


def test_the_settings_that_are_said_to_have_an_effect_are_those_that_are_read():
    read = settings_read()
    promised = {setting.name for setting in ALL if setting.effect.is_read}
    denied = {setting.name for setting in ALL} - promised
    assert sorted(promised - read) == [], "read them, or state effect=without_effect(why)"
    assert sorted(denied & read) == [], "they are read: take effect=without_effect away"


@pytest.mark.parametrize("setting", ALL, ids=lambda setting: setting.name)
def test_a_remark_is_one_clause(setting):
    lacking = setting.effect.lacking
    assert lacking is None or (lacking and "\n" not in lacking and lacking[-1] not in ".)")


X = Handle("broker", "X")
RECORD = "from cluster.config import broker\nclass Size(NamedTuple):\n    bytes: int\n"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from cluster.config import broker as keys\nf(settings[keys.X])", {X}),
        ("from cluster.config import broker\nif settings[broker.X]: pass", {X}),
        ("from cluster.config.broker import X as Y\nsettings[Y]", {X}),
        ("from cluster.config.topic import X\nsettings[X]", {Handle("topic", "X")}),
        ("from cluster.config.broker import X", set()),
        ("from cluster.brokers import broker\nbroker.X", set()),
        (f"{RECORD}Size(settings[broker.X])", set()),
        (f"{RECORD}Size(bytes=settings[broker.X] * 2)", set()),
        (f"{RECORD}Size(bytes=settings[broker.X])\no.bytes = 1", set()),
        (f"{RECORD}Size(bytes=settings[broker.X])\nf(o.bytes)", {X}),
        (f"{RECORD}Size(f(bytes=settings[broker.X]))", {X}),
        (f"{RECORD}f(Size(settings[broker.X]))", set()),
        ("from cluster.config import broker\nThing(size=settings[broker.X])", {X}),
    ],
)
def test_a_handle_is_read_where_its_value_can_change_something(source, found):
    assert handles_read([source]) == found
