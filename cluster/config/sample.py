"""Generates etc/server.properties: every broker setting with its meaning and default."""

import sys
from collections.abc import Iterator
from textwrap import wrap
from typing import Any, Final

from cluster.config.broker import OWN_SETTINGS
from cluster.config.setting import Setting, Update
from cluster.config.topic import TOPIC_SETTINGS

_HEADER: Final = """\
# Settings of a broker, for `bin/cluster start --config FILE`.
# Generated from the settings tables (cluster/config). Lines show defaults: uncomment one to change
# it. Brokers read this file when they start. A setting marked "Changes in use" can also be set for
# one broker or for all brokers while they run, which takes precedence over this file
# (`configs --alter`). "Also" lists other names of the setting; "Topic" is the name of the setting
# with which a topic overrides it. A line that begins with "!" states that a setting has no effect
# yet, or which part of its effect is missing.
# Listeners, SSL, SASL: listener.name.NAME.KEY (NAME in lower case) takes precedence over KEY for
# one listener, and listener.name.NAME.MECHANISM.KEY over both for one SASL mechanism.
# `bin/cluster start` sets broker.id of each broker and gives it a directory of its own below
# each of log.dirs (--log-dirs; else below --data-dir). Each broker has the listeners of this file,
# with its own ports: the broker's number is added, or a multiple of it if the ports are close
# together (--port moves all of them, --host applies to all). `start` sets zookeeper.connect,
# default.replication.factor, offsets.topic.replication.factor and
# group.initial.rebalance.delay.ms unless this file or --override does.
"""

_TOPIC_SETTINGS: Final = {
    setting.broker_setting.name: setting.name
    for setting in TOPIC_SETTINGS
    if setting.broker_setting
}


def sample_properties() -> str:
    """The whole text, ending with a newline."""
    return "\n".join([_HEADER, *("\n".join(_lines(setting)) for setting in OWN_SETTINGS)])


def _lines(setting: Setting[Any]) -> Iterator[str]:
    for sentence in (setting.doc, f"({setting.type.allowed})"):
        for line in wrap(sentence, width=96):
            yield f"# {line}"
    if setting.effect.remark:
        for line in wrap(f"{setting.effect.remark}.", width=96):
            yield f"# ! {line}"
    if setting.aliases:
        yield f"# Also: {', '.join(alias.name for alias in setting.aliases)}"
    if setting.update is not Update.READ_ONLY:
        yield "# Changes in use"
    if setting.name in _TOPIC_SETTINGS:
        yield f"# Topic: {_TOPIC_SETTINGS[setting.name]}"
    yield f"#{setting.name}={setting.shown_default or ''}"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(sample_properties())
