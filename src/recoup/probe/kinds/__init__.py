"""One file for each kind of resource; here is which kind has which holder."""

from __future__ import annotations

from recoup.errors import UsageError
from recoup.model.probe import ProcessKind
from recoup.probe.ports import Holder, Site


def holder_of(site: Site) -> Holder:
    match site.resource.kind:
        case ProcessKind() as kind:
            from recoup.probe.kinds.process import ProcessHolder

            return ProcessHolder(site, kind)
        case other:
            name = type(other).__name__.removesuffix("Kind").lower()
            raise UsageError(
                f"resource {site.resource.id}: this Recoup cannot look after a {name}",
                hint="Remove the resource from the probe file.",
            )
