"""The files and headers for Triton."""

from pathlib import Path

import pytest

from common.errors import SettingsError
from common.settings import load
from services.dispatcher.app import read_access
from services.dispatcher.settings import DispatcherSettings
from services.dispatcher.triton.connection import KEY_HEADER, Access, TlsFiles, load_credentials, parse_headers
from tests.support.receivers.certificate_authority import Authority
from tests.unit.dispatcher.test_settings import REQUIRED


def test_headers_are_names_and_values() -> None:
    headers = parse_headers(("authorization=Bearer a=b", "triton-grpc-protocol-key=x"))
    assert headers == (("authorization", "Bearer a=b"), ("triton-grpc-protocol-key", "x"))
    assert parse_headers(()) == ()


@pytest.mark.parametrize(
    "item",
    [
        "secret",
        "=secret",
        "a=",
        "Authorization=secret",
        "a b=secret",
        "key-bin=secret",
        "grpc-timeout=secret",
        "a=secret\n",
    ],
)
def test_wrong_headers_are_refused_and_not_shown(item: str) -> None:
    with pytest.raises(SettingsError, match=r"^CHARONIA_TRITON_HEADERS is wrong: expected") as raised:
        parse_headers((item,))
    assert "secret" not in str(raised.value)


def test_wrong_files_name_their_variable(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), tmp_path / "other.pem"
    other.write_text("no certificate")
    (certificate, key), (_, other_key) = authority.write_pair("own"), authority.write_pair("other")
    ca, own, its_key = str(authority.path), str(certificate), str(key)
    load_credentials(TlsFiles(ca, own, its_key))
    load_credentials(TlsFiles())
    for files, variable in [
        (TlsFiles(str(tmp_path / "none.pem")), "CA"),
        (TlsFiles(str(other)), "CA"),
        (TlsFiles(ca, own), "CERTIFICATE"),
        (TlsFiles(ca, key=its_key), "CERTIFICATE"),
        (TlsFiles(ca, str(tmp_path / "none.pem"), its_key), "CERTIFICATE"),
        (TlsFiles(ca, own, str(tmp_path / "none.pem")), "KEY"),
        (TlsFiles(ca, own, str(other_key)), "CERTIFICATE"),
    ]:
        with pytest.raises(SettingsError, match=f"^CHARONIA_TRITON_TLS_{variable} .*wrong"):
            load_credentials(files)


def test_the_settings_say_how_triton_is_called() -> None:
    assert read_access(load(DispatcherSettings, REQUIRED)) == Access()
    files = {"CHARONIA_TRITON_TLS_CA": "ca.pem", "CHARONIA_TRITON_TLS_CERTIFICATE": "c", "CHARONIA_TRITON_TLS_KEY": "k"}
    given = REQUIRED | files | {"CHARONIA_TRITON_HEADERS": "authorization=Bearer x"}
    settings = load(DispatcherSettings, given | {"CHARONIA_TRITON_TLS": "true"})
    assert read_access(settings) == Access(TlsFiles("ca.pem", "c", "k"), (("authorization", "Bearer x"),))
    with pytest.raises(SettingsError, match="CHARONIA_TRITON_TLS is not set"):
        read_access(load(DispatcherSettings, given))


def test_the_key_of_the_repository_is_optional_and_goes_with_no_inference() -> None:
    key = "k/+=" * 8
    access = read_access(load(DispatcherSettings, REQUIRED | {"CHARONIA_TRITON_REPOSITORY_KEY": key}))
    assert (access.headers, access.control_headers) == ((), ((KEY_HEADER, key),))
    access = read_access(load(DispatcherSettings, REQUIRED | {"CHARONIA_TRITON_HEADERS": "a=b"}))
    assert access.headers == access.control_headers == (("a", "b"),)


@pytest.mark.parametrize("key", ["short-secret", "a secret of two words", "secret-with-a-line\n", "s" * 257])
def test_a_wrong_key_of_the_repository_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(SettingsError, match=r"^CHARONIA_TRITON_REPOSITORY_KEY is wrong: ") as raised:
        load(DispatcherSettings, REQUIRED | {"CHARONIA_TRITON_REPOSITORY_KEY": key})
    assert key not in str(raised.value)
