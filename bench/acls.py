"""What a check of ACLs costs: `python -m bench.acls`. The aim is below 1 us for a known answer.

10,000 rules of 100 users, half of them for prefixes. Who asks for all of them gets them in slices:
the longest turn of the loop is what others may have to wait for.
"""

import logging
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

from cluster.brokers.security.acl_rules import AclRules
from cluster.brokers.security.audit_log import LOGGER
from cluster.brokers.security.authorizer import Authorizer
from cluster.coordinator.cluster_store import StoredAcls
from cluster.model.acls import (
    AclEntry,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from cluster.protocol.api import ApiKey
from cluster.runtime.clock import SystemClock
from cluster.runtime.log_file import LogFile
from tests.support.handler_stage import HandlerStage
from tests.support.kafka_wire import request

RULES = 10_000
CHECKS = 200_000
USERS = 100
READ, TOPIC = AclOperation.READ, ResourceType.TOPIC
Question = tuple[str, str]


def main() -> None:
    """Print one line per case."""
    acls = _acls()
    one = [("user-1", "topic-1")]
    many = [(f"user-{number % USERS}", f"topic-{number}") for number in range(RULES // 2)]
    refused = [("nobody", "topic-1")]
    authorizer = Authorizer({"User:admin"})
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    began = time.perf_counter()
    authorizer.take_rules(acls)
    loaded_ms = (time.perf_counter() - began) * 1e3
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    began = time.perf_counter()
    authorizer.take_rules(acls)
    loaded_ms = (time.perf_counter() - began) * 1e3
    print(f"{RULES:,} rules are taken in {loaded_ms:.0f} ms and {taken / 2**20:.1f} MiB")
    single = dict(islice(acls.items(), 1))
    _report("one of them changes", lambda _: authorizer.take_rules(single), one, 2_000)
    allows = authorizer.allows
    known: Callable[[Question], object] = lambda q: allows(q[0], "127.0.0.1", READ, TOPIC, q[1])  # noqa: E731
    _report("known answer, one question", known, one, CHECKS)
    _report(f"known answers, {len(many):,} questions", known, many, CHECKS)
    with tempfile.TemporaryDirectory() as directory:
        handler = LogFile(Path(directory) / "broker.log")
        logging.getLogger().addHandler(handler)
        logging.getLogger(LOGGER).setLevel(logging.INFO)
        _report("known refusal, its line left out", known, refused, CHECKS // 10)
        logging.getLogger().removeHandler(handler)
        handler.close()
    rules = AclRules()
    for pattern, stored in acls.items():
        rules.put(pattern, stored.entries)
    fresh: Callable[[Question], object] = lambda q: rules.allow(  # noqa: E731
        f"User:{q[0]}", "127.0.0.1", READ, TOPIC, q[1]
    )
    _report("fresh answer", fresh, many, CHECKS // 10)
    some: Callable[[Question], object] = lambda q: rules.allow_some(  # noqa: E731
        f"User:{q[0]}", "127.0.0.1", AclOperation.WRITE, TOPIC
    )
    _report("fresh answer for any topic", some, one, 200)
    with tempfile.TemporaryDirectory() as directory:
        _describe_all(Path(directory), acls)


def _acls() -> dict[ResourcePattern, StoredAcls]:
    found = {}
    for number in range(RULES // 2):
        entry = AclEntry(f"User:user-{number % USERS}", "*", READ, AclPermission.ALLOW)
        literal = ResourcePattern(TOPIC, f"topic-{number}")
        prefixed = ResourcePattern(TOPIC, f"team-{number}-", PatternType.PREFIXED)
        found[literal] = found[prefixed] = StoredAcls(frozenset({entry}))
    return found


def _describe_all(directory: Path, acls: dict[ResourcePattern, StoredAcls]) -> None:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin",
    }
    with HandlerStage(directory, settings, clock=SystemClock()) as stage:
        assert stage.core.clients.security.acls is not None
        stage.core.clients.security.acls.follower.load_at_start()
        admin = stage.connect()
        admin.principal = "admin"
        creations = [
            {
                "resource_type": int(pattern.resource_type),
                "resource_name": pattern.name,
                "resource_pattern_type": int(pattern.pattern_type),
                "principal": entry.principal,
                "host": entry.host,
                "operation": int(entry.operation),
                "permission_type": int(entry.permission),
            }
            for pattern, stored in acls.items()
            for entry in stored.entries
        ]
        admin.send(request(ApiKey.CREATE_ACLS, 3, creations=creations))
        while admin.is_waiting:
            stage.store.work()
            stage.turn()
        admin.receive()
        wanted = request(
            ApiKey.DESCRIBE_ACLS,
            3,
            resource_type_filter=int(ResourceType.ANY),
            resource_name_filter=None,
            pattern_type_filter=int(PatternType.ANY),
            principal_filter=None,
            host_filter=None,
            operation=int(AclOperation.ANY),
            permission_type=int(AclPermission.ANY),
        )
        results = []
        for _ in range(5):
            turns_ms = [_thread_ms(lambda: admin.send(wanted))]
            while admin.is_waiting:
                turns_ms.append(_thread_ms(stage.turn))
            admin.receive()
            results.append((max(turns_ms), sum(turns_ms), len(turns_ms)))
        longest_ms, all_ms, turns = min(results)
        print(
            f"all {RULES:,} are described in {all_ms:.0f} ms of CPU, in {turns} turns of"
            f" {longest_ms:.1f} ms at most"
        )


def _thread_ms(do: Callable[[], object]) -> float:
    began = time.thread_time()
    do()
    return (time.thread_time() - began) * 1e3


def _report(
    title: str, ask: Callable[[Question], object], questions: list[Question], count: int
) -> None:
    best_us = min(_run(ask, questions, count) for _ in range(5))
    print(f"{title:<40} {best_us:8.2f} us")


def _run(ask: Callable[[Question], object], questions: list[Question], count: int) -> float:
    asked = list(islice(cycle(questions), count))
    began = time.perf_counter()
    for question in asked:
        ask(question)
    return (time.perf_counter() - began) / count * 1e6


if __name__ == "__main__":
    main()
