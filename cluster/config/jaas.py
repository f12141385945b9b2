"""Values of `sasl.jaas.config`: one Java login module with its options. Pure.

`Module required option="value" ...;`, parsed like Kafka's `JaasConfig` with Java's
`StreamTokenizer`. No message quotes an option's value, which may be a password.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from cluster.config import broker
from cluster.config.listeners import of_mechanism
from cluster.config.setting import LISTENER_PREFIX, SettingError
from cluster.config.snapshot import Settings
from cluster.model.security import SaslMechanism

_PACKAGE: Final = "org.apache.kafka.common.security"
LOGIN_MODULES: Final[Mapping[SaslMechanism, str]] = {
    SaslMechanism.PLAIN: f"{_PACKAGE}.plain.PlainLoginModule",
    SaslMechanism.SCRAM_SHA_256: f"{_PACKAGE}.scram.ScramLoginModule",
    SaslMechanism.SCRAM_SHA_512: f"{_PACKAGE}.scram.ScramLoginModule",
    SaslMechanism.OAUTHBEARER: f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_USER: Final = "user_"
_TOKEN: Final = re.compile(
    r"""(?P<left_out> \s+ | /\*.*?(?:\*/|\Z) | /[^\r\n]* )
    | (?P<word> [A-Za-z_$\u00a0-\U0010ffff] [A-Za-z0-9_$.\-\u00a0-\U0010ffff]* )
    | (?P<quoted> "(?:\\[^\r\n]|[^"\\\r\n])*" | '(?:\\[^\r\n]|[^'\\\r\n])*' )
    | (?P<sign> [=;] )
    | (?P<other> . )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_CONTROLS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class LoginModule(NamedTuple):
    """One entry of a JAAS text."""

    name: str
    """The full name of the Java class."""
    options: Mapping[str, str]


def parse_jaas(text: str) -> LoginModule:
    """Parse the only entry of a text. Raises ValueError with the reason in one line."""
    tokens = _tokens(text)
    first = next(tokens, None)
    if first is None:
        raise ValueError("it names no login module")
    module = _entry(first.word, tokens)
    if next(tokens, None) is not None:
        raise ValueError("it holds more than one login module")
    return module


def login_module(settings: Settings, listener: str, mechanism: SaslMechanism) -> LoginModule | None:
    """The login module of a mechanism on the listener of that name; None without one.

    `settings` are those of the broker. Raises SettingError.
    """
    text = of_mechanism(settings, listener, mechanism)[broker.SASL_JAAS_CONFIG]
    if text is None:
        return None
    key = jaas_key(listener, mechanism)
    try:
        module = parse_jaas(text)
    except ValueError as problem:
        raise SettingError(f"{key} is not valid: {problem}", key) from None
    wanted = LOGIN_MODULES[mechanism]
    if module.name != wanted:
        raise SettingError(
            f"{key} is not valid: it is for {mechanism}, whose login module is {wanted}", key
        )
    return module


def jaas_key(listener: str, mechanism: SaslMechanism) -> str:
    """The key of the text for one mechanism of a listener (KIP-85)."""
    return f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"


def plain_users(module: LoginModule) -> dict[str, str]:
    """The passwords of the users for PLAIN: options `user_NAME="PASSWORD"`."""
    return {
        option.removeprefix(_USER): value
        for option, value in module.options.items()
        if option.startswith(_USER)
    }


class _Token(NamedTuple):
    word: str | None
    """A word or a quoted text; None for signs and for what cannot be a value."""
    sign: str


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        match found.lastgroup:
            case "word":
                yield _Token(found[0], "")
            case "quoted":
                yield _Token(_ESCAPE.sub(_unescaped, found[0][1:-1]), "")
            case "sign" | "other":
                yield _Token(None, found[0])


def _unescaped(escape: re.Match[str]) -> str:
    meant = escape[1]
    return chr(int(meant, 8)) if meant[0] in "01234567" else _CONTROLS.get(meant, meant)


def _entry(name: str | None, tokens: Iterator[_Token]) -> LoginModule:
    if not name:
        raise ValueError("it must begin with the name of a login module")
    flag = next(tokens, None)
    if flag is None or flag.word is None or flag.word.lower() not in _FLAGS:
        raise ValueError(f"after {name} must stand {', '.join(_FLAGS[:-1])} or {_FLAGS[-1]}")
    options: dict[str, str] = {}
    for token in tokens:
        if token.sign == ";":
            return LoginModule(name, MappingProxyType(options))
        equals, value = next(tokens, None), next(tokens, None)
        if token.word is None:
            raise ValueError("options must be written as name=value, with values in quotes")
        if equals is None or equals.sign != "=" or value is None or value.word is None:
            raise ValueError(f"the option {token.word} needs a value: write it in quotes")
        options[token.word] = value.word
    raise ValueError("its end must be a semicolon")
