"""Which listeners each broker of a cluster has, from settings that are the same for all. Pure.

The broker in slot N listens at the ports of the settings plus N times a step: 1, or as much more as
keeps the ports of all listeners apart. Brokers 0, 1 and 2 of a new cluster have slots 0, 1 and 2;
each keeps its slot when others are added or removed. `--port` moves the first
listener's port there, and the others' by as much; with `--port 0`, or 0 in the settings, a port is
any free one. `--host` stands over the hosts of the settings, and in place of a host that they leave
out.

Clients are told `--advertised-host`, else what the settings advertise, else where the broker
listens. An advertised port that is the one listened on moves with it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from cluster.config import broker as keys
from cluster.config.listener_rules import ANY_ADDRESS
from cluster.config.setting import SettingError
from cluster.config.value_type import Listener
from cluster.model.addresses import BROKER_PORT, LOOPBACK
from cluster.model.security import SecurityProtocol

PLAINTEXT: Final = SecurityProtocol.PLAINTEXT
LISTENERS: Final = keys.LISTENERS.name
ADVERTISED: Final = keys.ADVERTISED_LISTENERS.name


class Wishes(NamedTuple):
    """What the command line says; None for what it leaves to the settings."""

    host: str | None
    port: int | None
    advertised_host: str | None


class ListenerPlan(NamedTuple):
    """The listeners of every broker."""

    listened: tuple[Listener, ...]
    """Of the broker in slot 0; a port of 0 is any free one."""
    told: Mapping[str, Listener]
    """The advertised listeners by name; a port of 0 is the one listened on."""
    step: int
    """Between the ports of one slot and those of the next."""

    @property
    def hosts(self) -> list[str]:
        """Every name and address by which clients may know a broker."""
        named = {each.host for each in (*self.listened, *self.told.values())}
        return sorted(named - ANY_ADDRESS)

    def protocols(self, texts: Mapping[str, str]) -> list[SecurityProtocol]:
        """The protocol of every listener that the settings map to one."""
        return _protocols(self.listened, texts)

    def owner(self, broker: int, listener: Listener) -> str:
        """How a message names the one who listens there."""
        name = f"broker {broker}"
        return name if len(self.listened) == 1 else f"{name}, {listener.name}"

    def wanted(self, slot: int) -> list[Listener]:
        """What the broker in a slot listens on, before free ports are chosen."""
        return [
            each._replace(port=each.port + slot * self.step if each.port else 0)
            for each in self.listened
        ]

    def has_room(self, slot: int, taken: Iterable[int]) -> bool:
        """Whether the ports of a slot differ from those of the slots that are taken."""
        others = {each.port for other in taken for each in self.wanted(other)} - {0}
        return others.isdisjoint(each.port for each in self.wanted(slot))

    @property
    def ports_before_they_are_chosen(self) -> list[int]:
        """Ports of the listeners in slot 0; for those that are any free one, some that differ."""
        return [each.port or index + 1 for index, each in enumerate(self.listened)]

    def texts(self, slot: int, ports: Sequence[int]) -> dict[str, str]:
        """A broker's own settings, with the ports that were chosen for its listeners, in order."""
        bound = [
            each._replace(port=port) for each, port in zip(self.wanted(slot), ports, strict=True)
        ]
        port_of = {each.name: each.port for each in bound}
        told = [
            each._replace(port=each.port or port_of.get(each.name, 0))
            for each in self.told.values()
        ]
        return {LISTENERS: ",".join(map(str, bound)), ADVERTISED: ",".join(map(str, told))}


def plan_listeners(
    texts: Mapping[str, str],
    wishes: Wishes,
    slots: Collection[int],
    default: SecurityProtocol = PLAINTEXT,
) -> ListenerPlan:
    """The listeners of the brokers in these slots; one of the protocol `default` where the settings
    name none. If it is not PLAINTEXT, the settings have to name one of it. Raises SettingError.
    """
    given = keys.LISTENERS.parse(LISTENERS, texts.get(LISTENERS, ""))
    if LISTENERS in texts and not given:
        raise SettingError(f"{LISTENERS} is empty: a broker needs at least one", LISTENERS)
    stated = given or (Listener(default.value, "", BROKER_PORT),)
    if default is not PLAINTEXT:
        _check_that_some_are(default, stated, texts)
    listened = tuple(
        each._replace(host=wishes.host or each.host or LOOPBACK, port=port)
        for each, port in zip(stated, _ports(stated, wishes.port), strict=True)
    )
    advertised = keys.ADVERTISED_LISTENERS.parse(ADVERTISED, texts.get(ADVERTISED, ""))
    told = {
        each.name: each._replace(
            host=wishes.advertised_host or (LOOPBACK if each.host in ANY_ADDRESS else each.host),
            port=0,
        )
        for each in listened
    }
    if advertised:
        ports = {each.name: each.port for each in given}
        told = {
            each.name: _advertised(each, ports.get(each.name), wishes.advertised_host, len(slots))
            for each in advertised
        }
    return ListenerPlan(listened, told, _step([each.port for each in listened], slots))


def _check_that_some_are(
    protocol: SecurityProtocol, listeners: Sequence[Listener], texts: Mapping[str, str]
) -> None:
    if protocol not in _protocols(listeners, texts):
        raise SettingError(
            f"{LISTENERS} of a secure cluster need one with the protocol {protocol}: add"
            f" {protocol}://:PORT",
            LISTENERS,
        )


def _protocols(listeners: Sequence[Listener], texts: Mapping[str, str]) -> list[SecurityProtocol]:
    setting = keys.LISTENER_SECURITY_PROTOCOL_MAP
    text = texts.get(setting.name)
    protocols = setting.default if text is None else setting.parse(setting.name, text)
    return [protocols[each.name] for each in listeners if each.name in protocols]


def _ports(stated: Sequence[Listener], first: int | None) -> list[int]:
    if first == 0:
        return [0] * len(stated)
    moved = first - stated[0].port if first is not None and stated[0].port else 0
    ports = [each.port + moved if each.port else 0 for each in stated]
    if first is not None:
        ports[0] = first
    return ports


def _advertised(
    advertised: Listener, listened_port: int | None, host: str | None, brokers: int
) -> Listener:
    if host is not None or advertised.port == listened_port:
        return advertised._replace(host=host or advertised.host, port=0)
    if brokers > 1:
        raise SettingError(
            f"{ADVERTISED}: {advertised} cannot be the same for several brokers: use"
            f" --advertised-host, or advertise the port that {LISTENERS} has for"
            f" {advertised.name}",
            ADVERTISED,
        )
    return advertised


def _step(ports: Sequence[int], slots: Collection[int]) -> int:
    """The smallest that gives no port to two brokers."""
    fixed = {port for port in ports if port}
    return next(
        step
        for step in count(1)
        if len({port + slot * step for port in fixed for slot in slots}) == len(fixed) * len(slots)
    )
