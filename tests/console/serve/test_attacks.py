"""What attackers get: people without a token or without the right to change, foreign pages, guessers of tokens."""

from __future__ import annotations

import asyncio
import base64
import itertools
import threading
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import httpx
import pytest
from starlette.routing import Mount, Route

from rmq_console.serve.access import COOKIE
from rmq_console.serve.app import PLACE, ServeOptions
from rmq_console.serve.guard import LARGEST_BODY
from rmq_console.serve.rate_limit import MOST
from rmq_core import ConfigurationError, LeasedQueue, Match, RedisSettings
from tests.console.serve.conftest import FROM_PAGE, QUEUE, Served
from tests.servers.process import Server

API = f"/api/connections/{PLACE}"
NUMBERS = ["/", "/static/main.js", "/api/connections", f"{API}/queues", f"{API}/queue?name={QUEUE}", "/metrics"]
NUMBERS += [f"/keda/{QUEUE}"]
PAYLOADS = [f"{API}/messages?name={QUEUE}&target={target}" for target in ("ready", "delayed", "dead")]
CHANGES: list[tuple[str, dict[str, Any]]] = [
    (f"{API}/redrive", {"queue": QUEUE}),
    (f"{API}/release", {"queue": QUEUE, "lease_id": "held", "owner": "worker"}),
    (f"{API}/purge", {"queue": QUEUE, "target": "ready", "confirm": QUEUE}),
]
OPEN = {"/healthz", "/readyz", "/login", "/login/{name}", "/logout"}
OUTSIDE = {"host": "0.0.0.0"}
PATIENCE_S = 30


@pytest.fixture(autouse=True)
def some_work(queue: LeasedQueue) -> None:
    queue.publish("held")
    queue.claim(lease_id="held", owner="worker")
    queue.publish_many(["secret payload", "another"])


def unchanged(queue: LeasedQueue) -> bool:
    return queue.stats()[:5] == (2, 0, 1, 1, 0)


async def answers(client: httpx.AsyncClient) -> dict[str, int]:
    """Return the status of every request by its path."""
    found = {path: (await client.get(path)).status_code for path in NUMBERS + PAYLOADS}
    return found | {path: (await client.post(path, json=wish)).status_code for path, wish in CHANGES}


def routes(app: Any) -> list[tuple[str, str]]:
    """Return every path and method of the application, those of the mounted console too."""
    found = []
    for route in app.routes:
        if isinstance(route, Mount):
            found += routes(route.app.app)  # behind its own event loop
        elif hasattr(route, "effective_route_contexts"):  # an included router, from FastAPI 0.137 on
            found += [(each.path, method) for each in route.effective_route_contexts() for method in each.methods]
        elif isinstance(route, Route) or hasattr(route, "methods"):
            found += [(route.path, method) for method in route.methods]
    return found


class TestAnonymous:
    """Someone who has no token, or one that is not valid."""

    @pytest.mark.parametrize("token", ["", "rmq_guessed", "x" * 10_000])
    async def test_gets_nothing_from_any_route(self, served: Served, queue: LeasedQueue, token: str) -> None:
        served.token("change")
        app = served.app(**OUTSIDE, allow_changes=True)
        every = [(path, method) for path, method in routes(app.app) if path not in OPEN]
        assert len(every) >= 10
        for number, (path, method) in enumerate(every):
            client = served.client(app, token, address=f"198.51.100.{number}", **FROM_PAGE)
            place = path.format(name="main.js", connection_id=PLACE) if "{queue" not in path else f"/keda/{QUEUE}"
            answer = await client.request(method, place, json={})
            expected = {303} if place == "/" else {401}
            assert answer.status_code in expected | ({405} if method == "HEAD" else set()), (path, method)
            assert "secret" not in answer.text
        assert unchanged(queue)

    async def test_is_led_from_the_console_to_the_login_page(self, served: Served) -> None:
        served.token("view")
        client = served.client(served.app(**OUTSIDE))
        answer = await client.get("/")
        assert (answer.status_code, answer.headers["location"]) == (303, "login")
        assert (await client.get("/login")).status_code == 200
        assert [(await client.get(f"/login/{name}")).status_code for name in ("login.js", "login.css")] == [200, 200]

    async def test_learns_from_the_probes_only_whether_the_server_works(self, served: Served) -> None:
        served.token("view")
        client = served.client(served.app(**OUTSIDE))
        assert (await client.get("/healthz")).json() == {"status": "alive"}
        assert (await client.get("/readyz")).json() == {"status": "ready"}

    async def test_cannot_make_the_server_read_a_large_body(self, served: Served) -> None:
        served.token("view")
        client = served.client(served.app(**OUTSIDE), **FROM_PAGE)
        for path in ("/login", CHANGES[0][0]):
            assert (await client.post(path, content=b"x" * (LARGEST_BODY + 1))).status_code == 413
            assert (await client.post(path, content=endless())).status_code in {400, 413}


