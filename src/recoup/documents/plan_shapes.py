"""Every shape of a plan by the key or the branch under which it stands, for whoever words what is wrong there."""

from __future__ import annotations

from recoup.documents.check_shape import (
    DiffShape,
    ExitShape,
    FileShape,
    JsonShape,
    RunShape,
    StderrShape,
    StdoutShape,
)
from recoup.documents.forms import RegexShape
from recoup.documents.handler_shape import (
    AgentHandlerShape,
    BrowserHandlerShape,
    PythonHandlerShape,
    RunHandlerShape,
)
from recoup.documents.heal_shape import HealShape
from recoup.documents.input_shape import InputShape
from recoup.documents.limits_shape import LimitsShape
from recoup.documents.other_step_shape import (
    AgentStepShape,
    ApproveShape,
    ApproveStepShape,
    BrowserStepShape,
    PythonStepShape,
)
from recoup.documents.other_work_shape import AgentShape
from recoup.documents.output_shape import DeclaredOutputShape, JsonOutputShape, RegexOutputShape
from recoup.documents.retry_shape import RetryShape
from recoup.documents.shape import TAG, Shape
from recoup.documents.step_shape import RunStepShape
from recoup.documents.workspace_shape import FolderShape, GitShape

SHAPES: dict[str, type[Shape]] = {
    "defaults": LimitsShape,
    "retry": RetryShape,
    "agent": AgentShape,
    TAG + "step-run": RunStepShape,
    TAG + "step-python": PythonStepShape,
    TAG + "step-agent": AgentStepShape,
    TAG + "step-browser": BrowserStepShape,
    TAG + "step-approve": ApproveStepShape,
    TAG + "approve": ApproveShape,
    TAG + "handler-run": RunHandlerShape,
    TAG + "handler-python": PythonHandlerShape,
    TAG + "handler-agent": AgentHandlerShape,
    TAG + "handler-browser": BrowserHandlerShape,
    TAG + "heal": HealShape,
    TAG + "mapping": RegexShape,
    TAG + "exit": ExitShape,
    TAG + "file": FileShape,
    TAG + "stdout": StdoutShape,
    TAG + "stderr": StderrShape,
    TAG + "json": JsonShape,
    TAG + "run": RunShape,
    TAG + "diff": DiffShape,
    TAG + "output-json": JsonOutputShape,
    TAG + "output-regex": RegexOutputShape,
    TAG + "output-declared": DeclaredOutputShape,
    TAG + "input": InputShape,
    TAG + "git": GitShape,
    TAG + "folder": FolderShape,
}
"""What stands under these keys, and in these branches of a union."""
