"""The command line that produces a message like the page. Pure."""

import itertools
import shlex
import sys
from collections.abc import Collection
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
        return _none("a command reads one line for each message, and this one has a line break.")
    try:
        line, properties = _line(message)
    except _NoSeparator:
        return _none(
            "it holds every character that could separate its parts on a line. Send it from this"
            " page, or from a program."
        )
    options = [f"--topic={message.topic}"]
    if message.partition is not None:
        options.append(f"--partition={message.partition}")
    options += [f"--property={each}" for each in properties]
    quoted = " ".join([program, "produce", *map(shlex.quote, options)])
    return {"command": f"printf '%s\\n' {shlex.quote(line)} | {quoted}", "reason": None}


class _NoSeparator(Exception):
    """A text holds every character that could separate it from the next one."""


def _none(why: str) -> Json:
    return {"command": None, "reason": f"No command line produces this: {why}"}


def _line(message: NewMessage) -> tuple[str, list[str]]:
    """The line, and the properties by which `produce` reads it. Raises _NoSeparator."""
    texts = [*itertools.chain(*message.headers), message.key or "", message.value or ""]
    properties, line = [], message.value or ""
    if message.value is None:
        line = _null_marker(texts)
        properties.append(f"null.marker={line}")
    if message.key is not None:
        separator = _separator(":", message.key)
        properties = ["parse.key=true", f"key.separator={separator}", *properties]
        line = f"{message.key}{separator}{line}"
    if message.headers:
        text = "".join(itertools.chain(*message.headers))
        between = _separator("=", text)
        after = _separator(",", text + between)
        end = _separator("|", text + between + after)
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


def _separator(usual: str, text: str) -> str:
    """The usual character, or another that does not occur in the text. Raises _NoSeparator."""
    found = {*text}
    if usual not in found:
        return usual
    for sign in map(chr, range(ord("!"), sys.maxunicode)):
        if sign not in found and sign.isprintable() and not sign.isalnum():
            return sign
    raise _NoSeparator


def _null_marker(texts: Collection[str]) -> str:
    tries = itertools.chain([_NULL], (f"{_NULL}{number}" for number in itertools.count()))
    return next(each for each in tries if each not in texts)
