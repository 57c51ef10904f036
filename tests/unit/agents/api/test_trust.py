"""Authorities are read once, and anew where the environment names others."""

import ssl

import pytest

pytest.importorskip("httpx2", reason="needs httpx2: pip install '.[api]'")

from agents.api.transport import trusted


def test_they_are_read_once_for_all_clients(monkeypatch):
    read = []
    monkeypatch.setattr("agents.api.transport.httpx2.create_ssl_context", lambda **how: read.append(how) or object())
    monkeypatch.setenv("SSL_CERT_FILE", "nowhere.pem")
    assert trusted() is trusted()
    monkeypatch.setenv("SSL_CERT_FILE", "elsewhere.pem")
    assert trusted() is trusted() and trusted(trust_env=False) is trusted(trust_env=False)
    assert read == [{"trust_env": True}, {"trust_env": True}, {"trust_env": False}]


def test_certificates_are_checked(monkeypatch):
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    for trust_env in (True, False):
        context = trusted(trust_env=trust_env)
        assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
