"""What a probe looks after, as people write it: a process, a channel, a mount, a binding or an endpoint."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from recoup.documents.probe_forms import HostAndPort, HttpUrl, Port, WebsocketUrl, host_and_port
from recoup.model.probe import (
    HOST_AND_PORT,
    BindingKind,
    ChannelKind,
    EndpointKind,
    MountKind,
    ProcessKind,
)
from recoup.shapes.duration_shape import Duration
from recoup.shapes.forms import VariableName, Words, WorkflowName
from recoup.shapes.shape import AnyText, Shape, Text


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
