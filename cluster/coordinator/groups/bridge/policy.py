"""Which groups may change from one protocol to the other while members are in them. Pure.

Kafka: `ConsumerGroupMigrationPolicy`.
"""

from typing import Final, NamedTuple


class MigrationPolicy(NamedTuple):
    """A value of `group.consumer.migration.policy`."""

    may_upgrade: bool
    """To the newer protocol, when a first member comes that uses it."""
    may_downgrade: bool
    """To the classic one, when the last member goes that uses the newer one."""


POLICIES: Final = {
    "bidirectional": MigrationPolicy(may_upgrade=True, may_downgrade=True),
    "upgrade": MigrationPolicy(may_upgrade=True, may_downgrade=False),
    "downgrade": MigrationPolicy(may_upgrade=False, may_downgrade=True),
    "disabled": MigrationPolicy(may_upgrade=False, may_downgrade=False),
}
"""By Kafka's names."""


def policy_of(name: str) -> MigrationPolicy:
    """In any case of letters; what is no such name disables both."""
    return POLICIES.get(name.lower(), POLICIES["disabled"])
