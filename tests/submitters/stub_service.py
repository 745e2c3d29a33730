"""A service that answers what a test says, and keeps every request: all else in a contract test is real."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class StubService:
    """An HTTP server on this machine. Its requests are named `POST /path` or, for AWS's JSON protocol, by their target.

    answers: by the pattern of a name, the JSON or the text to answer with, or a function that returns one for the name
    and the body; any other request is answered with 404. The query counts as the body of a request without one.
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
                body = body or self.path.partition("?")[2]
                service.requests.append((name, body))
                answer = service._answer(name, body)
                text = (answer if isinstance(answer, str) else json.dumps(answer or {"message": name})).encode()
                self.send_response(404 if answer is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_PUT = do_DELETE = do_GET

            def log_message(self, *_: object) -> None:
                """Keep the output of tests short."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def _answer(self, name: str, body: str) -> Any:
        answer = next((given for pattern, given in self._answers.items() if fnmatchcase(name, pattern)), None)
        return answer(name, body) if callable(answer) else answer

    def body(self, name: str) -> Any:
        """Return the JSON body of the only request whose name has this pattern."""
        (text,) = [body for found, body in self.requests if fnmatchcase(found, name)]
        return json.loads(text)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
