"""The command line that changes quotas like the page. Pure."""

import shlex
from collections.abc import Mapping
from decimal import Decimal


def quota_command(
    program: str, entity: Mapping[str, str | None], changes: Mapping[str, float | None]
) -> str:
    """`quotas set` for the values, `quotas unset` for the keys without one, or both.

    `program` is the launcher with its data directory, quoted for a shell. See
    `Sources.alter_quota`.
    """
    entity_options = [_option(kind, name) for kind, name in entity.items()]
    values = [
        f"--{_dashed(key)}={written(value)}" for key, value in changes.items() if value is not None
    ]
    removed = [f"--{_dashed(key)}" for key, value in changes.items() if value is None]
    return " && ".join(
        " ".join([program, "quotas", verb, *map(shlex.quote, [*entity_options, *options])])
        for verb, options in (("set", values), ("unset", removed))
        if options
    )


def written(amount: float) -> str:
    """The number with up to 12 digits, and without an exponent, which no option accepts."""
    return f"{Decimal(f'{amount:.12g}'):f}"


def _option(kind: str, name: str | None) -> str:
    return f"--{kind.removesuffix('-id')}-default" if name is None else f"--{kind}={name}"


def _dashed(key: str) -> str:
    return key.replace("_", "-")
