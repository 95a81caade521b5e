"""A small web site on loopback, in versions, for what drives a browser: a form, a list, slow parts, a page that is
built by its own script, frames, shadow roots, dialogs, downloads, and answers that are errors."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

_BODY_BYTES_MAX: Final = 1 << 20
_STALL_S: Final = 60
_PIECE_S: Final = 0.3


@dataclass
class Answer:
    body: str | bytes = ""
    status: int = 200
    kind: str = "text/html; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0
    promised_bytes: int | None = None
    """Announce more than is sent, and then be silent: a download that stalls."""
    pieces: int = 1
    """In which the body is sent, with a pause between two: a download that takes its time."""


@dataclass(frozen=True)
class Asked:
    """One request that the site got."""

    method: str
    path: str
    form: dict[str, list[str]]
    cookie: str


Page = Callable[["Site", Asked], Answer]


class Site:
    """The site, as long as it is entered. `version` chooses how the pages that have versions look."""

    def __init__(self) -> None:
        self.version = 1
        self.asked: list[Asked] = []
        self.pages: dict[str, Page] = dict(_PAGES)
        self._ending = threading.Event()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        assert self._server is not None, "the site is not open"
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def other_url(self) -> str:
        """The same site as another origin."""
        return self.url.replace("127.0.0.1", "localhost")

    def show(self, path: str, html: str, **how: Any) -> str:
        """A page of one's own; gives its address."""
        self.pages[path] = lambda _site, _asked: Answer(html, **how)
        return self.url + path

    def posts(self, path: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.method == "POST" and asked.path == path]

    def wait(self, seconds: float) -> None:
        self._ending.wait(seconds)

    def __enter__(self) -> Self:
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site._answer(self, {})

            def do_POST(self) -> None:
                length = min(int(self.headers.get("content-length", "0")), _BODY_BYTES_MAX)
                site._answer(self, parse_qs(self.rfile.read(length).decode("utf-8", "replace")))

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing on standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._ending.set()
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler, form: dict[str, list[str]]) -> None:
        path = urlsplit(handler.path).path
        asked = Asked(handler.command, path, form, handler.headers.get("cookie", ""))
        self.asked.append(asked)
        page = self.pages.get(path)
        answer = page(self, asked) if page else Answer("<h1>Not here</h1>", 404)
        if answer.delay_s:
            self.wait(answer.delay_s)
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        try:
            handler.send_response(answer.status)
            handler.send_header("content-type", answer.kind)
            handler.send_header("content-length", str(answer.promised_bytes or len(body)))
            for name, value in answer.headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            self._send(handler, body, answer.pieces)
            if answer.promised_bytes:
                handler.wfile.flush()
                self.wait(_STALL_S)
                handler.close_connection = True
        except OSError:
            handler.close_connection = True

    def _send(self, handler: BaseHTTPRequestHandler, body: bytes, pieces: int) -> None:
        size = -(-len(body) // pieces)
        for start in range(0, len(body), size or 1):
            if start:
                self.wait(_PIECE_S)
            handler.wfile.write(body[start : start + size])
            handler.wfile.flush()


def _html(title: str, body: str) -> str:
    return f"<!doctype html><html lang=en><head><title>{title}</title></head><body>{body}</body></html>"


def _invoices(site: Site, _asked: Asked) -> Answer:
    """A list with one button in each row; version 2 calls, wraps and orders things otherwise."""
    word, tag = ("Approve", "button") if site.version == 1 else ("Approve invoice", "button")
    extra = "" if site.version == 1 else ' class="btn-v2" data-kind="approval"'
    rows = "".join(
        f"<tr><td>INV-{number}</td><td>{amount}.00 EUR</td>"
        f"<td><{tag} id=approve-{number if site.version == 1 else f'v2-{number}'}{extra}"
        f" onclick=\"fetch('/approved', {{method: 'POST', body: 'n={number}'}})"
        f".then(() => {{ state.textContent = 'Approved {number}' }})\">{word}</{tag}></td></tr>"
        for number, amount in ((1001, 20), (1002, 35), (1003, 7))
    )
    head = "<tr><th>Number</th><th>Amount</th><th>Action</th></tr>"
    return Answer(
        _html("Invoices", f"<h1>Invoices</h1><table>{head}{rows}</table><p id=state>Nothing yet</p>")
    )


def _approved(_site: Site, _asked: Asked) -> Answer:
    return Answer("{}", kind="application/json")


def _form(_site: Site, _asked: Asked) -> Answer:
    return Answer(
        _html(
            "Form",
            """<form method=post action=/sent>
            <label for=who>Your name</label><input id=who name=who placeholder="First and last">
            <label>Password <input type=password name=password></label>
            <label>Note <textarea name=note></textarea></label>
            <label>Colour <select name=colour><option value=r>Red</option><option value=b>Blue</option></select></label>
            <label><input type=checkbox name=agree> I agree</label>
            <label><input type=radio name=size value=s> Small</label>
            <label><input type=radio name=size value=l> Large</label>
            <label>Papers <input type=file name=papers multiple></label>
            <button data-testid=send>Send</button></form>
            <p id=keys></p>
            <script>who.addEventListener('keydown', (e) => { keys.textContent += e.key + ' ' })</script>""",
        )
    )


def _sent(_site: Site, asked: Asked) -> Answer:
    return Answer(_html("Sent", f"<h1>Thank you</h1><pre>{json.dumps(asked.form)}</pre>"))


def _slow(_site: Site, _asked: Asked) -> Answer:
    """The button comes only when a slow answer has come."""
    return Answer(
        _html(
            "Slow",
            """<h1>Loading</h1><div id=place>Please wait</div>
            <button onclick="said.textContent='wrong'">Pay later</button>
            <p id=said></p><script>fetch('/slow-data').then((answer) => answer.json()).then((data) => {
            place.innerHTML = `<button onclick="said.textContent='paid'">${data.word}</button>` })</script>""",
        )
    )


def _slow_data(_site: Site, _asked: Asked) -> Answer:
    return Answer('{"word": "Pay now"}', kind="application/json", delay_s=0.8)


def _app(_site: Site, _asked: Asked) -> Answer:
    """Built by its own script, which replaces everything again and again, as such pages do."""
    return Answer(
        _html(
            "App",
            """<div id=root></div><script>
            let view = 'home', count = 0;
            function draw() {
                root.innerHTML = view === 'home'
                    ? '<nav><a href="#/items" onclick="go(\\'items\\')">Items</a></nav><h1>Home</h1>'
                    : `<h1>Items</h1><button onclick="count++; draw()">Add</button><output>${count} items</output>`;
            }
            function go(name) { setTimeout(() => { view = name; draw() }, 200) }
            draw();
            let redraws = 0;
            const again = setInterval(() => { draw(); if (++redraws > 8) clearInterval(again) }, 60);
            </script>""",
        )
    )


def _frames(site: Site, _asked: Asked) -> Answer:
    return Answer(
        _html(
            "Frames",
            f"""<h1>Outside</h1><iframe name=inner src=/inner style="margin: 40px; border: 7px solid"></iframe>
            <iframe id=other src="{site.other_url}/other" title=Elsewhere></iframe>
            <my-box></my-box><script>customElements.define('my-box', class extends HTMLElement {{
                connectedCallback() {{
                    this.attachShadow({{mode: 'open'}}).innerHTML =
                        '<label>Deep <input id=deep></label><button>In the shadow</button><p></p>';
                    const words = this.shadowRoot.querySelector('p');
                    this.shadowRoot.querySelector('button').onclick = () => {{ words.textContent = 'shadow clicked' }};
                }} }})</script>""",
        )
    )


def _inner(_site: Site, _asked: Asked) -> Answer:
    body = "<p style='height: 30px'>Inside</p>"
    body += "<button onclick=\"said.textContent='inner clicked'\">Inner</button><p id=said></p>"
    return Answer(_html("Inner", body))


def _other(_site: Site, _asked: Asked) -> Answer:
    body = "<button onclick=\"said.textContent='other clicked'\">Other</button><p id=said></p>"
    return Answer(_html("Other", body))


def _dialogs(_site: Site, _asked: Asked) -> Answer:
    return Answer(
        _html(
            "Dialogs",
            """<button onclick="said.textContent = confirm('Really delete?') ? 'deleted' : 'kept'">Delete</button>
            <button onclick="said.textContent = prompt('Your code?') || 'none'">Code</button>
            <button onclick="alert('Session expired'); said.textContent = 'told'">Tell</button><p id=said></p>""",
        )
    )


def _downloads(_site: Site, _asked: Asked) -> Answer:
    links = "<a href=/report.csv download>Report</a> <a href=/stalled.bin download>Stalled</a>"
    return Answer(_html("Downloads", links))


def _report(_site: Site, _asked: Asked) -> Answer:
    named = {"content-disposition": "attachment; filename=report.csv"}
    return Answer("number,amount\n1001,20\n", kind="text/csv", headers=named)


def _stalled(_site: Site, _asked: Asked) -> Answer:
    named = {"content-disposition": "attachment; filename=stalled.bin"}
    return Answer(b"x" * 70_000, kind="application/octet-stream", headers=named, promised_bytes=1_000_000)


def _hanging(_site: Site, _asked: Asked) -> Answer:
    return Answer("late", delay_s=_STALL_S)


def _busy(_site: Site, _asked: Asked) -> Answer:
    return Answer("busy", 503, headers={"retry-after": "7"})


def _broken(_site: Site, _asked: Asked) -> Answer:
    return Answer("broken", 500)


def _polling(_site: Site, _asked: Asked) -> Answer:
    """Asks for ever, as dashboards do."""
    return Answer(
        _html(
            "Polling",
            """<h1>Board</h1><button onclick="this.textContent='Pressed'">Press</button><p id=time></p><script>
            setInterval(() => { fetch('/approved'); time.textContent = performance.now() }, 50)</script>""",
        )
    )


def _login(_site: Site, asked: Asked) -> Answer:
    """Sets a cookie and remembers something in the page's own storage."""
    body = "<p id=who></p>"
    body += "<script>who.textContent = localStorage.who || 'nobody'; localStorage.who = 'somebody'</script>"
    known = "known" if "session=" in asked.cookie else "stranger"
    return Answer(
        _html("Login", f"<h1>{known}</h1>{body}"), headers={"set-cookie": "session=abc; Path=/; Max-Age=900"}
    )


_PAGES: Final[dict[str, Page]] = {
    "/": lambda _site, _asked: Answer(
        _html("Home", "<h1>Home</h1><a href=/form>Form</a> <a href=/invoices target=_blank>Invoices</a>")
    ),
    "/invoices": _invoices,
    "/approved": _approved,
    "/form": _form,
    "/sent": _sent,
    "/slow": _slow,
    "/slow-data": _slow_data,
    "/app": _app,
    "/frames": _frames,
    "/inner": _inner,
    "/other": _other,
    "/dialogs": _dialogs,
    "/downloads": _downloads,
    "/report.csv": _report,
    "/stalled.bin": _stalled,
    "/hanging": _hanging,
    "/busy": _busy,
    "/broken": _broken,
    "/polling": _polling,
    "/login": _login,
}
