"""Parts that not everybody installs: what does not work without each, and the command that installs it."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Extra:
    """One of the optional dependencies of the package."""

    name: str
    modules: tuple[str, ...]
    without: str

    @property
    def command(self) -> str:
        return f"pip install 'recoup[{self.name}]'"

    def missing(self) -> list[str]:
        return [module for module in self.modules if not is_there(module)]


def is_there(module: str) -> bool:
    """Found, and not loaded: that takes a while."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # what it is a part of is missing
        return False


EXTRAS: Final = (
    Extra(
        "serve",
        ("fastapi", "jinja2", "uvicorn", "prometheus_client"),
        "`recoup serve` does not start: no console, no HTTP API, no webhooks",
    ),
    Extra(
        "mcp",
        ("mcp", "httpx2", "uvicorn"),
        "`recoup mcp` does not start, and agents in steps get no tools of Recoup",
    ),
    Extra(
        "browser",
        ("playwright", "numpy"),
        "`browser:` steps, `recoup record` and `pytest --heal` do not work",
    ),
    Extra(
        "postgres",
        ("psycopg", "pgqueuer"),
        "machines cannot share a ledger: RECOUP_DATABASE=postgresql://...",
    ),
    Extra("s3", ("s3fs",), "machines cannot share checkpoints in an object store: RECOUP_EVIDENCE=s3://..."),
    Extra(
        "patterns",
        ("kingfisher",),
        "tokens of some hundred smaller services are found only where a secret usually stands",
    ),
    Extra("metrics", ("prometheus_client",), "`recoup worker --metrics-port` does not start"),
    Extra(
        "otel",
        ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
        "no traces are made, whatever OTEL_EXPORTER_OTLP_ENDPOINT says",
    ),
    Extra(
        "learn", ("faiss", "numpy"), "learned targets are compared one by one: slower where there are many"
    ),
    Extra(
        "sentences",
        ("model2vec", "numpy"),
        "RECOUP_SENTENCES has no effect: learned targets are compared by their letters",
    ),
)
