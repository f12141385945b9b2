"""The dashboard's process: its access rules, sources and server."""

import secrets
from collections.abc import Callable

from cluster.dashboard.access import AccessRules
from cluster.dashboard.app import make_app
from cluster.dashboard.cluster_sources import ClusterSources
from cluster.dashboard.groups.routes import group_routes
from cluster.dashboard.http_server import serve
from cluster.dashboard.messages.reader import MessageReader
from cluster.dashboard.messages.routes import message_routes
from cluster.dashboard.topics.routes import topic_routes
from cluster.dashboard.topics.sources import ClusterTopics
from cluster.dashboard.transactions.reader import TransactionReader
from cluster.dashboard.transactions.routes import transaction_routes
from cluster.dashboard.users.reader import AccessReader
from cluster.dashboard.users.routes import access_routes
from cluster.datadir.dashboard_access import LOOPBACK_NAMES, dashboard_password
from cluster.datadir.paths import DataDir
from cluster.runtime.heap_trim import keep_to_one_heap
from cluster.runtime.held_socket import HeldSocket
from cluster.runtime.installation import launcher


def run_dashboard(
    files: DataDir,
    host: str,
    held: HeldSocket,
    on_ready: Callable[[], None],
    *,
    has_password: bool,
    may_change: bool,
    is_guarded: bool,
) -> None:
    """Serve on the held socket, which listens on that host, until SIGTERM.

    `has_password`: whether to require the password of the data directory. `may_change`: whether
    changes are allowed at an address that other machines can reach. `is_guarded`: whether clients
    log in or are held by ACLs. Raises UserError if it cannot listen.
    """
    keep_to_one_heap()
    is_local = host in LOOPBACK_NAMES
    rules = AccessRules(
        hosts=LOOPBACK_NAMES if is_local else None,
        token=secrets.token_urlsafe(),
        password=dashboard_password(files.dashboard_password) if has_password else None,
        may_change=is_local or may_change,
    )
    sources = ClusterSources(files)
    sources.start_sampling()
    more_routes = [
        *group_routes(sources.groups),
        *topic_routes(ClusterTopics(files, sources.readings)),
        *message_routes(MessageReader(files)),
        *transaction_routes(TransactionReader(files)),
        *access_routes(AccessReader(files)),
    ]
    app = make_app(sources, rules, more_routes, program=launcher(files.path), is_guarded=is_guarded)
    serve(app, held.taken(), on_ready, app.state.end_streams)
