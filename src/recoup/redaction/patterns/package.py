"""Reads the rules of `kingfisher-bin`, where it is installed: a package whose text never becomes ours."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from recoup.redaction.patterns.rewriting import PATTERN_CHARACTERS_MAX, fitted
from recoup.redaction.patterns.rule import Rule

PACKAGE: Final = "kingfisher-bin"
READ_TIMEOUT_S: Final = 20
OUTPUT_BYTES_MAX: Final = 16 << 20
RULES_MAX: Final = 4_000


class PackageUnusable(Exception):
    """The rules of the package cannot be had; the message says why."""


class _Listed(msgspec.Struct):
    id: str
    pattern: str
    visible: bool = True


def package_rules() -> tuple[list[Rule], dict[str, str]]:
    """The rules that find secrets, and the names of the others with the reason why they are left out."""
    listed = _listed()
    left_out = {one.id: why for one in listed if (why := _refusal(one))}
    return [Rule(one.id, fitted(one.pattern)) for one in listed if one.id not in left_out], left_out


def _listed() -> list[_Listed]:
    try:
        listed = msgspec.json.decode(_printed(), type=list[_Listed])
    except msgspec.DecodeError as error:
        raise PackageUnusable(f"{PACKAGE} printed no list of rules: {error}") from error
    if not 0 < len(listed) <= RULES_MAX:
        raise PackageUnusable(f"{PACKAGE} printed {len(listed)} rules; 1 to {RULES_MAX} were expected")
    return listed


def _printed() -> bytes:
    command = [str(_binary()), "rules", "list", "--format", "json", "--no-update-check", "--quiet"]
    try:
        # An empty environment: the program needs none, and it must not meet the secrets of ours.
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env={},
            timeout=READ_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PackageUnusable(f"{PACKAGE} could not be run: {type(error).__name__}") from error
    if done.returncode != 0 or len(done.stdout) > OUTPUT_BYTES_MAX:
        raise PackageUnusable(f"{PACKAGE} ended with {done.returncode} and {len(done.stdout)} bytes")
    return done.stdout


def installed_at() -> Path | None:
    """The package's folder. Nothing of it is imported."""
    spec = importlib.util.find_spec("kingfisher")
    folders = spec.submodule_search_locations if spec else None
    return Path(folders[0]) if folders else None


def _binary() -> Path:
    folder = installed_at()
    path = (
        folder / "bin" / ("kingfisher.exe" if sys.platform == "win32" else "kingfisher") if folder else None
    )
    if path is None or not path.is_file():
        raise PackageUnusable(f"{PACKAGE} has no program: pip install --force-reinstall 'recoup[patterns]'")
    return path


def _refusal(one: _Listed) -> str | None:
    """Beside secrets the package lists what it needs to check them: hosts, addresses, user names."""
    if len(one.pattern) > PATTERN_CHARACTERS_MAX:
        return f"its pattern has {len(one.pattern)} characters"
    if one.id.partition(".")[2] in _COVERED:
        return "looks at every assignment or token of its kind, as rules of our own do, and costs more"
    if one.id.partition(".")[2] in _ENDLESS:
        return "its matches have no end; our own rules find the same line by line"
    if not one.visible and not _SECRET_WORDS & set(_words(one.id)[-3:]):
        return "finds no secret but what belongs to one"
    return None


def _words(name: str) -> list[str]:
    return [word for word in name.replace(".", "-").replace("/", "-").split("-") if not word.isdigit()]


_SECRET_WORDS: Final = {"secret", "key", "token", "passphrase", "password", "credential"}
_COVERED: Final = {
    "alibaba-secret-key",
    "alibaba-sts-access-key-secret",
    "alibaba-sts-security-token",
    "atlassian-api-token",
    "aws-amazon-bedrock-api-key-short-lived",
    "aws-secret-access-key",
    "aws-session-token",
    "azure-storage-account-key",
    "bitrise-access-token",
    "defined-networking-api-token",
    "dropbox-short-lived-api-token",
    "endorlabs-api-key",
    "endorlabs-api-secret",
    "generic-credential-uri",
    "influxdb-api-token",
    "jwt",
    "mongodb-connection-string",
    "openai-api-key",
    "polymarket-api-secret",
    "scaleway-secret-key",
    "secrets/codecatalystcredentials",
    "tailscale-api-key.1",
    "temporal-cloud-api-key.1",
}
_ENDLESS: Final = {
    "curl-auth-header",
    "curl-auth-user",
    "gcp-application-default-credentials",
    "gcp-service-account",
    "jwt-base64",
    "kubernetes-secret-yaml",
    "private-key",
}
