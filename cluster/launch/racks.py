"""The rack of each broker of a start: from `--racks`, from the settings, or as last time. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cluster.datadir.state_file import broker_id
from cluster.model.errors import UserError


def parse_racks(text: str) -> tuple[str, ...]:
    """The racks of a comma-separated list; none for an empty text. Raises UserError."""
    if not text.strip():
        return ()
    racks = tuple(part.strip() for part in text.split(","))
    if "" in racks:
        raise UserError(
            f"--racks {text} has an empty name: name a rack between any two commas, or write"
            ' --racks "" for no racks'
        )
    return racks


def racks_of_brokers(
    named: str | None,
    in_settings: str | None,
    before: Mapping[int, str | None],
    ids: Sequence[int],
    note: Callable[[str], None],
) -> dict[int, str | None]:
    """The rack of each broker by its id, None for those without.

    `named` is the text of `--racks`, whose list is repeated over `ids`; then counts `broker.rack`
    of the settings, then `before`, the racks of the last start. Raises UserError.
    """
    if named is None:
        if in_settings is not None:
            return dict.fromkeys(ids, in_settings or None)
        racks = {each: before[each] for each in ids if each in before}
        for each in ids:
            if each not in racks:
                racks[each] = next_rack(racks.values())
        return racks
    if in_settings is not None:
        note(f"--racks replaces broker.rack={in_settings} of the settings.")
    cycle = parse_racks(named)
    if len(cycle) > len(ids):
        raise UserError(
            f"--racks names {len(cycle)} racks for {len(ids)} broker{'s' * (len(ids) != 1)}: name"
            f" at most {len(ids)}, or start more with --brokers"
        )
    return {each: cycle[at % len(cycle)] if cycle else None for at, each in enumerate(ids)}


def next_rack(racks: Iterable[str | None]) -> str | None:
    """The rack for one more broker: the one with the fewest; None if no broker has a rack."""
    counts = Counter(rack for rack in racks if rack is not None)
    return min(counts, key=lambda rack: counts[rack], default=None)


def rack_of_added(
    wanted: str | None, in_settings: str | None, racks: Iterable[str | None]
) -> str | None:
    """The rack of a broker that joins those with these `racks`; it `wanted` one, "" for none.

    Raises UserError if the settings name the rack of all brokers, and not this one.
    """
    if in_settings is not None:
        if wanted not in (None, in_settings):
            raise UserError(
                f"broker.rack={in_settings} of the settings is the rack of every broker: leave"
                " --rack out, or start with --racks"
            )
        return in_settings or None
    return next_rack(racks) if wanted is None else wanted or None


def remembered_racks(state: Mapping[str, Any] | None) -> dict[int, str | None]:
    """The racks that the brokers had when the cluster was last started, by broker id."""
    brokers = [] if state is None else state.get("brokers")
    if not isinstance(brokers, list):
        return {}
    found: dict[int, str | None] = {}
    for index, broker in enumerate(brokers):
        rack = broker.get("rack") if isinstance(broker, dict) else None
        found[broker_id(broker, index)] = rack if isinstance(rack, str) else None
    return found
