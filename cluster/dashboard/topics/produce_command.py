"""The command line that produces a message like the page. Pure."""

import itertools
import shlex
from collections.abc import Iterable
from typing import Final

from cluster.dashboard.sources import Json
from cluster.dashboard.topics.new_message import NewMessage

_NULL: Final = "NULL"
_BREAKS: Final = ("\n", "\r", "\0")


def produce_command(program: str, message: NewMessage) -> Json:
    """`command`, which passes one line to `produce`; else `reason`, why no line can be the message.

    `program` is the launcher with its data directory, quoted for a shell.
    """
    texts = [message.key or "", message.value or "", *itertools.chain(*message.headers)]
    if any(each in text for text in texts for each in _BREAKS):
        return {
            "command": None,
            "reason": "No command line produces this: a command reads one line for each message,"
            " and this one has a line break.",
        }
    line, properties = _line(message)
    options = [f"--topic={message.topic}"]
    if message.partition is not None:
        options.append(f"--partition={message.partition}")
    options += [f"--property={each}" for each in properties]
    quoted = " ".join([program, "produce", *map(shlex.quote, options)])
    return {"command": f"printf '%s\\n' {shlex.quote(line)} | {quoted}", "reason": None}


def _line(message: NewMessage) -> tuple[str, list[str]]:
    """The line, and the properties by which `produce` reads it."""
    texts = [*itertools.chain(*message.headers), message.key or "", message.value or ""]
    properties, line = [], message.value or ""
    if message.value is None:
        line = _free(_NULL, texts)
        properties.append(f"null.marker={line}")
    if message.key is not None:
        # The line is cut at the first separator, also where the key's end and it make one.
        separator = _free(":", [message.key])
        properties = ["parse.key=true", f"key.separator={separator}", *properties]
        line = f"{message.key}{separator}{line}"
    if message.headers:
        names = [name for name, _ in message.headers]
        texts = [*names, *(value for _, value in message.headers)]
        between = _free("=", names)
        after = _free(",", texts, {between})
        end = _free("|", texts, {between, after})
        headers = after.join(f"{name}{between}{value}" for name, value in message.headers)
        properties = [
            "parse.headers=true",
            f"headers.key.separator={between}",
            f"headers.separator={after}",
            f"headers.delimiter={end}",
            *properties,
        ]
        line = f"{headers}{end}{line}"
    return line, properties


def _free(usual: str, texts: Iterable[str], taken: Iterable[str] = ()) -> str:
    """The usual separator or another that occurs in no text.

    It has no character of those that are taken, so that none of them together make it.
    """
    texts, taken = list(texts), list(taken)
    tries = itertools.chain([usual], (f"{usual}{number}{usual}" for number in itertools.count()))
    return next(
        each for each in tries if not any(each in text for text in texts) and each not in taken
    )
