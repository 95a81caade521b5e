"""`http:` steps: call an endpoint, expect a status, take the answer as an output."""

from __future__ import annotations

from recoup.model.plan import CustomAction
from recoup.steps.custom import FunctionStep
from recoup.steps.kind import Data

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
"""Methods that may be called again when nobody knows how the first call ended."""


class HttpStep(FunctionStep):
    """One request. It fails with any status but the expected ones."""

    key = "http"
    keys = "recoup_http.keys:HttpKeys"
    target = "recoup_http.call:call"
    secret_arguments = ("headers", "json")

    def is_never_repeated(self, data: Data) -> bool:
        written = data.get(self.key)
        return isinstance(written, dict) and str(written.get("method", "GET")) not in SAFE

    def instructions(self, action: CustomAction) -> str:
        return f"{action.arguments.get('method', 'GET')} {action.arguments['url']}"


STEP = HttpStep()
