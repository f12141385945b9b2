"""What a check of ACLs costs: `python -m bench.acls`. The aim is below 1 us for a known answer.

10,000 rules of 100 users, half of them for prefixes.
"""

import time
import tracemalloc
from collections.abc import Callable
from itertools import cycle, islice

from cluster.brokers.security.acl_rules import AclRules
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
    _report("known refusal, its line left out", known, refused, CHECKS)
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


def _acls() -> dict[ResourcePattern, StoredAcls]:
    found = {}
    for number in range(RULES // 2):
        entry = AclEntry(f"User:user-{number % USERS}", "*", READ, AclPermission.ALLOW)
        literal = ResourcePattern(TOPIC, f"topic-{number}")
        prefixed = ResourcePattern(TOPIC, f"team-{number}-", PatternType.PREFIXED)
        found[literal] = found[prefixed] = StoredAcls(frozenset({entry}))
    return found


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
