"""Secrets, certificates and headers that a configuration names, read where they stand; errors tell file and key.

It must not know sources. The trap: a certificate that cannot be read would fail every replica in a tick of its own; it
is a mistake in the configuration and told when that is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from opsconsole.config import Loaded
from opsconsole.errors import ConfigError
from opsconsole.observe.fetch import FetchOptions, tls_context


def where(loaded: Loaded, key: str) -> str:
    """Where a key was given, for an error."""
    return loaded.origins.get(key) or loaded.origins.get(key.lower()) or str(loaded.path or "the configuration")


@contextmanager
def named(loaded: Loaded, key: str) -> Iterator[None]:
    """A mistake found within is told with the file and the key it stands under."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{where(loaded, key)}: {key}: {error}") from None


def secret(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The secret in {path} cannot be read: {error}.") from None
    if not text:
        raise ConfigError(f"The file {path} should hold a secret and is empty.")
    return text


def fetch_options(loaded: Loaded) -> FetchOptions:
    """How engines are asked, and a Prometheus server where it needs the same."""
    table = loaded.config.sources
    headers = tuple(table.headers.items())
    if table.bearer_token_file is not None:
        with named(loaded, "sources.bearer_token_file"):
            headers = (*headers, ("Authorization", f"Bearer {secret(table.bearer_token_file)}"))
    ca_file = None if table.ca_file is None else str(table.ca_file.expanduser())
    plain = FetchOptions(timeout_s=table.timeout, headers=headers, verify=table.verify, ca_file=ca_file)
    with named(loaded, "sources.ca_file"):
        _usable(plain)
    if table.client_cert is None:
        return plain
    cert = table.client_cert.expanduser()
    with named(loaded, "sources.client_cert"):
        return _usable(replace(plain, client_cert=(str(cert), str((table.client_key or cert).expanduser()))))


def _usable(options: FetchOptions) -> FetchOptions:
    """The same, unless its certificates cannot be read: better said now than by every replica."""
    if options.ca_file or options.client_cert:
        files = options.client_cert or (options.ca_file,)
        try:
            tls_context(options)
        except OSError as error:
            told = " and ".join(dict.fromkeys(map(str, files)))
            raise ConfigError(f"no certificate can be read from {told}: {error.strerror or error}") from None
    return options
