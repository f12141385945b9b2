"""Which groups may change their protocol while they have members. Pure.

Kafka: `ConsumerGroupMigrationPolicy`.
"""

from typing import Final, NamedTuple


class MigrationPolicy(NamedTuple):
    """A value of `group.consumer.migration.policy`."""

    may_upgrade: bool
    """To the newer protocol, when the first member joins that uses it."""
    may_downgrade: bool
    """To the classic protocol, when the last member leaves that uses the newer one."""


POLICIES: Final = {
    "bidirectional": MigrationPolicy(may_upgrade=True, may_downgrade=True),
    "upgrade": MigrationPolicy(may_upgrade=True, may_downgrade=False),
    "downgrade": MigrationPolicy(may_upgrade=False, may_downgrade=True),
    "disabled": MigrationPolicy(may_upgrade=False, may_downgrade=False),
}
"""The policies by Kafka's names."""


def policy_of(name: str) -> MigrationPolicy:
    """The policy of a name in upper or lower case; an unknown name disables both directions."""
    return POLICIES.get(name.lower(), POLICIES["disabled"])
