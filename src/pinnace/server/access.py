"""Access: who may do what, by bearer tokens with scopes.

A line of the token file is a token, and its scopes: `infer` sends requests, `read` sees models, counts and
metrics, `admin` loads and unloads. Lines that begin with # are comments. Without a file everybody may do
everything. That a server lives and is ready is never secret.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pinnace.errors import ConfigError
from pinnace.server.failures import AccessError, ScopeError

Scope = Literal["infer", "read", "admin", "open"]
"""The scope that a request needs; `open` needs no token."""
SCOPES = ("infer", "read", "admin")
_SHORTEST = 16
"""Characters of a token: shorter ones can be guessed."""


class Access:
    """The tokens of a server."""

    def __init__(self, tokens: Mapping[str, frozenset[str]] | None = None) -> None:
        """`tokens` has the scopes of each; None lets everybody in."""
        self._tokens = None if tokens is None else {name.encode(): scopes for name, scopes in tokens.items()}

    @classmethod
    def of_file(cls, file: Path) -> Access:
        """Read a token file. Raises ConfigError, which names the line but no token, and OSError."""
        tokens = dict[str, frozenset[str]]()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            words = line.replace(",", " ").split()
            if not words or words[0].startswith("#"):
                continue
            token, *scopes = words
            if not scopes or not set(scopes) <= set(SCOPES):
                raise ConfigError(f"{file}:{number}: after the token come scopes: {', '.join(SCOPES)}")
            if len(token) < _SHORTEST or not token.isascii():
                raise ConfigError(f"{file}:{number}: a token has at least {_SHORTEST} characters of ASCII")
            tokens[token] = frozenset(scopes)
        if not tokens:
            raise ConfigError(f"{file} has no token")
        return cls(tokens)

    def token_for(self, scope: Scope) -> str:
        """Return a token with a scope, for the server's own requests; "" if there is or needs to be none."""
        found = (name for name, scopes in (self._tokens or {}).items() if scope in scopes)
        return next(found, b"").decode()

    def check(self, scope: Scope, authorization: str) -> None:
        """Raise AccessError unless the header `authorization` has a token with a scope.

        All tokens are compared, each in constant time: the time says nothing about them.
        """
        if self._tokens is None or scope == "open":
            return
        kind, _, given = authorization.partition(" ")
        token = given.strip().encode("utf-8", "replace")
        found = [scopes for name, scopes in self._tokens.items() if hmac.compare_digest(name, token)]
        if kind.lower() != "bearer" or not found:
            raise AccessError("a token is needed: send the header authorization: Bearer TOKEN")
        if scope not in found[0]:
            raise ScopeError(f"this token lacks the scope {scope!r}")
