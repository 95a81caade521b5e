"""What a step is given: its arguments with everything substituted, and its environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from recoup.engine.world import Job, World
from recoup.kernel.canonical import digest, digest_of_texts
from recoup.kernel.template import (
    TemplateError,
    references,
    shell_script,
    substitute,
    substitute_value,
    texts_in,
)
from recoup.model.plan import (
    Action,
    AgentAction,
    ApproveAction,
    BrowserAction,
    BrowserVerb,
    Handler,
    Plan,
    PythonAction,
    RunAction,
    Step,
)
from recoup.model.run import RunState
from recoup.model.target import SHORT

Outputs = Mapping[str, Mapping[str, Any]]


class Arguments(msgspec.Struct, frozen=True):
    """One step's arguments, and the digest that tells whether they are the same as before."""

    action: Action
    env: dict[str, str]
    digest: str


class Scope(Mapping[str, Any]):
    """Every name that a template may use, looked up when it is used. `fresh`: outputs that are not folded yet."""

    def __init__(
        self, job: Job, state: RunState, fresh: Outputs | None = None, *, masked: bool = False
    ) -> None:
        self._job = job
        self._state = state
        self._fresh = fresh or {}
        self._masked = masked
        """Secret values are told apart but not shown: for digests."""

    def __getitem__(self, name: str) -> Any:
        value, secret = self._find(name.split("."), name)
        return self._job.secrets.mac(str(value)) if secret and self._masked else value

    def __iter__(self) -> Iterator[str]:
        yield from ("run.id", "run.workflow")
        yield from (f"inputs.{name}" for name in self._job.plan.inputs)
        for record in self._state.steps:
            names = (*record.outputs, *record.secret_outputs, *self._fresh.get(record.step_id, ()))
            yield from (f"steps.{record.step_id}.outputs.{name}" for name in names)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _find(self, parts: list[str], name: str) -> tuple[Any, bool]:
        match parts:
            case ["run", "id"]:
                return self._job.run_id, False
            case ["run", "workflow"]:
                return self._state.workflow, False
            case ["inputs", *rest]:
                return self._input(".".join(rest), name)
            case ["steps", *_]:
                return self._output(name)
        raise KeyError(name)

    def _input(self, key: str, name: str) -> tuple[Any, bool]:
        spec, value = self._job.plan.inputs[key], self._state.inputs.get(key)
        if spec.secret and value is not None:
            return self._job.secrets.get(name), True
        return value or "", spec.secret

    def _output(self, name: str) -> tuple[Any, bool]:
        step_id, _, key = name.removeprefix("steps.").rpartition(".outputs.")
        record = next((one for one in self._state.steps if one.step_id == step_id), None)
        if record is None:
            raise KeyError(name)
        declared = self._job.plan.steps[record.index].outputs.get(key)
        secret = declared is not None and declared.secret
        if key in self._fresh.get(step_id, {}):
            return self._fresh[step_id][key], secret
        if key in record.secret_outputs:
            return self._job.secrets.get(name), True
        return record.outputs[key], secret


def arguments_of(
    step: Step | Handler, job: Job, state: RunState, secret: frozenset[str], fresh: Outputs | None = None
) -> Arguments:
    """Raises TemplateError when a reference has no value."""
    action, env = _substituted(step, Scope(job, state, fresh), secret)
    shown_action, shown_env = action, env
    if secret:
        shown_action, shown_env = _substituted(step, Scope(job, state, fresh, masked=True), secret)
    return Arguments(action, env, _digest(shown_action, shown_env))


def fixed_arguments(step: Step) -> Arguments | None:
    """Those of a step without any reference, the same in every attempt; None when it has one."""
    if any("${{" in text for text in _texts(step)):
        return None
    return Arguments(step.action, step.env, _digest(step.action, step.env))


def digest_now(step: Step, job: Job, state: RunState) -> str | None:
    """Of what it would be given; None: not known before the steps before it have run."""
    try:
        return arguments_of(step, job, state, secret_names(job.plan)).digest
    except TemplateError:
        return None


def _digest(action: Action, env: dict[str, str]) -> str:
    if isinstance(action, RunAction):
        return digest_of_texts({"action": action, "env": env})
    return digest({"action": msgspec.to_builtins(action), "env": env})


def outputs_wanted(plan: Plan, step: Step) -> frozenset[str]:
    """The outputs of this step that it declares or that another one refers to."""
    referred = {
        reference.field
        for other in plan.steps
        for text in (*_texts(other), other.when or "", *_texts_of_handlers(other))
        for reference in references(text)
        if reference.step_id == step.id
    }
    return frozenset(step.outputs) | referred


