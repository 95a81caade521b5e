"""What a step is given: its arguments with everything substituted, and its environment."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any

import msgspec

from recoup.checks.filling import Expected, expectation_texts, fill_in
from recoup.engine.originals import INPUTS, Originals, outputs_of
from recoup.engine.world import Job, World
from recoup.kernel.canonical import digest, digest_of_texts
from recoup.kernel.references import OPENING
from recoup.kernel.template import TemplateError, references, substitute
from recoup.model.plan import Action, Check, Handler, Plan, Step
from recoup.model.redacted import MASK
from recoup.model.run import RunState, StepRecord
from recoup.ports import Redactor
from recoup.steps.kind import Values
from recoup.steps.registry import step_kind

Outputs = Mapping[str, Mapping[str, Any]]


class Arguments(msgspec.Struct, frozen=True):
    """One step's arguments, and the digest that tells whether they are the same as before."""

    action: Action
    env: dict[str, str]
    digest: str
    plain_digest: str | None = None
    """Of arguments with private values: the digest that a record has if nothing in them was private then. Never
    stored: the values could be guessed from it."""
    expected: Expected = Expected()
    """What the step expects, with the same values."""

    @property
    def hides(self) -> bool:
        """They hold values that records must not show."""
        return self.plain_digest is not None

    def of(self, step: Step) -> Step:
        """The step with its checks as they are asked."""
        if self.expected.checks is step.expect:
            return step
        return msgspec.structs.replace(step, expect=self.expected.checks)


class Fresh(msgspec.Struct, frozen=True):
    """Outputs that are not folded yet, by step."""

    values: Outputs = {}
    """As steps get them."""
    recorded: Outputs = {}
    """As records have them, where that differs."""
    private: frozenset[str] = frozenset()
    """The references among them whose values are private."""


class View(Enum):
    """What a scope gives for values that records must not show. Secret values are declared so in the plan; private ones
    are those that redaction changes."""

    ORIGINAL = "original"
    """What steps get."""
    DIGEST = "digest"
    """Keyed hashes: values can be told apart and not guessed."""
    PLAIN_DIGEST = "plain_digest"
    """Keyed hashes of secret values, private ones as they are."""
    RECORDED = "recorded"
    """Keyed hashes of secret values, private ones as records have them."""


