"""A file system at a path. The probe never touches it itself: what hangs there would hang the probe.

Whether it is mounted is what the kernel's table says; whether it answers, a child finds out that may be left hanging.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from recoup.kernel.probe_health import Sign
from recoup.model.probe import Action, Check, MountKind
from recoup.probe.commands import run_command
from recoup.probe.ports import Done, Site

MISSING: Final = "mount_missing"
HANGS: Final = "mount_hangs"
LOOK_S: Final = 5.0
KILL_S: Final = 15.0
"""What hangs in the kernel cannot be killed, and that is certain only after a while."""
TABLE: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class MountHolder:
    """Mounts and unmounts by the commands of the probe file, and nothing else."""

    def __init__(self, site: Site, kind: MountKind) -> None:
        self._site = site
        self._kind = kind
        self._path = place_of(site.path(kind.path))
        self._made = False
        """By this probe: it is then unmounted in the end. What was there before stays."""
        self._hanging: str | None = None

    @property
    def own_check(self) -> Check | None:
        return Check(every_s=self._kind.every_s, timeout_s=LOOK_S + KILL_S, failures=1)

    @property
    def settle_s(self) -> float:
        return 0

    async def look(self) -> Sign:
        if not is_mounted(self._path):
            reason = f"nothing is mounted at {self._path}"
            return Sign(good=False, reason=reason, error_code="not_mounted", fault_class=MISSING)
        if self._hanging is None:
            await self._touch()
        if self._hanging is None:
            return Sign(good=True)
        return Sign(good=False, reason=self._hanging, error_code="no_answer", fault_class=HANGS)

    async def start(self) -> Done:
        self._hanging = None
        if is_mounted(self._path):
            return Done()
        return await self._mount()

    async def stop(self) -> Done:
        if not self._made or not is_mounted(self._path):
            return Done()
        done = await self._unmount()
        self._made = not done.ok
        return done

    async def act(self, action: Action) -> Done:
        assert action is Action.REMOUNT, f"a mount is remounted; it cannot {action}"
        if is_mounted(self._path):
            gone = await self._unmount()
            if not gone.ok:
                return gone
        self._hanging = None
        return await self._mount()

    async def downgrade(self, mode: str) -> Done:
        raise AssertionError(f"a mount knows no lesser way: {mode}")

    async def _touch(self) -> None:
        """After one that hung there is no other until something is done: they would pile up."""
        ran = await run_command(
            self._site, ("stat", "-f", "--", str(self._path)), min(LOOK_S, self._kind.timeout_s)
        )
        if not ran.ok:
            self._hanging = f"{self._path} does not answer: {ran.reason}"

    async def _mount(self) -> Done:
        ran = await run_command(self._site, self._kind.command, self._kind.timeout_s)
        mounted = is_mounted(self._path)
        self._made = self._made or mounted
        if ran.ok and mounted:
            return Done()
        reason = ran.reason or f"{self._kind.command[0]} ended well, but nothing is mounted at {self._path}"
        return Done(ok=False, reason=reason, error_code=ran.error_code or "not_mounted", fault_class=MISSING)

    async def _unmount(self) -> Done:
        argv = self._kind.unmount or ("umount", "--", str(self._path))
        ran = await run_command(self._site, argv, self._kind.timeout_s)
        if not is_mounted(self._path):
            return Done()
        reason = ran.reason or f"{argv[0]} ended well, but something is still mounted at {self._path}"
        return Done(ok=False, reason=reason, error_code=ran.error_code or "still_mounted", fault_class=HANGS)


def place_of(path: Path) -> Path:
    """As the kernel's table has it, without a look at what is mounted there."""
    return path.parent.resolve() / path.name


def is_mounted(path: Path) -> bool:
    return str(path) in mount_points(TABLE.read_text(encoding="utf-8", errors="surrogateescape"))


def mount_points(table: str) -> set[str]:
    """Of a table as in /proc/self/mountinfo: the fifth word of each line, spaces and the like written in octal."""
    words = (line.split(" ") for line in table.split("\n"))
    return {_ESCAPED.sub(lambda found: chr(int(found[1], 8)), line[4]) for line in words if len(line) > 4}
