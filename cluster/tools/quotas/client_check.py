"""`quotas client-check`: runs somebody's Kafka client under a quota, and says whether it pauses.

It starts a cluster of one broker for it, reached through a proxy that sees when requests come.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cluster.model.addresses import LOOPBACK
from cluster.model.errors import Refused, UserError
from cluster.model.printable import one_line
from cluster.model.quotas import DEFAULT, QuotaEntity
from cluster.runtime.whole_numbers import not_negative
from cluster.tools.quotas.pause_watch import Finding
from cluster.tools.quotas.subcommands import add_subcommand
from cluster.views.amounts import AMOUNTS, byte_rate
from cluster.views.quantities import duration, percent

if TYPE_CHECKING:
    from cluster.client.security import Servers
    from cluster.datadir.paths import DataDir
    from cluster.tools.arguments import Subparsers
    from cluster.tools.quotas.watching_proxy import ProxyTls

_RECORD_BYTES: Final = 1_024
_RECORDS_PER_BATCH: Final = 10
_CLIENT_ID: Final = "milena-client-check"
_STDERR: Final = 2
_VARIABLES: Final = {
    "bootstrap": "BOOTSTRAP_SERVERS",
    "topic": "TOPIC",
    "clients": "CLIENT_FILES",
}
"""In which variable the command finds what stands for a word in braces."""
_KILL_AFTER_S: Final = 5.0
_STATS_AFTER_S: Final = 0.6
"""Brokers write their figures four times a second."""
MARKDOWN_HEADING: Final = (
    "| client | software | requests | verdict | pause: asked, kept (median) | sent ahead | recovers"
    " | of the limit used |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
)


class CheckRun(NamedTuple):
    """What came of one run."""

    findings: tuple[Finding, ...]
    limit: float
    status: int | None
    """The command's exit status; None: it was ended after --timeout."""
    given_up: int
    software: str
    """As the client told the broker (KIP-511); empty if it did not."""
    unreadable: str = ""
    """Why nothing can be told of one of its connections, if so."""

    @property
    def recovers(self) -> bool:
        """Whether it came through: it ended well, and gave up no connection while it waited."""
        return self.status in (0, None) and not self.given_up


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `quotas client-check` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "client-check",
        "quotas client-check -- ./my-producer --bootstrap-server {bootstrap} --topic {topic}",
        "quotas client-check --timeout 20 --json -- python consume.py {bootstrap} {topic}",
        "quotas client-check --secure -- kcat -F {clients}/kcat.conf -C -t {topic} -e",
        data_dir_default="a temporary one",
    )
    parser.add_argument(
        "words",
        nargs="+",
        metavar="COMMAND",
        help="after --: the client and its arguments, with {bootstrap} and {topic} where it wants"
        " them; both are in BOOTSTRAP_SERVERS and TOPIC too",
    )
    parser.add_argument(
        "--secure",
        action="store_true",
        help="by TLS and a login (SASL_SSL): files that say how, as of `start --secure`, are in the"
        " directory {clients}, which is in CLIENT_FILES too",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=60.0,
        metavar="S",
        help="end the client after so many seconds (60); what it did until then is judged",
    )
    parser.add_argument(
        "--limit",
        type=byte_rate,
        default=200_000.0,
        metavar="B",
        help=f"bytes per second to produce, and as many to fetch (200KB); {AMOUNTS}",
    )
    parser.add_argument(
        "--records",
        type=not_negative,
        default=2_000,
        metavar="N",
        help="records of 1 KiB that are in the topic for a consumer (2000)",
    )
    parser.add_argument("--topic", default="client-check", help="its name (client-check)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one object, for scripts")
    form.add_argument(
        "--markdown", metavar="NAME", help="rows of a table, for a client of that name"
    )


