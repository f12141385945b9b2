"""The dashboard's process: who may use it, what it shows, and its server, put together."""

import os
import secrets
from collections.abc import Callable
from typing import Final

from cluster.dashboard.access import AccessRules
from cluster.dashboard.app import make_app
from cluster.dashboard.cluster_sources import ClusterSources
from cluster.dashboard.http_server import listen, serve
from cluster.supervisor.plan import DataDir

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def run_dashboard(
    files: DataDir, host: str, port: int, may_change: bool, on_ready: Callable[[], None]
) -> None:
    """Serve until SIGTERM. Raises UserError when the port is taken.

    `may_change`: whether an address that other machines can reach may change something, too.
    """
    is_local = host in _LOOPBACK
    rules = AccessRules(
        hosts=_LOOPBACK if is_local else None,
        token=secrets.token_urlsafe(),
        password=None if is_local else _password(files),
        may_change=is_local or may_change,
    )
    app = make_app(ClusterSources(files), rules)
    serve(app, listen(host, port), on_ready, app.state.end_streams)


def _password(files: DataDir) -> str:
    """Made at the first start that needs it, and kept in a file that only its owner can read."""
    path = files.path / "dashboard-password"
    known = path.read_text().strip() if path.exists() else ""
    if known:
        return known
    password = secrets.token_urlsafe()
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{password}\n")
    draft.replace(path)
    return password
