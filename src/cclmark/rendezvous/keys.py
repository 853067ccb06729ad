"""What the processes of one run know and nobody else does."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass

import msgspec
import zmq
from zmq.utils import z85

SECRET_BYTES = 32
LEAST_SECRET_CHARACTERS = 16


class Access(msgspec.Struct, frozen=True):
    """Where the first process listens, and the keys of whoever speaks to it."""

    endpoint: str
    server_key: bytes
    public_key: bytes
    secret_key: bytes


@dataclass(frozen=True)
class Keys:
    """CURVE keys of server and clients, and the token that every message carries.

    All are derived from one secret by HMAC-SHA256 (RFC 2104) over a label, so that processes
    which share it can make them by themselves.
    """

    server_public: bytes
    server_secret: bytes
    client_public: bytes
    client_secret: bytes
    token: bytes

    @classmethod
    def of(cls, secret: bytes) -> Keys:
        """Those of the run that has ``secret``."""

        def derived(label: bytes) -> bytes:
            return hmac.new(secret, b"cclmark " + label, hashlib.sha256).digest()

        server, client = z85.encode(derived(b"server")), z85.encode(derived(b"client"))
        return cls(
            server_public=zmq.curve_public(server),
            server_secret=server,
            client_public=zmq.curve_public(client),
            client_secret=client,
            token=derived(b"token"),
        )

    @classmethod
    def new(cls) -> Keys:
        """Those of a run that needs no other secret than a new one."""
        return cls.of(secrets.token_bytes(SECRET_BYTES))

    def access(self, endpoint: str) -> Access:
        """What a client of the run needs that listens at ``endpoint``, without the server's own."""
        return Access(endpoint, self.server_public, self.client_public, self.client_secret)