async def endless() -> AsyncIterator[bytes]:
    """A body that is sent in chunks and announces no length."""
    while True:
        yield b"x" * (1 << 20)


class TestRoles:
    """What the holders of tokens may do."""

    @pytest.mark.parametrize(
        ("role", "allow", "seen", "changed"),
        [
            ("numbers", True, NUMBERS, []),
            ("view", True, NUMBERS + PAYLOADS, []),
            ("change", False, NUMBERS + PAYLOADS, []),
            ("change", True, NUMBERS + PAYLOADS, [path for path, _ in CHANGES]),
        ],
    )
    async def test_a_role_may_do_what_it_names_and_nothing_else(
        self, served: Served, queue: LeasedQueue, *, role: str, allow: bool, seen: list[str], changed: list[str]
    ) -> None:
        token = served.token(role)
        client = served.client(served.app(**OUTSIDE, allow_changes=allow), token, **FROM_PAGE)
        found = await answers(client)
        assert {path for path, status in found.items() if status == 200} == {*seen, *changed}
        assert {status for path, status in found.items() if path not in {*seen, *changed}} <= {403}
        assert unchanged(queue) is not bool(changed)
        (listed,) = (await client.get("/api/connections")).json()["connections"]
        assert listed == {
            "id": PLACE,
            "source": "--url",
            "may_read": PAYLOADS[0] in seen,
            "may_edit": bool(changed),
        }

    async def test_a_token_whose_line_is_removed_or_unreadable_ends_with_the_next_request(self, served: Served) -> None:
        kept, removed = served.token("view", "kept"), served.token("view", "removed")
        app = served.app(**OUTSIDE)
        mine, other = served.client(app, kept), served.client(app, removed)
        assert [(await client.get("/metrics")).status_code for client in (mine, other)] == [200, 200]
        lines = served.tokens.read_text().splitlines()
        served.tokens.write_text(f"# those who are still here\n{lines[0]}\n")
        assert [(await client.get("/metrics")).status_code for client in (mine, other)] == [200, 401]
        served.tokens.write_text("view:kept\n")
        assert (await mine.get("/metrics")).status_code == 503
        served.tokens.unlink()
        assert (await mine.get("/metrics")).status_code == 503

    async def test_a_server_of_this_machine_is_read_only_unless_changes_are_allowed(
        self, served: Served, queue: LeasedQueue
    ) -> None:
        found = await answers(served.client(served.app(), **FROM_PAGE))
        assert {found[path] for path in NUMBERS + PAYLOADS} == {200}
        assert {found[path] for path, _ in CHANGES} == {403}
        assert unchanged(queue)


