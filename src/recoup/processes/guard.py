"""The driver's side of a guard: the script that stands in for a program, and the deadline the guard looks at."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import struct
import sys
import tempfile
from pathlib import Path
from typing import Final

from recoup.errors import KeeperError
from recoup.model.ids import ProcessIdentity
from recoup.processes.guard_folders import (
    DEADLINE_FILE,
    FOLDER_BYTES_MAX,
    FOLDER_PREFIX,
    MARK_FILE,
    remove_folders,
)
from recoup.processes.identity import identify, own_identity, wait_dead
from recoup.processes.marks import new_marker
from recoup.processes.orphans import bury_orphans
from recoup.processes.sweep import KEEPER_MARK, RUN_MARK, sweep_marked

_BOOT: Final = "import sys; sys.path.append(sys.argv[1]); import guard_main; guard_main.main()"
_READY_S: Final = 30.0
_LOOK_S: Final = 0.01
_END_S: Final = 5.0


class Guard:
    """Stands before one program that a library starts and speaks to: `program` is what the library is to start, in the
    environment `marks`. What was started is killed with the driver, with the lease, and by `close`."""

    def __init__(self, executable: str, run_id: str, deadline_boot_s: float) -> None:
        self._marker = new_marker()
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=_short_folder()))
        self.program = self.folder / "program"
        self.identity: ProcessIdentity | None = None
        self.marks = {KEEPER_MARK: self._marker, RUN_MARK: run_id}
        try:
            # First: a folder without it is nobody's, and stays.
            (self.folder / MARK_FILE).write_text(self._marker)
            self._deadline = os.open(
                self.folder / DEADLINE_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
            self.extend(deadline_boot_s)
            self.program.write_text(_script(self.folder, executable))
            self.program.chmod(0o700)
        except OSError as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            hint = "The folder for temporary files (TMPDIR) must be writable and have room."
            raise KeeperError(f"the guard of a program cannot be made: {error}", hint=hint) from error

    def extend(self, deadline_boot_s: float) -> None:
        """Until then the program may live; eight bytes are written whole."""
        os.pwrite(self._deadline, struct.pack("<d", deadline_boot_s), 0)

    async def ready(self) -> ProcessIdentity:
        """Who the guard is, once the library has started it."""
        file = self.folder / "pid"
        for _ in range(int(_READY_S / _LOOK_S)):
            if file.exists():
                self.identity = identify(int(file.read_text()))
                break
            await asyncio.sleep(_LOOK_S)
        if self.identity is None:
            hint = "Check that the machine is not out of memory or processes."
            raise KeeperError("the guard of a program did not start", hint=hint)
        return self.identity

    async def close(self) -> None:
        """Whatever is left of the program is gone when this returns, its folder and its profile too: the library that
        was to remove the profile may not live."""
        self.extend(0)
        if self.identity is None or not await wait_dead(self.identity, _END_S):
            await sweep_marked(self._marker)
        # A guard whose library was killed is handed to us, and only once that has ended: often it is an earlier one.
        bury_orphans()
        os.close(self._deadline)
        await asyncio.to_thread(remove_folders, [self.folder])


def _short_folder() -> str | None:
    """A browser keeps a socket below it, whose path must fit into 107 bytes: a long TMPDIR would leave no room."""
    return "/tmp" if len(os.fsencode(tempfile.gettempdir())) > FOLDER_BYTES_MAX else None


def _script(folder: Path, executable: str) -> str:
    """A script for the shell: the interpreter's path may be longer than a first line can hold."""
    driver = own_identity()
    words = [sys.executable, "-I", "-S", "-c", _BOOT, str(Path(__file__).parent)]
    words += ["--", str(folder), str(driver.pid), str(driver.start_ticks), executable]
    return f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'
