"""Runs the registry as a process: address, files, loop and signals."""

import signal
from collections.abc import Callable

from cluster.coordinator.registry.server.journal_files import JournalFiles
from cluster.coordinator.registry.server.options import RegistryOptions
from cluster.coordinator.registry.server.registry_driver import LISTEN_BACKLOG, RegistryDriver
from cluster.runtime.acceptor import AcceptOptions, Acceptor, Listener
from cluster.runtime.clock import SystemClock
from cluster.runtime.handshake_thread import HandshakeThread
from cluster.runtime.loop import EventLoop
from cluster.runtime.tls_endpoint import TlsEndpoint, TlsTerminator


def run_registry(options: RegistryOptions, on_ready: Callable[[int], None]) -> None:
    """Serve until SIGTERM or SIGINT; `on_ready(port)` is called once when clients can connect.

    Runs on the main thread of its own process. Raises UserError when the address cannot or must not
    be listened on, StorageFailed when the data directory cannot be used or fails.
    """
    options.check()
    clock = SystemClock()
    loop = EventLoop(clock)
    acceptor = Acceptor(loop, accept_options(options))
    terminator, securing = None, None
    if options.tls is not None:
        terminator = TlsTerminator(loop, HandshakeThread(clock, loop.call_from_thread))
        securing = TlsEndpoint("the registry", options.tls, terminator, lambda subject: subject)
    port = acceptor.bind(Listener("the registry", options.host, options.port), securing)
    files, state = JournalFiles.open(
        options.data_dir, options.tick_time_ms, clock.monotonic_ms(), fsync=options.fsync
    )
    driver = RegistryDriver(options, loop, acceptor, port, files, state, clock)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: loop.stop())
    driver.start()
    on_ready(port)
    is_orderly = False
    try:
        loop.run()
        is_orderly = True
    finally:
        driver.close(is_orderly=is_orderly)
        if terminator is not None:
            terminator.close()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        loop.close()


def accept_options(options: RegistryOptions) -> AcceptOptions:
    """The options with which the registry accepts connections."""
    return AcceptOptions(
        max_per_host=options.max_client_connections or None,
        max_per_host_setting="maxClientCnxns",
        backlog=LISTEN_BACKLOG,
    )
