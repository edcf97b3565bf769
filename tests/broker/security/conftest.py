"""Certificates, created once."""

import pytest

from minibroker.security.tls.certificates import Certificates, write_certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority, and the certificates of a broker and a client."""
    directory = tmp_path_factory.mktemp("certificates") / "made"
    return write_certificates(str(directory), ["kafka.test", "10.1.2.3"])
