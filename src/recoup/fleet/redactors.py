"""One redactor for each run that this process is concerned with, above the one of the process."""

from __future__ import annotations

from weakref import WeakValueDictionary

from recoup.redaction.redactor import SecretRedactor


class RunRedactors:
    """What a run registers is known as long as its redactor is in use: by its job, or by a request about it. Then it is
    forgotten, so that a process that stays neither fills up nor slows down."""

    def __init__(self, shared: SecretRedactor) -> None:
        self.shared = shared
        """Knows the secrets of the process, and of no run."""
        self._live: WeakValueDictionary[str, SecretRedactor] = WeakValueDictionary()

    def of(self, run_id: str) -> SecretRedactor:
        """The same for all who hold one; a new one knows nothing of the run yet."""
        redactor = self._live.get(run_id)
        if redactor is None:
            redactor = self._live[run_id] = SecretRedactor(above=self.shared)
        return redactor

    def held(self, run_id: str) -> SecretRedactor:
        """For those who work for the holder and know the run by its id alone."""
        redactor = self._live.get(run_id)
        assert redactor is not None, f"run {run_id}: text about it comes in, and nobody holds its redactor"
        return redactor

    def __len__(self) -> int:
        return len(self._live)