class TestForeignPages:
    """A page of another origin in the browser of a user who is logged in."""

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {**FROM_PAGE, "Sec-Fetch-Site": "cross-site"},
            {**FROM_PAGE, "Sec-Fetch-Site": "same-site"},
            {**FROM_PAGE, "Sec-Fetch-Site": "none"},
            {**FROM_PAGE, "Origin": "http://evil.test"},
            {**FROM_PAGE, "Origin": "null"},
            {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:8484"},
        ],
    )
    async def test_change_nothing_and_log_nobody_in_or_out(
        self, served: Served, queue: LeasedQueue, headers: dict[str, str]
    ) -> None:
        token = served.token("change")
        app = served.app(**OUTSIDE, allow_changes=True)
        client = served.client(app, Cookie=f"{COOKIE}={token}", **headers)
        for path, wish in [*CHANGES, ("/login", {"token": token}), ("/logout", {})]:
            answer = await client.post(path, json=wish)
            assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
        assert unchanged(queue)
        assert served.audit.read_text() == ""

    @pytest.mark.parametrize(
        "headers",
        [
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
            {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},  # another port of this machine
            {"Origin": "http://evil.test"},
            {"Origin": "null"},
        ],
    )
    @pytest.mark.parametrize("way", ["here", "token", "proxy"])
    async def test_read_nothing_and_export_nothing(self, served: Served, way: str, headers: dict[str, str]) -> None:
        apps = {
            "here": served.app,
            "token": lambda: served.app(**OUTSIDE),
            "proxy": lambda: served.app(**OUTSIDE, user_header="X-User", proxies=["192.0.2.7"]),
        }
        known = {"here": {}, "token": {"Cookie": f"{COOKIE}={served.token('view')}"}, "proxy": {"X-User": "bob"}}
        app, export = apps[way](), f"{API}/export?name={QUEUE}&target=ready"
        own = served.client(app, **known[way], **{"Sec-Fetch-Site": "same-origin"})
        foreign = served.client(app, **known[way], **headers)
        for path in (*NUMBERS, *PAYLOADS, export):
            assert (await own.get(path)).status_code == 200
            assert (await foreign.get(path)).status_code == 403, path
        assert [line["event"] for line in served.audited()] == ["rmq_export"] * 2  # of the console's own page

    async def test_may_link_to_the_page_and_to_no_other_address(self, served: Served) -> None:
        followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        client = served.client(**followed)
        assert (await client.get("/")).status_code == 200
        for path in (*NUMBERS[1:], *PAYLOADS, f"{API}/export?name={QUEUE}&target=ready"):
            assert (await client.get(path)).status_code == 403

    @pytest.mark.parametrize(
        "host", ["evil.test", "evil.test:8484", "127.0.0.1.evil.test", "localhost.evil.test:1", ""]
    )
    async def test_get_nothing_from_a_local_server_by_a_name_of_their_own(
        self, served: Served, queue: LeasedQueue, host: str
    ) -> None:
        """DNS rebinding: the foreign page's own name resolves to 127.0.0.1, so the browser sees one origin."""
        client = served.client(served.app(allow_changes=True), Host=host, **FROM_PAGE)
        assert set((await answers(client)).values()) == {403}
        assert unchanged(queue)

    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8484", "127.0.0.1:9", "[::1]:8484", "[::1]"])
    async def test_the_names_of_this_machine_are_answered(self, served: Served, host: str) -> None:
        assert (await served.client(served.app(), Host=host).get("/api/connections")).status_code == 200

    async def test_cannot_frame_the_page_or_run_scripts_in_it(self, served: Served) -> None:
        served.token("view")
        here, outside = served.client(), served.client(served.app(**OUTSIDE))
        policies = [
            (await client.get(path)).headers["content-security-policy"].split("; ")
            for client, path in ((here, "/"), (here, f"{API}/queues"), (here, "/metrics"), (outside, "/login"))
        ]
        for policy in policies:
            assert "default-src 'none'" in policy
            assert {"frame-ancestors 'none'", "frame-ancestors 'self'"} & set(policy)
            assert not [part for part in policy if "unsafe" in part or "*" in part]

    async def test_get_no_answer_that_a_browser_would_keep_or_sniff(self, served: Served) -> None:
        client = served.client()
        for path in (*NUMBERS[2:], *PAYLOADS):
            headers = (await client.get(path)).headers
            assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
            assert "access-control-allow-origin" not in headers


