"""What all processes of one storm share beside the ledger."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path

from recoup.model.ids import ProcessIdentity
from recoup.redaction.redactor import SecretRedactor
from recoup.simulation.scripted import StormWorkspaces, Truth
from recoup.simulation.virtual_loop import VirtualClock, VirtualLoop


class Surface:
    """One machine, its clock, and what is true on it."""

    def __init__(self, seed: str, root: Path, trouble: float) -> None:
        self.seed = seed
        self.root = root
        self.trouble = trouble
        """The share of attempts that go wrong."""
        self.loop = VirtualLoop()  # type: ignore[abstract]  # what it lacks belongs to a real world
        self.clock = VirtualClock(self.loop)
        self.redactor = SecretRedactor()
        self.truth = Truth()
        self.dead: set[ProcessIdentity] = set()
        self._workspaces: dict[str, StormWorkspaces] = {}
        self._escalations = count(1)

    def workspaces(self, run_id: str) -> StormWorkspaces:
        """They outlive the process that made them."""
        if run_id not in self._workspaces:
            chance = random.Random(f"{self.seed}:{run_id}:workspaces")
            self._workspaces[run_id] = StormWorkspaces(self.root, chance, self._workspaces.get)
        return self._workspaces[run_id]

    def touch(self, run_id: str, cwd: str, what: str) -> None:
        if run_id in self._workspaces:
            self._workspaces[run_id].touch(cwd, what)

    def new_escalation_id(self) -> str:
        return f"esc-{next(self._escalations):08d}"