def run(args: argparse.Namespace) -> int:
    """Run the client and print the verdict: status 0 unless the client could not be run."""
    from cluster.datadir.paths import DataDir
    from cluster.tools.own_cluster import own_directory, remove_cluster

    files = DataDir(own_directory(args.data_dir, "client-check"))
    try:
        outcome = asyncio.run(_check(args, files))
    finally:
        remove_cluster(files.path)
    if not outcome.findings:
        status = "it was ended" if outcome.status is None else f"its status is {outcome.status}"
        login = ", and log in as the files in {clients} say" if args.secure else ""
        raise UserError(
            outcome.unreadable
            or f"the client neither produced nor fetched ({status}): does it connect to"
            f" {{bootstrap}}, or to BOOTSTRAP_SERVERS{login}?"
        )
    if args.json:
        print(json.dumps(to_json(outcome), indent=2))
    elif args.markdown is not None:
        print("\n".join(markdown_rows(args.markdown, outcome)))
    else:
        print("\n".join(lines(outcome)))
    return 0


# -- the run ---------------------------------------------------------------------------------------


async def _check(args: argparse.Namespace, files: "DataDir") -> CheckRun:
    from cluster.client.security import Servers
    from cluster.datadir.client_files import change_bootstrap
    from cluster.model.security import SecurityProtocol
    from cluster.tools.own_cluster import start_one_broker
    from cluster.tools.quotas.pause_watch import PauseWatch
    from cluster.tools.quotas.watching_proxy import WatchingProxy, now_ms

    proxy = WatchingProxy()
    try:
        _say("Starting a cluster of one broker")
        protocol = SecurityProtocol.SASL_SSL if args.secure else SecurityProtocol.PLAINTEXT
        started = await asyncio.to_thread(
            start_one_broker,
            files.path,
            (f"advertised.listeners={protocol}://{LOOPBACK}:{proxy.port}",),
            secure=args.secure,
        )
        _, broker_port = started.addresses[0]
        bootstrap = f"{LOOPBACK}:{proxy.port}"
        places = {"bootstrap": bootstrap, "topic": args.topic}
        servers = Servers([(LOOPBACK, proxy.port)])
        tls = None
        if args.secure:
            places["clients"] = str(files.clients)
            servers, tls = _secured(files, servers)
            change_bootstrap(files, bootstrap)
        await proxy.begin(broker_port, tls)
        await asyncio.to_thread(_prepare, servers, args.topic, args.records, args.limit)
        proxy.watch = watch = PauseWatch()
        command = filled(args.words, places)
        _say(f"Running {shlex.join(command)}")
        status = await _run_command(command, places, args.timeout)
        given_up = watch.given_up(now_ms())
        await asyncio.sleep(_STATS_AFTER_S)
        return CheckRun(
            tuple(watch.findings()),
            args.limit,
            status,
            given_up,
            _software(files),
            proxy.unreadable,
        )
    finally:
        proxy.close()


def _secured(files: "DataDir", servers: "Servers") -> tuple["Servers", "ProxyTls"]:
    """The servers with the login of the tools, and TLS with the broker's own key."""
    import ssl

    from cluster.client.security_properties import client_security
    from cluster.config.properties_file import read_properties_file
    from cluster.datadir.security_files import key_store
    from cluster.tools.quotas.watching_proxy import ProxyTls

    security = client_security(read_properties_file(files.tools_properties).texts)
    to_clients = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    to_clients.load_cert_chain(key_store(files.security, 0))
    return servers._replace(security=security), ProxyTls(to_clients, security.tls_context())


def _prepare(servers: "Servers", topic: str, records: int, limit: float) -> None:
    """Make the topic, fill it, and set the quotas."""
    from confluent_kafka import Producer

    from cluster.client.quota_requests import alter_quotas
    from cluster.client.refusals import reason_of
    from cluster.client.socket_client import SocketClient
    from cluster.client.topic_requests import create_topic

    connection: dict[str, str | int | float | bool] = {
        "client.id": _CLIENT_ID,
        "log_level": 0,
        **servers.librdkafka(),
    }
    with SocketClient.connect(servers, _CLIENT_ID) as client:
        try:
            create_topic(client, topic, partitions=1, replication_factor=1)
        except Refused as refused:
            raise UserError(f"cannot make topic {topic}: {reason_of(refused)}") from None
    # Small batches, of which the broker can hand out few at once.
    producer = Producer({**connection, "batch.num.messages": _RECORDS_PER_BATCH})
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, os.urandom(_RECORD_BYTES))
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    del producer
    with SocketClient.connect(servers, _CLIENT_ID) as client:
        limits = {"producer_byte_rate": limit, "consumer_byte_rate": limit}
        alter_quotas(client, QuotaEntity(None, DEFAULT), limits)


