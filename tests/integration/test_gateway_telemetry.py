"""Only Recoup's own traces are made: the web framework has its own, which would hold whole addresses."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("opentelemetry.sdk")

_ASK = """
import asyncio
from types import SimpleNamespace
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from recoup.gateway.service import build

spans, sent = InMemorySpanExporter(), []
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
scope = {
    "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
    "path": "/nowhere", "raw_path": b"/nowhere", "query_string": b"", "root_path": "", "server": ("127.0.0.1", 1),
    "client": ("127.0.0.1", 2), "headers": [(b"host", b"127.0.0.1")],
}

async def receive():
    return {"type": "http.request", "body": b"", "more_body": False}

async def send(message):
    sent.append(message)

asyncio.run(build(SimpleNamespace(hosts=("127.0.0.1",)))(scope, receive, send))
print(sent[0]["status"], [span.name for span in spans.get_finished_spans()])
"""


def test_a_request_makes_no_trace_of_the_frameworks_own() -> None:
    asked = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True)
    assert asked.stdout.split(" ", 1)[1].strip() == "[]", asked.stdout + asked.stderr
