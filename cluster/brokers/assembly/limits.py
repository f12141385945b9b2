"""Assembles the quotas: the usage of each client, and the muting of clients over their quota."""

from dataclasses import dataclass

from cluster.brokers.assembly import options
from cluster.brokers.assembly.foundation import Foundation
from cluster.brokers.throttling.connected_clients import ConnectedClients
from cluster.brokers.throttling.throttle import QuotaThrottle
from cluster.quotas.client_quotas import ClientQuotas
from cluster.quotas.connection_rates import ConnectionRates


@dataclass(frozen=True, slots=True)
class Limits:
    """Client quotas and connection rate limits."""

    quotas: ClientQuotas
    connected: ConnectedClients
    throttle: QuotaThrottle
    connection_rates: ConnectionRates


def assemble_limits(foundation: Foundation) -> Limits:
    """No quota is in force before the stored ones are loaded."""
    ports, live = foundation.ports, foundation.live
    connected = ConnectedClients()
    connection_rates = ConnectionRates(options.quota_windows(live.now))
    connection_rates.limit(options.creation_rates(live.now))
    live.subscribe(lambda now: connection_rates.limit(options.creation_rates(now)))
    return Limits(
        ClientQuotas(options.quota_windows(live.now), options.mutation_windows(live.now)),
        connected,
        QuotaThrottle(ports.loop, connected, foundation.slices.start),
        connection_rates,
    )
