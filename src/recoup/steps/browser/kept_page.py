"""What a run keeps of its page in the private store, and what can be said of it without a browser."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

import msgspec

from recoup.kernel.outset import KeptPage
from recoup.model.run import StepRecord
from recoup.ports import Pages, Secrets
from recoup.steps.browser.proofs import DOCUMENT_KEY, GATE_KEY, PROOFS_KEY, Proof

PAGE_KEY = "browser.page"
"""Under which what is needed to open the page again is kept, encrypted."""
LOADED_KEY = "browser.loaded_by"
"""The step that loaded the document of the kept page."""


def kept_page(pages: Pages, secrets: Secrets) -> KeptPage | None:
    """None: nothing was kept of it."""
    kept = secrets.find(PAGE_KEY)
    if kept is None:
        return None
    data = base64.b64decode(kept)
    return KeptPage(pages.touched_in(data), secrets.find(LOADED_KEY), pages.touched_in_other_tabs(data))


def inherited(secrets: Secrets, reused: Sequence[StepRecord]) -> Mapping[str, str]:
    """The page of the earlier run, and what the steps that are reused have proven of it. What others have proven may be
    another question in this plan, and is proven anew when they are performed."""
    if not any(record.results.page for record in reused):
        return {}
    values = {key: secrets.find(key) for key in (PAGE_KEY, LOADED_KEY, DOCUMENT_KEY, GATE_KEY)}
    if (proofs := secrets.find(PROOFS_KEY)) is not None:
        values[PROOFS_KEY] = _of_reused(proofs, reused)
    return {key: value for key, value in values.items() if value is not None}


def _of_reused(proofs: str, reused: Sequence[StepRecord]) -> str:
    ids = {record.step_id for record in reused}
    kept = [proof for proof in msgspec.json.decode(proofs, type=list[Proof]) if proof.step_id in ids]
    return msgspec.json.encode(kept).decode()