class Scope(Mapping[str, Any]):
    """Every name that a template may use, looked up when it is used."""

    def __init__(
        self,
        job: Job,
        state: RunState,
        fresh: Fresh | None = None,
        view: View = View.ORIGINAL,
        private_too: frozenset[str] = frozenset(),
    ) -> None:
        """`private_too`: references that count as private here whatever redaction makes of them now."""
        self._job = job
        self._state = state
        self._fresh = fresh or Fresh()
        self._view = view
        self._private_too = private_too

    def __getitem__(self, name: str) -> Any:
        parts = name.split(".")
        match parts:
            case ["run", "id"]:
                return self._job.run_id
            case ["run", "workflow"]:
                return self._state.workflow
            case ["inputs", *rest]:
                return self._input(".".join(rest), name)
            case ["steps", *_]:
                return self._output(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        yield from ("run.id", "run.workflow")
        yield from (f"inputs.{name}" for name in self._job.plan.inputs)
        for record in self._state.steps:
            names = (
                *record.results.outputs,
                *record.results.secret_outputs,
                *self._fresh.values.get(record.step_id, ()),
            )
            yield from (f"steps.{record.step_id}.outputs.{name}" for name in names)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def seen_as(self, view: View) -> Scope:
        return Scope(self._job, self._state, self._fresh, view, self._private_too)

    def is_private(self, name: str) -> bool:
        if name in self._private_too or name in self._fresh.private:
            return True
        step_id, _, key = name.removeprefix("steps.").rpartition(".outputs.")
        if not step_id:
            return name.removeprefix("inputs.") in self._state.submission.private_inputs
        record = self._record(step_id)
        return record is not None and key in (record.results.private_outputs or ())

    def _record(self, step_id: str) -> StepRecord | None:
        return next((record for record in self._state.steps if record.step_id == step_id), None)

    def _input(self, key: str, name: str) -> Any:
        spec, value = self._job.plan.inputs[key], self._state.submission.inputs.get(key)
        if spec.secret:
            return self._secret(self._job.secrets.get(name) if value is not None else "")
        if key in self._state.submission.private_inputs:
            return self._private(lambda: Originals(self._job.secrets).get(INPUTS, key), lambda: value)
        return self._plain(name, value or "")

    def _output(self, name: str) -> Any:
        step_id, _, key = name.removeprefix("steps.").rpartition(".outputs.")
        record = self._record(step_id)
        if record is None:
            raise KeyError(name)
        declared = self._job.plan.steps[record.index].outputs.get(key)
        secret = declared is not None and declared.secret
        if key in self._fresh.values.get(step_id, {}):
            return self._fresh_output(name, step_id, key, secret)
        if key in record.results.secret_outputs:
            return self._secret(self._job.secrets.get(name))
        if key in (record.results.private_outputs or ()):
            entry, recorded = outputs_of(step_id), record.results.outputs[key]
            return self._private(lambda: Originals(self._job.secrets).get(entry, key), lambda: recorded)
        return (
            self._secret(record.results.outputs[key])
            if secret
            else self._plain(name, record.results.outputs[key])
        )

    def _fresh_output(self, name: str, step_id: str, key: str, secret: bool) -> Any:
        value = self._fresh.values[step_id][key]
        if secret:
            return self._secret(value)
        if name in self._fresh.private:
            recorded = self._fresh.recorded.get(step_id, {})
            return self._private(lambda: value, lambda: recorded.get(key, _NOT_SHOWN))
        return self._plain(name, value)

    def _secret(self, value: Any) -> Any:
        return value if self._view is View.ORIGINAL else self._job.secrets.mac(str(value))

    def _private(self, original: Callable[[], Any], recorded: Callable[[], Any]) -> Any:
        if self._view is View.RECORDED:
            return recorded()
        return self._hashed(original()) if self._view is View.DIGEST else original()

    def _plain(self, name: str, value: Any) -> Any:
        hashed = self._view is View.DIGEST and name in self._private_too
        return self._hashed(value) if hashed else value

    def _hashed(self, value: Any) -> str:
        """A text and another value that is written like it are told apart."""
        return self._job.secrets.mac(
            value if isinstance(value, str) else f"json:{json.dumps(value, sort_keys=True)}"
        )


_NOT_SHOWN = MASK.decode()


def arguments_of(
    step: Step | Handler, job: Job, state: RunState, secret: frozenset[str], fresh: Fresh | None = None
) -> Arguments:
    """Raises TemplateError when a reference has no value."""
    scope = Scope(job, state, fresh)
    action, env, expected = filled = _substituted(step, scope, secret)
    digests: tuple[str, str | None]
    if any(map(scope.is_private, names_in(step))):
        digests = _private_digest(step, scope), _plain_digest(step, scope, secret)
    elif secret:
        digests = _plain_digest(step, scope, secret), None
    else:
        digests = _digest(step, filled), None
    return Arguments(action, env, digests[0], digests[1], expected)


def _plain_digest(step: Step | Handler, scope: Scope, secret: frozenset[str]) -> str:
    return _digest(step, _substituted(step, scope.seen_as(View.PLAIN_DIGEST), secret))


def _private_digest(step: Step | Handler, scope: Scope) -> str:
    """Of the step as it is written beside its values: a keyed hash cannot stand wherever the value can, such as where
    bash calculates."""
    hashed = scope.seen_as(View.DIGEST)
    values = {name: hashed[name] for name in names_in(step)}
    expect = {"expect": msgspec.to_builtins(step.expect)} if _expects_values(step) else {}
    return digest({"action": msgspec.to_builtins(step.action), "env": step.env, "values": values, **expect})


def fixed_arguments(step: Step) -> Arguments | None:
    """Those of a step without any reference, the same in every attempt; None when it has one."""
    if any("${{" in text for text in _texts(step)):
        return None
    expected = Expected(step.expect)
    return Arguments(
        step.action, step.env, _digest(step, (step.action, step.env, expected)), expected=expected
    )


def digests_now(
    step: Step,
    job: Job,
    state: RunState,
    redactor: Redactor,
    fresh: Fresh | None = None,
    private_then: frozenset[str] = frozenset(),
) -> frozenset[str] | None:
    """Every digest under which the arguments that it would be given may be recorded: as they are now; with the values
    that were private when they were recorded (`private_then`); and by a version that ran the redacted text. None: not
    known before the steps before it have run."""
    secret = secret_names(job.plan)
    try:
        arguments = arguments_of(step, job, state, secret, fresh)
    except TemplateError:
        return None
    digests = {arguments.digest, arguments.plain_digest or arguments.digest}
    if any(name in private_then for name in names_in(step)):
        digests.add(_private_digest(step, Scope(job, state, fresh, private_too=private_then)))
    with suppress(TemplateError):
        redacted = msgspec.json.decode(redactor.seal(step).data, type=Step)
        recorded = _substituted(redacted, Scope(job, state, fresh, View.RECORDED), secret)
        digests.add(_digest(redacted, recorded))
    return frozenset(digests)


def _digest(step: Step | Handler, filled: Filled) -> str:
    """Checks are part of the arguments only where values are filled in: without any the plan says the same."""
    action, env, expected = filled
    if _expects_values(step):
        expect = {"checks": msgspec.to_builtins(expected.checks), "env": expected.env}
        return digest({"action": msgspec.to_builtins(action), "env": env, "expect": expect})
    if step_kind(action).all_text:
        return digest_of_texts({"action": action, "env": env})
    return digest({"action": msgspec.to_builtins(action), "env": env})


def _expects_values(step: Step | Handler) -> bool:
    return any(OPENING in text for text in expectation_texts(step.expect))


def expected_now(step: Step, job: Job, state: RunState) -> tuple[Check, ...]:
    """The checks of a step with the values that they have now. Raises TemplateError when one is gone."""
    if not _expects_values(step):
        return step.expect
    return fill_in(step.expect, Scope(job, state), secret_names(job.plan)).checks


def refuse_unmaskable(arguments: Arguments, redactor: Redactor) -> None:
    """What a check says is recorded: a secret in it must be one that redaction finds. Raises TemplateError."""
    for name, value in arguments.expected.secrets.items():
        if value and not redactor.found_in(value.encode()):
            raise TemplateError(
                f"{name} is a secret and too short to be masked in what a check says: compare it in a script, "
                "`run: …` under `expect`"
            )


def outputs_wanted(plan: Plan, step: Step) -> frozenset[str]:
    """The outputs of this step that it declares or that another one refers to."""
    referred = {
        reference.field
        for other in plan.steps
        for text in texts_of(other)
        for reference in references(text)
        if reference.step_id == step.id
    }
    return frozenset(step.outputs) | referred


def outputs_named(plan: Plan) -> frozenset[tuple[str, str]]:
    """Step and name of every output that some step refers to."""
    texts = (text for step in plan.steps for text in texts_of(step) if "${{" in text)
    return frozenset(
        (reference.step_id, reference.field)
        for text in texts
        for reference in references(text)
        if reference.step_id is not None
    )


def texts_of(step: Step) -> tuple[str, ...]:
    """Every text of a step, its condition and its handlers in which a reference may stand."""
    return (*_texts(step), step.when or "", *_texts_of_handlers(step))


def names_in(step: Step | Handler) -> tuple[str, ...]:
    """The references in its arguments, each once."""
    return tuple(dict.fromkeys(reference.name for text in _texts(step) for reference in references(text)))


def steps_behind(plan: Plan, step: Step) -> frozenset[str]:
    """The steps whose outputs it uses, directly or through those of others."""
    by_id = {one.id: one for one in plan.steps}
    found: set[str] = set()
    left = [step]
    while left:
        used = [reference.step_id for text in _texts(left.pop()) for reference in references(text)]
        new = {step_id for step_id in used if step_id is not None and step_id in by_id} - found
        left += [by_id[step_id] for step_id in new]
        found |= new
    return frozenset(found)


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
    return (*step_kind(step.action).texts(step.action), *step.env.values(), *expectation_texts(step.expect))


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


Filled = tuple[Action, dict[str, str], Expected]


def _substituted(step: Step | Handler, scope: Scope, secret: frozenset[str]) -> Filled:
    expected = fill_in(step.expect, scope, secret) if _expects_values(step) else Expected(step.expect)
    return *_substituted_work(step, scope, secret), expected


def _substituted_work(
    step: Step | Handler, scope: Scope, secret: frozenset[str]
) -> tuple[Action, dict[str, str]]:
    env = {name: substitute(value, scope) for name, value in step.env.items()}
    values = Values(scope, lambda: scope.seen_as(View.RECORDED), secret)
    action, more = step_kind(step.action).fill(step.action, values)
    return action, {**env, **more}