class TestViewer:
    """Someone who may see messages, and asks for much work."""

    PATTERN: ClassVar = {"queue": QUEUE, "target": "ready", "where": {"reason": "a*" * 4_000 + "b"}}

    async def test_does_not_keep_others_from_an_answer(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        works, over = threading.Event(), threading.Event()

        def work(*_: Any) -> bool:
            works.set()
            return over.wait(PATIENCE_S) and False

        monkeypatch.setattr(Match, "of_envelope", work)
        client = served.client(**FROM_PAGE)
        search = asyncio.create_task(client.post(f"{API}/search", json=self.PATTERN))
        assert await asyncio.to_thread(works.wait, PATIENCE_S)
        try:
            for path in ("/healthz", "/readyz", "/metrics", f"/keda/{QUEUE}"):
                assert (await client.get(path)).status_code == 200
            assert not search.done()
        finally:
            over.set()
        assert (await search).json()["messages"] == []

    @pytest.mark.parametrize("wish", ["search", "count", "redrive"])
    async def test_gets_an_answer_to_any_pattern(self, served: Served, queue: LeasedQueue, wish: str) -> None:
        queue.nack(queue.claim(), reason="a" * 190)
        queue.nack(queue.claim(), reason="password=" + "*" * 100 + " refused")
        client = served.client(**FROM_PAGE)
        for pattern in (self.PATTERN["where"], {"reason": "password=" + "*" * 100 + " refused!"}):
            answer = await client.post(f"{API}/{wish}", json={**self.PATTERN, "target": "dead", "where": pattern})
            assert answer.status_code == 200

    @pytest.mark.parametrize("after", ["[" * 100_000, '{"b":' * 100_000])
    async def test_breaks_nothing_with_a_position_of_a_search_of_his_own(self, served: Served, after: str) -> None:
        wish = {**self.PATTERN, "after": base64.urlsafe_b64encode(after.encode()).decode()}
        assert (await served.client(**FROM_PAGE).post(f"{API}/search", json=wish)).status_code == 400


class TestLogin:
    """The browser's way in."""

    async def test_a_token_becomes_a_cookie_that_scripts_cannot_read(self, served: Served) -> None:
        token = served.token("view", "alice")
        client = served.client(served.app(**OUTSIDE), **FROM_PAGE)
        answer = await client.post("/login", json={"token": f" {token}\n"})
        assert answer.json() == {"user": "alice", "role": "view"}
        flags = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
        assert {"httponly", "samesite=strict", "path=/"} <= flags
        assert (await client.get("/api/connections")).json()["user"] == "alice"
        await client.post("/logout")
        assert (await client.get("/api/connections")).status_code == 401

    async def test_the_cookie_is_sent_over_https_only_when_the_proxy_says_that_it_got_https(
        self, served: Served
    ) -> None:
        token = served.token("view")
        app = served.app(**OUTSIDE, proxies=["192.0.2.0/24"])
        for address, secure in (("192.0.2.7", True), ("198.51.100.1", False)):
            client = served.client(app, address=address, **{**FROM_PAGE, "X-Forwarded-Proto": "https"})
            cookie = (await client.post("/login", json={"token": token})).headers["set-cookie"].lower()
            assert ("secure" in cookie) is secure

    async def test_a_wrong_token_sets_no_cookie(self, served: Served) -> None:
        served.token("view")
        answer = await served.client(served.app(**OUTSIDE), **FROM_PAGE).post("/login", json={"token": "rmq_x"})
        assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)


