"""The events of quotas that are set, changed or removed. Pure."""

from collections.abc import Callable

from cluster.metrics.events import EventKind, EventLog
from cluster.model.printable import one_line
from cluster.model.quotas import DEFAULT, KEY_OF_KIND, Limits, Name, QuotaEntity, QuotaKind

OnQuotas = Callable[[QuotaEntity, Limits, Limits], None]
"""Called with an entity whose limits change: the limits before and after."""


def quota_noter(events: EventLog, is_noted: Callable[[], bool]) -> OnQuotas:
    """A callback that notes each change while `is_noted`: every broker learns of it, one reports
    it.
    """

    def note(entity: QuotaEntity, before: Limits, now: Limits) -> None:
        changed = [kind for kind in QuotaKind if before.get(kind) != now.get(kind)]
        if changed and is_noted():
            detail = ", ".join(_change(kind, now.get(kind)) for kind in changed)
            events.note(EventKind.QUOTA, subject_of(entity), detail, len(changed))

    return note


def subject_of(entity: QuotaEntity) -> str:
    """`user alice, client-id <default>`: the names as `quotas list` shows them."""
    named = (("user", entity.user), ("client-id", entity.client_id), ("ip", entity.ip))
    return ", ".join(f"{word} {_shown(name)}" for word, name in named if name is not None)


def _shown(name: Name) -> str:
    return DEFAULT.value if name is DEFAULT else one_line(str(name))


def _change(kind: QuotaKind, limit: float | None) -> str:
    key = KEY_OF_KIND[kind]
    return f"{key} removed" if limit is None else f"{key}={limit:.15g}"
