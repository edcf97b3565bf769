"""The lab's page in Chromium: updates under load, and scrolling through long lists.

    python -m benchmarks.page [--quick] [--only rate,requests,batches]

It needs the extra `browser` and a Chromium on the PATH. Each part has a new broker.

- rate: 1,000 requests a second for 15 s, while the list of requests is open: the requests that were sent, shown
  and left out, and the longest turn of the broker's event loop in CPU time (`loop_meter`).
- requests: 100,000 requests in the list: the time between two frames while it scrolls, and the time until all rows are
  loaded after a jump.
- batches: a log of 1,000,000 batches, 2 GB: the time between two frames, and the time until batches are loaded after
  each of "Last", "Earlier", "First", and the lookup of an offset in its middle.

The times of frames and jumps are wall time, so they include other work of the machine.
"""

import argparse
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Page, expect, sync_playwright

from benchmarks import wire
from benchmarks.clients import raw
from benchmarks.loop_meter import Hold
from benchmarks.peers import PagePeer, Settings

_PATIENCE_MS: Final = 120_000
_RATE: Final = 1_000
_PER_STEP: Final = 10
_REQUESTS: Final = 100_000
_BATCHES: Final = 1_000_000
_BATCH_BYTES: Final = 2_000
_JUMPS: Final = 10
_FRAMES: Final = """async ([selector, seconds]) => {
  const box = document.querySelector(selector), times = [];
  let last = performance.now();
  const end = last + 1000 * seconds;
  box.scrollTop = 0;
  while (last < end) {
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - last);
    last = now;
    box.scrollTop += 300;
  }
  return times;
}"""
"""Scrolls an element. Returns the milliseconds between its frames."""
_JUMP: Final = """async (share) => {
  const box = document.querySelector(".rows"), begin = performance.now();
  box.scrollTop = share * box.scrollHeight;
  do await new Promise(requestAnimationFrame);
  while (!box.querySelector(".row") || box.querySelector(".row:not(:has(.api))"));
  return performance.now() - begin;
}"""
"""Jumps to a share of the list. Returns the milliseconds until each visible row is loaded."""


