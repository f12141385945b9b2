"""The help of the outermost command: all commands, by what they are for."""

import textwrap
from collections.abc import Mapping, Sequence

from cluster.tools.commands import Command

_INDENT = "  "


def overview(
    program: str,
    description: str,
    groups: Mapping[str, Sequence[Command]],
    examples: str,
    columns: int,
) -> str:
    """The text of `--help`, no wider than `columns`."""
    commands = [command for group in groups.values() for command in group]
    width = max(len(command.name) for command in commands) + 2
    parts = [description, f"usage: {program} COMMAND [--data-dir DIR] [options]"]
    for title, group in groups.items():
        rows = [_row(each.name, each.summary, width, columns) for each in group]
        parts.append("\n".join([f"{title}:", *rows]))
    options = (
        ("--help", "show this text; after a command: its options and examples"),
        ("--version", "show the version"),
        ("--data-dir DIR", "the cluster's directory (default: $MILENA_DATA_DIR, else var)"),
    )
    rows = [_row(name, text, max(width, 16), columns) for name, text in options]
    parts.append("\n".join(["options:", *rows]))
    parts.append(examples)
    return "\n\n".join(parts) + "\n"


def _row(name: str, text: str, width: int, columns: int) -> str:
    return textwrap.fill(
        text,
        max(columns, width + 30),
        initial_indent=f"{_INDENT}{name:{width}}",
        subsequent_indent=" " * (len(_INDENT) + width),
        break_long_words=False,
    )
