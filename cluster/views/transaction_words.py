"""Times, names and commands in what explains transactions to users. Pure."""

import shlex
from collections.abc import Collection, Mapping
from typing import Final

from cluster.client.topic_requests import Place
from cluster.coordinator.transactions.requests import ClientName
from cluster.model.printable import one_line
from cluster.runtime.installation import launcher
from cluster.views.quantities import clock

_SHOWN_CHARACTERS: Final = 60
_PARTITIONS_SHOWN: Final = 8


def shown(text: str) -> str:
    """A foreign name on one line, cut where it would fill it."""
    safe = one_line(text)
    return safe if len(safe) <= _SHOWN_CHARACTERS else f"{safe[: _SHOWN_CHARACTERS - 3]}..."


def client_text(client: ClientName | None) -> str:
    """`client billing at 10.0.0.7`."""
    if client is None:
        return "a client that is not known here"
    return f"client {shown(client.client_id) or '(no id)'} at {shown(client.host.lstrip('/'))}"


def time_text(wall_ms: int, *, with_day: bool = True) -> str:
    """A time with milliseconds, UTC."""
    return f"{clock(wall_ms // 1000, with_day=with_day)}.{wall_ms % 1000:03}"


def partitions_text(names: Collection[str], left_off: int = 0) -> str:
    """`orders-0, orders-1 and 3 more`."""
    first = sorted(map(shown, names))[:_PARTITIONS_SHOWN] if left_off else list(map(shown, names))
    listed = first[:_PARTITIONS_SHOWN]
    more = len(names) - len(listed) + left_off
    text = ", ".join(listed)
    return f"{text} and {more:,} more" if more else text


def count_text(number: int, noun: str) -> str:
    """`1 record`, `1,234 records`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def explain_command(transactional_id: str, program: str | None = None) -> str:
    """The command line that explains an id.

    `program` is the launcher, quoted for a shell, if commands are to name a data directory.
    """
    return _command("explain", {"--transactional-id": transactional_id}, program)


def terminate_command(transactional_id: str, program: str | None = None) -> str:
    """The command line that aborts the transaction of an id."""
    return _command("force-terminate", {"--transactional-id": transactional_id}, program)


def abort_command(place: Place, offset: int, program: str | None = None) -> str:
    """The command line that aborts a hanging transaction in one partition."""
    options = {"--topic": place.topic, "--partition": str(place.partition)}
    return _command("abort", {**options, "--start-offset": str(offset)}, program)


def _command(action: str, options: Mapping[str, str], program: str | None) -> str:
    words = [action]
    for option, value in options.items():
        # A value that begins with a dash would be taken for an option.
        words += [f"{option}={value}"] if value.startswith("-") else [option, value]
    return f"{program or launcher()} transactions {shlex.join(words)}"
