"""What runs must hide: their secrets are known to the redactor before a word about them is stored."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from recoup.errors import InvalidPlan, NotFound, Problem, UsageError
from recoup.evidence.run_folder import RunFolder
from recoup.evidence.vault import Vault
from recoup.linked import Reusing, plan_of
from recoup.model.plan import Plan
from recoup.model.run import RunState
from recoup.redaction.redactor import SecretRedactor
from recoup.runs.records import Records


class Hiding:
    """The secrets of plans and runs: registered, refused as names, kept for whoever drives later."""

    def __init__(
        self,
        redactor: SecretRedactor,
        environ: Mapping[str, str],
        records: Records,
        key: Callable[[], bytes],
    ) -> None:
        self._redactor = redactor
        self._environ = environ
        self._records = records
        self._key = key

    def vault(self, files: RunFolder) -> Vault:
        return Vault(files.private / "secrets", self._key(), files.aside)

    def register(self, name: str, value: str) -> None:
        register_secret(self._redactor, name, value)

    def from_environment(self, name: str) -> None:
        if self._environ.get(name):
            self.register(name, self._environ[name])

    def inputs(self, plan: Plan, given: Mapping[str, str], source: str) -> dict[str, str | None]:
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
        for name, spec in plan.inputs.items():
            value = inputs[name]
            if spec.secret and value is not None:
                self.register(f"inputs.{name}", value)
        problems = [
            Problem(f"inputs.{name}", "holds a registered secret: declare it `secret: true`")
            for name, value in inputs.items()
            if value and not plan.inputs[name].secret and self._redactor.found_in(value.encode())
        ]
        if problems:
            raise InvalidPlan(source, problems)
        return inputs

    def refuse_names(self, plan: Plan, source: str) -> None:
        """Names stand in the ledger as they are, so none of them may hold a secret."""
        names = [("name", plan.name), *((f"inputs.{name}", name) for name in plan.inputs)]
        for index, step in enumerate(plan.steps):
            names += [(f"steps[{index}].{key}", key) for key in (*step.outputs, *step.env)]
            names.append((f"steps[{index}].id", step.id))
        problems = [
            Problem(
                where,
                f"holds the value of {', '.join(held)}, which is a registered secret: call it otherwise",
            )
            for where, name in names
            if (held := self._redactor.found_in(name.encode()))
        ]
        if problems:
            raise InvalidPlan(source, problems)

    def keep(
        self, files: RunFolder, plan: Plan, inputs: Mapping[str, str | None], kept: Mapping[str, str]
    ) -> None:
        """So that another process, which may not have them in its environment, still knows what to hide."""
        given = {f"inputs.{name}": inputs[name] for name, spec in plan.inputs.items() if spec.secret}
        given |= {f"secrets.{name}": value for name, value in kept.items()}
        for key, value in given.items():
            if value:
                self.vault(files).put(key, value)

    async def of_plan(self, plan: Plan, reuse: Reusing | None) -> dict[str, str]:
        """Registered: those of the environment, and where it has one no longer, the value that the earlier run kept."""
        self._register_plan_secrets(plan)
        found = {name: self._environ[name] for name in plan.secrets if self._environ.get(name)}
        if reuse is None:
            return found
        await self._records.fetch_missing(reuse.run_id)
        vault = self.vault(self._records.files(reuse.run_id))
        for name in plan.secrets:
            with contextlib.suppress(NotFound):  # it was not set there either
                value = vault.get(f"secrets.{name}")
                self.register(name, value)
                found.setdefault(name, value)
        return found

    async def of_run(self, state: RunState) -> Plan:
        """Whoever stores words about a run must hide what the run hides. Gives the plan that told."""
        try:
            return self._secrets_known(state)
        except NotFound:
            await self._records.fetch_missing(state.run_id)
            return self._secrets_known(state)

    async def of_run_with_id(self, run_id: str) -> Plan:
        """The same, reading no more than can tell of a secret: the first event, unless outputs may be some, too."""
        state = await self._records.beginning(run_id)
        outputs = [spec for step in state.plan.steps for spec in step.outputs.values()]
        if state.reuse_from is not None or any(spec.secret for spec in outputs):
            state = await self._records.state(run_id)
        return await self.of_run(state)

    def _secrets_known(self, state: RunState) -> Plan:
        files = self._records.files(state.run_id)
        plan = plan_of(state, files)
        self._register_plan_secrets(plan)
        self._register_kept_secrets(self.vault(files), state, plan)
        return plan

    def _register_plan_secrets(self, plan: Plan) -> None:
        for name in plan.secrets:
            self.from_environment(name)

    def _register_kept_secrets(self, vault: Vault, state: RunState, plan: Plan) -> None:
        for name, spec in plan.inputs.items():
            if spec.secret and state.inputs.get(name) is not None:
                self.register(f"inputs.{name}", vault.get(f"inputs.{name}"))
        for name in plan.secrets:
            with contextlib.suppress(NotFound):  # it was not set when the run was submitted
                self.register(name, vault.get(f"secrets.{name}"))
        for record in state.steps:
            for name in record.secret_outputs:
                key = f"steps.{record.step_id}.outputs.{name}"
                with contextlib.suppress(ValueError):
                    self._redactor.register(key, vault.get(key))


def register_secret(redactor: SecretRedactor, name: str, value: str) -> None:
    try:
        redactor.register(name, value)
    except ValueError as error:
        raise UsageError(
            f"the secret {name} cannot be kept out of the records: {error}",
            hint=f"Give {name} another value, or take it out of the secrets of the plan if it is none.",
        ) from None
