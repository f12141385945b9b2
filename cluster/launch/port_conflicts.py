"""What a start says when a port is taken: by whom, and options with free ports."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from cluster.datadir.port_holder import port_holder
from cluster.model.errors import UserError
from cluster.runtime.ports import WantedPort, is_taken
from cluster.runtime.whole_numbers import PORT_MAX

_STEP: Final = 10
_STEPS: Final = 200


def conflict(
    taken: WantedPort, wanted: Sequence[WantedPort], *, from_last_start: bool
) -> UserError:
    """The error for one of the wanted ports that is taken."""
    again = ", as at the last start" if from_last_start else ""
    return UserError(
        f"port {taken.port} ({taken.owner}{again}) is already in use by"
        f" {port_holder(taken.port)}: start with {' '.join(free_options(wanted))}"
    )


def free_options(wanted: Sequence[WantedPort]) -> list[str]:
    """Options with free ports for each option of which a port is taken."""
    found: list[str] = []
    used: set[int] = set()
    for flag in dict.fromkeys(each.flag for each in wanted):
        own = [each for each in wanted if each.flag == flag]
        if any(each.port and is_taken(each.host, each.port) for each in own):
            others = {each.port for each in wanted if each.flag != flag} | used
            moved = _moved(own, others)
            used |= {each.port + moved for each in own} if moved else set()
            found.append(f"{flag} {own[0].port + moved if moved else 0}")
    return found


def _moved(wanted: Iterable[WantedPort], others: Collection[int]) -> int | None:
    """The distance by which all these ports can be moved to be free; None if there is none."""
    wanted = [each for each in wanted if each.port]
    for moved in range(_STEP, _STEP * _STEPS, _STEP):
        ports = [(each.host, each.port + moved) for each in wanted]
        if all(
            port <= PORT_MAX and port not in others and not is_taken(host, port)
            for host, port in ports
        ):
            return moved
    return None
