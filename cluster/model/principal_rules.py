"""Kafka's `ssl.principal.mapping.rules`: from the name in a certificate to a user (KIP-371). Pure.

    DEFAULT                          the name as it is
    RULE:pattern/replacement/[LU]    for a name that matches as a whole; in lower or upper case

The first rule that applies decides. As `SslPrincipalMapper` does it, with the syntax of Java's
`String.replaceAll` in replacements; patterns are Python's but for named groups, which are Java's.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_BACK_REFERENCE: Final = re.compile(r"\$([0-9]+)")
_NAMED_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")
_CASES: Final[dict[str, Callable[[str], str]]] = {"L": str.lower, "U": str.upper, "": str}


class NoRuleApplies(ValueError):
    """None of the rules yields a user for this name."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: str
    change_case: Callable[[str], str]

    def apply(self, name: str) -> str | None:
        if self.pattern.fullmatch(name) is None:
            return None
        replacement = _escape_unknown_groups(self.replacement, self.pattern.groups)
        return self.change_case(self.pattern.sub(lambda found: _expand(found, replacement), name))


class PrincipalRules:
    """The rules of one setting, immutable. Two are equal if their texts are."""

    def __init__(self, text: str) -> None:
        """Raises ValueError, with the reason in one line, for an invalid rule."""
        self.text = text
        self._rules = _parse(text)

    def user_of(self, name: str) -> str:
        """The user for the name in a certificate. Raises NoRuleApplies."""
        for rule in self._rules:
            try:
                user = name if rule is None else rule.apply(name)
            except (IndexError, ValueError) as error:
                raise NoRuleApplies(f"a rule cannot be applied to {name}: {error}") from error
            if user is not None:
                return user
        raise NoRuleApplies(f"no rule of ssl.principal.mapping.rules applies to {name}")


def _parse(text: str) -> list[_Rule | None]:
    """None stands for DEFAULT."""
    rules: list[_Rule | None] = []
    for split in _SPLITTER.finditer(text.strip()):
        rule = split[1]
        parsed = _PARSER.match(rule)
        end = 0 if parsed is None else parsed.end()
        if parsed is None or end != len(rule):
            raise ValueError(f"invalid rule: `{rule}`, unmatched substring: `{rule[end:]}`")
        if parsed[1] is not None:
            rules.append(None)
        elif parsed[2] is not None:
            try:
                pattern = re.compile(_NAMED_GROUP.sub("(?P<", parsed[2]))
            except re.error as error:
                raise ValueError(f"invalid rule: `{rule}`: {error}") from error
            rules.append(_Rule(pattern, parsed[4], _CASES[parsed[6]]))
    return rules


def _escape_unknown_groups(replacement: str, group_count: int) -> str:
    """Kafka takes `$9` literally if there is no ninth group, unless there is no group at all.

    If two are unknown, it escapes the second at the wrong place, and so do we.
    """
    if group_count == 0:
        return replacement
    escaped = replacement
    for reference in _BACK_REFERENCE.finditer(replacement):
        if reference[1].startswith("0"):
            continue
        number = int(reference[1])
        while number > group_count and number >= 10:
            number //= 10
        if number > group_count:
            at = reference.start()
            escaped = f"{escaped[:at]}\\{escaped[at:]}"
    return escaped


def _expand(found: re.Match[str], replacement: str) -> str:
    """Java's `Matcher.appendReplacement`. Raises IndexError and ValueError where that does."""
    parts: list[str] = []
    position = 0
    while position < len(replacement):
        each = replacement[position]
        position += 1
        if each == "\\":
            if position == len(replacement):
                raise ValueError("the replacement ends with a backslash")
            parts.append(replacement[position])
            position += 1
        elif each == "$":
            group, position = _group(replacement, position, found.re.groups)
            parts.append(found[group] or "")
        else:
            parts.append(each)
    return "".join(parts)


def _group(replacement: str, position: int, group_count: int) -> tuple[int | str, int]:
    """The group named after a `$`, and the position behind it."""
    if replacement[position : position + 1] == "{":
        end = replacement.find("}", position)
        if end < 0:
            raise ValueError("a named group in the replacement has no closing brace")
        return replacement[position + 1 : end], end + 1
    if not replacement[position : position + 1].isdecimal():
        raise ValueError("a $ in the replacement names no group")
    number = int(replacement[position])
    position += 1
    while replacement[position : position + 1].isdecimal():
        longer = number * 10 + int(replacement[position])
        if longer > group_count:
            break
        number = longer
        position += 1
    return number, position