@contextmanager
def _opened(path: str) -> Iterator[tuple[PagePeer, Page]]:
    """Start a broker with a topic "t" of one partition, and open a path of its page in a browser."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise SystemExit("no Chromium: apt-get install chromium")
    peer = PagePeer(settings=Settings(is_watched=True))
    peer.start()
    try:
        with wire.Connection(peer.address) as connection:
            connection.create_topics(["t"], 1)
            connection.await_partitions(["t"], 1)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1280, "height": 720})
            page.set_default_timeout(_PATIENCE_MS)
            page.goto(f"http://127.0.0.1:{peer.page_address[1]}{path}")
            yield peer, page
            browser.close()
    finally:
        peer.stop()


def _show(name: str, value: str) -> None:
    print(f"  {name:44} {value}", flush=True)


def _show_frames(page: Page, selector: str) -> None:
    times = sorted(page.evaluate(_FRAMES, [selector, 5]))
    p50, p95 = raw.percentile(times, 0.5), raw.percentile(times, 0.95)
    _show("ms between frames: p50, p95, longest", f"{p50:.1f}, {p95:.1f}, {times[-1]:.1f}")


def _await_status(page: Page, requests: int) -> str:
    """Wait until the status line below the list reports that many requests."""
    status = page.get_by_role("status").filter(has_text="request")
    expect(status).to_contain_text(f"{requests:,} requests", timeout=_PATIENCE_MS)
    return status.inner_text()


def _rate(share: float) -> None:
    steps = int(15 * share) * _RATE // _PER_STEP
    with _opened("/requests") as (peer, page), wire.Connection(peer.address) as connection:
        frame = wire.produce_request("t", 0, wire.record_batch(100)[0])

        def step() -> None:
            connection.socket.sendall(frame * _PER_STEP)
            for _ in range(_PER_STEP):
                wire.produced_offset(connection.receive())

        step()  # The modules of the first requests are loaded.
        _await_status(page, before := int(page.evaluate("fetch('/data/requests').then((it) => it.json())")["last"]))
        hold = Hold(peer.hold_file)
        hold.reset()
        begin = time.monotonic()
        for number in range(steps):
            time.sleep(max(0.0, begin + number * _PER_STEP / _RATE - time.monotonic()))
            step()
        seconds = time.monotonic() - begin
        longest = hold.longest
        status = _await_status(page, before + steps * _PER_STEP)
        _show("requests sent and shown", f"{steps * _PER_STEP:,} in {seconds:.1f} s")
        _show("the line below the list", status)
        _show("longest turn of the event loop, ms of CPU", f"{longest * 1000:.1f}")


def _requests(share: float) -> None:
    count = int(_REQUESTS * share)
    with _opened("/requests") as (peer, page):
        while (known := page.evaluate("fetch('/data/requests').then((it) => it.json())")["last"]) < count:
            raw.ping_pong(peer.address, peer.pid, "t", count - known)
        page.reload()
        page.locator(".row .api").first.wait_for()
        _show("requests in the list", page.get_by_role("status").filter(has_text="request").inner_text())
        _show_frames(page, ".rows")
        times = sorted(page.evaluate(_JUMP, (37 * number % 100) / 100) for number in range(1, _JUMPS + 1))
        _show("ms after a jump: p50, longest", f"{raw.percentile(times, 0.5):.0f}, {times[-1]:.0f}")


def _batches(share: float) -> None:
    count = int(_BATCHES * share)
    with _opened("/logs") as (peer, page):
        raw.produce(peer.address, peer.pid, "t", 1_900, count * _BATCH_BYTES, batch_bytes=_BATCH_BYTES, in_flight=64)
        with wire.Connection(peer.address) as connection:
            end = connection.offset("t", 0)
        Hold(peer.hold_file).reset()
        page.goto(f"http://127.0.0.1:{peer.page_address[1]}/logs/t/0")
        shown = page.locator("nav[aria-label=Batches] .muted")
        shown.wait_for()
        _show("batches in the log", f"{end:,}")
        for name in ("Last", "Earlier", "First"):
            _show(f"ms until batches are there: {name}", f"{_ms_to_change(page, name):.0f}")
        begin = time.perf_counter()
        page.get_by_role("textbox", name="Offset").fill(str(end // 2))
        page.get_by_role("button", name="Show the steps").click()
        expect(page.locator(".walk li").last).to_contain_text(f"so {end // 2} is in it", timeout=_PATIENCE_MS)
        _show("ms of the look-up of an offset", f"{(time.perf_counter() - begin) * 1000:.0f}")
        _show_frames(page, "html")
        _show("longest turn of the event loop, ms of CPU", f"{Hold(peer.hold_file).longest * 1000:.1f}")


def _ms_to_change(page: Page, button: str) -> float:
    """Return the milliseconds from clicking a button below the batches until other batches are shown."""
    shown = page.locator("nav[aria-label=Batches] .muted")
    before = shown.inner_text()
    begin = time.perf_counter()
    page.get_by_role("button", name=button, exact=True).click()
    expect(shown).not_to_have_text(before, timeout=_PATIENCE_MS)
    return (time.perf_counter() - begin) * 1000


PARTS: Final[dict[str, Callable[[float], None]]] = {"rate": _rate, "requests": _requests, "batches": _batches}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fifth of each number")
    parser.add_argument("--only", default=",".join(PARTS), metavar="PART,...", help="default: %(default)s")
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := set(parts) - PARTS.keys():
        parser.error(f"--only: {', '.join(sorted(unknown))} is not one of {', '.join(PARTS)}")
    for part in parts:
        print(part)
        PARTS[part](0.2 if options.quick else 1.0)


if __name__ == "__main__":
    main()