def filled(words: Sequence[str], places: Mapping[str, str]) -> list[str]:
    """The command with `{bootstrap}` and other places filled in; other braces stay as they are."""
    command = list(words)
    for name, text in places.items():
        command = [word.replace(f"{{{name}}}", text) for word in command]
    return command


async def _run_command(
    command: Sequence[str], places: Mapping[str, str], timeout_s: float
) -> int | None:
    """Its exit status, or None when it had to be ended; what it prints goes to stderr."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=_STDERR,
            env={**os.environ, **{_VARIABLES[name]: text for name, text in places.items()}},
            start_new_session=True,
        )
    except OSError as error:
        raise UserError(f"cannot run {command[0]}: {error.strerror}") from None
    try:
        return await asyncio.wait_for(process.wait(), timeout_s)
    except TimeoutError:
        return None
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the command and what it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _KILL_AFTER_S)
            return


def _software(files: "DataDir") -> str:
    """What the clients said that they are, from the broker's figures."""
    from cluster.views.client_states import client_states, read_brokers

    found = {
        state.row.software
        for state in client_states(read_brokers(files))
        if state.row.client_id != _CLIENT_ID and state.row.software
    }
    return ", ".join(sorted(found))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# -- telling ---------------------------------------------------------------------------------------


def lines(outcome: CheckRun) -> list[str]:
    """For a person."""
    told = [f"software: {one_line(outcome.software) or 'the client does not say'}"]
    for finding in outcome.findings:
        told.append(f"{finding.kind}: {finding.verdict()}")
        told.append(f"  {finding.cost(outcome.limit)}")
    told.append(_recovery(outcome))
    return told


def _recovery(outcome: CheckRun) -> str:
    end = (
        "it was ended after --timeout"
        if outcome.status is None
        else f"it ended with status {outcome.status}"
    )
    if outcome.given_up:
        return f"it does not recover: it gave up {outcome.given_up} connections; {end}"
    if outcome.status in (0, None):
        return f"it recovers: it kept its connections; {end}"
    return f"it kept its connections, but {end}"


def markdown_rows(name: str, outcome: CheckRun) -> list[str]:
    """Rows of the table below `MARKDOWN_HEADING`, one for each kind of request."""
    rows = []
    for finding in outcome.findings:
        pauses = finding.pauses
        medians = (
            f"{duration(finding.asked_median_ms)}, {duration(finding.kept_median_ms)}"
            if pauses
            else "-"
        )
        cells = (
            name,
            one_line(outcome.software) or "does not say",
            finding.kind,
            finding.word,
            medians,
            str(finding.ahead_max),
            "yes" if outcome.recovers else "no",
            percent(100 * _speed(finding) / outcome.limit),
        )
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def to_json(outcome: CheckRun) -> dict[str, Any]:
    """For scripts."""
    return {
        "software": outcome.software or None,
        "limit": outcome.limit,
        "status": outcome.status,
        "connections_given_up": outcome.given_up,
        "recovers": outcome.recovers,
        "requests": [
            {
                "kind": finding.kind,
                "verdict": finding.word,
                "text": finding.verdict(),
                "requests": finding.requests,
                "bytes": finding.bytes,
                "seconds": finding.seconds,
                "throttled": finding.throttled,
                "asked_ms": finding.asked_ms,
                "asked_ms_max": finding.asked_ms_max,
                "asked_median_ms": finding.asked_median_ms,
                "kept_median_ms": finding.kept_median_ms,
                "sent_ahead_max": finding.ahead_max,
                "pauses": {
                    **finding.behavior._asdict(),
                    "honours_throttling": finding.behavior.honors_throttling,
                },
            }
            for finding in outcome.findings
        ],
    }


def _speed(finding: Finding) -> float:
    return finding.bytes / finding.seconds if finding.seconds else 0.0


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not {text}") from None
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError("must be more than 0 and at most 86400 seconds")
    return seconds
