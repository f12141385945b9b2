"""Generates docs/settings.md: all settings of brokers, topics and groups with their effect."""

import sys
from collections.abc import Collection, Iterator
from typing import Any, Final

from cluster.config.broker import BROKER_SETTINGS, OWN_SETTINGS
from cluster.config.client_metrics import CLIENT_METRICS_SETTINGS
from cluster.config.dynamic import is_changeable
from cluster.config.group import GROUP_SETTINGS
from cluster.config.kafka_keys import OF_PLUGINS, WITHOUT_EFFECT
from cluster.config.setting import Narrowed, Setting
from cluster.config.topic import TOPIC_SETTINGS

_HEAD: Final = """\
# Settings and their effect

Generated from the tables in `cluster/config/` by
`python -m cluster.config.settings_page > docs/settings.md`. `etc/server.properties` describes
each broker setting and its valid values.

A setting is *effective*; or effective in part, and the table states the missing part; or accepted,
without effect yet, and the table states the reason. Setting one of the latter two to a value other
than its default prints a warning: in `start` for a file and `--override`, in
`topics --create --config` and in `configs --alter`. `configs --describe` and the documentation
field of DescribeConfigs contain it too. `tests/tidy/test_setting_effects.py` fails if no code reads
an effective setting, or if any code reads one without effect.
"""

_KAFKA_KEYS: Final = """\
## Other keys of Kafka's brokers

Every setting that a broker of Kafka 2.7 to 4.1 defines and that is not in the table above is
accepted in a file, with `--override` and, if Kafka allows it to change, while brokers run. Unless
its value is Kafka's default, one line reports that it has no effect, and why; names of Java classes
are quoted in that line. DescribeConfigs lists the settings that Kafka 3.9 or 4.1 lists, with
Kafka's types and defaults. `cluster/config/kafka_definitions.tsv` contains all of them
([045](decisions/045-settings-that-kafka-knows.md)).

A key in a file that no release defines is ignored with a warning, as in Kafka; with `--override`,
and while brokers run, it is refused.

| key | reason |
| --- | --- |
"""

_IN_USE: Final = """\

## Settings that change while brokers run

All settings of topics and groups can change while brokers run, and so can the broker settings below
(and, of those that only Kafka has, the ones that Kafka allows to change), for one broker
(`configs --alter --broker N`) or for all (`--broker-defaults`). A value for one broker takes
precedence over one for all, and both over the file; all are kept in the registry, under
`/config/brokers`. Only these names are accepted, not aliases such as `log.retention.hours`. The
other settings are read when a broker starts. Kafka also allows adding listeners to a broker and
removing them (`listeners`, `advertised.listeners`, `listener.security.protocol.map`, and the
settings of a new listener).

"""

_REFUSED: Final = """
Listeners of KRaft's controllers (`controller.listener.names`) in `listeners` and
`advertised.listeners` are ignored. `process.roles` must contain the role `broker`.

These settings may have another value for one listener, or for one SASL mechanism of it, under
`listener.name.NAME.` or `listener.name.NAME.MECHANISM.`, with the names in lower case:

"""

_NARROWED: Final = {
    Narrowed.LISTENER: "for a listener",
    Narrowed.MECHANISM: "for a listener, and for a mechanism",
}

_LAST: Final = """
Each combination of listeners that Kafka refuses is refused with the reason, and so are some that
Kafka only notices when a client connects ([027](decisions/027-listeners.md)). Names of classes
other than Kafka's own are refused in `authorizer.class.name`, `principal.builder.class` and
`sasl.server.callback.handler.class`: these classes decide who has access, and without them the
decisions would differ.
"""


def settings_page() -> str:
    """The whole text, ending with a newline."""
    return "".join(
        [
            _HEAD,
            *_table("Broker settings", OWN_SETTINGS),
            *_table("Topic settings", tuple(TOPIC_SETTINGS)),
            *_table("Group settings", tuple(GROUP_SETTINGS)),
            *_table("Client metrics settings", tuple(CLIENT_METRICS_SETTINGS)),
            _IN_USE,
            *(f"- `{each.name}`\n" for each in OWN_SETTINGS if is_changeable(each.name)),
            "\n",
            _KAFKA_KEYS,
            *(f"| `{key}` | {why} |\n" for key, why in {**WITHOUT_EFFECT, **OF_PLUGINS}.items()),
            _REFUSED,
            *(
                f"- `{each.name}` ({_NARROWED[each.narrowed]})\n"
                for each in BROKER_SETTINGS
                if each.narrowed in _NARROWED
            ),
            _LAST,
        ]
    )


def _table(title: str, table: Collection[Setting[Any]]) -> Iterator[str]:
    effective = sum(setting.effect.is_read for setting in table)
    yield f"\n## {title}: {len(table)}, of which {len(table) - effective} without effect\n\n"
    yield "| setting | default | effect |\n| --- | --- | --- |\n"
    yield from map(_row, table)


def _row(setting: Setting[Any]) -> str:
    default = setting.shown_default
    shown = f"`{default}`" if default else ""
    return f"| `{setting.name}` | {shown} | {setting.effect.remark or 'effective'} |\n"


if __name__ == "__main__":
    sys.stdout.write(settings_page())
