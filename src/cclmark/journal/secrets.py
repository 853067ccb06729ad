"""Removes secrets (passwords, keys, tokens) from journals, which users pass on.

Secrets are detected by their form, so that as much of a variable as possible is kept. A false
positive costs a reader little; a missed secret may cost its owner much.
"""

from __future__ import annotations

import re
from itertools import pairwise

HIDDEN = "***"

_NAMES = {
    *("KEY", "KEYS", "APIKEY", "ACCESSKEY", "SECRETKEY", "PRIVATEKEY", "SECRET", "SECRETS"),
    *("TOKEN", "TOKENS", "AUTHTOKEN", "PASS", "PASSWD", "PASSWORD", "PASSWORDS", "PASSPHRASE"),
    *("PWD", "CREDENTIAL", "CREDENTIALS", "CREDS", "AUTH", "AUTHORIZATION", "COOKIE", "BEARER"),
}
# The part of a URL before the host, up to the last @ of its authority.
_USER_OF_URL = re.compile(r"(?<=://)[^\s/?#]*@")
_NAMED = re.compile(
    r"((?:api|access|secret|private|auth|session)?[_-]?"
    r"(?:key|secret|token|passwd|password|passphrase|pwd|credentials?|signature|sig)"
    r"\s*[=:]\s*|\b(?:bearer|basic)\s+)[^\s&;,]+",
    re.IGNORECASE,
)
# Prefixes of issuers, which identify a secret of any length.
_KNOWN = re.compile(
    r"\b(?:gh[oprsu]_|github_pat_|glpat-|sk-|hf_|xox[abeoprs]-|AKIA|ASIA|AIza|ya29\.|npm_|pypi-|"
    r"eyJ[\w-]+\.)[\w.-]{8,}"
)
_KEY_BLOCK = re.compile(r"-----BEGIN .*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]{32,}", re.IGNORECASE)


def names_secret(name: str) -> bool:
    """Whether a variable's name implies a secret: by whole words, so NCCL_IB_PKEY does not."""
    return not _NAMES.isdisjoint(re.split(r"[^A-Z0-9]+", name.upper()))


def without_secrets(value: str) -> str:
    """Returns ``value`` with ``***`` in place of everything that looks like a secret."""
    for shape, replacement in (
        (_KEY_BLOCK, HIDDEN),
        (_USER_OF_URL, f"{HIDDEN}@"),
        (_NAMED, rf"\1{HIDDEN}"),
        (_KNOWN, HIDDEN),
    ):
        value = shape.sub(replacement, value)
    return _WORD.sub(lambda found: HIDDEN if _is_random(found[0]) else found[0], value)


def _is_random(word: str) -> bool:
    """Whether a long word looks random.

    That is a hexadecimal number other than a device's UUID, or letters of both cases mixed with
    digits.
    """
    rest = _UUID.sub("", word)
    if _HEX.search(rest):
        return True
    kinds = [
        sum(character.isdigit() for character in rest),
        sum(character.isupper() for character in rest),
        sum(character.islower() for character in rest),
    ]
    return len(rest) >= 24 and min(kinds) >= 1 and _changes(rest) >= len(rest) / 4


def _changes(word: str) -> int:
    """Counts changes between upper case, lower case and digits: many in a key, few in words."""

    def kind(character: str) -> int:
        return character.isdigit() + 2 * character.isupper() + 4 * character.islower()

    kinds = [(kind(one), kind(other)) for one, other in pairwise(word)]
    return sum(one != other and one > 0 and other > 0 for one, other in kinds)
