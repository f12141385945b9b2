"""Names for the place of windows."""

from pathlib import Path

import pytest

from cluster.analytics.windows.places import local_path, scheme_of


@pytest.mark.parametrize(
    ("place", "folder"),
    [
        ("windows", "windows"),
        ("/mnt/a b%20c?d=1#e/ä", "/mnt/a b%20c?d=1#e/ä"),
        ("file:///mnt/a%20b", "/mnt/a b"),
        ("FILE://localhost/mnt/w", "/mnt/w"),
        ("file:/mnt/w", "/mnt/w"),
    ],
)
def test_a_folder_has_a_path_or_a_uri(place, folder):
    assert local_path(place) == Path(folder)


def test_an_object_store_is_no_folder():
    for place, scheme in (("s3://b/w", "s3"), ("S3A://b/w", "s3a"), ("gs://b/w?a=b", "gs")):
        assert scheme_of(place) == scheme
        assert local_path(place) is None


@pytest.mark.parametrize("place", ["", " ", "file:w", "file://host/w", "file:"])
def test_a_place_that_names_no_folder_is_refused(place):
    with pytest.raises(ValueError, match="give a folder"):
        local_path(place)
