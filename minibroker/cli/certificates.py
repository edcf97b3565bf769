"""`minibroker certificates` creates a certificate authority, a broker and a client certificate, for tests."""

import argparse

from minibroker.security.tls import certificates

_EPILOG = """\
The broker takes them with
  ssl.keystore.type=PEM
  ssl.keystore.location=DIR/server.keystore.pem
and clients with security.protocol=SSL and DIR/ca.pem, or DIR/truststore.p12 in Java.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.epilog, parser.formatter_class = _EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("directory", metavar="DIR", help="directory to write them to; created if missing")
    parser.add_argument(
        "--host", action="append", default=[], metavar="HOST", help="a name or address of the broker, beside localhost"
    )
    parser.add_argument("--client", default="client", metavar="NAME", help="the client's common name (default client)")
    parser.add_argument("--password", metavar="TEXT", help="password of the PKCS12 files (default minibroker)")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    password = certificates.PASSWORD if options.password is None else options.password
    written = certificates.write_certificates(options.directory, options.host, client=options.client, password=password)
    for path in written[:-1]:
        print(path)  # noqa: T201 - the output of the command
    return 0
