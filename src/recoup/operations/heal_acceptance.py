"""What accepting a heal makes of the plan."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import msgspec

from recoup.documents.plan_change import PlanText, with_target
from recoup.documents.recorded_plan import literal
from recoup.errors import StateError, UsageError
from recoup.files.named import read_named
from recoup.kernel.healing import target_digest
from recoup.kernel.memory import tells_enough
from recoup.kernel.references import OPENING
from recoup.model.plan import Plan
from recoup.model.policy import Policy
from recoup.model.target import SHORT, Element, Target
from recoup.operations.heals import Heal, forgotten
from recoup.ports import Redactor
from recoup.redaction.masks import holds_mask
from recoup.shapes.aria_roles import ROLES
from recoup.shapes.page_keys import NAMING
from recoup.targets.renaming import renamed


def accepted_text(heal: Heal, text: PlanText, policy: Policy) -> PlanText:
    """The plan in which the step names the element that was taken; the same plan where it does so already. Raises
    UsageError, in words, where the plan is not the one that was healed."""
    fact, written = heal.fact, _written(heal, text)
    if fact.after is None:
        raise forgotten(heal)
    wanted = accepted_target(heal, written)
    if wanted == written:
        return text
    if target_digest(written) != fact.target_digest:
        raise UsageError(
            f"{text.path}: step {fact.step_id!r} has another target now than the one that was healed ({fact.target})",
            hint="Nothing was changed. Run the plan as it is now; what it heals then can be accepted.",
        )
    return with_target(text, fact.step_id, wanted, policy)


def must_be_unchanged(heal: Heal, text: PlanText, redactor: Redactor) -> None:
    """For acceptance without a review: the plan is the one that was run, except for targets that were accepted since.
    Raises UsageError."""
    if heal.plan is None:
        raise forgotten(heal)
    # The heal knows the recorded plan, which is redacted.
    now = msgspec.json.decode(redactor.seal(text.plan).data, type=Plan)
    if _without_targets(heal.plan) not in (_without_targets(text.plan), _without_targets(now)):
        raise UsageError(
            f"{text.path} was changed since that run",
            hint="Look at it: recoup heals show " + heal.name,
        )


def _without_targets(plan: Plan) -> Any:
    told = msgspec.to_builtins(plan)
    for step in told["steps"]:
        step["action"].pop("target", None)
    return told


def _written(heal: Heal, text: PlanText) -> Target:
    if text.plan.name != heal.workflow:
        raise UsageError(
            f"{text.path} is the plan of {text.plan.name!r}, but {heal.name} is of {heal.workflow!r}",
            hint="Name the plan that was run: --plan FILE",
        )
    written = text.target(heal.fact.step_id)
    if written is None:
        raise UsageError(
            f"{text.path} has no step {heal.fact.step_id!r} with a target any more",
            hint="Name the plan that was run: --plan FILE",
        )
    return written


def accepted_target(heal: Heal, written: Target) -> Target:
    """What is to stand in the plan. Nothing hidden gets there, and nothing that would be read as a reference."""
    fact = heal.fact
    assert fact.after is not None, "what was taken is known"
    naming = [key for key in NAMING if OPENING in str(getattr(written, key, "") or "") and key != "recorded"]
    if naming:
        raise UsageError(
            f"the target of step {fact.step_id!r} is named by what the run was given ({', '.join(naming)})",
            hint="Change it by hand: the name of one element must not stand for those of all runs.",
        )
    after = _unmasked(fact.after)
    others = [_unmasked(fact.runner_up)] if fact.runner_up is not None else []
    wanted = renamed(written, fact.before, after, others, ROLES)
    if wanted.recorded is not None and not tells_enough(wanted.recorded):
        raise UsageError(
            f"nothing names the element of {heal.name} that may stand in a plan",
            hint="Name it by hand, or give it a test id on the page.",
        )
    kept = {key: getattr(written, key) for key in SHORT}
    said = {key: words for key in SHORT if (words := getattr(wanted, key)) is not None}
    return msgspec.structs.replace(
        wanted, **{key: words if words == kept[key] else literal(words) for key, words in said.items()}
    )


def _unmasked(element: Element) -> Element:
    return msgspec.convert(_without_masks(msgspec.to_builtins(element)), Element)


def _without_masks(value: Any) -> Any:
    match value:
        case str():
            return "" if holds_mask(value) else value
        case dict():
            return {key: _without_masks(item) for key, item in value.items() if not _is_masked(item)}
        case list() | tuple():
            return [_without_masks(item) for item in value if not _is_masked(item)]
    return value


def _is_masked(value: Any) -> bool:
    return isinstance(value, str) and holds_mask(value)


def replace_plan(before: PlanText, after: PlanText) -> None:
    """Whole or not at all, and only if nobody has changed it meanwhile."""
    path = before.path.resolve()
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        if read_named(path, len(before.raw) + 1) != before.raw:
            raise UsageError(
                f"{before.path} was changed meanwhile: it was left as it is",
                hint="Say it again, for the file as it is.",
            )
        _write(temporary, after.raw, path.stat().st_mode & 0o777)
        temporary.replace(path)
    except OSError as error:
        raise StateError(
            f"the plan {before.path} cannot be written: {error.strerror}", hint="Give --patch FILE instead."
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def _write(path: Path, data: bytes, mode: int) -> None:
    with path.open("xb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
