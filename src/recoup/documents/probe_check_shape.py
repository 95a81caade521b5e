"""How a probe looks at a resource, as people write it under `health`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from recoup.documents.probe_forms import HostAndPort, HttpUrl, host_and_port
from recoup.model.probe import (
    AnyCheck,
    CommandCheck,
    ExitCheck,
    HeartbeatCheck,
    HttpCheck,
    OutputCheck,
    TcpCheck,
)
from recoup.shapes.duration_shape import Duration
from recoup.shapes.forms import Regex, Words
from recoup.shapes.shape import Shape, Text


class HeartbeatShape(Shape):
    file: Text = Field(description="A file that the resource keeps writing.", examples=["run/heartbeat"])
    max_age: Duration = Field(description="The longest that it may go unwritten.", examples=["30s"])


class OutputShape(Shape):
    fault: Regex | None = Field(
        None,
        description="A line that matches means that something is wrong (RE2 syntax).",
        examples=["FATAL"],
    )
    ready: Regex | None = Field(
        None, description="A line that matches means that it works.", examples=["listening on"]
    )
    within: Duration | None = Field(
        None, description="With `ready`: such a line must come at least so often.", examples=["1m"]
    )

    @model_validator(mode="after")
    def _says_something(self) -> OutputShape:
        if self.fault is None and self.ready is None:
            raise ValueError("says nothing to look for: add `fault` or `ready`")
        if self.within is not None and self.ready is None:
            raise ValueError("`within` is about `ready` lines: add `ready`, or remove `within`")
        return self


Statuses = Annotated[list[Annotated[int, Field(ge=100, le=599)]], Field(min_length=1, max_length=50)]
CHECK_KEYS = ("exit", "tcp", "http", "command", "heartbeat", "output")


class CheckShape(Shape):
    exit: Literal[True] | None = Field(
        None, description="The process lives. Always looked at, whether written or not.", examples=[True]
    )
    tcp: HostAndPort | None = Field(
        None, description="Something accepts connections there.", examples=["127.0.0.1:5432"]
    )
    http: HttpUrl | None = Field(
        None, description="A GET is answered.", examples=["http://127.0.0.1:8000/healthz"]
    )
    status: Statuses | None = Field(
        None, description="With `http`: the statuses that are good. Default: below 400.", examples=[[200]]
    )
    command: Words | None = Field(
        None, description="A command that ends with exit code 0.", examples=[["pg_isready", "-q"]]
    )
    heartbeat: HeartbeatShape | None = Field(
        None,
        description="A file that the resource keeps writing.",
        examples=[{"file": "run/heartbeat", "max_age": "30s"}],
    )
    output: OutputShape | None = Field(
        None, description="Lines that it prints, or must not.", examples=[{"fault": "FATAL"}]
    )
    every: Duration = Field(10, description="How often it is looked at.", examples=["5s"])
    timeout: Duration = Field(5, description="The longest that one look may take.", examples=["2s"])
    failures: int = Field(3, ge=1, le=1_000, description="So many in a row are a fault.", examples=[3])
    successes: int = Field(1, ge=1, le=1_000, description="So many in a row are health again.", examples=[1])
    only_in: Literal["ide_primary", "terminal_fallback"] | None = Field(
        None,
        description="For ssh_remote: looked at in this mode alone. Default: in both.",
        examples=["ide_primary"],
    )

    @model_validator(mode="after")
    def _is_one_check(self) -> CheckShape:
        named = [key for key in CHECK_KEYS if getattr(self, key) is not None]
        if len(named) != 1:
            raise ValueError(f"must name one check: one of {', '.join(CHECK_KEYS)}")
        if self.status is not None and self.http is None:
            raise ValueError("`status` is about `http`: add `http`, or remove `status`")
        return self

    def value(self) -> AnyCheck:
        often: dict[str, Any] = {
            "every_s": self.every,
            "timeout_s": self.timeout,
            "failures": self.failures,
            "successes": self.successes,
            "only_in": self.only_in or "",
        }
        if self.tcp is not None:
            host, port = host_and_port(self.tcp)
            return TcpCheck(host=host, port=port, **often)
        if self.http is not None:
            return HttpCheck(url=self.http, status=tuple(self.status or ()), **often)
        if self.command is not None:
            return CommandCheck(command=tuple(self.command), **often)
        if self.heartbeat is not None:
            beat = self.heartbeat
            return HeartbeatCheck(path=beat.file, max_age_s=beat.max_age, **often)
        if self.output is not None:
            said = self.output
            return OutputCheck(fault=said.fault, ready=said.ready, within_s=said.within, **often)
        return ExitCheck(**often)
