"""A probe file as people write it: every key, its type, its limits, and what it is for; source of the JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from recoup.documents.forms import FieldName, Regex, VariableName, WorkflowName, carried, first_said
from recoup.documents.limits_shape import Duration
from recoup.documents.shape import AnyText, Shape, Text, Version
from recoup.kernel.probe_gateway import refuse_address
from recoup.model.probe import (
    HOST_AND_PORT,
    Action,
    AnyCheck,
    AnyKind,
    BindingKind,
    Budget,
    ChannelKind,
    CommandCheck,
    EndpointKind,
    ExitCheck,
    HandOver,
    HeartbeatCheck,
    HttpCheck,
    MountKind,
    OutputCheck,
    ProcessKind,
    Resource,
    TcpCheck,
)

RESOURCES_MAX = 5_000
CHECKS_MAX = 20
DAY_S = 86_400
_DEFAULT = Budget()

Words = Annotated[
    list[Annotated[AnyText, AfterValidator(carried)]],
    Field(min_length=1, max_length=1_000),
    AfterValidator(first_said),
]
Port = Annotated[int, Field(ge=1, le=65_535)]
ActionName = Literal["restart", "reconnect", "remount", "rebind", "refresh_local_endpoint"]


def _web(schemes: Sequence[str]) -> AfterValidator:
    def check(url: str) -> str:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in schemes and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable:
            raise ValueError(f"must be an address such as {schemes[0]}://127.0.0.1:8000/")
        return url

    return AfterValidator(check)


def _gateway(url: str) -> str:
    if why := refuse_address(url):
        raise ValueError(f"cannot be a gateway's address: {why}")
    return url


HttpUrl = Annotated[Text, _web(("http", "https"))]
GatewayUrl = Annotated[Text, AfterValidator(_gateway)]
WebsocketUrl = Annotated[Text, _web(("ws", "wss"))]


def _host_and_port(text: str) -> str:
    found = re.fullmatch(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]@]+):([0-9]{1,5})", text)
    if found is None or not 1 <= int(found[1]) <= 65_535:
        raise ValueError("must be a host and a port, such as 127.0.0.1:5432")
    return text


HostAndPort = Annotated[Text, AfterValidator(_host_and_port)]


def host_and_port(written: str) -> tuple[str, int]:
    host, _, port = written.rpartition(":")
    return host.strip("[]"), int(port)


class BudgetShape(Shape):
    max_retries: int = Field(
        _DEFAULT.max_retries,
        ge=0,
        le=100,
        description="Retries for one class of fault; the next one is refused and handed over.",
        examples=[3],
    )
    window_s: Duration = Field(
        _DEFAULT.window_s, description="How far back retries are counted at least.", examples=[600]
    )
    delays_s: Annotated[list[Duration], Field(min_length=1, max_length=100)] = Field(
        list(_DEFAULT.delays_s),
        description="The wait before each retry; lengthened by chance, never shortened.",
        examples=[[30, 90, 210]],
    )
    day_max: int = Field(
        _DEFAULT.day_max, ge=0, le=1_000, description="Actions on one resource in 24 hours.", examples=[12]
    )
    healthy_reset_s: Duration = Field(
        _DEFAULT.healthy_reset_s,
        description="Retries are given back after so long a time of health.",
        examples=[600],
    )

    def value(self) -> Budget:
        return Budget(
            max_retries=self.max_retries,
            window_s=self.window_s,
            delays_s=tuple(self.delays_s),
            day_max=self.day_max,
            healthy_reset_s=self.healthy_reset_s,
        )


# Checks


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


# Kinds


class ProcessShape(Shape):
    command: Words = Field(description="The program and its arguments.", examples=[["uvicorn", "app:app"]])
    cwd: Text = Field(".", description="Where it runs, relative to the probe file.", examples=["./api"])
    env: Annotated[dict[VariableName, AnyText], Field(max_length=1_000)] = Field(
        {}, description="Variables beside those of the probe itself.", examples=[{"PORT": "8000"}]
    )
    stop_grace: Duration = Field(
        10, description="How long it may take to stop before it is killed.", examples=["10s"]
    )
    never_restart_on: Annotated[list[Annotated[int, Field(ge=0, le=255)]], Field(max_length=256)] = Field(
        [],
        description="Exit codes after which only a person may start it again; with 0, that it is done.",
        examples=[[2]],
    )
    settle: Duration = Field(
        1, description="How long it must live before it counts as healthy.", examples=["1s"]
    )
    log_bytes_max: int = Field(
        10 << 20, ge=4096, le=10 << 30, description="How much of its output is kept.", examples=[1_048_576]
    )

    def value(self) -> ProcessKind:
        return ProcessKind(
            command=tuple(self.command),
            cwd=self.cwd,
            env=dict(self.env),
            stop_grace_s=self.stop_grace,
            never_restart_on=tuple(self.never_restart_on),
            settle_s=self.settle,
            log_bytes_max=self.log_bytes_max,
        )


def _forward(words: str) -> str:
    if not re.fullmatch(
        r"(?:(?:\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/-][^\s:\[\]/]*):)?[0-9]{1,5}:[^\s]+:[0-9]{1,5}", words
    ):
        raise ValueError("must be [address:]port:host:hostport, such as 127.0.0.1:9000:127.0.0.1:8000")
    return words


def _host_name(words: str) -> str:
    if words.startswith("-") or not re.fullmatch(r"[^\s@/]+", words):
        raise ValueError("must be the name or the address of a machine, such as 127.0.0.1")
    return words


ForwardWords = Annotated[Text, AfterValidator(_forward)]
HostName = Annotated[Text, AfterValidator(_host_name)]


class SshRemoteShape(Shape):
    host: HostName = Field(description="The machine.", examples=["127.0.0.1"])
    port: Port = Field(22, description="Its port.", examples=[2222])
    user: Text | None = Field(None, description="Who logs in.", examples=["dev"])
    identity_file: Text | None = Field(
        None, description="The private key, relative to the probe file.", examples=["./id_ed25519"]
    )
    known_hosts_file: Text | None = Field(
        None, description="The host keys that are known, relative to the probe file.", examples=["./hosts"]
    )
    forwards: Annotated[list[ForwardWords], Field(max_length=100)] = Field(
        [],
        description="In ide_primary alone: local ports that lead there, as ssh -L has them.",
        examples=[["127.0.0.1:9000:127.0.0.1:8000"]],
    )
    mode: Literal["ide_primary", "terminal_fallback"] = Field(
        "ide_primary", description="How it is used.", examples=["ide_primary"]
    )
    fallback: Literal["terminal_fallback"] | None = Field(
        None,
        description="What it is downgraded to, once, before anybody is asked.",
        examples=["terminal_fallback"],
    )
    command: Words | None = Field(
        None, description="What holds the connection, instead of ssh itself.", examples=[["./attach.sh"]]
    )

    @model_validator(mode="after")
    def _falls_back_on_something_else(self) -> SshRemoteShape:
        if self.fallback == self.mode:
            raise ValueError("`fallback` must be another way than `mode`: remove it")
        if self.forwards and self.command is not None:
            raise ValueError("`forwards` are for ssh itself: remove them, or `command`")
        return self

    def value(self, timeout_s: float, every_s: float) -> ChannelKind:
        return ChannelKind(
            transport="ssh_remote",
            host=self.host,
            port=self.port,
            user=self.user or "",
            identity_file=self.identity_file or "",
            known_hosts_file=self.known_hosts_file or "",
            forwards=tuple(self.forwards),
            mode=self.mode,
            fallback=self.fallback or "",
            command=tuple(self.command or ()),
            connect_timeout_s=timeout_s,
            every_s=every_s,
        )


class DialogShape(Shape):
    command: Words | None = Field(
        None, description="The program at the other end of the dialog.", examples=[["./agent", "--stdio"]]
    )
    url: WebsocketUrl | None = Field(
        None, description="Or its address.", examples=["ws://127.0.0.1:9000/dialog"]
    )
    pings: bool = Field(
        True,
        description="It answers a JSON-RPC 2.0 `ping`, be it with an error. False: it is never asked.",
        examples=[True],
    )

    @model_validator(mode="after")
    def _has_one_end(self) -> DialogShape:
        if (self.command is None) == (self.url is None):
            raise ValueError("must name `command` or `url`, one of the two")
        return self


CHANNEL_KEYS = ("tcp", "http", "websocket", "unix", "ssh_remote", "dialog")


class ChannelShape(Shape):
    tcp: HostAndPort | None = Field(None, description="A TCP connection.", examples=["127.0.0.1:5432"])
    http: HttpUrl | None = Field(
        None, description="An HTTP connection that is kept alive.", examples=["http://127.0.0.1:8000/"]
    )
    websocket: WebsocketUrl | None = Field(
        None, description="A WebSocket.", examples=["ws://127.0.0.1:9000/"]
    )
    unix: Text | None = Field(None, description="A unix socket.", examples=["/run/app.sock"])
    ssh_remote: SshRemoteShape | None = Field(
        None, description="A session on another machine.", examples=[{"host": "127.0.0.1", "port": 2222}]
    )
    dialog: DialogShape | None = Field(
        None,
        description="A conversation with a program in lines of JSON.",
        examples=[{"command": ["./agent", "--stdio"]}],
    )
    connect_timeout: Duration = Field(
        10, description="The longest that connecting, or an answer, may take.", examples=["10s"]
    )
    every: Duration = Field(10, description="How often it is looked at.", examples=["10s"])

    @model_validator(mode="after")
    def _is_one_channel(self) -> ChannelShape:
        if sum(getattr(self, key) is not None for key in CHANNEL_KEYS) != 1:
            raise ValueError(f"must be one of {', '.join(CHANNEL_KEYS)}")
        return self

    def value(self) -> ChannelKind:
        if self.ssh_remote is not None:
            return self.ssh_remote.value(self.connect_timeout, self.every)
        transport = next(key for key in CHANNEL_KEYS if getattr(self, key) is not None)
        if self.dialog is not None:
            return ChannelKind(
                transport=transport,
                address=self.dialog.url or "",
                command=tuple(self.dialog.command or ()),
                pings=self.dialog.pings,
                connect_timeout_s=self.connect_timeout,
                every_s=self.every,
            )
        address: str = getattr(self, transport)
        host, port = host_and_port(address) if transport == "tcp" else ("", 0)
        return ChannelKind(
            transport=transport,
            address=address,
            host=host,
            port=port,
            connect_timeout_s=self.connect_timeout,
            every_s=self.every,
        )


MountWord = Annotated[Text, Field(pattern=r"^[^\s-][^\s]*$")]


class MountShape(Shape):
    path: Text = Field(description="Where it is mounted, relative to the probe file.", examples=["./scratch"])
    command: Words | None = Field(None, description="What mounts it.", examples=[["mount", "./scratch"]])
    source: Text | None = Field(
        None, description="Or: what is mounted there by `mount`.", examples=["/dev/vdb1", "tmpfs"]
    )
    type: MountWord | None = Field(None, description="With `source`: the file system.", examples=["tmpfs"])
    options: MountWord | None = Field(
        None, description="With `source`: the options of `mount -o`.", examples=["size=1m,mode=0700"]
    )
    unmount: Words | None = Field(
        None, description="What unmounts it. Default: umount PATH.", examples=[["umount", "./scratch"]]
    )
    timeout: Duration = Field(30, description="The longest that either may take.", examples=["30s"])
    every: Duration = Field(30, description="How often it is looked at.", examples=["30s"])

    @model_validator(mode="after")
    def _is_mounted_somehow(self) -> MountShape:
        if (self.command is None) == (self.source is None):
            raise ValueError("must name `command` or `source`, one of the two")
        if self.source is None and (self.type is not None or self.options is not None):
            raise ValueError("`type` and `options` are about `source`: add it, or remove them")
        return self

    def value(self) -> MountKind:
        return MountKind(
            path=self.path,
            command=tuple(self.command or self._mount_command()),
            unmount=tuple(self.unmount or ()),
            timeout_s=self.timeout,
            every_s=self.every,
        )

    def _mount_command(self) -> list[str]:
        of_type = ["-t", self.type] if self.type else []
        with_options = ["-o", self.options] if self.options else []
        return ["mount", *of_type, *with_options, "--", self.source or "", self.path]


class BindingShape(Shape):
    host: Text = Field("127.0.0.1", description="The local address.", examples=["127.0.0.1"])
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        description="The port that must answer. 0, with `forward_to`: any that is free.", examples=[8080]
    )
    command: Words | None = Field(
        None, description="What binds it and stays.", examples=[["socat", "TCP-LISTEN:8080", "STDIO"]]
    )
    forward_to: HostAndPort | None = Field(
        None, description="Or: where connections are passed on to.", examples=["127.0.0.1:8000"]
    )
    timeout: Duration = Field(30, description="The longest that binding may take.", examples=["30s"])
    every: Duration = Field(10, description="How often it is looked at.", examples=["10s"])

    @model_validator(mode="after")
    def _is_bound_somehow(self) -> BindingShape:
        if (self.command is None) == (self.forward_to is None):
            raise ValueError("must name `command` or `forward_to`, one of the two")
        if self.port == 0 and self.command is not None:
            raise ValueError("with `command` the port must be known: name it")
        return self

    def value(self) -> BindingKind:
        return BindingKind(
            host=self.host,
            port=self.port,
            command=tuple(self.command or ()),
            forward_to=self.forward_to or "",
            timeout_s=self.timeout,
            every_s=self.every,
        )


ENDPOINT_SOURCES = ("command", "address", "port_file", "binding")


class EndpointShape(Shape):
    file: Text = Field(
        description="The file that names the address, relative to the probe file.", examples=["./.env"]
    )
    variable: VariableName | None = Field(
        None, description="The variable in it. Default: the file is the address.", examples=["API_URL"]
    )
    command: Words | None = Field(
        None, description="Prints the address as it is now.", examples=[["./where-is-the-api"]]
    )
    address: Text | None = Field(
        None, description="Or: the address, if it never changes.", examples=["http://127.0.0.1:8000"]
    )
    port_file: Text | None = Field(
        None, description="Or: a file that holds host:port, or a port alone.", examples=["./run/port"]
    )
    binding: WorkflowName | None = Field(
        None, description="Or: a binding of this file, whose address it is.", examples=["front"]
    )
    format: Text | None = Field(
        None,
        description="With `port_file` or `binding`: what is made of them. Default: {host}:{port}.",
        examples=["http://{host}:{port}/"],
    )
    timeout: Duration = Field(30, description="The longest that the command may take.", examples=["30s"])
    every: Duration = Field(10, description="How often it is looked at.", examples=["10s"])

    @model_validator(mode="after")
    def _has_one_source(self) -> EndpointShape:
        if sum(getattr(self, key) is not None for key in ENDPOINT_SOURCES) != 1:
            raise ValueError(f"must name one source of the address: one of {', '.join(ENDPOINT_SOURCES)}")
        if self.format is not None and self.port_file is None and self.binding is None:
            raise ValueError("`format` is about `port_file` and `binding`: remove it")
        if self.format is not None and "{port}" not in self.format:
            raise ValueError("`format` must say where the {port} goes")
        return self

    def value(self) -> EndpointKind:
        return EndpointKind(
            file=self.file,
            variable=self.variable or "",
            command=tuple(self.command or ()),
            address=self.address or "",
            port_file=self.port_file or "",
            binding=self.binding or "",
            format=self.format or HOST_AND_PORT,
            timeout_s=self.timeout,
            every_s=self.every,
        )


KIND_KEYS = ("process", "channel", "mount", "binding", "endpoint")


class ResourceShape(Shape):
    id: WorkflowName = Field(description="Its name.", examples=["api"])
    process: ProcessShape | None = Field(
        None, description="A program that should run.", examples=[{"command": ["uvicorn", "app:app"]}]
    )
    channel: ChannelShape | None = Field(
        None, description="A connection that should be open.", examples=[{"tcp": "127.0.0.1:5432"}]
    )
    mount: MountShape | None = Field(
        None,
        description="A file system that should be mounted.",
        examples=[{"path": "./scratch", "command": ["mount", "./scratch"]}],
    )
    binding: BindingShape | None = Field(
        None,
        description="A port that should answer.",
        examples=[{"port": 8080, "forward_to": "127.0.0.1:8000"}],
    )
    endpoint: EndpointShape | None = Field(
        None,
        description="A file that should name a local address.",
        examples=[{"file": "./.env", "variable": "API_URL", "address": "http://127.0.0.1:8000"}],
    )
    health: Annotated[list[CheckShape], Field(max_length=CHECKS_MAX)] = Field(
        [], description="How it is looked at.", examples=[[{"tcp": "127.0.0.1:8000", "every": "5s"}]]
    )
    needs: Annotated[list[WorkflowName], Field(max_length=100)] = Field(
        [], description="What must be there first.", examples=[["database"]]
    )
    on_fault: Annotated[dict[FieldName, ActionName], Field(max_length=100)] = Field(
        {},
        description="The action for a class of fault, instead of the kind's own.",
        examples=[{"dialog_target_disconnected": "reconnect"}],
    )
    start_period: Duration = Field(
        30, description="How long it may take to become healthy after a start or an action.", examples=["30s"]
    )
    budget: BudgetShape | None = Field(
        None, description="A budget of its own.", examples=[{"max_retries": 1}]
    )

    @model_validator(mode="after")
    def _is_one_kind(self) -> ResourceShape:
        if sum(getattr(self, key) is not None for key in KIND_KEYS) != 1:
            raise ValueError(f"must be of one kind: {', '.join(KIND_KEYS)}")
        if self.process is None and any(one.exit or one.output for one in self.health):
            raise ValueError("only a process exits or prints: look at this in another way")
        if any(one.only_in for one in self.health) and not (self.channel and self.channel.ssh_remote):
            raise ValueError("`only_in` is about the modes of ssh_remote: remove it")
        if self.endpoint and self.endpoint.binding and self.endpoint.binding not in self.needs:
            raise ValueError(
                f"`binding` is only known when it is there: add {self.endpoint.binding} to `needs`"
            )
        for fault_class, action in self.on_fault.items():
            if action not in self.kind().ACTIONS:
                fitting = ", ".join(sorted(self.kind().ACTIONS))
                raise ValueError(f"on_fault.{fault_class}: {action} cannot be done here, only {fitting}")
        return self

    def kind(self) -> AnyKind:
        shape = next(getattr(self, key) for key in KIND_KEYS if getattr(self, key) is not None)
        kind: AnyKind = shape.value()
        return kind

    def value(self, budget: Budget) -> Resource:
        return Resource(
            id=self.id,
            kind=self.kind(),
            checks=tuple(check.value() for check in self.health),
            needs=tuple(dict.fromkeys(self.needs)),
            on_fault={name: Action(action) for name, action in self.on_fault.items()},
            budget=self.budget.value() if self.budget else budget,
            start_period_s=self.start_period,
        )


class HandOverShape(Shape):
    file: Text | None = Field(
        None,
        description="JSON lines are added to it. Default: one in the probe's folder.",
        examples=["./escalations.jsonl"],
    )
    command: Words | None = Field(
        None, description="Given each escalation as JSON on standard input.", examples=[["./page-me.sh"]]
    )
    timeout: Duration = Field(30, description="The longest that the command may take.", examples=["30s"])

    def value(self) -> HandOver:
        return HandOver(file=self.file, command=tuple(self.command or ()), command_timeout_s=self.timeout)


class ProbeShape(Shape):
    """What a probe looks after on this machine, and how far it may go."""

    editor_schema: str | None = Field(
        None, alias="$schema", description="For editors only.", examples=["probe.json"]
    )
    version: Version = Field(description="The version of the format: 1.", examples=[1])
    id: WorkflowName | None = Field(
        None, description="The probe's name. Default: that of the file.", examples=["devbox"]
    )
    gateway: GatewayUrl | None = Field(
        None,
        description="Who is told everything, and decides when the budget is spent. Its token: RECOUP_TOKEN.",
        examples=["http://127.0.0.1:8620"],
    )
    hand_over: HandOverShape | None = Field(
        None, description="Who is told besides.", examples=[{"command": ["./page-me.sh"]}]
    )
    secrets: Annotated[list[VariableName], Field(max_length=1_000)] = Field(
        [], description="Variables whose values are never stored.", examples=[["API_TOKEN"]]
    )
    budget: BudgetShape | None = Field(
        None, description="How often the probe may act.", examples=[{"max_retries": 3}]
    )
    resources: Annotated[list[ResourceShape], Field(min_length=1, max_length=RESOURCES_MAX)] = Field(
        description="What it looks after.", examples=[[{"id": "api", "process": {"command": ["uvicorn"]}}]]
    )


SHAPES: dict[str, type[Shape]] = {
    "budget": BudgetShape,
    "hand_over": HandOverShape,
    "resources": ResourceShape,
    "process": ProcessShape,
    "channel": ChannelShape,
    "ssh_remote": SshRemoteShape,
    "dialog": DialogShape,
    "mount": MountShape,
    "binding": BindingShape,
    "endpoint": EndpointShape,
    "health": CheckShape,
    "heartbeat": HeartbeatShape,
    "output": OutputShape,
}
