"""`Security`: what is asked of it has to make sense."""

from typing import Any

import pytest

from minibroker.security.setup import Security


@pytest.mark.parametrize(
    ("protocol", "options", "message"),
    [
        ("SSL", {"users": {"alice": "secret"}}, "users: SSL has no logins"),
        ("SASL_PLAINTEXT", {"client_auth": "required"}, "client_auth: SASL_PLAINTEXT has no TLS"),
        ("SASL_PLAINTEXT", {"certificates": "somewhere"}, "certificates: SASL_PLAINTEXT has no TLS"),
        ("PLAINTEXT", {}, "protocol: 'PLAINTEXT' is not one of SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("SASL_SSL", {"mechanisms": []}, "mechanisms: SASL_SSL needs one of PLAIN"),
        ("SASL_SSL", {"mechanisms": ["MD5"]}, "mechanisms: 'MD5' is not one of PLAIN"),
        ("SSL", {"client_auth": "always"}, "client_auth: 'always' is not one of none"),
    ],
)
def test_what_would_have_no_effect_is_refused(protocol: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        Security(protocol, **options)
