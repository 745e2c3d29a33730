"""Run the application with uvicorn, on a socket that is bound before anything else, so that a failure has one line."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from rmq_core.errors import ConfigurationError
from rmq_core.serve.app import ServeOptions, application
from rmq_core.serve.patience import Patient

STOP_S = 5


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises ConfigurationError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise ConfigurationError(f"--host, --port: cannot listen on {host}, port {port}: {error}") from error


def serve(options: ServeOptions, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; requests in progress have five seconds to finish."""
    config = uvicorn.Config(
        application(options),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # Guard reads them, and only those of --proxy
        http=Patient,
        ws="none",
        timeout_graceful_shutdown=STOP_S,
    )
    _Quiet(config).run(sockets=[listener])


class _Quiet(uvicorn.Server):
    """Ends normally after a signal, which uvicorn's own server sends to the process again."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
