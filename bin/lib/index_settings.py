"""Says to uv, in its environment variables, where pip is configured to find packages.

uv reads neither pip's variables nor its files, so whoever is behind a mirror has configured pip.
"""

import ast
from collections.abc import Mapping
from pathlib import Path


def for_uv(pip_config_list: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables to add to `environment`, from what `pip config list` printed.

    What the environment tells uv itself is left as it is.
    """
    pip = settings(pip_config_list)
    indexes = pip.get("extra-index-url", "").split()
    found = {
        "UV_DEFAULT_INDEX": pip.get("index-url", ""),
        "UV_INDEX": " ".join(indexes),
        # pip takes the best of all indexes, uv by default what the first one has.
        "UV_INDEX_STRATEGY": "unsafe-best-match" if indexes else "",
        "UV_NO_INDEX": "1" if is_yes(pip.get("no-index", "")) else "",
        "UV_FIND_LINKS": ",".join(
            place for place in pip.get("find-links", "").split() if is_there(place)
        ),
        "UV_INSECURE_HOST": " ".join(pip.get("trusted-host", "").split()),
        "UV_HTTP_TIMEOUT": pip.get("timeout", pip.get("default-timeout", "")),
        "UV_KEYRING_PROVIDER": "subprocess" if pip.get("keyring-provider") == "subprocess" else "",
        "SSL_CERT_FILE": pip.get("cert", ""),
        "SSL_CLIENT_CERT": pip.get("client-cert", ""),
        "HTTP_PROXY": pip.get("proxy", ""),
        "HTTPS_PROXY": pip.get("proxy", ""),
    }
    return {name: value for name, value in found.items() if value and name not in environment}


def settings(pip_config_list: str) -> dict[str, str]:
    """Option by option what holds for `pip install`, from lines such as `global.cert='/file'`."""
    found = {}
    lines = [line.partition("=") for line in pip_config_list.splitlines() if "=" in line]
    for section in ("global", "install", ":env:"):  # a later one goes before an earlier one
        for name, _, value in lines:
            if name.startswith(f"{section}."):
                found[name.removeprefix(f"{section}.")] = str(ast.literal_eval(value))
    return found


def is_yes(value: str) -> bool:
    """As pip reads a switch."""
    return value.lower() in {"1", "true", "yes", "on", "y", "t"}


def is_there(place: str) -> bool:
    """A link, or a file or folder that exists: pip goes on without one, uv does not."""
    return "://" in place or Path(place).exists()
