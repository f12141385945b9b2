"""Translates pip's configuration of package indexes into environment variables of uv.

uv reads neither pip's environment variables nor its files, and a machine that reaches packages
only through a mirror usually has pip alone configured for it.
"""

import ast
from collections.abc import Mapping
from pathlib import Path


def for_uv(pip_config_list: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The uv variables to add to `environment`, from the output of `pip config list`.

    Variables of uv that `environment` already has are left out of the result.
    """
    pip = settings(pip_config_list)
    indexes = pip.get("extra-index-url", "").split()
    found = {
        "UV_DEFAULT_INDEX": pip.get("index-url", ""),
        "UV_INDEX": " ".join(indexes),
        # pip takes the best version that any index has; uv by default stops at the first index.
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
    """The options in effect for `pip install` by name, from lines like `global.cert='/file'`."""
    found = {}
    lines = [line.partition("=") for line in pip_config_list.splitlines() if "=" in line]
    for section in ("global", "install", ":env:"):  # a later one overrides an earlier one
        for name, _, value in lines:
            if name.startswith(f"{section}."):
                found[name.removeprefix(f"{section}.")] = str(ast.literal_eval(value))
    return found


def is_yes(value: str) -> bool:
    """Whether pip reads this value of a boolean option as true."""
    return value.lower() in {"1", "true", "yes", "on", "y", "t"}


def is_there(place: str) -> bool:
    """Whether this is a URL or an existing file or folder: pip ignores missing ones, uv fails."""
    return "://" in place or Path(place).exists()
