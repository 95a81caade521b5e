"""A shop on loopback that logs every effect, for runs that buy something in a browser. It can restart and hang.

Each run has a shop of its own, with one customer and one item to buy between others that look alike. What the log says
is the truth about the run, whatever the program says.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, unquote, urlsplit

_BODY_BYTES_MAX: Final = 1 << 20
_ANSWER_S: Final = 30.0
"""How long a handler waits for the end of a hang."""
_QUIET_S: Final = 30.0
PRICE_EUR: Final = 17
QUANTITY: Final = 3


@dataclass(frozen=True)
class Effect:
    """Something that the shop did for a customer, for good."""

    kind: str
    customer: str
    detail: str


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    body: bytes
    customer: str
    """Whose cookie came with it; "" for a stranger."""

    @property
    def form(self) -> dict[str, str]:
        return _first_values(self.body.decode("utf-8", "replace"))


@dataclass(frozen=True)
class Response:
    body: str = ""
    status: int = 200
    location: str = ""
    cookie: str = ""


Hook = Callable[[Request, str], None]
"""Called with each request as it `arrived`, and when it is `done` but not answered yet."""


@dataclass
class Shop:
    """Open while it is entered. `number` makes its customer, item and order."""

    number: int
    hook: Hook = lambda _request, _moment: None
    effects: list[Effect] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """Method, path and customer of each, in the order in which they were handled."""
    port: int = 0
    _server: _Server | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _flowing: threading.Event = field(default_factory=threading.Event)
    _under_way: int = 0

    @property
    def customer(self) -> str:
        return f"customer-{self.number}"

    @property
    def item(self) -> str:
        return f"I-{self.number}"

    @property
    def order(self) -> str:
        return f"K-{self.number}"

    @property
    def note(self) -> str:
        return f"leave it with {self.customer}"

    @property
    def receipt(self) -> str:
        """The name of the file that is uploaded; its content is the same."""
        return f"receipt-{self.number}.txt"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def wanted(self) -> dict[str, Effect]:
        """What one run is to bring about, each once, by the step that does it."""
        details = {
            "sign-in": self.customer,
            "add": f"{QUANTITY} x {self.item}",
            "order": self.note,
            "upload": f"{self.receipt} {_digest(self.receipt.encode())}",
            "confirm": self.order,
        }
        return {kind: Effect(kind, self.customer, detail) for kind, detail in details.items()}

    def has(self, kind: str) -> bool:
        """Whether the effect of this step is there, once nobody is being served any more."""
        self.wait_quiet()
        with self._lock:
            return any(effect.kind == kind for effect in self.effects)

    def wait_quiet(self) -> None:
        """Until no request is under way: one that is may still have its effect."""
        quiet = threading.Event()
        for _ in range(int(_QUIET_S / 0.02)):
            with self._lock:
                if not self._under_way:
                    return
            quiet.wait(0.02)

    def __enter__(self) -> Self:
        self._flowing.set()
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._flowing.set()
        self.stop()

    # Faults

    def stop(self) -> None:
        """As a crash does: connections are cut, and new ones refused. What was done stays done."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.cut()
            server.server_close()

    def start(self) -> None:
        """Again, at the same address."""
        if self._server is None:
            self._open()

    def hang(self) -> None:
        """From now on requests are taken and not answered."""
        self._flowing.clear()

    def flow(self) -> None:
        self._flowing.set()

    # Requests

    def _open(self) -> None:
        self._server = _Server(("127.0.0.1", self.port), _handler(self))
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def handle(self, request: Request) -> Response:
        """Hooks are called without the lock: they may stop the shop."""
        with self._lock:
            self._under_way += 1
        try:
            self._flowing.wait(_ANSWER_S)
            self.hook(request, "arrived")
            self._flowing.wait(_ANSWER_S)
            with self._lock:
                self.requests.append(f"{request.method} {request.path} {request.customer}".strip())
                response = self._handled(request)
            self.hook(request, "done")
            self._flowing.wait(_ANSWER_S)
            return response
        finally:
            with self._lock:
                self._under_way -= 1

    def _handled(self, request: Request) -> Response:
        if request.path == "/sign-in":
            return self._sign_in(request)
        if request.path == "/api/order":
            placed = self._has("order", request.query.get("customer", ""))
            return Response("placed" if placed else "none", 200 if placed else 404)
        if not request.customer:
            return (
                Response(status=303, location="/sign-in") if request.method == "GET" else Response(status=401)
            )
        first = request.path.split("/")[1]
        page = _PAGES.get((request.method, first))
        return page(self, request) if page else Response(_html("Not here", "<h1>Not here</h1>"), 404)

    def _has(self, kind: str, customer: str) -> bool:
        return any((effect.kind, effect.customer) == (kind, customer) for effect in self.effects)

    def _do(self, kind: str, customer: str, detail: str) -> None:
        self.effects.append(Effect(kind, customer, detail))

    def _said(self, kind: str, customer: str, words: str, otherwise: str) -> str:
        return words if self._has(kind, customer) else otherwise

    # Pages

    def _sign_in(self, request: Request) -> Response:
        if request.method == "POST":
            customer = request.form.get("customer", "")
            self._do("sign-in", customer, customer)
            return Response(status=303, location="/search", cookie=f"customer={customer}; Path=/; HttpOnly")
        field_ = "<label>Customer <input name=customer></label><button>Sign in</button>"
        return Response(_html("Sign in", f"<h1>Welcome</h1><form method=post>{field_}</form>"))

    def _search(self, request: Request) -> Response:
        form = "<form><label>Search <input name=q></label><button>Find</button></form>"
        rows = "".join(
            f"<tr><td>I-{number}</td><td>{PRICE_EUR} EUR</td><td><a href=/item/I-{number}>Open</a></td></tr>"
            for number in self._neighbours()
        )
        table = f"<h2>3 items</h2><table>{rows}</table>" if request.query.get("q") else ""
        return Response(_page(request, "Search", form + table))

    def _neighbours(self) -> tuple[int, ...]:
        return self.number - 1, self.number, self.number + 1

    def _item(self, request: Request) -> Response:
        item = request.path.rpartition("/")[2]
        has = self._said("add", request.customer, f"In your cart: {QUANTITY} x {item}", "Not in your cart")
        form = (
            f"<form method=post action=/cart><input type=hidden name=item value={item}>"
            "<label>Quantity <input name=quantity value=1></label><button>Add to cart</button></form>"
        )
        return Response(_page(request, f"Item {item}", f"{form}<p>{has}</p><a href=/cart>To the cart</a>"))

    def _add(self, request: Request) -> Response:
        item = request.form.get("item", "")
        self._do("add", request.customer, f"{request.form.get('quantity')} x {item}")
        return Response(status=303, location=f"/item/{item}")

    def _cart(self, request: Request) -> Response:
        added = [e.detail for e in self.effects if (e.kind, e.customer) == ("add", request.customer)]
        items = "".join(f"<li>In your cart: {detail}</li>" for detail in added)
        total = sum(PRICE_EUR * int(detail.split()[0]) for detail in added if detail[0].isdigit())
        placed = self._said(
            "order", request.customer, f"Order placed for {request.customer}", "Not ordered yet"
        )
        return Response(
            _page(
                request,
                "Cart",
                f"<ul>{items}</ul><p id=total>Total: {total} EUR</p>"
                "<button onclick='panel.hidden = false'>Add a note</button>"
                "<form method=post action=/order><div id=panel hidden>"
                "<label>Note <input name=note></label></div><button>Order</button></form>"
                f"<p>{placed}</p>",
            )
        )

    def _order(self, request: Request) -> Response:
        self._do("order", request.customer, request.form.get("note", ""))
        return Response(status=303, location="/done")

    def _done(self, request: Request) -> Response:
        words = self._said(
            "order", request.customer, f"Order placed for {request.customer}", "Not ordered yet"
        )
        return Response(_page(request, "Thank you", f"<p>{words}</p>"))

    def _documents(self, request: Request) -> Response:
        names = [
            e.detail.split()[0] for e in self.effects if (e.kind, e.customer) == ("upload", request.customer)
        ]
        there = "".join(f"<li>Received {name}</li>" for name in names)
        script = (
            "file.onchange = async () => { const one = file.files[0];"
            " const answer = await fetch('/upload/' + one.name, {method: 'POST', body: await one.text()});"
            " const words = await answer.text();"
            " if (answer.ok) there.innerHTML += '<li>' + words + '</li>' }"
        )
        fields = "<label>Receipt <input type=file id=file></label>"
        return Response(
            _page(request, "Documents", f"{fields}<ul id=there>{there}</ul><script>{script}</script>")
        )

    def _upload(self, request: Request) -> Response:
        name = unquote(request.path.rpartition("/")[2])
        self._do("upload", request.customer, f"{name} {_digest(request.body)}")
        return Response(f"Received {name}")

    def _orders(self, request: Request) -> Response:
        """As in an office: rows that differ by a number alone, each with the same button."""
        rows = "".join(self._order_row(f"K-{number}") for number in self._neighbours())
        script = (
            "async function confirmed(order) { const answer = await fetch('/confirm/' + order, {method: 'POST'});"
            " const words = await answer.text();"
            " if (answer.ok) document.getElementById(order).textContent = words }"
        )
        return Response(_page(request, "Orders", f"<table>{rows}</table><script>{script}</script>"))

    def _order_row(self, order: str) -> str:
        is_done = any((effect.kind, effect.detail) == ("confirm", order) for effect in self.effects)
        said = f"Confirmed {order}" if is_done else "open"
        button = f"<button onclick=\"confirmed('{order}')\">Confirm</button>"
        return f"<tr><td>{order}</td><td id={order}>{said}</td><td>{button}</td></tr>"

    def _confirm(self, request: Request) -> Response:
        order = request.path.rpartition("/")[2]
        self._do("confirm", request.customer, order)
        return Response(f"Confirmed {order}")


