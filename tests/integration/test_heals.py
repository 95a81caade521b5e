"""What people say about heals, in a real ledger: at once, late, about runs that were forgotten."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.integration.heal_house import APPROVE, PLAN, Shop, button, plan_file

from recoup.cli.heal_accepting import refused, report
from recoup.cli.heals import print_heal
from recoup.documents.plan_change import PlanText, patch_of, read_plan_text, root_of
from recoup.errors import NotFound, UsageError
from recoup.kernel.healing import target_digest
from recoup.kernel.memory import TargetMemory, identity
from recoup.kernel.reviewing import HealState, Word, changed_fields
from recoup.model.events import TargetHealed, TargetLearned, TargetObserved
from recoup.model.ids import run_stream, targets_stream
from recoup.model.policy import Policy
from recoup.model.storage import Append, Draft, StreamAppend
from recoup.model.target import Element, Target
from recoup.operations.heal_acceptance import Acceptance, accepted_text, replace_plan
from recoup.operations.heals import Heal, Heals
from recoup.redaction.redactor import SecretRedactor
from recoup.testing.browser import ScriptedBrowser

POLICY = Policy()
REDACTOR = SecretRedactor()
NAMED = Target(role="button", name="Approve")


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    one = Shop(tmp_path / "home")
    yield one
    await one.ledger.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return plan_file(tmp_path)


def desk_of(shop: Shop) -> Heals:
    return Heals(shop.ledger, shop.redactor_of, shop.clock)


async def approved(shop: Shop, run: str = "run-1") -> Heal:
    return await desk_of(shop).one(["shop"], run, "approve", None)


async def add(shop: Shop, *facts: TargetHealed | TargetObserved | TargetLearned) -> None:
    drafts = tuple(Draft(fact.TYPE, shop.redactor.seal(fact)) for fact in facts)
    part = StreamAppend(targets_stream("shop"), drafts)
    await shop.ledger.append(Append(at=shop.clock.now(), streams=(part,)))


async def memory(shop: Shop) -> TargetMemory:
    return TargetMemory(events=await shop.ledger.read(targets_stream("shop")))


def with_after(heal: Heal, after: Element | None) -> Heal:
    fact = msgspec.structs.replace(heal.fact, after=after)
    return msgspec.structs.replace(heal, reviewed=msgspec.structs.replace(heal.reviewed, heal=fact))


async def test_of_two_who_decide_at_once_one_is_told_of_the_other(shop: Shop, path: Path) -> None:
    await shop.run_file(path, "run-1")
    heal = await approved(shop)
    words = await asyncio.gather(
        desk_of(shop).accept(heal, "ada"),
        desk_of(shop).reject(heal, "bob", "no"),
        *(desk_of(shop).accept(heal, f"c{n}") for n in range(4)),
    )
    assert words.count(None) == 1
    told = [word for word in words if isinstance(word, Word)]
    assert len({(word.state, word.by) for word in told}) == 1, "all are told of the same"
    assert (await approved(shop)).reviewed.word == told[0]


async def test_a_word_gets_in_between_what_runs_add(shop: Shop, path: Path) -> None:
    await shop.run_file(path, "run-1")
    heal = await approved(shop)
    observed = TargetObserved(
        step_id="save", step_index=2, attempt=1, run_id="run-1", target_digest="d", element=APPROVE
    )

    async def runs() -> None:
        for _ in range(20):
            await add(shop, observed)

    said, _ = await asyncio.gather(desk_of(shop).reject(heal, "ada", "no"), runs())
    assert said is None
    assert (await memory(shop)).forbids(("approve", target_digest(NAMED)), identity(APPROVE))


async def test_a_word_counts_for_the_same_heal_in_other_runs(shop: Shop, path: Path) -> None:
    await shop.run_file(path, "run-1")
    await shop.run_file(path, "run-2")
    first = await approved(shop)
    full = msgspec.structs.replace(first.fact, before=None, after=None)
    await add(shop, full, msgspec.structs.replace(full, run_id="run-3"))
    await desk_of(shop).accept(first, "ada")
    states = {
        heal.name: heal.reviewed.state for heal in await desk_of(shop).newest(["shop"], lambda _: True, 10)
    }
    assert states["run-3/approve"] is HealState.ACCEPTED
    assert states["run-1/save"] is HealState.WAITING
    assert (await memory(shop)).knows(("approve", target_digest(NAMED)), identity(APPROVE))


async def test_what_the_workflow_learned_by_itself_is_applied(shop: Shop, path: Path) -> None:
    await shop.run_file(path, "run-1")
    states = {
        heal.name: heal.reviewed.state for heal in await desk_of(shop).newest(["shop"], lambda _: True, 10)
    }
    assert states == {"run-1/approve": HealState.APPLIED, "run-1/save": HealState.WAITING}


async def test_what_was_rejected_is_told_to_whoever_looks_for_the_target_next(shop: Shop, path: Path) -> None:
    await shop.run_file(path, "run-1")
    assert await desk_of(shop).reject(await approved(shop), "ada", "no") is None
    await shop.run_file(path, "run-2")
    pages = shop.pages
    assert isinstance(pages, ScriptedBrowser)
    looked = [one for one in pages.looked if identity(APPROVE) in one.forbidden]
    assert looked and looked[0].remembered == (), "and what was learned of it is not used"


async def test_what_an_attempt_took_that_failed_then_can_be_rejected(shop: Shop, tmp_path: Path) -> None:
    path = plan_file(tmp_path, PLAN.replace("text: Approved", "text: Never"))
    await shop.run_file(path, "run-1")
    desk = desk_of(shop)
    assert await desk.newest(["shop"], lambda _: True, 10) == [], "nothing was counted"
    listed = await desk.newest(["shop"], lambda _: True, 10, "run-1")
    assert [(one.name, one.fact.verified) for one in listed][:1] == [("run-1/approve", False)]
    assert (
        await desk.reject(await desk.one(["shop"], "run-1", "approve", None), "ada", "it did nothing") is None
    )
    assert (await memory(shop)).forbids(("approve", target_digest(NAMED)), identity(APPROVE))
    (word,) = {one.reviewed.word for one in await desk.newest(["shop"], lambda _: True, 10, "run-1")}
    assert word is not None and word.by == "ada"


async def test_heals_recorded_without_digests_can_be_named_and_decided(shop: Shop, path: Path) -> None:
    await shop.run_file(path, "run-1")
    fact = (await approved(shop)).fact
    bare = msgspec.structs.replace(
        fact, attempt=9, before=None, after=None, runner_up=None, target_digest="", identity=""
    )
    part = StreamAppend(
        run_stream("run-1"),
        (Draft(fact.TYPE, shop.redactor.seal(msgspec.structs.replace(bare, after=APPROVE))),),
    )
    await shop.ledger.append(Append(at=shop.clock.now(), streams=(part,)))
    await add(shop, bare)
    heal = await desk_of(shop).one(["shop"], "run-1", "approve", 9)
    assert (heal.name, heal.reviewed.state) == ("run-1/approve/9", HealState.WAITING)
    assert (heal.fact.target_digest, heal.fact.identity) == (target_digest(NAMED), identity(APPROVE))
    assert await desk_of(shop).accept(heal, "ada") is None
    again = await desk_of(shop).one(["shop"], "run-1", "approve", 9)
    assert again.reviewed.state is HealState.ACCEPTED


async def test_names_may_be_beginnings_and_are_told_where_several_fit(shop: Shop, path: Path) -> None:
    await shop.run_file(path, "run-1")
    assert (await desk_of(shop).one(["shop"], "run", "app", None)).name == "run-1/approve"
    with pytest.raises(NotFound, match="several heals") as several:
        await desk_of(shop).one(["shop"], "run-1", "", None)
    assert "run-1/save, run-1/approve" in several.value.hint
    fact = (await approved(shop)).fact
    second, third = (msgspec.structs.replace(fact, attempt=number, after=None) for number in (2, 3))
    await add(shop, second)
    assert (await approved(shop)).fact.attempt == 1, "its name is without a number"
    assert (await desk_of(shop).one(["shop"], "run-1", "approve", 2)).name == "run-1/approve/2"
    await add(shop, *(msgspec.structs.replace(one, run_id="run-2") for one in (second, third)))
    with pytest.raises(NotFound, match="several heals") as several:
        await approved(shop, "run-2")
    assert "run-2/approve/3, run-2/approve/2" in several.value.hint
    with pytest.raises(NotFound, match="no heal 'run-1/approve/7'"):
        await desk_of(shop).one(["shop"], "run-1", "approve", 7)


async def test_a_heal_of_a_run_that_was_forgotten_cannot_be_accepted(shop: Shop, path: Path) -> None:
    await shop.run_file(path, "run-1")
    known = await approved(shop)
    bare = msgspec.structs.replace(known.fact, run_id="gone", before=None, after=None, runner_up=None)
    await add(shop, bare)
    heal = await approved(shop, "gone")
    assert (heal.fact.after, heal.plan_source) == (None, None)
    with pytest.raises(UsageError, match="was forgotten"):
        await desk_of(shop).accept(heal, "ada")
    with pytest.raises(UsageError, match="was forgotten"):
        accepted_text(heal, read_plan_text(path, POLICY), POLICY)
    assert await desk_of(shop).reject(heal, "ada", "no") is None, "its digests forbid it all the same"


# The plan


async def test_the_plan_must_be_the_one_that_was_healed(shop: Shop, path: Path, tmp_path: Path) -> None:
    await shop.run_file(path, "run-1")
    heal = await approved(shop)

    def of(text: str) -> PlanText:
        return read_plan_text(plan_file(tmp_path, text), POLICY)

    with pytest.raises(UsageError, match="plan of 'other'"):
        accepted_text(heal, of(PLAN.replace("name: shop", "name: other")), POLICY)
    with pytest.raises(UsageError, match="no step 'approve' with a target"):
        accepted_text(heal, of(PLAN.replace("id: approve", "id: else")), POLICY)
    with pytest.raises(UsageError, match="another target now"):
        accepted_text(heal, of(PLAN.replace('name: "Approve"', 'name: "Grant"')), POLICY)
    once = accepted_text(heal, of(PLAN), POLICY)
    assert accepted_text(heal, once, POLICY) is once, "it says it already"


async def test_a_name_that_the_run_was_given_is_not_replaced_by_one(shop: Shop, tmp_path: Path) -> None:
    text = PLAN.replace('name: "Approve"', 'name: "${{ inputs.what }}"')
    text = text.replace("heal: apply", "heal: apply\n    inputs: {what: Approve}")
    path = plan_file(tmp_path, text)
    await shop.run_file(path, "run-1")
    heal = await approved(shop)
    with pytest.raises(UsageError, match=r"named by what the run was given \(name\)"):
        accepted_text(heal, read_plan_text(path, POLICY), POLICY)


async def test_nothing_hidden_and_no_reference_gets_into_the_plan(shop: Shop, path: Path) -> None:
    await shop.run_file(path, "run-1")
    heal, text = await approved(shop), read_plan_text(path, POLICY)
    hidden = Element(tag="button", role="button", name="Pay [redacted]", text="Pay [redacted]", id="pay")
    after = accepted_text(with_after(heal, hidden), text, POLICY)
    assert b"redacted" not in after.raw
    known = Element(tag="button", role="button", id="pay")
    assert after.target("approve") == Target(css="#pay", recorded=known), "a role alone is that of many"
    odd = Element(tag="button", role="button", name="Pay ${{ inputs.x }}", text="Pay")
    said = accepted_text(with_after(heal, odd), text, POLICY).target("approve")
    assert said == Target(role="button", name="Pay \\${{ inputs.x }}")
    with pytest.raises(UsageError, match="nothing names the element"):
        accepted_text(with_after(heal, Element(tag="div", text="[redacted]")), text, POLICY)


async def test_a_plan_is_replaced_whole_with_its_mode_and_only_as_it_was_read(shop: Shop, path: Path) -> None:
    await shop.run_file(path, "run-1")
    path.chmod(0o640)
    link = path.with_name("link.yaml")
    link.symlink_to(path)
    before = read_plan_text(link, POLICY)
    after = accepted_text(await approved(shop), before, POLICY)
    replace_plan(before, after)
    assert (link.is_symlink(), path.read_bytes(), path.stat().st_mode & 0o777) == (True, after.raw, 0o640)
    with pytest.raises(UsageError, match="changed meanwhile"):
        replace_plan(before, after)
    assert sorted(one.name for one in path.parent.glob("*plan*")) == ["plan.yaml"], "nothing is left behind"


@pytest.mark.parametrize("name", ["plan.yaml", "my plans/a b.yaml", 'odd/"x"\t.yaml', "über/plän.yaml"])
async def test_git_applies_the_patch_from_the_root_of_the_repository(
    shop: Shop, path: Path, tmp_path: Path, name: str
) -> None:
    await shop.run_file(path, "run-1")
    root = tmp_path / "repo"
    moved = root / name
    moved.parent.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    moved.write_bytes(path.read_bytes().replace(b"\n# The end.\n", b"\n# The end."))
    before = read_plan_text(moved, POLICY)
    after = accepted_text(await approved(shop), before, POLICY)
    assert root_of(moved) == root
    patch = patch_of(before, after, root).encode()
    subprocess.run(["git", "apply", "--verbose"], input=patch, cwd=root, check=True, capture_output=True)
    assert moved.read_bytes() == after.raw


def test_only_what_changed_is_told_and_not_at_length() -> None:
    old = Element(tag="button", name="Approve", classes=("a", "b"), visible=True)
    new = Element(tag="button", name="x" * 500, classes=("a",), visible=False)
    told = changed_fields(old, new)
    assert [name for name, _, _ in told] == ["name", "classes", "visible"]
    assert told[1] == ("classes", "a · b", "a")
    assert len(told[0][2]) == 200
    assert changed_fields(None, old)[0] == ("tag", "", "button")


# While somebody looks at the change


async def test_what_was_rejected_while_somebody_looked_changes_no_plan(shop: Shop, path: Path) -> None:
    await shop.run_file(path, "run-1")
    before, heal = path.read_bytes(), await approved(shop)
    alone = Acceptance(desk_of(shop), POLICY, None, REDACTOR, refused, one=True)
    alone.prepare([heal])
    assert 'name: "Approve invoice"' in alone.diffs()[str(path)]
    await desk_of(shop).reject(heal, "bob", "another invoice's")
    with pytest.raises(UsageError, match=r"rejected by bob on .*: another invoice's"):
        await alone.carry_out("ada", None)
    assert path.read_bytes() == before


async def test_of_several_only_the_rejected_one_is_left_alone(
    shop: Shop, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await shop.run_file(path, "run-1")
    heals = [surely(one) for one in await desk_of(shop).newest(["shop"], lambda _: True, 10)]
    together = Acceptance(desk_of(shop), POLICY, None, REDACTOR, refused, one=False)
    together.prepare(heals)
    assert len(together.heals) == 2 and len(together.diffs()) == 1, "one diff for one plan"
    await desk_of(shop).reject(await approved(shop), "bob", "no")
    await together.carry_out("ada", None)
    text = path.read_text()
    assert "name: Store," in text and 'name: "Approve"\n' in text
    report(together, "ada", None, as_json=False)
    assert "left alone: run-1/approve: run-1/approve was rejected by bob" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("confidence", "verified", "why"),
    [
        (0.9, True, ""),
        (0.8999, True, "89.9% sure, which is less than 90%"),
        (1.0, False, "nothing proved it"),
        (0.9, False, "nothing proved it"),
    ],
)
async def test_without_a_look_only_what_was_proven_and_sure_is_accepted(
    shop: Shop, path: Path, capsys: pytest.CaptureFixture[str], confidence: float, verified: bool, why: str
) -> None:
    await shop.run_file(path, "run-1")
    before = path.read_bytes()
    heal = surely(await approved(shop), confidence, verified=verified)
    accepting = Acceptance(desk_of(shop), POLICY, None, REDACTOR, refused, one=False)
    accepting.prepare([heal])
    await accepting.carry_out("timer", None)
    report(accepting, "ada", None, as_json=False)
    if why:
        assert path.read_bytes() == before
        assert why in capsys.readouterr().out
        assert (await approved(shop)).reviewed.word is None, "nothing was said about it"
    else:
        changed = b'name: "Approve"', b'name: "Approve invoice"'
        assert path.read_bytes() == before.replace(*changed), "no other byte"


async def test_heals_recorded_without_candidates_show_the_next_best(
    shop: Shop, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await shop.run_file(path, "run-1")
    heal = await approved(shop)
    assert [one.name for one in heal.fact.candidates] == ["Approve invoice"]
    fact = msgspec.structs.replace(
        heal.fact, candidates=(), runner_up=button("Reject"), runner_up_confidence=0.03
    )
    older = msgspec.structs.replace(heal, reviewed=msgspec.structs.replace(heal.reviewed, heal=fact))
    print_heal(older, "", "", [])
    said = capsys.readouterr().out
    assert "next      button 'Reject' (3.0%)" in said and "candidates" not in said


async def test_a_plan_that_was_changed_since_is_left_to_people(
    shop: Shop, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await shop.run_file(path, "run-1")
    path.write_text(path.read_text().replace("text: Approved", "text: Done"))
    before = path.read_bytes()
    heal = surely(await approved(shop))
    accepting = Acceptance(desk_of(shop), POLICY, None, REDACTOR, refused, one=False)
    accepting.prepare([heal])
    await accepting.carry_out("timer", None)
    report(accepting, "ada", None, as_json=False)
    assert f"{path} was changed since that run" in capsys.readouterr().out
    assert path.read_bytes() == before
    alone = Acceptance(desk_of(shop), POLICY, None, REDACTOR, refused, one=True)
    alone.prepare([heal])
    assert alone.heals == [heal], "a person may: they see the change"


async def test_a_plan_that_records_mask_is_compared_as_records_show_it(shop: Shop, path: Path) -> None:
    path.write_text(path.read_text().replace("name: shop", 'name: shop\nobjective: "look at WORD"'))
    await shop.run_file(path, "run-1")
    heal, redactor = surely(await approved(shop)), SecretRedactor()
    redactor.register("word", "look at WORD")
    assert heal.plan is not None
    recorded = msgspec.json.decode(redactor.seal(heal.plan).data, type=type(heal.plan))
    assert recorded != heal.plan
    accepting = Acceptance(desk_of(shop), POLICY, None, redactor, refused, one=False)
    accepting.prepare([msgspec.structs.replace(heal, plan=recorded)])
    assert len(accepting.heals) == 1


async def test_what_was_accepted_before_is_no_change_of_the_plan(shop: Shop, path: Path) -> None:
    await shop.run_file(path, "run-1")
    heals = [surely(one) for one in await desk_of(shop).newest(["shop"], lambda _: True, 10)]
    for heal in heals:
        accepting = Acceptance(desk_of(shop), POLICY, None, REDACTOR, refused, one=False)
        accepting.prepare([heal])
        assert accepting.heals == [heal]
        await accepting.carry_out("timer", None)
    assert "name: Store," in path.read_text() and 'name: "Approve invoice"' in path.read_text()


def surely(heal: Heal, confidence: float = 0.95, *, verified: bool = True) -> Heal:
    fact = msgspec.structs.replace(heal.fact, confidence=confidence, verified=verified)
    return msgspec.structs.replace(heal, reviewed=msgspec.structs.replace(heal.reviewed, heal=fact))
