"""What must not get into a journal, which people hand on: passwords, keys, tokens.

Secrets are found by what they look like, so that of a variable as much is kept as can be. What is
taken for one by mistake costs a reader little; what is missed may cost its owner much.
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
# What stands before the host of a URL, up to the last @ of its authority.
_USER_OF_URL = re.compile(r"(?<=://)[^\s/?#]*@")
_NAMED = re.compile(
    r"((?:api|access|secret|private|auth|session)?[_-]?"
    r"(?:key|secret|token|passwd|password|passphrase|pwd|credentials?|signature|sig)"
    r"\s*[=:]\s*|\b(?:bearer|basic)\s+)[^\s&;,]+",
    re.IGNORECASE,
)
# As their makers begin them: so they are known whatever their length.
_KNOWN = re.compile(
    r"\b(?:gh[oprsu]_|github_pat_|glpat-|sk-|hf_|xox[abeoprs]-|AKIA|ASIA|AIza|ya29\.|npm_|pypi-|"
    r"eyJ[\w-]+\.)[\w.-]{8,}"
)
_KEY_BLOCK = re.compile(r"-----BEGIN .*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]{32,}", re.IGNORECASE)


def names_secret(name: str) -> bool:
    """Whether a variable of that name holds a secret: by a word of it, so not NCCL_IB_PKEY."""
    return not _NAMES.isdisjoint(re.split(r"[^A-Z0-9]+", name.upper()))


def without_secrets(value: str) -> str:
    """``value`` with ``***`` in the place of what looks like a secret."""
    for shape, replacement in (
        (_KEY_BLOCK, HIDDEN),
        (_USER_OF_URL, f"{HIDDEN}@"),
        (_NAMED, rf"\1{HIDDEN}"),
        (_KNOWN, HIDDEN),
    ):
        value = shape.sub(replacement, value)
    return _WORD.sub(lambda found: HIDDEN if _is_random(found[0]) else found[0], value)


def _is_random(word: str) -> bool:
    """Whether a long word looks drawn by lot: a hexadecimal number that is no device's UUID, or
    letters of both cases and digits all mixed up.
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
    """How often upper case, lower case and digits take turns: often in a key, seldom in words."""

    def kind(character: str) -> int:
        return character.isdigit() + 2 * character.isupper() + 4 * character.islower()

    kinds = [(kind(one), kind(other)) for one, other in pairwise(word)]
    return sum(one != other and one > 0 and other > 0 for one, other in kinds)
