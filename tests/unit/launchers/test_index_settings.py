"""pip's configuration is translated into environment variables of uv."""

import importlib.util
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "bin" / "lib" / "index_settings.py"
spec = importlib.util.spec_from_file_location("index_settings", SOURCE)
assert spec
assert spec.loader
index_settings = importlib.util.module_from_spec(spec)
spec.loader.exec_module(index_settings)


def test_uv_keeps_its_defaults_when_pip_has_no_configuration():
    assert index_settings.for_uv("", {}) == {}


def test_a_mirror_becomes_the_default_index():
    listing = "global.index-url='https://mirror.example/simple'\nglobal.timeout='60'\n"
    assert index_settings.for_uv(listing, {}) == {
        "UV_DEFAULT_INDEX": "https://mirror.example/simple",
        "UV_HTTP_TIMEOUT": "60",
    }


def test_the_environment_goes_before_the_files_and_install_before_global():
    listing = (
        ":env:.index-url='https://third.example'\n"
        "global.index-url='https://first.example'\n"
        "install.index-url='https://second.example'\n"
    )
    found = index_settings.for_uv(listing, {})
    assert found == {"UV_DEFAULT_INDEX": "https://third.example"}
    assert index_settings.for_uv(listing.partition("\n")[2], {}) == {
        "UV_DEFAULT_INDEX": "https://second.example"
    }


def test_several_indexes_are_all_searched_as_pip_does():
    listing = "global.extra-index-url='\\nhttps://one.example\\nhttps://two.example'\n"
    assert index_settings.for_uv(listing, {}) == {
        "UV_INDEX": "https://one.example https://two.example",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_a_folder_of_wheels_that_does_not_exist_is_left_out(tmp_path):
    gone = tmp_path / "gone"
    listing = f":env:.find-links='{tmp_path} {gone} https://wheels.example'\n"
    assert index_settings.for_uv(listing, {}) == {
        "UV_FIND_LINKS": f"{tmp_path},https://wheels.example"
    }


def test_certificates_proxies_and_trusted_hosts_are_passed_on():
    listing = (
        "global.cert='/etc/ca.pem'\nglobal.client-cert='/me.pem'\n"
        "global.proxy='http://proxy.example:3128'\nglobal.trusted-host='a.example\\nb.example'\n"
    )
    assert index_settings.for_uv(listing, {}) == {
        "SSL_CERT_FILE": "/etc/ca.pem",
        "SSL_CLIENT_CERT": "/me.pem",
        "HTTP_PROXY": "http://proxy.example:3128",
        "HTTPS_PROXY": "http://proxy.example:3128",
        "UV_INSECURE_HOST": "a.example b.example",
    }


def test_variables_for_uv_itself_are_kept():
    listing = "global.index-url='https://mirror.example/simple'\nglobal.no-index='false'\n"
    assert index_settings.for_uv(listing, {"UV_DEFAULT_INDEX": "https://other.example"}) == {}
