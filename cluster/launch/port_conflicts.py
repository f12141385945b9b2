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
    named = f"port {taken.port} ({taken.owner}{again})"
    options = free_options(wanted)
    if options:
        return UserError(
            f"{named} is already in use by {port_holder(taken.port)}:"
            f" start with {' '.join(options)}"
        )
    for rival in wanted:
        if rival.port == taken.port and rival.owner != taken.owner:
            return UserError(f"{named} is that of {rival.owner}, too: choose another {taken.flag}")
    return UserError(f"{named} was already in use, and is free now: start again")


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
            first = own[0].port
            found.append(f"{flag} {first + moved if first and moved else 0}")
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
