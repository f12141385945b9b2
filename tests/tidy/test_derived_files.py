"""Files that are written from tables are what the tables say now."""

from pathlib import Path

from cluster.config.properties_file import parse_properties
from cluster.config.sample import sample_properties
from cluster.config.settings import broker_settings
from cluster.config.settings_page import settings_page

ROOT = Path(__file__).parents[2]


def test_the_sample_properties_are_current():
    written = (ROOT / "etc" / "server.properties").read_text()
    assert written == sample_properties(), (
        "write it anew: python -m cluster.config.sample > etc/server.properties"
    )


def test_the_page_of_settings_is_current():
    written = (ROOT / "docs" / "settings.md").read_text()
    assert written == settings_page(), (
        "write it anew: python -m cluster.config.settings_page > docs/settings.md"
    )


def test_the_sample_is_a_valid_file_as_it_is_and_with_every_line_uncommented():
    text = sample_properties()
    assert parse_properties(text).texts == {}
    lines = [line[1:] for line in text.splitlines() if line[:2] > "# " and "=" in line]
    broker_settings(parse_properties("\n".join(lines)).texts)
