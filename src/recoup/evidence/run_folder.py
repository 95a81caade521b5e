"""The folder of one run. Names hold numbers only, so that no secret can be in a name."""

from __future__ import annotations

from pathlib import Path

from recoup.aside import enter, newest, newest_epoch, remove_file
from recoup.durable import copy_whole, write_whole
from recoup.errors import StateError
from recoup.files.folders import OWNER_ONLY_FOLDER, make_folder
from recoup.files.named import read_named
from recoup.model.redacted import Redacted
from recoup.ports import Redactor


class RunFolder:
    """`artifacts/` for people, `private/` for nobody, `workspaces/` or `work/` for steps.

    What lies under `artifacts/` can be made again from the ledger, except logs and patches.
    """

    def __init__(self, root: Path, aside: Path | None = None) -> None:
        self.root = root
        self.aside = aside
        """The folder of the driver's own. None: for somebody who drives nothing."""

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def private(self) -> Path:
        return self.root / "private"

    @property
    def plan_path(self) -> Path:
        """The plan as it is to be run, with what the ledger may not hold."""
        return self.private / "plan.json"

    @property
    def work(self) -> Path:
        """Where the steps of a plan that came as text work, if it has no workspace."""
        return self.root / "work"

    def make_work(self, earlier: Path | None) -> Path:
        """The folder itself, or that of the run that this one continues, if it is on this machine. Raises
        OSError."""
        if not self.work.is_dir():
            if earlier is not None and earlier.is_dir():
                self.work.symlink_to(earlier.resolve())
            else:
                make_folder(self.work)
        return self.work.resolve()

    def make(self) -> None:
        """What is inside is made when something is written there: most runs need little of it."""
        make_folder(self.root)
        self.root.chmod(OWNER_ONLY_FOLDER)

    @property
    def newest_epoch(self) -> int:
        """Of all who have driven it here; 0 before the first."""
        return newest_epoch(self.root)

    def driven(self, epoch: int) -> RunFolder:
        """The same in the hands of the driver with this epoch; whoever drove before can change nothing any more.
        Raises LeaseLost, StateError."""
        try:
            self.make()
            return RunFolder(self.root, enter(self.root, epoch))
        except OSError as error:
            raise StateError.of(error) from error

    def after_the_last(self) -> RunFolder:
        """The same as its last driver left it: who writes after the next one has entered writes nothing."""
        return RunFolder(self.root, newest(self.root))

    def take_log(self, step_index: int) -> None:
        """From whoever may still have it open: what they write goes to nobody. Raises LeaseLost, StateError."""
        try:
            if self.log_path(step_index).is_file():
                copy_whole(self.log_path(step_index), aside=self.aside)
        except OSError as error:
            raise StateError.of(error) from error

    def log_path(self, step_index: int) -> Path:
        return self.artifacts / "logs" / "steps" / f"step-{step_index:04d}.log"

    def log_tail(self, step_index: int, limit_bytes: int) -> int:
        """Where the last so many bytes of a step's log begin."""
        path = self.log_path(step_index)
        return max(0, path.stat().st_size - limit_bytes) if path.is_file() else 0

    def patch_path(self, step_index: int) -> Path:
        return self.artifacts / "patches" / "steps" / f"step-{step_index:04d}.patch"

    def output_path(self, step_index: int, attempt: int) -> Path:
        path = self._output_path(step_index, attempt)
        write_whole(path, b"", durable=False, aside=self.aside)
        return path

    def written_output(self, step_index: int, attempt: int) -> Path | None:
        path = self._output_path(step_index, attempt)
        return path if path.exists() else None

    def forget_output(self, step_index: int, attempt: int) -> None:
        remove_file(self._output_path(step_index, attempt), self.aside)

    def redact_log(self, step_index: int, redactor: Redactor) -> None:
        path = self.log_path(step_index)
        if path.exists():
            write_whole(path, redactor.redact(read_named(path)).data, aside=self.aside)

    def withhold_log(self, step_index: int, words: Redacted) -> None:
        """Where it may hold what cannot be hidden: the words stand in its place."""
        if self.log_path(step_index).exists():
            write_whole(self.log_path(step_index), words.data, aside=self.aside)

    def write_patch(self, step_index: int, patch: Redacted) -> None:
        write_whole(self.patch_path(step_index), patch.data, aside=self.aside)

    def write_step_state(self, step_index: int, document: Redacted) -> None:
        path = self.artifacts / "state" / "steps" / f"step-{step_index:04d}.json"
        write_whole(path, document.data, durable=False, aside=self.aside)

    def write_attempt_state(self, step_index: int, attempt: int, document: Redacted) -> None:
        path = self.artifacts / "state" / "self_heal" / f"attempt-{step_index:04d}-{attempt:04d}.json"
        write_whole(path, document.data, durable=False, aside=self.aside)

    def write_retry_context(self, step_index: int, attempt: int, document: Redacted) -> Path:
        path = self.artifacts / "state" / "retry_context" / f"step-{step_index:04d}-{attempt:04d}.json"
        write_whole(path, document.data, durable=False, aside=self.aside)
        return path

    def write_private_retry_context(self, step_index: int, attempt: int, document: bytes) -> Path:
        path = self.private / "retry_context" / f"step-{step_index:04d}-{attempt:04d}.json"
        write_whole(path, document, durable=False, aside=self.aside)
        return path

    def write_plan(self, plan: bytes) -> None:
        """Raw: the private folder is the one place where text need not be redacted."""
        write_whole(self.plan_path, plan, aside=self.aside)

    def _output_path(self, step_index: int, attempt: int) -> Path:
        return self.private / "outputs" / f"step-{step_index:04d}-{attempt:04d}.env"
