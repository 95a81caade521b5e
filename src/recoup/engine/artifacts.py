"""What an attempt leaves for people: redacted, and stored as evidence."""

from __future__ import annotations

from collections.abc import Sequence

from recoup.engine.world import World
from recoup.model.outcome import Artifact
from recoup.model.policy import Policy
from recoup.model.redacted import Redacted
from recoup.ports import Redactor


async def stored_artifacts(world: World, artifacts: Sequence[Artifact], policy: Policy) -> tuple[str, ...]:
    """Returns their handles, without those that cannot be stored."""
    handles = []
    for artifact in artifacts:
        content = _fit_to_be_stored(world.redactor, artifact, policy.evidence_bytes_max)
        if content is not None:
            handles.append(await world.evidence.put(content, policy.evidence_bytes_max))
    return tuple(handles)


def _fit_to_be_stored(redactor: Redactor, artifact: Artifact, limit_bytes: int) -> Redacted | None:
    """None: it is too large, or cannot be searched for secrets."""
    try:
        if artifact.media_type.startswith("image/"):
            content = redactor.picture(artifact.data)
        elif artifact.media_type == "application/zip":
            content = redactor.archive(artifact.data, limit_bytes)
        else:
            content = redactor.redact(artifact.data)
    except ValueError:
        return None
    return content if len(content.data) <= limit_bytes else None
