"""What runs must hide: their secrets are known to their redactor before a word about them is stored."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

import msgspec

from recoup.engine.originals import INPUTS, Originals, must_be_here, private_names
from recoup.errors import InvalidPlan, NotFound, Problem, RecoupError, UsageError, change_words
from recoup.evidence.run_folder import RunFolder
from recoup.evidence.vault import Vault
from recoup.fleet.linked import Reusing, plan_of
from recoup.fleet.records import Records
from recoup.fleet.redactors import RunRedactors
from recoup.kernel.typed_inputs import why_not
from recoup.model.events import RunSubmitted
from recoup.model.plan import Plan
from recoup.model.run import RunState
from recoup.redaction.redactor import SecretRedactor
from recoup.redaction.registration import register_secret


class Hiding:
    """The secrets of plans and runs: registered, refused as names, kept for whoever drives later."""

    def __init__(
        self,
        redactors: RunRedactors,
        environ: Mapping[str, str],
        records: Records,
        key: Callable[[], bytes],
    ) -> None:
        self.redactors = redactors
        self._environ = environ
        self._records = records
        self._key = key

    def vault(self, files: RunFolder) -> Vault:
        return Vault(files.private / "secrets", self._key(), files.aside, files.root.name)

    def from_environment(self, redactor: SecretRedactor, name: str) -> None:
        if self._environ.get(name):
            register_secret(redactor, name, self._environ[name])

    def inputs(
        self, redactor: SecretRedactor, plan: Plan, given: Mapping[str, str], source: str
    ) -> dict[str, str | None]:
        unknown = [name for name in given if name not in plan.inputs]
        if unknown:
            known = ", ".join(plan.inputs) or "none"
            raise UsageError(f"the plan has no input {unknown[0]!r}", hint=f"Its inputs: {known}.")
        missing = [name for name, spec in plan.inputs.items() if spec.required and name not in given]
        if missing:
            raise UsageError(
                f"the plan needs a value for {', '.join(missing)}", hint=f"Add --input {missing[0]}=VALUE."
            )
        inputs = {name: given.get(name, spec.default) for name, spec in plan.inputs.items()}
        _must_be_text(inputs, source)
        _must_be_typed(plan, inputs, source)
        for name, spec in plan.inputs.items():
            value = inputs[name]
            if spec.secret and value is not None:
                register_secret(redactor, f"inputs.{name}", value)
        problems = [
            Problem(f"inputs.{name}", "holds a registered secret: declare it `secret: true`")
            for name, value in inputs.items()
            if value and not plan.inputs[name].secret and redactor.found_in(value.encode())
        ]
        if problems:
            raise InvalidPlan(source, problems)
        return inputs

    def refuse_names(self, redactor: SecretRedactor, plan: Plan, source: str) -> None:
        if problems := refused_names(redactor, plan):
            raise InvalidPlan(source, problems)

    def marked(self, redactor: SecretRedactor, payload: RunSubmitted) -> RunSubmitted:
        """The submission with what redaction changes in it named. Asked last: what else it holds may matter."""
        secret = {name for name, spec in payload.plan.inputs.items() if spec.secret}
        private = tuple(name for name in private_names(redactor, payload.inputs) if name not in secret)
        is_changed = redactor.seal(payload).data != msgspec.json.encode(payload)
        redacted = is_changed and bool(redactor.masked_in(payload.plan))
        return msgspec.structs.replace(payload, plan_redacted=redacted, private_inputs=private)

    def keep(
        self,
        files: RunFolder,
        payload: RunSubmitted,
        inputs: Mapping[str, str | None],
        kept: Mapping[str, str],
    ) -> None:
        """The values that records must not show, for every process that drives the run or stores text about it."""
        specs = payload.plan.inputs
        given = {f"inputs.{name}": inputs[name] for name, spec in specs.items() if spec.secret}
        given |= {f"secrets.{name}": value for name, value in kept.items()}
        for key, value in given.items():
            if value:
                self.vault(files).put(key, value)
        if payload.private_inputs:
            originals = {name: inputs[name] for name in payload.private_inputs}
            Originals(self.vault(files)).keep(INPUTS, originals)

    async def of_plan(self, redactor: SecretRedactor, plan: Plan, reuse: Reusing | None) -> dict[str, str]:
        """Registered: those of the environment, and where it has one no longer, the value that the earlier run kept."""
        self._register_plan_secrets(redactor, plan)
        found = {name: self._environ[name] for name in plan.secrets if self._environ.get(name)}
        if reuse is None:
            return found
        await self._records.fetch_missing(reuse.run_id)
        vault = self.vault(self._records.files(reuse.run_id))
        for name in plan.secrets:
            with contextlib.suppress(NotFound):  # it was not set there either
                value = vault.get(f"secrets.{name}")
                register_secret(redactor, name, value)
                found.setdefault(name, value)
        return found

    async def of_run(self, state: RunState) -> SecretRedactor:
        """The redactor of a run, which knows its secrets: for a process that stores or shows text about it."""
        redactor = self.redactors.of(state.run_id)
        try:
            self._register_run_secrets(redactor, state, plan_of(state, self._records.files(state.run_id)))
        except NotFound:
            await self._records.fetch_missing(state.run_id)
            self._register_run_secrets(redactor, state, self._plan_or_redacted(state))
        return redactor

    async def plan_to_run(self, state: RunState) -> tuple[Plan, SecretRedactor]:
        """The original plan of a run, whose originals are all on this machine, and its redactor.
        Raises NotFound: a redacted text is never executed."""
        redactor = await self.of_run(state)
        files = self._records.files(state.run_id)
        try:
            must_be_here(self.vault(files), state)
        except NotFound:
            await self._records.fetch_missing(state.run_id)
            must_be_here(self.vault(files), state)
        return plan_of(state, files), redactor

    async def of_run_with_id(self, run_id: str) -> SecretRedactor:
        """The same, reading no more than can tell of a secret: the first event, unless outputs may be some, too."""
        state = await self._records.beginning(run_id)
        outputs = [spec for step in state.plan.steps for spec in step.outputs.values()]
        if state.lineage.reuse_from is not None or any(spec.secret for spec in outputs):
            state = await self._records.state(run_id)
        return await self.of_run(state)

    async def as_far_as_known(self, run_id: str | None) -> SecretRedactor:
        """The same where nobody must be stopped because a run's files are gone or on another machine: then with what is
        known. What is stored of the run was redacted before."""
        if run_id is None:
            return self.redactors.shared
        redactor = self.redactors.of(run_id)
        with contextlib.suppress(RecoupError, OSError):
            await self.of_run_with_id(run_id)
        return redactor

    def _plan_or_redacted(self, state: RunState) -> Plan:
        """The redacted plan will do where it names no secrets: there is nothing to register."""
        try:
            return plan_of(state, self._records.files(state.run_id))
        except NotFound:
            if state.plan.secrets:
                raise
            return state.plan

    def _register_run_secrets(self, redactor: SecretRedactor, state: RunState, plan: Plan) -> None:
        self._register_plan_secrets(redactor, plan)
        vault = self.vault(self._records.files(state.run_id))
        for name, spec in plan.inputs.items():
            if spec.secret and state.submission.inputs.get(name) is not None:
                register_secret(redactor, f"inputs.{name}", vault.get(f"inputs.{name}"))
        for name in plan.secrets:
            with contextlib.suppress(NotFound):  # it was not set when the run was submitted
                register_secret(redactor, name, vault.get(f"secrets.{name}"))
        for record in state.steps:
            for name in record.results.secret_outputs:
                key = f"steps.{record.step_id}.outputs.{name}"
                redactor.register_unless_short(key, vault.get(key))

    def _register_plan_secrets(self, redactor: SecretRedactor, plan: Plan) -> None:
        for name in plan.secrets:
            self.from_environment(redactor, name)


@contextlib.contextmanager
def words_redacted(redactor: SecretRedactor) -> Iterator[None]:
    """Whatever is raised here about a run says nothing that the run hides, wherever it is shown."""
    try:
        yield
    except RecoupError as error:
        change_words(error, lambda text: redactor.redact(text).text)
        raise


def refused_names(redactor: SecretRedactor, plan: Plan) -> list[Problem]:
    """Records show names as they are, and look values up by them: none may hold a secret, or look like one."""
    shown = [("name", plan.name), *((f"inputs.{name}", name) for name in plan.inputs)]
    variables = []
    for index, step in enumerate(plan.steps):
        shown += [(f"steps[{index}].outputs.{name}", name) for name in step.outputs]
        shown.append((f"steps[{index}].id", step.id))
        variables += [(f"steps[{index}].env.{name}", name) for name in step.env]
    looks = "the name looks like a secret and would be masked in records: rename it"
    problems = [
        Problem(
            where, f"holds the value of {', '.join(held)}, which is a registered secret: call it otherwise"
        )
        for where, name in (*shown, *variables)
        if (held := redactor.found_in(name.encode()))
    ]
    return problems or [Problem(where, looks) for where, name in shown if redactor.masked_in(name)]


def _must_be_typed(plan: Plan, inputs: Mapping[str, str | None], source: str) -> None:
    """Without the value in the message: it may be a secret."""
    problems = [
        Problem(f"inputs.{name}", f"{wrong}: the plan says `type: {spec.type}`")
        for name, spec in plan.inputs.items()
        if (value := inputs[name]) is not None and (wrong := why_not(value, spec.type))
    ]
    if problems:
        raise InvalidPlan(source, problems)


def _must_be_text(inputs: Mapping[str, str | None], source: str) -> None:
    """Raises InvalidPlan for bytes that are not UTF-8: no record and no digest could hold them."""
    words = "is not valid UTF-8: pass it in a file instead"
    bad = [Problem(f"inputs.{name}", words) for name, value in inputs.items() if not _is_utf8(value or "")]
    if bad:
        raise InvalidPlan(source, bad)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