class TestGuessing:
    """Someone who tries tokens."""

    async def test_is_stopped_after_ten_tries_even_with_the_right_token(self, served: Served) -> None:
        token = served.token("change")
        app = served.app(**OUTSIDE, allow_changes=True)
        guesses = [served.client(app, f"rmq_{number}") for number in range(50)]
        statuses = [(await client.get("/metrics")).status_code for client in guesses]
        assert statuses == [401] * MOST + [429] * (50 - MOST)
        refused = await served.client(app, token).get("/metrics")
        assert (refused.status_code, 0 < int(refused.headers["retry-after"]) <= 60) == (429, True)
        assert (await served.client(app, token, address="203.0.113.9").get("/metrics")).status_code == 200

    @pytest.mark.parametrize("way", ["bearer", "cookie", "login"])
    async def test_is_limited_by_every_way_in(self, served: Served, way: str) -> None:
        served.token("view")
        app = served.app(**OUTSIDE)
        for number in range(MOST + 1):
            guess = f"rmq_{number}"
            if way == "login":
                answer = await served.client(app, **FROM_PAGE).post("/login", json={"token": guess})
            else:
                cookie = {"Cookie": f"{COOKIE}={guess}"} if way == "cookie" else {}
                answer = await served.client(app, guess if way == "bearer" else "", **cookie).get("/metrics")
        assert answer.status_code == 429

    async def test_cannot_pretend_to_come_from_other_addresses(self, served: Served) -> None:
        served.token("view")
        app = served.app(**OUTSIDE)
        clients = [
            served.client(
                app, "rmq_guess", **{"X-Forwarded-For": f"203.0.113.{number}", "Forwarded": f"for=10.0.0.{number}"}
            )
            for number in range(MOST + 1)
        ]
        assert [(await client.get("/metrics")).status_code for client in clients][-1] == 429

    async def test_behind_a_proxy_each_of_its_clients_is_limited_alone(self, served: Served) -> None:
        token = served.token("view")
        app = served.app(**OUTSIDE, proxies=["192.0.2.7"])
        for number in range(MOST + 5):
            spoofed = {"X-Forwarded-For": f"10.9.8.{number}, 203.0.113.5"}  # the proxy adds the last address
            last = await served.client(app, "rmq_guess", **spoofed).get("/metrics")
        assert last.status_code == 429
        other = served.client(app, token, **{"X-Forwarded-For": "203.0.113.6"})
        assert (await other.get("/metrics")).status_code == 200

    async def test_many_guesses_at_once_get_no_more_tries(self, served: Served) -> None:
        served.token("view")
        app = served.app(**OUTSIDE)
        clients = [served.client(app, f"rmq_{number}") for number in range(200)]
        statuses = [answer.status_code for answer in await asyncio.gather(*(each.get("/metrics") for each in clients))]
        assert (statuses.count(200), set(statuses)) == (0, {401, 429})
        assert statuses.count(401) < 60  # what threads had begun before the tenth failure


class TestProxyHeader:
    """Users whom a proxy names in a header."""

    HEADER = "X-Forwarded-User"

    def app(self, served: Served, **options: Any) -> Any:
        about = {"host": "0.0.0.0", "user_header": self.HEADER, "change_users": ["alice"], "allow_changes": True}
        return served.app(**{**about, "proxies": ["192.0.2.7"], **options})

    async def test_have_the_role_that_the_server_was_started_with(self, served: Served, queue: LeasedQueue) -> None:
        app = self.app(served)
        bob = await answers(served.client(app, **FROM_PAGE, **{self.HEADER: "bob"}))
        assert {bob[path] for path in NUMBERS + PAYLOADS} == {200}
        assert {bob[path] for path, _ in CHANGES} == {403}
        assert unchanged(queue)
        alice = await answers(served.client(app, **FROM_PAGE, **{self.HEADER: "alice"}))
        assert set(alice.values()) == {200}
        assert {line["user"] for line in served.audited()} == {"alice"}

    async def test_are_not_believed_from_another_address(self, served: Served, queue: LeasedQueue) -> None:
        app = self.app(served)
        for about in ({}, {"X-Forwarded-For": "192.0.2.7"}):
            client = served.client(app, address="192.0.2.8", **FROM_PAGE, **{self.HEADER: "alice"}, **about)
            assert set((await answers(client)).values()) == {401}
        assert unchanged(queue)

    @pytest.mark.parametrize("names", [[], [""], ["bob", "alice"], ["alice", "alice"]])
    async def test_must_be_named_exactly_once(self, served: Served, names: list[str]) -> None:
        client = served.client(self.app(served), **FROM_PAGE)
        for path, wish in CHANGES:
            headers = [*client.headers.items(), *((self.HEADER, name) for name in names)]
            request = httpx.Request("POST", f"http://localhost:8484{path}", headers=headers, json=wish)
            assert (await client.send(request)).status_code == 401


NAMES = ["../../rmq:queues", "..", "work}:dead", "a\0b", "*", "\nwork", "%2e%2e%2f", "x" * 600]
OUT_OF_STATIC = [
    "/static/../app.py",
    "/static/..%2fapp.py",
    "/static/%2e%2e/%2e%2e/serve/tokens.py",
    "/static/....//app.py",
    "/static//etc/passwd",
    "/static/main.js%00.html",
    "/static/",
    "/login/../tokens.py",
    "/login/..%2Fapp.py",
    "/login/login.html",
    "/..%2f..%2fetc/passwd",
]


