"""The keys and the token shared by the processes of one run."""

from __future__ import annotations

import os
from dataclasses import dataclass

import msgspec
import zmq
from zmq.utils import z85

SECRET_BYTES = 32
LEAST_SECRET_CHARACTERS = 16


class Access(msgspec.Struct, frozen=True):
    """The endpoint of the first process and the keys of its clients."""

    endpoint: str
    server_key: bytes
    public_key: bytes
    secret_key: bytes


@dataclass(frozen=True)
class Keys:
    """CURVE keys of the server and the clients, and the token that every message carries.

    All are derived from one secret by HMAC-SHA256 (RFC 2104) over a label, so that each process
    with the secret can compute them.
    """

    server_public: bytes
    server_secret: bytes
    client_public: bytes
    client_secret: bytes
    token: bytes

    @classmethod
    def of(cls, secret: bytes) -> Keys:
        """The keys derived from ``secret``."""
        import hashlib  # which loads OpenSSL: a rank receives its keys and derives none
        import hmac

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
        """The keys derived from a new random secret."""
        return cls.of(os.urandom(SECRET_BYTES))

    def access(self, endpoint: str) -> Access:
        """The keys for clients of the server at ``endpoint``, without the server's secret key."""
        return Access(endpoint, self.server_public, self.client_public, self.client_secret)
