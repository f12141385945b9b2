"""Writes the text of etc/server.properties: every broker setting with its meaning and default."""

import sys
from collections.abc import Iterator
from textwrap import wrap
from typing import Any, Final

from cluster.config.broker import BROKER_SETTINGS
from cluster.config.setting import Setting, Update

_HEADER: Final = """\
# Settings of a broker, for `bin/cluster start --config FILE`.
# Written from the settings table (cluster/config). Lines show defaults: uncomment one to change it.
# `bin/cluster start` itself sets broker.id, listeners, log.dirs, zookeeper.connect and
# default.replication.factor for each broker, unless this file or --override does.
"""

_UPDATES: Final = {
    Update.READ_ONLY: "changed by a restart",
    Update.PER_BROKER: "may change per broker while it runs",
    Update.CLUSTER_WIDE: "may change cluster-wide while brokers run",
}


def sample_properties() -> str:
    """The whole text, ending with a newline."""
    return "\n".join([_HEADER, *("\n".join(_lines(setting)) for setting in BROKER_SETTINGS)])


def _lines(setting: Setting[Any]) -> Iterator[str]:
    reach = f"{setting.type.allowed}; {_UPDATES[setting.update]}"
    for sentence in (setting.doc, f"({reach})"):
        for line in wrap(sentence, width=96):
            yield f"# {line}"
    if setting.aliases:
        yield f"# Also: {', '.join(alias.name for alias in setting.aliases)}"
    yield f"#{setting.name}={setting.render(setting.default) or ''}"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(sample_properties())