def outputs_named(plan: Plan) -> frozenset[tuple[str, str]]:
    """Step and name of every output that some step refers to."""
    texts = (
        text
        for step in plan.steps
        for text in (*_texts(step), step.when or "", *_texts_of_handlers(step))
        if "${{" in text
    )
    return frozenset(
        (reference.step_id, reference.field)
        for text in texts
        for reference in references(text)
        if reference.step_id is not None
    )


def names_in(step: Step | Handler) -> tuple[str, ...]:
    """The references in its arguments, each once."""
    return tuple(dict.fromkeys(reference.name for text in _texts(step) for reference in references(text)))


def _texts_of_handlers(step: Step) -> Iterator[str]:
    for handler in (*step.rescue, *step.on_empty, *step.always):
        yield from _texts(handler)


def environment_of(
    world: World, job: Job, step: Step, arguments: Arguments, attempt: int, files: Mapping[str, str]
) -> dict[str, str]:
    return {
        **world.environ,
        **arguments.env,
        "RECOUP_RUN_ID": job.run_id,
        "RECOUP_STEP_ID": step.id,
        "RECOUP_ATTEMPT": str(attempt),
        "RECOUP_IDEMPOTENCY_KEY": f"{job.run_id}.{step.id}",
        **files,
    }


def _texts(step: Step | Handler) -> tuple[str, ...]:
    """Wherever a reference may stand."""
    return (*_words(step.action), *step.env.values())


def _words(action: Action) -> tuple[str, ...]:
    match action:
        case RunAction(command=str() as script):
            return (script,)
        case RunAction(command=argv):
            return tuple(argv)
        case PythonAction(arguments=arguments):
            return tuple(texts_in(arguments))
        case AgentAction(prompt=prompt, args=args):
            return (prompt, *args)
        case BrowserAction():
            return tuple(texts_in(_browser_texts(action)))
        case ApproveAction(message=message):
            return (message,)


def _browser_texts(action: BrowserAction) -> dict[str, Any]:
    """What a person wrote in it; of a recorded target nothing is looked up."""
    target = {name: getattr(action.target, name) for name in SHORT} if action.target else {}
    return {"value": action.value, "values": list(action.values), "target": target}


def secret_names(plan: Plan) -> frozenset[str]:
    """The references whose values must be neither shown nor guessed from a digest."""
    inputs = {f"inputs.{name}" for name, spec in plan.inputs.items() if spec.secret}
    outputs = {
        f"steps.{step.id}.outputs.{name}"
        for step in plan.steps
        for name, spec in step.outputs.items()
        if spec.secret
    }
    return frozenset(inputs | outputs)


def _substituted(step: Step | Handler, scope: Scope, secret: frozenset[str]) -> tuple[Action, dict[str, str]]:
    env = {name: substitute(value, scope) for name, value in step.env.items()}
    match step.action:
        case RunAction(command=str() as script):
            filled = shell_script(script, scope, secret)
            return RunAction(filled.text), {**env, **filled.env}
        case RunAction(command=argv):
            return RunAction(tuple(substitute(word, scope) for word in argv)), env
        case PythonAction(target, arguments):
            return PythonAction(target, substitute_value(arguments, scope)), env
        case AgentAction() as agent:
            _refuse_secrets((agent.prompt, *agent.args), secret)
            prompt = substitute(agent.prompt, scope)
            args = tuple(substitute(word, scope) for word in agent.args)
            return msgspec.structs.replace(agent, prompt=prompt, args=args), env
        case BrowserAction() as browser:
            return _substituted_browser(browser, scope, secret), env
        case ApproveAction(message):
            _refuse_secrets((message,), secret)
            return ApproveAction(substitute(message, scope)), env


def _substituted_browser(action: BrowserAction, scope: Scope, secret: frozenset[str]) -> BrowserAction:
    """A secret may be typed into a field; addresses and names of elements are shown everywhere."""
    texts = _browser_texts(action)
    shown = texts["target"] if action.verb is BrowserVerb.FILL else texts
    _refuse_secrets(tuple(texts_in(shown)), secret)
    filled = substitute_value(texts, scope)
    target = msgspec.structs.replace(action.target, **filled["target"]) if action.target else None
    return msgspec.structs.replace(
        action, target=target, value=filled["value"], values=tuple(filled["values"])
    )


def _refuse_secrets(texts: tuple[str, ...], secret: frozenset[str]) -> None:
    """Every user of the machine can read a process's arguments, and an agent sends its prompt away."""
    for text in texts:
        for reference in references(text):
            if reference.name in secret:
                raise TemplateError(
                    f"{reference.name} is a secret and must not stand here: pass it through `env`"
                )
