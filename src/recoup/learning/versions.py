"""Versions as values: what is told about one, and what its files say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from recoup.model.memory import VersionInfo

VERSIONS_MAX: Final = 100
"""Of one workflow at a time."""
LINEAGE_MAX: Final = 20
COMPONENTS_MAX: Final = 8
COMPONENT_BYTES_MAX: Final = 256 << 20
FORMAT: Final = 1


class Loaded(msgspec.Struct, frozen=True):
    """All parts of one version, checked."""

    info: VersionInfo
    components: Mapping[str, bytes]
    trouble: tuple[str, ...] = ()
    """What is damaged, so that this version serves and not the one that should; () where nothing is."""


class Component(msgspec.Struct, frozen=True):
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a version consists of. Never changed once it is written."""

    workflow: str
    version: str
    created_at: str
    up_to: int
    success_rate_before: float | None
    lineage: tuple[str, ...]
    """What it came from, the nearest first."""
    components: dict[str, Component]
    format: int = FORMAT


class Pointer(msgspec.Struct, frozen=True, kw_only=True):
    """Which versions there are and which of them counts. Whatever it does not name is not there."""

    workflow: str
    current: str = ""
    lineage: tuple[str, ...] = ()
    """Of the current one: what serves, in this order, if it is damaged. A version that was taken back is not in it."""
    versions: dict[str, str] = {}
    """With the digests of their manifests."""
    last: int = 0
    """The highest number that was ever given: no number is given twice."""
    format: int = FORMAT


def info_of(manifest: Manifest, digest: str) -> VersionInfo:
    return VersionInfo(
        version_id=manifest.version,
        workflow_id=manifest.workflow,
        created_at=manifest.created_at,
        success_rate_before=manifest.success_rate_before,
        components_versioned=tuple(sorted(manifest.components)),
        up_to=manifest.up_to,
        digest=digest,
    )
