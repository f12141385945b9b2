"""Lines for a person about settings that do not do what was asked of them. Pure."""

from collections.abc import Iterable

from cluster.config.snapshot import Settings


def remarks_on(settings: Settings) -> list[str]:
    """One line for each reason why values that differ from their default have no, or not all,
    effect; each names its keys as they were given.
    """
    return lines_by_reason(
        "Warning",
        (
            (given.name, setting.effect.remark)
            for setting in settings.table
            for given in settings.given(setting)[:1]
            if given.value != setting.default
        ),
    )


def lines_by_reason(heading: str, reasons: Iterable[tuple[str, str | None]]) -> list[str]:
    """`heading: key, key (reason).` for each reason; a key that has none is left out."""
    keys: dict[str, list[str]] = {}
    for key, reason in reasons:
        if reason is not None:
            keys.setdefault(reason, []).append(key)
    return [f"{heading}: {', '.join(names)} ({reason})." for reason, names in keys.items()]
