"""What the processes of one run know and nobody else does."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass

import zmq
from zmq.utils import z85

SECRET_BYTES = 32
LEAST_SECRET_CHARACTERS = 16


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
