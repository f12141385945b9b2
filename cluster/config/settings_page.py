"""Makes docs/settings.md: every setting of brokers, topics and groups, its default and effect."""

import sys
from collections.abc import Collection, Iterator
from typing import Any, Final

from cluster.config.broker import BROKER_SETTINGS, OWN_SETTINGS
from cluster.config.dynamic import is_changeable
from cluster.config.group import GROUP_SETTINGS
from cluster.config.kafka_keys import OF_PLUGINS, WITHOUT_EFFECT
from cluster.config.setting import Narrowed, Setting
from cluster.config.topic import TOPIC_SETTINGS

_HEAD: Final = """\
# Settings and their effect

Written from the tables in `cluster/config/` by
`python -m cluster.config.settings_page > docs/settings.md`. What each broker setting means, and
what values it takes, is in `etc/server.properties`.

A setting is *effective*; or effective in part, and it is said what does not happen; or accepted,
without effect yet, and it is said why. Who sets one of the latter two to another value than its
default is warned: by `start` for a file and `--override`, by `topics --create --config` and by
`configs --alter`. `configs --describe` and the documentation field of DescribeConfigs say it too.
`tests/tidy/test_setting_effects.py` fails where an effective setting is read by nothing, and where
one without effect is read.
"""

_KAFKA_KEYS: Final = """\
## Other keys of Kafka's brokers

Every setting that a broker of Kafka 2.7 to 4.1 defines and that is not in the table above is
accepted in a file, with `--override` and, where Kafka lets it change, while brokers run; and one
line says that it has no effect, and why, unless its value is Kafka's default. Names of Java classes
are in that line. DescribeConfigs lists what Kafka 3.9 or 4.1 lists, with Kafka's types and
defaults. `cluster/config/kafka_definitions.tsv` has them all
([045](decisions/045-settings-that-kafka-knows.md)).

A key of a file that no release knows is left out with a warning, as by Kafka; with `--override`,
and in use, it is refused.

| key | why |
| --- | --- |
"""

_IN_USE: Final = """\

## What changes in use

All settings of topics and groups, and these of brokers (of those that only Kafka has, the ones that
Kafka lets change), for one (`configs --alter --broker N`) or
for all (`--broker-defaults`). A value for one broker stands over one for all, and both over the
file; all are kept in the registry, under `/config/brokers`. Only these names count, not their other
names such as `log.retention.hours`. The others are read when a broker starts. Kafka also lets one
broker add and remove listeners (`listeners`, `advertised.listeners`,
`listener.security.protocol.map`, and what is for a listener that was not there before).

"""

_REFUSED: Final = """
Of the listeners in `listeners` and `advertised.listeners`, those of KRaft's controllers
(`controller.listener.names`) are left out. `process.roles` must name the role `broker`.

For one listener, and for one SASL mechanism of it, a setting may have another value, under
`listener.name.NAME.` or `listener.name.NAME.MECHANISM.`, names in lower case:

"""

_NARROWED: Final = {
    Narrowed.LISTENER: "for a listener",
    Narrowed.MECHANISM: "for a listener, and for a mechanism",
}

_LAST: Final = """
Refused, with the reason: each combination of listeners that Kafka refuses, and some that Kafka
only notices when a client connects ([027](decisions/027-listeners.md)); and names of other classes
than Kafka's own in `authorizer.class.name`, `principal.builder.class` and
`sasl.server.callback.handler.class`, since whom they let in would be let in without them, or not.
"""


def settings_page() -> str:
    """The whole text, ending with a newline."""
    return "".join(
        [
            _HEAD,
            *_table("Of brokers", OWN_SETTINGS),
            *_table("Of topics", tuple(TOPIC_SETTINGS)),
            *_table("Of groups", tuple(GROUP_SETTINGS)),
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
