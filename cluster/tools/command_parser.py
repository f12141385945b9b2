"""The parser of each command: one-line errors with a suggestion, actions as words or as options."""

import argparse
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NoReturn

from cluster.model.printable import one_line

WIDTH_MAX: Final = 100
_PROBLEM_MAX_CHARACTERS: Final = 4_000
_LISTED_MAX: Final = 12
"""So many names are listed where none is similar to what was typed."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Uses the width of the terminal, up to 100 columns."""

    def __init__(self, prog: str) -> None:
        columns = shutil.get_terminal_size().columns
        super().__init__(prog, max_help_position=30, width=min(columns, WIDTH_MAX) - 1)

    def add_usage(
        self, usage: str | None, actions: Any, groups: Any, prefix: str | None = None
    ) -> None:
        """Only what is required, since the options are listed below it."""
        if prefix is not None:  # makes `prog` of sub-parsers
            super().add_usage(None, actions, groups, prefix)
            return
        required = [each for each in actions if each.required or not each.option_strings]
        options = argparse.Action([], "options", metavar="[options]")
        super().add_usage(usage, [*required, options], (), prefix)


class CommandParser(argparse.ArgumentParser):
    """Says what is wrong in one line, where argparse puts up to ten of usage before it.

    `topics list` is read as `topics --list`, and `quotas --list` as `quotas list`.
    """

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", _Help)
        super().__init__(**options)
        self.chosen = ""
        """The command's name, in the outermost parser, which finds words that no parser knows."""
        self.kind = "sub-command"
        """What the words of sub-parsers are called in errors."""
        self._action_words: Collection[str] = ()
        self._name_option: str | None = None
        self._has_many_names = False
        self._needs_action = False

    def accept_words(
        self,
        actions: Iterable[str] = (),
        *,
        name: str | None = None,
        many: bool = False,
        is_optional: bool = False,
    ) -> None:
        """Read words as options: an action such as `list` as `--list`, then a name as `name`.

        `many`: the option of the name may be repeated. `is_optional`: there may be no action.
        """
        self._needs_action = bool(actions) and not is_optional
        self._action_words = tuple(actions)
        self._name_option = name
        self._has_many_names = many
        words = ["ACTION"] if self._action_words else []
        if name is not None:
            words.append(f"[{name[2:].upper()}]")
        self.usage = f"%(prog)s {' '.join(words)} [options]"

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments; exit with status 2 for options and words that do not exist."""
        given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(self._spelled(given), namespace)

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        where = f"{self.prog} {self.chosen}".rstrip()
        problem = one_line(f"{message} (see `{where} --help`)", _PROBLEM_MAX_CHARACTERS)
        self.exit(2, f"error: {problem}\n")

    def _spelled(self, arguments: list[str]) -> list[str]:
        """The arguments as argparse expects them: words where it has sub-parsers, else options."""
        commands = self._sub_parsers()
        words = self._free_words(arguments)
        if words and arguments[words[0]] in commands:
            self._check_options(arguments[: words[0]])
            return arguments
        if commands and self.kind != "command":
            for at, argument in enumerate(arguments):
                is_own = argument in self._option_string_actions
                if argument.startswith("--") and argument[2:] in commands and not is_own:
                    return [argument[2:], *arguments[:at], *arguments[at + 1 :]]
        if words and any(each.nargs == argparse.REMAINDER for each in self._actions):
            self._check_options(arguments[: words[0]])
            return arguments
        self._check_options(arguments)
        self._check_action(arguments, words, commands)
        if words and (commands or self._action_words) and not self._has_action(arguments):
            return self._with_action(arguments, words, commands)
        return self._with_names(arguments, words)

    def _check_action(
        self, arguments: list[str], words: list[int], commands: Collection[str]
    ) -> None:
        """Name the actions if there is none; argparse would name the options of some only."""
        is_needed = self._needs_action or (bool(commands) and self.kind != "command")
        is_help = bool({"-h", "--help"} & {*arguments})
        if is_needed and not words and not is_help and not self._has_action(arguments):
            self.error(f"say what to do: {', '.join([*self._action_words, *commands])}")

    def _with_action(
        self, arguments: list[str], words: list[int], commands: Collection[str]
    ) -> list[str]:
        word = arguments[words[0]]
        if word not in self._action_words:
            kind = "action" if self._action_words else self.kind
            self.error(unknown(kind, word, [*self._action_words, *commands]))
        rest = self._with_names(arguments, words[1:])
        return [*rest[: words[0]], f"--{word}", *rest[words[0] + 1 :]]

    def _with_names(self, arguments: list[str], words: list[int]) -> list[str]:
        """Have words follow the option that they are values of: all, or one where it takes one."""
        option = self._name_option
        if option is None:
            return arguments
        if not self._has_many_names:
            words = [] if self._is_given(option, arguments) else words[:1]
        return [
            f"{option}={argument}" if at in words else argument
            for at, argument in enumerate(arguments)
        ]

    def _has_action(self, arguments: Iterable[str]) -> bool:
        return any(self._is_given(f"--{word}", arguments) for word in self._action_words)

    def _is_given(self, option: str, arguments: Iterable[str]) -> bool:
        found = self._option_string_actions.get(option)
        return found is not None and any(self._option(each) is found for each in arguments)

    def _sub_parsers(self) -> Collection[str]:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return action.choices.keys()
        return ()

    def _check_options(self, arguments: Sequence[str]) -> None:
        for argument in arguments:
            if argument == "--":
                return
            name = argument.partition("=")[0]
            if not name.startswith("--") or " " in name:
                continue
            if not any(known.startswith(name) for known in self._option_string_actions):
                options = [known for known in self._option_string_actions if len(known) > 2]
                self.error(unknown("option", name, options))

    def _free_words(self, arguments: Sequence[str]) -> list[int]:
        """The positions of words that are neither options nor values of options."""
        found = []
        values_left = 0
        for at, argument in enumerate(arguments):
            if argument == "--":
                break
            if self._is_option(argument):
                values_left = self._value_count(argument)
            elif values_left:
                values_left -= 1
            else:
                found.append(at)
        return found

    def _is_option(self, argument: str) -> bool:
        if not argument.startswith("-") or argument == "-" or " " in argument.partition("=")[0]:
            return False
        return not self._negative_number_matcher.match(argument)

    def _value_count(self, argument: str) -> int:
        """How many words after the option may be its values."""
        action = self._option(argument)
        if action is None or "=" in argument:
            return 0
        if action.nargs is None or action.nargs == argparse.OPTIONAL:
            return 1
        return action.nargs if isinstance(action.nargs, int) else sys.maxsize

    def _option(self, argument: str) -> argparse.Action | None:
        """The option that the argument names, which may be abbreviated."""
        name = argument.partition("=")[0]
        exact = self._option_string_actions.get(name)
        if exact is not None or not name.startswith("--") or len(name) < 3:
            return exact
        similar = [
            action
            for known, action in self._option_string_actions.items()
            if known.startswith(name)
        ]
        return similar[0] if len(similar) == 1 else None


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """That there is no such command, action or option; names the most similar one."""
    from difflib import get_close_matches  # only where something is wrong

    names = list(known)
    problem = f"there is no {kind} {name}"
    similar = get_close_matches(name, names, n=1)
    if similar:
        return f"{problem}: did you mean {similar[0]}?"
    if kind != "option" and len(names) <= _LISTED_MAX:
        return f"{problem}; there are: {', '.join(names)}"
    return problem
