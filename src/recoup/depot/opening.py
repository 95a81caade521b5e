"""Which depot the settings name."""

from __future__ import annotations

from pathlib import Path

from recoup.ports import Depot


def open_depot(evidence: str | None, database_url: str | None) -> Depot | None:
    """What RECOUP_EVIDENCE names; else the database, if it is one that machines share; else none."""
    if evidence is not None and "://" in evidence:
        from recoup.depot.object_store import ObjectStoreDepot

        return ObjectStoreDepot(evidence)
    if evidence is not None:
        from recoup.depot.folder import FolderDepot

        return FolderDepot(Path(evidence))
    if database_url is not None:
        from recoup.depot.postgres import PostgresDepot

        return PostgresDepot(database_url)
    return None
