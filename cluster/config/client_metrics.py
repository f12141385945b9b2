"""The settings of a client metrics subscription (KIP-714), and the clients that it selects. Pure.

A subscription asks the clients that it matches to push metrics. Kafka: `ClientMetricsConfigs`.
"""

from typing import Final

from cluster.config.setting import Scope, Setting, SettingError, SettingTable, Update
from cluster.config.value_type import integer, string_list

CLIENT_METRICS_SETTINGS: Final = SettingTable("client metrics")
DEFAULT_INTERVAL_MS: Final = 300_000
_MIN_INTERVAL_MS: Final = 100
_MAX_INTERVAL_MS: Final = 3_600_000
MATCH_KEYS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What `match` may compare with an expression."""

METRICS: Final = CLIENT_METRICS_SETTINGS.add(
    Setting(
        "metrics",
        string_list(),
        (),
        Scope.CLIENT_METRICS,
        Update.CLUSTER_WIDE,
        "Prefixes of the names of metrics that clients push; `*`: all.",
    )
)
INTERVAL_MS: Final = CLIENT_METRICS_SETTINGS.add(
    Setting(
        "interval.ms",
        integer(at_least=_MIN_INTERVAL_MS, at_most=_MAX_INTERVAL_MS),
        DEFAULT_INTERVAL_MS,
        Scope.CLIENT_METRICS,
        Update.CLUSTER_WIDE,
        "Milliseconds between two pushes of a client.",
    )
)
MATCH: Final = CLIENT_METRICS_SETTINGS.add(
    Setting(
        "match",
        string_list(),
        (),
        Scope.CLIENT_METRICS,
        Update.CLUSTER_WIDE,
        f"The clients, as KEY=EXPRESSION, all of which must match; KEY is one of"
        f" {', '.join(MATCH_KEYS)}. Empty: every client.",
    )
)


def match_parts(text: str) -> tuple[str, str]:
    """Key and expression of one part of `match`. Raises SettingError."""
    key, *expression = text.split("=")
    if len(expression) != 1 or key.strip() not in MATCH_KEYS:
        raise SettingError(f"Illegal client matching pattern: {text}", MATCH.name)
    return key.strip(), expression[0].strip()
