"""What a gateway knows of heals: folded piece by piece, and never twice."""

from __future__ import annotations

from pathlib import Path

from tests.integration.heal_house import Shop, plan_file

from recoup.kernel.reviewing import HealState
from recoup.operations.heal_reviews import Reviews
from recoup.operations.heals import Heals


async def test_reading_little_at_a_time_comes_to_the_same(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "home")
    await shop.run_file(plan_file(tmp_path), "run-1")
    whole, piecemeal = (Reviews(shop.ledger, shop.redactor_of, shop.clock, size) for size in (5_000, 1))
    await whole.look()
    looks = 0
    while [one.name for _, one in piecemeal.newest(None, None)] != [
        one.name for _, one in whole.newest(None, None)
    ]:
        await piecemeal.look()
        looks += 1
        assert looks < 100
    assert looks > 1 and whole.workflows == ["shop"]
    assert [one.state for _, one in piecemeal.newest("shop", None)] == [HealState.WAITING, HealState.APPLIED]
    await shop.ledger.close()


async def test_a_word_is_heard_and_what_was_taken_is_kept_at_hand(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "home")
    await shop.run_file(plan_file(tmp_path), "run-1")
    reviews, desk = (kind(shop.ledger, shop.redactor_of, shop.clock) for kind in (Reviews, Heals))
    assert isinstance(reviews, Reviews) and isinstance(desk, Heals)
    await reviews.look()
    assert reviews.waiting == 1
    (waiting,) = await reviews.in_full(reviews.newest(None, HealState.WAITING))
    assert waiting.fact.after is not None
    await desk.reject(waiting, "ada", "another button")
    await reviews.look()
    await reviews.look()
    assert reviews.waiting == 0
    (rejected,) = await reviews.in_full(reviews.newest(None, HealState.REJECTED))
    assert rejected.fact == waiting.fact and rejected.reviewed.word is not None
    await shop.ledger.close()
