"""The settings that all brokers share, from `--config` and the stronger `--override`."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from cluster.config.broker import BROKER_SETTINGS
from cluster.config.kafka_file import read_kafka_texts, unknown_keys
from cluster.config.properties_file import PropertiesFile, read_properties_file
from cluster.config.setting import SettingError
from cluster.config.settings import parse_override, placed
from cluster.launch.options import StartOptions
from cluster.model.errors import UserError
from cluster.runtime.private_files import other_readers

_PER_BROKER: Final = ("broker.id", "node.id")
"""Keys whose values differ from broker to broker, so that `--override` refuses them."""
_LOG_DIRS: Final = ("log.dirs", "log.dir")
"""Their directories are divided among the brokers; the first key counts, as in Kafka."""
_MAX_REPLICAS: Final = 3


class SharedSettings(NamedTuple):
    """Texts by key, without those that differ from broker to broker."""

    texts: Mapping[str, str]
    places: Mapping[str, str]
    """For each key from the file, its place for error messages, e.g. `FILE, line 3`."""
    log_dirs: str | None
    """The list that the settings name, if any."""

    @property
    def registry(self) -> str | None:
        """The external registry that the settings name; None where `start` makes one."""
        return self.texts.get("zookeeper.connect")


def read_shared_settings(
    options: StartOptions, count: int, note: Callable[[str], None]
) -> SharedSettings:
    """Read file and overrides for that many brokers; `note` shows remarks. Raises UserError."""
    file = (
        PropertiesFile({}, {}) if options.config is None else read_properties_file(options.config)
    )
    given = dict(map(parse_override, options.overrides))
    for key in _PER_BROKER:
        if key in given:
            raise UserError(
                f"--override {key} cannot be given for all brokers: `start` numbers them"
            )
    places = {
        key: f"{options.config}, line {line}"
        for key, line in file.lines.items()
        if key not in given
    }
    try:
        read = read_kafka_texts(file.texts, given)
    except SettingError as problem:
        raise placed(problem, places) from None
    _warn_of_readable_secrets(options, file, given, note)
    replicas = str(min(_MAX_REPLICAS, count))
    texts = {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(min(2, count)),
        "group.initial.rebalance.delay.ms": "0",
        **read.texts,
    }
    replaced = [key for key in _PER_BROKER if texts.pop(key, None) is not None]
    if replaced:
        note(f"From {options.config}, `start` sets itself: {', '.join(replaced)}.")
    named = [text for key in _LOG_DIRS if (text := texts.pop(key, None)) is not None]
    log_dirs = named[0] if named else None
    if log_dirs is not None and options.log_dirs is None:
        note(
            f"Each broker keeps its partitions in a directory of its own below {log_dirs}"
            " (--log-dirs . keeps them in the data directory)."
        )
    if read.unknown:
        note(unknown_keys(read.unknown, str(options.config), file.lines))
    for remark in read.remarks:
        note(remark)
    return SharedSettings(texts, places, log_dirs)


def _warn_of_readable_secrets(
    options: StartOptions,
    file: PropertiesFile,
    given: Mapping[str, str],
    note: Callable[[str], None],
) -> None:
    if options.config is not None and any(map(BROKER_SETTINGS.is_secret, file.texts)):
        readers = other_readers(options.config.stat())
        if readers is not None:
            note(
                f"Warning: {readers} can read the passwords in {options.config}:"
                f" run `chmod 600 {options.config}`."
            )
    seen = [key for key in given if BROKER_SETTINGS.is_secret(key)]
    if seen:
        note(
            f"Warning: everybody on this machine can read {', '.join(seen)} on the command line:"
            " use --config with a file that others cannot read."
        )
