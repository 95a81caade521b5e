"""Where we run: the environment and recoup.toml, read once, and the home that they name. How we behave is the policy's
business."""

from __future__ import annotations

import errno
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from recoup.errors import SettingsError, StateError
from recoup.files.folders import OWNER_ONLY_FOLDER, hold_home
from recoup.files.named import read_named
from recoup.files.ownership import foreign_above, foreign_itself
from recoup.strength import KEY_CHARS_MIN, MAKE_ONE, weakness

NAMES = (
    "RECOUP_HOME",
    "RECOUP_DATABASE",
    "RECOUP_POLICY",
    "RECOUP_KEY",
    "RECOUP_EVIDENCE",
    "RECOUP_LEASE_S",
    "RECOUP_HEARTBEAT_S",
    "RECOUP_STATSD",
    "RECOUP_STATSD_FLAVOUR",
    "RECOUP_OTEL",
    "RECOUP_SENTENCES",
    "RECOUP_TOKEN",
    "RECOUP_GATEWAY",
)
ENVIRONMENT_ONLY = ("RECOUP_BROWSER",)
"""Read where a step is begun; in a file they would have no effect."""
FILE_NAME = "recoup.toml"
_SENT_TO = {
    "RECOUP_GATEWAY": "RECOUP_TOKEN",
    "RECOUP_DATABASE": "PGPASSWORD",
    "RECOUP_EVIDENCE": "AZURE_STORAGE_SAS_TOKEN",
}
"""Addresses, and the secret of the environment that is sent there. Keys of S3 only sign."""
_STATSD_PORT = 8125
_STATSD_FLAVOURS = ("plain", "datadog")
_HOST_AND_PORT = re.compile(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:\[\]/@]{1,253}))(?::([0-9]{1,5}))?")
_HOST = r"(?:\[[^\]@/]*\]|[^\[\]:@/?,]*)(?::[0-9]*)?"
_POSTGRES = re.compile(
    r"postgres(?:ql)?://(?:(?P<user>[^:@/?]*)(?::(?P<password>[^@/]*))?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)"
    r"(?:/(?P<name>[^@?]*)(?:\?(?P<asked>.*))?|\?(?P<more>[^@]*))?",
    re.DOTALL,
)
"""As PostgreSQL's client reads it. A password that holds a / or an @ would be taken for a port, a host or a database,
which are shown: that is no such address."""
_MEANT_FOR_POSTGRES = re.compile(r"[\s'\"]*postgres(ql)?:|.*password\s*=", re.IGNORECASE | re.DOTALL)
_WRONG_HOME = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}
)
"""Errors that stay until the setting or the folder changes."""
_PASSWORD = re.compile(r"[a-z0-9+]+://[^/@\s]*:[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """The address of a PostgreSQL database. As text it is without the password."""

    url: str = field(repr=False)

    def __str__(self) -> str:
        found = _POSTGRES.fullmatch(self.url)
        if found is None:
            return "postgresql://"
        user = f"{found['user']}@" if found["user"] else ""
        return f"postgresql://{user}{found['hosts']}/{found['name'] or ''}"

    @property
    def password(self) -> str:
        found = _POSTGRES.fullmatch(self.url)
        if found is None:
            return ""
        asked = dict(one.partition("=")[::2] for one in (found["asked"] or found["more"] or "").split("&"))
        return unquote(found["password"] or asked.get("password", ""))

    def exists(self) -> bool:
        """Nobody knows before the server was asked."""
        return True


@dataclass(frozen=True, slots=True)
class Settings:
    """One field for each name that has an effect."""

    home: Path
    """Where state lives."""
    database: Path | DatabaseUrl
    """The ledger: a file, or a database that machines share."""
    policy: Path | None
    """The policy file."""
    key: str | None = field(repr=False)
    """Encrypts what must be kept but never shown; without it the home keeps a key of its own."""
    lease_s: float
    """How long a driver may be silent before somebody else may drive its run."""
    heartbeat_s: float
    statsd: tuple[str, int] | None = None
    """The host and port that measurements are sent to."""
    statsd_flavour: str = "plain"
    """How that server wants tags."""
    otel: bool | None = None
    """Whether traces are made; None: if the environment names a collector."""
    evidence: str | None = field(default=None, repr=False)
    """Where evidence and checkpoints are kept for other machines: a folder that they share, or a URL, which may hold a
    password."""
    sentences: Path | None = None
    """The folder of a sentence model, by which what was learned is compared; None: by its letters."""
    token: str | None = field(default=None, repr=False)
    """What a probe shows its gateway."""
    gateway: str | None = None
    """The gateway that `recoup mcp` asks instead of the ledger."""
    file: Path | None = None
    """The recoup.toml that was read."""


class SettingsFile(NamedTuple):
    """A recoup.toml, and what it says by the names of the environment."""

    path: Path
    said: Mapping[str, str]
    in_folder: bool
    """It lies in the current folder. What is unpacked or cloned can bring one along; that of the user's
    configuration is the user's own word."""


def read_settings(environ: Mapping[str, str], folder: Path, home: str | None = None) -> Settings:
    """A flag (`home`) beats the environment, which beats recoup.toml in `folder` or in the user's configuration."""
    file = _file(environ, folder)
    exported = {name: environ[name] for name in NAMES if environ.get(name)}
    if file is not None and file.in_folder:
        _require_own_secrets(file, exported, environ)
        if not (home or "RECOUP_HOME" in exported):
            _require_private_home(file)
    said = {**(file.said if file is not None else {}), **exported}
    root = Path(home or said.get("RECOUP_HOME") or _default_home(environ)).expanduser().absolute()
    lease_s, heartbeat_s = _seconds(said, "RECOUP_LEASE_S", 10), _seconds(said, "RECOUP_HEARTBEAT_S", 3)
    if lease_s < 2 or heartbeat_s > (lease_s - 1) / 2:
        raise SettingsError(
            f"RECOUP_LEASE_S={lease_s:g} and RECOUP_HEARTBEAT_S={heartbeat_s:g} do not go together",
            hint="The lease must be at least 2 s, and two heartbeats must fit into it with a second to spare.",
        )
    policy, sentences = said.get("RECOUP_POLICY"), said.get("RECOUP_SENTENCES")
    return Settings(
        home=root,
        database=_database(said.get("RECOUP_DATABASE"), root),
        policy=Path(policy).expanduser().absolute() if policy else None,
        key=said.get("RECOUP_KEY"),
        lease_s=lease_s,
        heartbeat_s=heartbeat_s,
        statsd=_host_and_port(said, "RECOUP_STATSD", _STATSD_PORT),
        statsd_flavour=_one_of(said, "RECOUP_STATSD_FLAVOUR", _STATSD_FLAVOURS),
        otel=_yes_or_no(said, "RECOUP_OTEL"),
        evidence=_place(said.get("RECOUP_EVIDENCE")),
        sentences=Path(sentences).expanduser().absolute() if sentences else None,
        token=said.get("RECOUP_TOKEN"),
        gateway=said.get("RECOUP_GATEWAY"),
        file=None if file is None else file.path,
    )


def require_own_home(home: Path) -> None:
    """Raises SettingsError for a home that another user can change: it says what is run, and as whom. For one that is
    missing, the folders above it are asked. Raises OSError, too."""
    found = foreign_itself(home) or foreign_above(home)
    if found is None:
        return
    what = "it" if found.path == home else str(found.path)
    own = "name a home of your own, in a folder of your own: RECOUP_HOME or --home."
    raise SettingsError(
        f"the home {home} cannot be trusted: {what} {found.reason}",
        hint=f"If nobody else has written there: chmod go-w {found.path}. Otherwise {own}"
        if found.is_mode
        else f"Run Recoup as the user who owns it, or {own}",
    )


def make_home(home: Path) -> None:
    """Raises SettingsError for a folder that another setting must name, and StateError for one that the machine cannot
    write now."""
    try:
        require_own_home(home)
        for folder in reversed([folder for folder in home.parents if not folder.exists()]):
            folder.mkdir(exist_ok=True, mode=0o755)
        home.mkdir(exist_ok=True, mode=OWNER_ONLY_FOLDER)
        # Once more: another user may have made it meanwhile.
        require_own_home(home)
        hold_home(home)
        probe = home / f".write-{secrets.token_hex(4)}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        if error.errno not in _WRONG_HOME:
            raise StateError.of(error) from None
        raise SettingsError(
            f"the state folder {home} cannot be written: {error.strerror}",
            hint="Fix its permissions, or name another folder: RECOUP_HOME or --home.",
        ) from None


def require_strong_key(key: str | None) -> None:
    """Before anything new is kept under RECOUP_KEY. What was begun with a weak one can be finished with it."""
    if key is not None and (why := weakness(key, KEY_CHARS_MIN)):
        raise SettingsError(
            f"RECOUP_KEY {why}, so nothing new is kept under it",
            hint=f"Make a random one: {MAKE_ONE}. Runs that began with this key need it until they have ended: finish"
            " them first (recoup resume, recoup worker), or use the new key with another RECOUP_HOME.",
        )


def _default_home(environ: Mapping[str, str]) -> str:
    state = environ.get("XDG_STATE_HOME") or _user_home(environ) / ".local" / "state"
    return str(Path(state, "recoup"))


def _user_home(environ: Mapping[str, str]) -> Path:
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def _file(environ: Mapping[str, str], folder: Path) -> SettingsFile | None:
    config = environ.get("XDG_CONFIG_HOME") or _user_home(environ) / ".config"
    for path in (folder / FILE_NAME, Path(config, "recoup", FILE_NAME)):
        if path.is_file():
            _require_ours(path)
            return SettingsFile(path, _read_toml(path), in_folder=path.parent == folder)
    return None


def _require_ours(path: Path) -> None:
    """What it says decides where tokens are sent and whose runs are driven."""
    try:
        found = foreign_itself(path) or foreign_itself(path.parent) or foreign_above(path)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    if found is None:
        return
    where = "it" if found.path == path else f"its folder {found.path}"
    raise SettingsError(
        f"the settings in {path} cannot be trusted: {where} {found.reason}",
        hint=f"If they are yours: chmod go-w {found.path}"
        if found.is_mode
        else "If you want them, copy the file to a folder of your own and run Recoup there;"
        " otherwise run Recoup in another folder.",
    )


def _require_own_secrets(file: SettingsFile, exported: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """A secret of the environment is not sent to an address that came with a folder."""
    for name, secret in _SENT_TO.items():
        if name in file.said and name not in exported and environ.get(secret):
            raise SettingsError(
                f"{file.path} says where {secret} of the environment would be sent ({name})",
                hint=f"If you trust that address: export {name}=…, or write {name.lower()} into the recoup.toml of your"
                f" user configuration. Otherwise: unset {secret}, or run Recoup in another folder.",
            )


def _require_private_home(file: SettingsFile) -> None:
    """A home that came with a folder, as from a repository, can hold runs that another user has queued. Recoup itself
    makes homes that are their owner's alone; a checkout does not."""
    if "RECOUP_HOME" not in file.said:
        return
    home = Path(file.said["RECOUP_HOME"]).expanduser().absolute()
    if home.is_dir() and home.stat().st_mode & 0o077:
        raise SettingsError(
            f"{file.path} names the home {home}, which other users can read or which came with the folder",
            hint=f"If you made this home yourself: chmod 700 {home}. Otherwise: RECOUP_HOME or --home names another.",
        )


def _read_toml(path: Path) -> dict[str, str]:
    import tomllib

    try:
        content = tomllib.loads(read_named(path).decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(
            f"{path} cannot be read: {error}", hint="It must be a TOML file in UTF-8."
        ) from None
    known = {name.lower(): name for name in NAMES}
    for name in ENVIRONMENT_ONLY:
        if name.lower() in content:
            raise SettingsError(
                f"{path}: {name} counts in the environment alone",
                hint=f"Take it out there, and: export {name}=VALUE",
            )
    unknown = [key for key in content if key not in known]
    if unknown:
        raise SettingsError(
            f"{path}: unknown setting {unknown[0]!r}", hint=f"Known settings: {', '.join(sorted(known))}."
        )
    secret = next((known[key] for key, value in content.items() if _is_secret(known[key], str(value))), None)
    if secret is not None and path.stat().st_mode & 0o077:
        raise SettingsError(
            f"{path} holds a secret in {secret}, and others than its owner can get at it",
            hint=f"Set {secret} in the environment instead, or: chmod 600 {path}",
        )
    return {known[key]: str(value) for key, value in content.items()}


def _is_secret(name: str, value: str) -> bool:
    """A token, a key, or an address with a password in it."""
    return name in ("RECOUP_TOKEN", "RECOUP_KEY") or bool(_PASSWORD.match(value))


def _seconds(said: Mapping[str, str], name: str, default: float) -> float:
    text = said.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 < value <= 3600:
        raise SettingsError(
            f"{name}={text!r} is not a number of seconds", hint="Give a number between 0 and 3600."
        )
    return value


def _host_and_port(said: Mapping[str, str], name: str, port: int) -> tuple[str, int] | None:
    text = said.get(name)
    if not text:
        return None
    found = _HOST_AND_PORT.fullmatch(text.strip())
    number = int(found[3] or port) if found else 0
    if found is None or not 0 < number < 65536:
        raise SettingsError(
            f"{name}={text!r} is not a host and a port", hint="Write HOST:PORT, or [ADDRESS]:PORT for IPv6."
        )
    return found[1] or found[2], number


def _one_of(said: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    text = said.get(name) or choices[0]
    if text not in choices:
        raise SettingsError(f"{name}={text!r} is not known", hint=f"Choose one of: {', '.join(choices)}.")
    return text


def _yes_or_no(said: Mapping[str, str], name: str) -> bool | None:
    text = said.get(name, "").lower()
    if text in ("1", "true", "yes", "on"):
        return True
    if text in ("0", "false", "no", "off"):
        return False
    if text:
        raise SettingsError(f"{name}={text!r} is neither yes nor no", hint="Give 1 or 0, or leave it out.")
    return None


def _place(said: str | None) -> str | None:
    if not said or ("://" in said and not said.startswith("file://")):
        return said or None
    return str(Path(said.removeprefix("file://")).expanduser().absolute())


def _database(said: str | None, home: Path) -> Path | DatabaseUrl:
    if not said:
        return home / "ledger.db"
    if said.startswith(("postgresql://", "postgres://")) and _POSTGRES.fullmatch(said):
        return DatabaseUrl(said)
    if _MEANT_FOR_POSTGRES.match(said):
        raise SettingsError(
            "RECOUP_DATABASE is not an address of a PostgreSQL database",
            hint="Write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, special characters (/ @ : ? %) as %XX.",
        )
    if "://" in said and not said.startswith("sqlite://"):
        raise SettingsError(
            "RECOUP_DATABASE names a database that this version cannot use",
            hint="Give the path of a SQLite file or a postgresql:// address, or leave it out.",
        )
    return Path(said.removeprefix("sqlite:///").removeprefix("sqlite://")).expanduser().absolute()
