"""What a rule is: a pattern, and the judge of what it found."""

from __future__ import annotations

import enum

import msgspec


class Gate(enum.Enum):
    """Who has the last word on a value that a pattern found (gates.py)."""

    NONE = "none"
    NAMED = "named"
    NAMED_QUOTED = "named_quoted"
    NAMED_BARE = "named_bare"
    NAMED_LISTED = "named_listed"
    NAMED_LOOSELY = "named_loosely"
    NAMED_KEY = "named_key"
    NAMED_UUID = "named_uuid"
    NAMED_PREFIX = "named_prefix"
    PREFIXED = "prefixed"
    RANDOM = "random"
    PASSWORD = "password"
    LITERAL = "literal"
    CREDENTIAL = "credential"


class Rule(msgspec.Struct, frozen=True):
    """`pattern` is in the syntax that RE2 and Hyperscan share, over bytes. Its groups `secret…`, or else the first
    group that took part, or else the whole match, are what gets masked."""

    name: str
    pattern: str
    gate: Gate = Gate.NONE
    screen: str = ""
    """What must be there for the pattern to be worth looking for: cheap, and shared by rules where it can be.
    Without one it is made from the pattern (rewriting.py)."""
    last_resort: bool = False
    """Only asked about a line in which no rule before it found anything."""
    opens_pair: bool = False
    """It finds a line whose meaning the next ones tell: they are looked at together (stage.py)."""
    opens_block: bool = False
    """It finds the first line of a key: what follows is masked until its last line."""
    needs: tuple[bytes, ...] = ()
    """In small letters; one of them is in every text that the pattern is found in."""
