"""The desk on the web: shows the page of tonight, and writes down what was really done on it.

`python site.py FOLDER` serves FOLDER/PAGE.html as /PAGE, and adds X to FOLDER/did.log for every POST to /did/X.
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
DONE = "/did/"


class Desk(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = FOLDER / f"{Path(self.path).name}.html"
        if page.is_file():
            self._answer(200, page.read_bytes())
        else:
            self._answer(404, b"Not here")

    def do_POST(self) -> None:
        with (FOLDER / "did.log").open("a") as log:
            log.write(f"{self.path.removeprefix(DONE)}\n")
        self._answer(200, b"noted")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the terminal."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Desk)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
