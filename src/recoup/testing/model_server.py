"""A scripted model on loopback, so that real coding agents can be watched at work without any service.

Speaks as much of Anthropic's `/v1/messages`, OpenAI's `/v1/responses` and Gemini's `:streamGenerateContent` (all as
server-sent events) as the agents' command lines need. The script is told by turn: the reply to a conversation depends
on how many replies it already holds, so that an agent's own repetitions and a session begun anew both get the same
answers again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar

_BODY_BYTES_MAX = 32 << 20
_REASONS = {200: "OK", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


@dataclass(frozen=True)
class Say:
    """The model's last word: the agent's turn ends."""

    text: str


@dataclass(frozen=True)
class Use:
    """The model wants a tool used."""

    tool: str
    input: dict[str, Any]


@dataclass(frozen=True)
class Refuse:
    """The service answers with an error."""

    status: int
    error: str = "api_error"
    message: str = "refused by the script"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hang:
    """The service takes the request and never answers."""


Reply = Say | Use | Refuse | Hang


@dataclass(frozen=True)
class Asked:
    """One request of an agent."""

    path: str
    body: dict[str, Any]


Choice = Callable[[Asked, int], Reply]
"""Says what to reply to a request, and how many replies its conversation already holds."""


class ModelServer:
    """One model with one script. After its end the last reply is given for ever. With `choose` there is no script: the
    reply may depend on what was asked, so that one model serves several steps."""

    def __init__(self, *script: Reply, choose: Choice | None = None) -> None:
        self._script = script or (Say("done"),)
        self._choose = choose or self._by_turn
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.asked: list[Asked] = []
        self.hung = asyncio.Event()
        """An agent waits for an answer that will not come."""

    @property
    def url(self) -> str:
        assert self._server is not None, "the server is not open"
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> ModelServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with suppress(OSError, EOFError, asyncio.CancelledError):
            await self._answer(reader, writer)
        self._open.discard(writer)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection: nothing is kept alive."""
        path, body = await _request(reader)
        speaker = next((one for one in _DIALECTS if path.endswith(one.path) and body), None)
        if speaker is None:
            writer.write(_response(404, b"{}"))
        else:
            self.asked.append(Asked(path, body))
            reply = self._choose(self.asked[-1], speaker.replies_in(body))
            if isinstance(reply, Hang):
                self.hung.set()
                await reader.read()
                return
            writer.write(_refusal(reply, speaker) if isinstance(reply, Refuse) else _stream(reply, speaker))
        await writer.drain()

    def _by_turn(self, _asked: Asked, turn: int) -> Reply:
        return self._script[min(turn, len(self._script) - 1)]


async def _request(reader: asyncio.StreamReader) -> tuple[str, dict[str, Any]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    length = min(int(headers.get("content-length", "0")), _BODY_BYTES_MAX)
    raw = await reader.readexactly(length)
    path = head[0].split(" ")[1].partition("?")[0]
    with suppress(ValueError):
        body = json.loads(raw)
        return path, body if isinstance(body, dict) else {}
    return path, {}


def _response(status: int, body: bytes, kind: str = "application/json", **headers: str) -> bytes:
    told = {
        "content-type": kind,
        "content-length": str(len(body)),
        "connection": "close",
        **headers,
    }
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in told.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _refusal(reply: Refuse, speaker: Speaker) -> bytes:
    return _response(reply.status, json.dumps(speaker.error(reply)).encode(), **reply.headers)


def _stream(reply: Say | Use, speaker: Speaker) -> bytes:
    events = (_named(event) + f"data: {json.dumps(event)}\n\n" for event in speaker.events(reply))
    return _response(200, "".join(events).encode(), "text/event-stream")


def _named(event: dict[str, Any]) -> str:
    return f"event: {event['type']}\n" if "type" in event else ""


class _Anthropic:
    path: ClassVar[str] = "/v1/messages"

    @staticmethod
    def replies_in(body: dict[str, Any]) -> int:
        return sum(one.get("role") == "assistant" for one in body.get("messages", ()))

    @staticmethod
    def error(reply: Refuse) -> dict[str, Any]:
        return {"type": "error", "error": {"type": reply.error, "message": reply.message}}

    @staticmethod
    def events(reply: Say | Use) -> Iterator[dict[str, Any]]:
        said = isinstance(reply, Say)
        block = (
            {"type": "text", "text": ""}
            if isinstance(reply, Say)
            else {"type": "tool_use", "id": "toolu_scripted", "name": reply.tool, "input": {}}
        )
        delta = (
            {"type": "text_delta", "text": reply.text}
            if isinstance(reply, Say)
            else {"type": "input_json_delta", "partial_json": json.dumps(reply.input)}
        )
        usage = {"input_tokens": 10, "output_tokens": 5}
        message: dict[str, Any] = {
            "id": "msg_scripted",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [],
            "stop_reason": None,
            "usage": usage,
        }
        yield {"type": "message_start", "message": message}
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        ending = {"stop_reason": "end_turn" if said else "tool_use", "stop_sequence": None}
        yield {"type": "message_delta", "delta": ending, "usage": usage}
        yield {"type": "message_stop"}


class _OpenAi:
    path: ClassVar[str] = "/v1/responses"

    @staticmethod
    def replies_in(body: dict[str, Any]) -> int:
        return sum(
            one.get("type") == "function_call" or one.get("role") == "assistant"
            for one in body.get("input", ())
        )

    @staticmethod
    def error(reply: Refuse) -> dict[str, Any]:
        return {"error": {"type": reply.error, "code": reply.error, "message": reply.message}}

    @staticmethod
    def events(reply: Say | Use) -> Iterator[dict[str, Any]]:
        item: dict[str, Any]
        if isinstance(reply, Say):
            content = [{"type": "output_text", "text": reply.text, "annotations": []}]
            item = {"type": "message", "id": "msg_scripted", "role": "assistant", "content": content}
        else:
            # The tools of an MCP server have names of their own in a space of its own.
            server, _, name = reply.tool.rpartition("__")
            item = {
                "type": "function_call",
                "id": "fc_scripted",
                "call_id": "call_scripted",
                "name": name,
                **({"namespace": server} if server else {}),
                "arguments": json.dumps(reply.input),
            }
        usage = {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        }
        yield {"type": "response.created", "response": {"id": "resp_scripted"}}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        yield {"type": "response.completed", "response": {"id": "resp_scripted", "usage": usage}}


class _Gemini:
    path: ClassVar[str] = ":streamGenerateContent"

    @staticmethod
    def replies_in(body: dict[str, Any]) -> int:
        return sum(one.get("role") == "model" for one in body.get("contents", ()))

    @staticmethod
    def error(reply: Refuse) -> dict[str, Any]:
        return {"error": {"code": reply.status, "status": reply.error.upper(), "message": reply.message}}

    @staticmethod
    def events(reply: Say | Use) -> Iterator[dict[str, Any]]:
        part = (
            {"text": reply.text}
            if isinstance(reply, Say)
            else {"functionCall": {"name": reply.tool, "args": reply.input}}
        )
        yield {
            "candidates": [
                {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
            ],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
            "modelVersion": "scripted",
        }


Speaker = type[_Anthropic] | type[_OpenAi] | type[_Gemini]
_DIALECTS: Sequence[Speaker] = (_Anthropic, _OpenAi, _Gemini)
