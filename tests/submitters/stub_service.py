"""A service that answers what a test says, and keeps every request: all else in a contract test is real."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class StubService:
    """An HTTP server on this machine. Its requests are named `POST /path` or, for AWS's JSON protocol, by their target.

    answers: by the name of a request, the JSON to answer with; any other request is answered with 404.
    """

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.requests: list[tuple[str, str]] = []
        self._answers = answers
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                target = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
                name = target or f"{self.command} {self.path.partition('?')[0]}"
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                service.requests.append((name, body))
                answer = service._answers.get(name)
                text = json.dumps({"message": f"no answer to {name}"} if answer is None else answer).encode()
                self.send_response(404 if answer is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_GET  # noqa: N815  the name that the server calls

            def log_message(self, *_: object) -> None:
                """Keep the output of tests short."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def body(self, name: str) -> Any:
        """Return the JSON body of the only request of that name."""
        (text,) = [body for found, body in self.requests if found == name]
        return json.loads(text)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