_PAGES: Final[dict[tuple[str, str], Callable[[Shop, Request], Response]]] = {
    ("GET", "search"): Shop._search,
    ("GET", "item"): Shop._item,
    ("POST", "cart"): Shop._add,
    ("GET", "cart"): Shop._cart,
    ("POST", "order"): Shop._order,
    ("GET", "done"): Shop._done,
    ("GET", "documents"): Shop._documents,
    ("POST", "upload"): Shop._upload,
    ("GET", "orders"): Shop._orders,
    ("POST", "confirm"): Shop._confirm,
}


class _Server(ThreadingHTTPServer):
    """Knows its connections, so that they can be cut."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._connections: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that are cut are no news."""

    def cut(self) -> None:
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _handler(shop: Shop) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._respond(b"")

        def do_POST(self) -> None:
            length = min(int(self.headers.get("content-length", "0")), _BODY_BYTES_MAX)
            body = self.rfile.read(length)
            if len(body) == length:  # or the client was lost in the middle of it
                self._respond(body)

        def _respond(self, body: bytes) -> None:
            parts = urlsplit(self.path)
            customer = _first_values(self.headers.get("cookie", "").replace("; ", "&")).get("customer", "")
            request = Request(self.command, parts.path, _first_values(parts.query), body, customer)
            response = shop.handle(request)
            data = response.body.encode()
            try:
                self.send_response(response.status)
                self.send_header("content-type", "text/html; charset=utf-8")
                self.send_header("content-length", str(len(data)))
                self.send_header("cache-control", "no-store")
                if response.location:
                    self.send_header("location", response.location)
                if response.cookie:
                    self.send_header("set-cookie", response.cookie)
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing on standard error."""

    return Handler


def _page(request: Request, title: str, body: str) -> str:
    return _html(title, f"<p>Signed in as {request.customer}</p><h1>{title}</h1>{body}")


def _html(title: str, body: str) -> str:
    return (
        f"<!doctype html><html lang=en><head><title>{title}</title><link rel=icon href='data:,'></head>"
        f"<body>{body}</body></html>"
    )


def _first_values(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
