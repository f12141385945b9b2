"""The foundation of every assembly of a broker: its ports, its settings, and work in slices."""

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.brokers.assembly import options
from cluster.brokers.assembly.ports import BrokerPorts
from cluster.brokers.stored.setting_changes import SettingChanges
from cluster.config import broker as keys
from cluster.config.live_settings import LiveSettings
from cluster.config.settings import Settings
from cluster.metrics.events import EventLog
from cluster.model.ids import BrokerId
from cluster.runtime.slices import Slices


@dataclass(frozen=True, slots=True)
class Foundation:
    """Created before every other part of the broker."""

    id: BrokerId
    ports: BrokerPorts
    live: LiveSettings
    setting_changes: SettingChanges
    slices: Slices
    event_log: EventLog

    def topic_settings(self, overrides: Mapping[str, str]) -> Settings:
        """All settings of an existing topic, given the topic's own settings."""
        return options.stored_topic_settings(self.live.now, overrides)


def lay_foundation(settings: Settings, ports: BrokerPorts) -> Foundation:
    """Load the settings that are stored for the broker; this blocks. Raises UserError."""
    broker_id = BrokerId(settings[keys.BROKER_ID])
    live = LiveSettings(settings)
    setting_changes = SettingChanges(broker_id, ports.store, ports.loop, ports.clock, live)
    setting_changes.load_at_start()
    return Foundation(
        broker_id,
        ports,
        live,
        setting_changes,
        Slices(ports.clock.monotonic_us, ports.loop.next_turn),
        EventLog(),
    )
