"""The body of a request about many runs at once."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from recoup.gateway.shapes import Name, Reason, Shape

BULK_MAX = 500


class BulkRequest(Shape):
    """The same for each of these runs, and for no other."""

    action: Literal["cancel", "retry"]
    run_ids: Annotated[list[Name], Field(min_length=1, max_length=BULK_MAX)]
    reason: Reason
