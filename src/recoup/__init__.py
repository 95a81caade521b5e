"""Recoup gets long automated work through failure.

    import recoup

    @recoup.step
    def fetch(customer: str) -> dict[str, int]: ...

    plan = recoup.Plan("invoices", [fetch.with_(customer="${{ inputs.customer }}")], inputs={"customer": "acme"})
    result = await recoup.run(plan)

Names are looked up when they are used, so that `import recoup` costs nothing in the process of a step.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recoup.api import Plan, RunResult, browser_step, run, run_sync
    from recoup.errors import InvalidPlan, RecoupError
    from recoup.inside import Context, Cooldown, Deterministic, Transient, context, progress
    from recoup.step_function import StepFunction, step

__version__ = "0.1.0"
__all__ = [
    "Context",
    "Cooldown",
    "Deterministic",
    "InvalidPlan",
    "Plan",
    "RecoupError",
    "RunResult",
    "StepFunction",
    "Transient",
    "browser_step",
    "context",
    "progress",
    "run",
    "run_sync",
    "step",
]

_MODULES = {
    "api": ("Plan", "RunResult", "browser_step", "run", "run_sync"),
    "errors": ("InvalidPlan", "RecoupError"),
    "inside": ("Context", "Cooldown", "Deterministic", "Transient", "context", "progress"),
    "step_function": ("StepFunction", "step"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'recoup' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"recoup.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