async def test_no_path_leads_out_of_the_static_files(served: Served) -> None:
    served.token("view")
    clients = [served.client(), served.client(served.app(**OUTSIDE), served.token("view"))]
    for client, path in itertools.product(clients, OUT_OF_STATIC):
        request = client.build_request("GET", "/")
        request.url = httpx.URL("http://localhost:8484").copy_with(raw_path=path.encode())
        answer = await client.send(request)
        assert answer.status_code in {404, 405}, (path, answer.text)
        assert "import" not in answer.text, path


async def test_the_name_of_a_queue_reaches_no_other_key(served: Served, queue: LeasedQueue) -> None:
    client = served.client(**FROM_PAGE)
    for name in NAMES:
        quoted = "".join(f"%{byte:02x}" for byte in name.encode())
        statuses = [(await client.get(f"/keda/{quoted}")).status_code]
        statuses += [(await client.get(f"{API}/{part}", params={"name": name, "target": "ready"})).status_code
                     for part in ("queue", "messages")]  # fmt: skip
        for path, wish in CHANGES:
            statuses.append((await client.post(path, json={**wish, "queue": name, "confirm": name})).status_code)
        assert set(statuses) <= {404, 422}, (name, statuses)
        assert unchanged(queue), name


class TestAudit:
    """The log of changes."""

    async def test_has_a_line_before_the_change_and_one_with_its_outcome(
        self, served: Served, queue: LeasedQueue
    ) -> None:
        client = served.client(served.app(**OUTSIDE, allow_changes=True) if served.token("view") else None,
                               served.token("change", "alice"), **FROM_PAGE)  # fmt: skip
        for path, wish in CHANGES:
            assert (await client.post(path, json=wish)).status_code == 200
        lines = served.audited()
        pairs = list(zip(lines[::2], lines[1::2], strict=True))
        assert [first["event"] for first, _ in pairs] == ["rmq_redrive", "rmq_release", "rmq_purge"]
        assert {line["user"] for line in lines} == {"alice"}
        for first, last in pairs:
            assert first["outcome"].startswith("not known")
            assert last["outcome"].startswith("done: ")
            assert first["entry"] == last["entry"]
        assert queue.stats()[:5] == (0, 0, 0, 0, 0)

    async def test_a_change_that_cannot_be_audited_is_not_made(self, served: Served, queue: LeasedQueue) -> None:
        client = served.client(**FROM_PAGE)
        served.audit.unlink()
        served.audit.mkdir()
        for path, wish in CHANGES:
            with pytest.raises(IsADirectoryError):
                await client.post(path, json=wish)
        assert unchanged(queue)

    async def test_a_name_cannot_forge_a_line(self, served: Served) -> None:
        client = served.client(**FROM_PAGE)
        forged = 'x\n{"user": "eve", "outcome": "done"}'
        await client.post(CHANGES[2][0], json={"queue": forged, "target": "ready", "confirm": forged})
        assert [line["user"] for line in served.audited()] == ["local", "local"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"host": "0.0.0.0"}, "--tokens FILE"),
        ({"host": "::"}, "rmq token"),
        ({"host": "10.1.2.3"}, "--user-header"),
        ({"tokens": "t", "user_header": "X"}, "give one of them"),
        ({"change_users": ["a"]}, "--change-users"),
    ],
)
def test_a_server_that_others_could_reach_does_not_start_without_a_way_to_recognise_them(
    options: dict[str, Any], named: str, redis_server: Server
) -> None:
    with pytest.raises(ConfigurationError, match=named):
        ServeOptions(redis=RedisSettings.from_url(redis_server.url), **options)


async def test_no_answer_holds_a_token_or_a_password(served: Served, queue: LeasedQueue) -> None:
    token = served.token("change")
    held = queue.claim(lease_id="dag/run/task/-1")
    assert held is not None
    client = served.client(served.app(**OUTSIDE, allow_changes=True), token, **FROM_PAGE)
    texts = [(await client.get(path)).text for path in itertools.chain(NUMBERS, PAYLOADS)]
    assert not [text for text in texts if token in text or str(held.token) in text]
    assert token not in served.audit.read_text() + served.tokens.read_text()
