"""`browser:` steps: one thing done in the run's browser. The verb is the key below `browser`.

    keys.py, shape.py, rules.py, words.py, written.py   the step as people write it, and what is wrong with it
    state.py         what the engine and workers may ask of the kind: `BrowserState`
    hooks.py         one run's hooks: translates between the engine and the modules below
    run_page.py      the life of a run's page: open, kept, lost, restored, proven, or a question
    proofs.py        what steps have proven of the page, asked again when the run returns to it
    kept_page.py     under which keys a run keeps its page, and what can be said of it without a browser
    run_targets.py   how targets may be found, and the facts about how they were found
    recall.py        what a workflow has learned about its targets

`runtimes/browser/` performs the steps. Only values pass between the two: `Order`, `Outcome`, the port `Pages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from recoup.kernel.addresses import address_problem, path_problem
from recoup.kernel.references import TemplateError
from recoup.kernel.template import substitute_value, texts_in
from recoup.model.plan import NEVER_REPEATED, BrowserAction, BrowserVerb
from recoup.model.target import SHORT, target_words
from recoup.ports import Runtime
from recoup.shapes.page_keys import verb_of
from recoup.steps.kind import Data, Site, StepKind, Values, Way

if TYPE_CHECKING:
    from recoup.steps.browser.state import BrowserState

_FILLED: Final = (*SHORT, "value", "key", "option", "options", "file", "files", "as")
"""The keys under a verb where references are filled in. Of what was recorded nothing is looked up."""
_LITERAL: Final = ("into", "attribute")
_TYPED: Final = ("browser", "fill", "value")
"""The one place where a secret may stand: nobody reads it there but the page."""


class BrowserStep(StepKind[BrowserAction]):
    """Where references and secrets may stand depends on the verb."""

    key = "browser"
    keys = "recoup.steps.browser.keys:BrowserKeys"
    exits = False
    has_page = True
    keeps_state = True
    loads_at_once = True
    needs = frozenset({"browser"})
    extra = "browser"
    after_extra = "recoup browser install"
    stand_in: ClassVar = {"browser": {"goto": "about:blank"}}
    filled_words = ("browser",)

    def filled_in(self, data: Data) -> tuple[Way, ...]:
        return _ways(data, _FILLED) if _has_parts(data) else _way_of_verb(data)

    def left_literal(self, data: Data) -> tuple[Way, ...]:
        return (("browser", "dialog"), *_ways(data, _LITERAL))

    def open_to_others(self, data: Data) -> Mapping[Way, str]:
        shown = [way for way in self.filled_in(data) if way != _TYPED]
        return dict.fromkeys(shown, "only what `fill` types may be one")

    def is_never_repeated(self, data: Data) -> bool:
        action = verb_of(data)
        return action is not None and action[0] in NEVER_REPEATED

    def texts(self, action: BrowserAction) -> tuple[str, ...]:
        return tuple(texts_in(_texts_of(action)))

    def fill(self, action: BrowserAction, values: Values) -> tuple[BrowserAction, dict[str, str]]:
        """A secret may be typed into a field; addresses and names of elements are shown everywhere."""
        texts = _texts_of(action)
        shown = texts["target"] if action.verb is BrowserVerb.FILL else texts
        values.refuse_secrets(*texts_in(shown))
        filled = substitute_value(texts, values.scope)
        _refuse_places(action, filled)
        target = msgspec.structs.replace(action.target, **filled["target"]) if action.target else None
        more = {"target": target, "value": filled["value"], "values": tuple(filled["values"])}
        return msgspec.structs.replace(action, **more), {}

    def instructions(self, action: BrowserAction) -> str:
        """Without what is typed: that may be anything."""
        where = target_words(action.target) if action.target else ""
        shown = action.value if action.value and action.verb is not BrowserVerb.FILL else ""
        return " ".join(word for word in (action.verb.value, where, shown) if word)

    def runtime(self, site: Site) -> Runtime:
        return site.browser

    def state(self, site: Site) -> BrowserState:
        from recoup.steps.browser.state import BrowserState

        return BrowserState(site.pages, site.recalls)

    def summary(self, action: BrowserAction) -> str:
        return self.instructions(action)


def _has_parts(data: Data) -> bool:
    action = verb_of(data)
    return action is not None and isinstance(action[1], dict)


def _ways(data: Data, keys: tuple[str, ...]) -> tuple[Way, ...]:
    """Those of the keys that stand under the verb."""
    if not _has_parts(data) or (action := verb_of(data)) is None:
        return ()
    verb, said = action
    return tuple(("browser", verb, key) for key in keys if key in said)


def _way_of_verb(data: Data) -> tuple[Way, ...]:
    action = verb_of(data)
    return () if action is None else (("browser", action[0]),)


def _texts_of(action: BrowserAction) -> dict[str, Any]:
    """What a person wrote in it; of a recorded target nothing is looked up."""
    target = {name: getattr(action.target, name) for name in SHORT} if action.target else {}
    return {"value": action.value, "values": list(action.values), "target": target}


def _refuse_places(action: BrowserAction, filled: Mapping[str, Any]) -> None:
    """Inputs and outputs are data: which schemes a page may have, and which folders files may come from, is for the
    plan to say."""
    if action.verb is BrowserVerb.GOTO:
        problem = address_problem(action.value or "", str(filled["value"]))
    elif action.verb is BrowserVerb.UPLOAD:
        pairs = zip(action.values, filled["values"], strict=True)
        problem = next(filter(None, (path_problem(written, str(value)) for written, value in pairs)), "")
    else:
        return
    if problem:
        raise TemplateError(f"{action.verb.value}: {problem}")


STEP = BrowserStep()
