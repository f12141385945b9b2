"""`load-test --scenario noisy-neighbour`: runs it and prints expectations and observations."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from cluster.loadtest.broker_usage import read_usages, usage_rates
from cluster.loadtest.neighbor_verdict import (
    Check,
    verdict,
    verdict_text,
)
from cluster.loadtest.noisy_neighbor import (
    NOISY,
    NOISY_FACTOR,
    POLITE,
    SHORT,
    Hooks,
    NeighborPlan,
    Phases,
    Stretch,
    judged,
    rates_by_broker,
    run_neighbors,
)
from cluster.loadtest.result_text import client_json, clients_table
from cluster.loadtest.worker_orders import ProducerOrder
from cluster.model.errors import UserError
from cluster.tools.load.display import display
from cluster.tools.load.quota import limit_producer
from cluster.tools.load.topic import LoadTopic, open_load_topic

if TYPE_CHECKING:
    from collections.abc import Mapping

POLITE_RECORDS_PER_S: Final = 300.0
_METRIC_DELAY_S: Final = 1.5
"""Longer than a second, because brokers publish their metrics once a second."""
_PHASE_TEXTS: Final = {
    "alone": "polite alone",
    "limited": "noisy wants half as much again as its quota",
    "unlimited": "noisy without its quota",
}


@dataclass(frozen=True, slots=True)
class ScenarioOptions:
    """Options of the scenario, from the command line or from the demo."""

    quota: float
    """The noisy client's produce quota: bytes/s at each broker."""
    phases: Phases
    properties: "Mapping[str, object]"
    """For both producers."""
    record_bytes: int = 1_000
    while_limited: Callable[[], None] = lambda: None
    """Called once while the noisy client is throttled."""


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """The measurements, and their checks against the expectations."""

    stretches: "Mapping[str, Stretch]"
    checks: list[Check]
    rate_source: str

    @property
    def holds(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)


def run_scenario(args: argparse.Namespace, properties: "Mapping[str, object]") -> int:
    """Run the scenario and print the result. Returns 0 if all is as expected, else 1 or 130."""
    phases = SHORT if args.short else Phases()
    options = ScenarioOptions(args.quota, phases, properties, args.record_size)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    try:
        with (
            open_load_topic(args, say) as topic,
            display(args.reporting_interval, is_silent=args.json) as progress,
        ):
            result = neighbors(topic, options, progress, say)
    except KeyboardInterrupt:
        say(f"Interrupted: the clients are stopped, the quota of {NOISY} is removed.")
        return 130
    print(json.dumps(scenario_json(result)) if args.json else scenario_text(result))
    return 0 if result.holds else 1


def neighbors(
    topic: LoadTopic,
    options: ScenarioOptions,
    progress: Callable[..., None],
    say: Callable[[str], None],
) -> ScenarioResult:
    """Run the phases; the quota is removed afterwards in any case. Raises UserError."""
    properties = {
        **topic.connection,
        **options.properties,
        # Small requests and a small queue: throttled records should wait in the schedule instead.
        "batch.size": 65_536,
        "queue.buffering.max.kbytes": 4_096,
    }
    polite = ProducerOrder(
        client_id=POLITE,
        bootstrap=topic.bootstrap,
        topic=topic.name,
        partitions=topic.partition_count,
        run=SystemRandom().getrandbits(32),
        index=0,
        records_per_s=POLITE_RECORDS_PER_S,
        record_bytes=options.record_bytes,
        properties=properties,
    )
    wanted = options.quota * NOISY_FACTOR * len(set(topic.leaders().values()))
    noisy = replace(polite, client_id=NOISY, index=1, records_per_s=wanted / options.record_bytes)
    began = time.monotonic()

    def on_phase(name: str, seconds: float) -> None:
        say(f"{time.monotonic() - began:5.1f} s  {_PHASE_TEXTS[name]}, for {seconds:g} s")

    hooks = Hooks(
        limit=lambda: limit_producer(topic.servers, NOISY, options.quota),
        unlimit=lambda: limit_producer(topic.servers, NOISY, None),
        on_phase=on_phase,
        progress=progress,
        while_limited=options.while_limited,
    )
    plan = NeighborPlan(polite, noisy, options.phases)
    try:
        stretches = run_neighbors(plan, hooks)
        rates, source = _broker_rates(topic, stretches["limited"])
    finally:
        try:
            limit_producer(topic.servers, NOISY, None)
        except UserError as problem:
            say(f"The quota of {NOISY} may still be set: {problem}")
    checks = verdict(
        judged(
            stretches,
            polite_rate=POLITE_RECORDS_PER_S,
            quota=options.quota,
            is_rough=not options.phases.is_long_enough,
            broker_rates=rates,
        )
    )
    return ScenarioResult(stretches, checks, source)


def _broker_rates(topic: LoadTopic, limited: Stretch) -> tuple[dict[int, float], str]:
    """The noisy client's bytes/s by leader: from metrics, else from acknowledgments."""
    leaders = topic.leaders()
    seconds = (limited.until_us - limited.from_us) / 1e6
    wall_offset_us = (time.time_ns() - time.monotonic_ns()) // 1_000
    from_ms = (limited.from_us + wall_offset_us) // 1_000
    until_ms = (limited.until_us + wall_offset_us) // 1_000
    time.sleep(_METRIC_DELAY_S)
    usages = read_usages(topic.connection, "produce", NOISY, from_ms)
    rates = usage_rates(usages, from_ms, until_ms)
    if rates:
        return {broker: rates.get(broker, 0.0) for broker in set(leaders.values())}, "brokers"
    noisy = limited.noisy
    return ({} if noisy is None else rates_by_broker(noisy, leaders, seconds)), "acknowledged"


def scenario_text(result: ScenarioResult) -> str:
    """A table of the clients in each phase, then the verdict."""
    rows = []
    for name, stretch in result.stretches.items():
        rows.append((f"{POLITE}, {name}", stretch.polite))
        if stretch.noisy is not None:
            rows.append((f"{NOISY}, {name}", stretch.noisy))
    source = {
        "brokers": "Rates at the brokers are what they counted for the quota, requests and all.",
        "acknowledged": "The brokers publish no metrics: rates are of acknowledged records.",
    }[result.rate_source]
    outcome = "The quota holds." if result.holds else "Not as expected."
    return f"{clients_table(rows)}\n\n{verdict_text(result.checks)}\n{source}\n{outcome}"


def scenario_json(result: ScenarioResult) -> dict[str, object]:
    """The result as the object that `--json` prints."""
    return {
        "scenario": "noisy-neighbour",
        "holds": result.holds,
        "rate_source": result.rate_source,
        "checks": [asdict(check) for check in result.checks],
        "phases": {
            name: {
                "seconds": round((one.until_us - one.from_us) / 1e6, 3),
                "polite": client_json(POLITE, one.polite),
                "noisy": None if one.noisy is None else client_json(NOISY, one.noisy),
            }
            for name, one in result.stretches.items()
        },
    }
