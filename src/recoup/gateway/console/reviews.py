"""The heals that this gateway has folded, for pages and the menu."""

from __future__ import annotations

from starlette.requests import Request

from recoup.gateway.house import house_of
from recoup.operations.heal_reviews import Reviews, heal_reviews


def reviews_of(request: Request) -> Reviews:
    found = getattr(request.app.state, "reviews", None)
    if found is None:
        found = request.app.state.reviews = heal_reviews(house_of(request).app)
    assert isinstance(found, Reviews)
    return found


async def waiting_count(request: Request) -> int:
    """Heals that wait for a word, after a look at what is new."""
    reviews = reviews_of(request)
    await reviews.look()
    return reviews.waiting
