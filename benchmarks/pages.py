"""The pages: server time and size at 10,000 tasks, cold loads in Chromium, how soon an event is shown, and 200 open pages.

Chromium is Debian's. Scores of Lighthouse are measured when `REMAND_LIGHTHOUSE` names its program (`npm install lighthouse`).
"""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from benchmarks.history import task_name
from benchmarks.report import Report, millis
from benchmarks.scratch import new_ledger
from benchmarks.years import PARTS, Parts, fill, make_token

TASKS = 10_000
COLD_LOADS = 5
OPEN_PAGES = 200
CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
)
WAITING: Parts = (("escalated", 100),)
_CLI = (sys.executable, "-m", "remand.interfaces.cli.entry")
_PATHS = (
    *("/", "/board", "/board?by=agent", "/gates", "/agents", "/patterns", "/graph", "/activity", "/settings"),
    *(f"/tasks/{task_name(9999)}", f"/tasks/{task_name(9999)}/changes", f"/tasks/{task_name(9999)}/prompt"),
)


class Server(NamedTuple):
    """A server under way, and how to ask it."""

    process: subprocess.Popen[bytes]
    port: int
    token: str
    cookie: str
    host: str
    """The name by which sessions know the server."""

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    def get(self, path: str) -> tuple[float, bytes]:
        """How long it took, and what came, compressed."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        start = time.perf_counter()
        line.request(
            "GET", path, headers={"host": self.host, "cookie": self.cookie, "accept-encoding": "gzip"}
        )
        answer = line.getresponse()
        body, took = answer.read(), time.perf_counter() - start
        line.close()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {body[:300]!r}")
        return took, body

    def add_task(self, title: str) -> float:
        """Adds a task; when it was asked for, by the clock of the day."""
        line, start = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60), time.time()
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        line.request("POST", "/api/task/add", json.dumps({"title": title}), headers)
        answer = line.getresponse()
        body = answer.read()
        line.close()
        if answer.status >= 300:
            raise RuntimeError(f"{answer.status} {body[:300]!r}")
        return start


def run(report: Report) -> None:
    """Prints a table of each."""
    with _server(report, "pages", PARTS) as server:
        _measure_requests(report, server, "/board", "board at 10,000 tasks", most_kilobytes=150)
        _measure_browser(report, server)
        _measure_scores(report, server)
        asyncio.run(_measure_open_pages(report, server))
    with _server(report, "waiting", WAITING) as server:
        _measure_requests(report, server, "/", "inbox with 10,000 questions", most_kilobytes=150)


@contextmanager
def _server(report: Report, name: str, parts: Parts) -> Iterator[Server]:
    folder = os.path.join(report.folder, name)
    os.makedirs(folder)
    Path(folder, "remand.toml").write_text("[gates]\n[server]\ncalls_per_second = 1000\n")
    opened = new_ledger(folder)
    token = make_token(opened.place.root, "")
    opened.ledger.change(partial(fill, TASKS * 5, TASKS, parts=parts))
    opened.store.close()
    serve = [*_CLI, "-C", opened.place.root, "serve", "--port", "0", "--json", "--no-open"]
    process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        link = urlsplit(json.loads(process.stdout.readline())["login_url"] if process.stdout else "")
        line = http.client.HTTPConnection("127.0.0.1", link.port or 0, timeout=60)
        line.request("GET", f"{link.path}?{link.query}", headers={"host": link.netloc})
        cookie = (line.getresponse().getheader("set-cookie") or "").partition(";")[0]
        yield Server(process, link.port or 0, token, cookie, link.netloc)
    finally:
        process.terminate()
        process.wait(30)


def _measure_requests(report: Report, server: Server, path: str, what: str, *, most_kilobytes: int) -> None:
    report.heading(f"{what}: server time and size")
    rounds = max(100, report.scale.rounds // 4)
    for _ in range(5):
        server.get(path)
    spent = _processor_seconds(server)
    found = [server.get(path) for _ in range(rounds)]
    spent = (_processor_seconds(server) - spent) / rounds
    times = sorted(took for took, _ in found)
    p95, size = times[int(rounds * 0.95)], len(found[-1][1])
    plain = len(gzip.decompress(found[-1][1]))
    sizes = (f"{size / 1000:.0f}", f"{plain / 1000:.0f}")
    rows = [(path, millis(times[rounds // 2]), millis(p95), millis(spent), *sizes)]
    report.table(("page", "p50 ms", "p95 ms", "CPU ms", "kB sent", "kB unpacked"), rows)
    report.goal(f"{what}, p95", p95 * 1e3, most=100, unit="ms")
    report.goal(f"{what}, size sent", size / 1000, most=most_kilobytes, unit="kB")


# ------------------------------------------------------------------------------------------------ browser


@contextmanager
def _chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


def _open(browser: Any, server: Server) -> Any:
    """A page of a browser that has nothing in its cache and is logged in."""
    name, _, value = server.cookie.partition("=")
    context = browser.new_context()
    context.add_cookies([{"name": name, "value": value, "url": server.origin}])
    return context.new_page()


def _wait_until(page: Any, condition: str) -> None:
    """Asks again and again: a page with a strict policy does not let a text be evaluated in it later on."""
    deadline = time.monotonic() + 30
    while not page.evaluate(condition):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{page.url}: {condition} does not come true")
        page.wait_for_timeout(20)


def _measure_browser(report: Report, server: Server) -> None:
    if not os.path.exists(CHROMIUM):
        print("Chromium is not installed: nothing was measured there.")
        return
    timing = "() => { const t = performance.getEntriesByType('navigation')[0]; const p = performance.getEntriesByName('first-contentful-paint')[0]; return [p ? p.startTime : 0, t.domContentLoadedEventEnd] }"
    rows, worst = [], 0.0
    with _chromium() as browser:
        for path in _PATHS:
            found = []
            for _ in range(COLD_LOADS):
                page = _open(browser, server)
                page.goto(f"{server.origin}{path}", wait_until="load")
                _wait_until(page, "performance.getEntriesByName('first-contentful-paint').length > 0")
                found.append(page.evaluate(timing))
                page.context.close()
            paint, interactive = (max(one[at] for one in found) for at in (0, 1))
            slowest = max(max(one) for one in found)
            worst = max(worst, slowest)
            rows.append((path.replace(task_name(9999), "T-…"), f"{paint:.0f}", f"{interactive:.0f}"))
        report.heading(f"cold loads in Chromium, the slowest of {COLD_LOADS} each, from the click")
        report.table(("page", "first paint ms", "interactive ms"), rows)
        report.goal("the slowest cold load of any page: painted and interactive", worst, most=1000, unit="ms")
        _measure_latency(report, browser, server)


def _measure_latency(report: Report, browser: Any, server: Server) -> None:
    """From the request of a command to what is drawn of it in an open page."""
    rows, slowest = [], []
    for path, place in (("/board?text=Shown", "main"), ("/activity", ".timeline")):
        page = _open(browser, server)
        page.goto(f"{server.origin}{path}")
        page.wait_for_timeout(2000)
        found = []
        for number in range(20):
            title = f"Shown {path} {number}"
            page.evaluate(
                """([place, title]) => { window.shownAt = 0; const look = () => {
                if (document.querySelector(place)?.textContent.includes(title)) requestAnimationFrame(() => {
                window.shownAt = performance.timeOrigin + performance.now() }); else setTimeout(look, 4) }; look() }""",
                [place, title],
            )
            start = server.add_task(title)
            _wait_until(page, "window.shownAt > 0")
            found.append(page.evaluate("window.shownAt") / 1e3 - start)
        page.context.close()
        found.sort()
        rows.append((path, millis(found[len(found) // 2]), millis(found[-2]), millis(found[-1])))
        slowest.append(found[-2])
    report.heading("a command's event in an open page, from the request of the command")
    report.table(("page", "p50 ms", "p95 ms", "slowest ms"), rows)
    report.goal("a command's event shown in an open page, p95", max(slowest) * 1e3, most=300, unit="ms")


def _measure_scores(report: Report, server: Server) -> None:
    program = os.environ.get("REMAND_LIGHTHOUSE", "")
    if not program:
        print("REMAND_LIGHTHOUSE is not set: no scores of Lighthouse were measured.")
        return
    rows = []
    worst = {"accessibility": 100.0, "best-practices": 100.0}
    for path in _PATHS:
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            call = [
                *("node", program, f"{server.origin}{path}", "--quiet", "--output=json"),
                *(f"--output-path={file.name}", f"--only-categories={','.join(worst)}"),
                f"--extra-headers={json.dumps({'Cookie': server.cookie})}",
                f"--chrome-flags=--headless=new {' '.join(FLAGS)}",
            ]
            subprocess.run(call, check=True, capture_output=True, env=os.environ | {"CHROME_PATH": CHROMIUM})
            told = json.loads(Path(file.name).read_text())
        scores = {name: told["categories"][name]["score"] * 100 for name in worst}
        worst = {name: min(worst[name], score) for name, score in scores.items()}
        failed = sorted(name for name, one in told["audits"].items() if one["score"] == 0)
        shown = (path.replace(task_name(9999), "T-…"), *(f"{score:.0f}" for score in scores.values()))
        rows.append((*shown, ", ".join(failed)))
    report.heading(f"Lighthouse {told['lighthouseVersion']}")
    report.table(("page", "accessibility", "best practices", "failed"), rows)
    for name, score in worst.items():
        report.goal(f"Lighthouse, {name}, the worst page", score, least=95, unit="of 100")


# --------------------------------------------------------------------------------------------- open pages


async def _measure_open_pages(report: Report, server: Server) -> None:
    """What a server needs for many open pages while something happens each second."""
    seconds = {"full": 600, "usual": 600}.get(report.scale.name, 60)
    live = [path for path in _PATHS if not path.endswith(("/changes", "/prompt"))]
    paths = [live[number % len(live)] for number in range(OPEN_PAGES)]
    got = [0] * OPEN_PAGES
    readers = [asyncio.create_task(_read_stream(server, path, got, at)) for at, path in enumerate(paths)]
    await asyncio.sleep(10)
    begun, spent, memory = time.monotonic(), _processor_seconds(server), [_memory(server)]
    for number in range(seconds):
        await asyncio.to_thread(server.add_task, f"Second {number}")
        memory += [_memory(server)] if number % 30 == 29 else []
        await asyncio.sleep(max(0.0, begun + number + 1 - time.monotonic()))
    share = (_processor_seconds(server) - spent) / (time.monotonic() - begun)
    for one in readers:
        one.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    half, last = memory[len(memory) // 2], max(memory[-3:])
    report.heading(f"{OPEN_PAGES} open pages, one event a second for {seconds} s")
    rows = [(f"{share:.2f}", f"{memory[0]:.0f}", f"{half:.0f}", f"{last:.0f}", str(sum(map(bool, got))))]
    report.table(("cores", "MB at first", "MB halfway", "MB at the end", "pages that were told"), rows)
    report.goal(f"{OPEN_PAGES} open pages, processor", share, most=1.0, unit="cores")
    report.goal(f"{OPEN_PAGES} open pages, memory at the end / halfway", last / half, most=1.1, unit="×")


async def _read_stream(server: Server, path: str, got: list[int], at: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 22)
    query = urlencode({"page": path, "since": ""})
    lines = (
        f"GET /live?{query} HTTP/1.1",
        f"host: {server.host}",
        f"cookie: {server.cookie}",
        "",
        "",
    )
    writer.write("\r\n".join(lines).encode())
    with suppress(asyncio.CancelledError):
        while part := await reader.read(1 << 16):
            got[at] += len(part)
    writer.close()


def _processor_seconds(server: Server) -> float:
    """Of the server and what it started."""
    fields = _stat(server.process.pid)
    return sum(int(fields[at]) for at in (11, 12, 13, 14)) / os.sysconf("SC_CLK_TCK")


def _memory(server: Server) -> float:
    return int(_stat(server.process.pid)[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _stat(pid: int) -> Sequence[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
