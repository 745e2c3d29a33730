"""A TCP relay that can stop passing bytes, without knowledge of their protocol.

While it is stopped nothing passes and nothing breaks, as when a switch drops every packet: connections stay open, and
the kernel accepts new ones that get no answer. Bytes that were on their way arrive when the relay continues.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class Wire:
    """Listens on `port` and carries bytes to and from the port `target`."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._speaks = threading.Event()
        self._speaks.set()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="wire", daemon=True).start()

    def silence(self) -> None:
        """Pass nothing from now on."""
        self._speaks.clear()

    def speak(self) -> None:
        """Pass bytes again."""
        self._speaks.set()

    def close(self) -> None:
        """Stop listening and break every connection."""
        self.speak()
        for one in (self._listener, *list(self._open)):
            _shut(one)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), name="wire", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            self._speaks.wait()
            with socket.create_connection(("127.0.0.1", self.target)) as server:
                self._open |= {client, server}
                back = threading.Thread(target=self._carry, args=(server, client), name="wire", daemon=True)
                back.start()
                self._carry(client, server)
                back.join()
                self._open -= {client, server}

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._speaks.wait()
                sink.sendall(data)
        self._speaks.wait()  # a stopped relay does not pass the end of a connection either
        _shut(source)
        _shut(sink)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
