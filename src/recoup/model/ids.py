"""Identities: of a process that may be gone, of the owner of a lease, of a stream."""

from __future__ import annotations

import msgspec

from recoup.model.ident import Ident


class ProcessIdentity(msgspec.Struct, frozen=True, rename="camel"):
    """One process for ever: a pid alone is reused."""

    host: Ident
    boot_id: Ident
    pid: int
    start_ticks: int


class Lease(msgspec.Struct, frozen=True):
    """The right to append to one run, until it expires or a higher epoch is granted."""

    run_id: str
    owner: ProcessIdentity
    epoch: int
    ttl_s: float
    deadline_boot_s: float
    """On the owner's boot clock, counted from before the grant was asked for."""
    replaced: ProcessIdentity | None = None
    """The owner that did not give it back: its lease ran out, or it is proven dead."""


POLICY_STREAM = "policy"
LEDGER_STREAM = "ledger"
"""What was done to the ledger itself."""
GATEWAY_STREAM = "gateway"
"""Of the gateway itself: its tokens and who signed in."""
APPROVALS_STREAM = "approvals"
"""Of what waits for a second person."""
EVERY_WORKFLOW = "*"
"""Stands for all workflows: no workflow can have this name."""


def run_stream(run_id: str) -> str:
    return f"run:{run_id}"


def run_of_stream(stream: str) -> str | None:
    return stream.removeprefix("run:") if stream.startswith("run:") else None


def workflow_stream(workflow: str) -> str:
    return f"workflow:{workflow}"


def targets_stream(workflow: str) -> str:
    """Of what the workflow's targets looked like, and of those that were healed."""
    return f"targets:{workflow}"


def probe_stream(probe_id: str) -> str:
    """Of a probe; its lease has the same name."""
    return f"probe:{probe_id}"


def refusals_stream(probe_id: str) -> str:
    """Of what its files asked for that no probe may do: nobody runs it then, and its own stream has one writer."""
    return f"refusals:{probe_id}"


def key_stream(key_digest: str) -> str:
    """Of a key under which a run is submitted once."""
    return f"key:{key_digest}"


def reported_stream(probe_id: str) -> str:
    """Of what a probe elsewhere told the gateway. One in this ledger has its own: `probe_stream`."""
    return f"reported:{probe_id}"


def senders_stream(probe_id: str) -> str:
    """Of the leases under which a probe elsewhere has spoken."""
    return f"senders:{probe_id}"


def commands_stream(probe_id: str) -> str:
    """Of what a probe elsewhere is to do, and what became of it."""
    return f"commands:{probe_id}"


def escalation_stream(escalation_id: str) -> str:
    """Of what people did about an escalation."""
    return f"escalation:{escalation_id}"
