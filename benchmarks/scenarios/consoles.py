"""What ten consoles cost the gateway while people only look at them."""

import time
from collections.abc import Iterator

from playwright.sync_api import Browser, sync_playwright

from benchmarks.harness.bench import Bench, Scenario
from benchmarks.harness.report import Figures
from deploy.local.services import DEVELOPMENT_KEY
from tests.support.browser import CHROMIUM, FLAGS

CONSOLES = 10
PAGES = {"overview": "/", "jobs": "/jobs", "webhooks": "/webhooks", "models": "/models"}
SETTLE_SECONDS = 20.0  # until a page has found that nothing changes
LENGTH = 5  # how many times longer than other parts: pages ask every half minute


def measure(bench: Bench) -> Iterator[Figures]:
    """Yield the CPU of the gateway in ms a second, without consoles and with ten of each page."""
    seconds = bench.seconds * LENGTH
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            while True:
                figures = {"consoles.none": bench.measure_idle(seconds)["cpu.gateway"]}
                for name, path in PAGES.items():
                    figures[f"consoles.{name}"] = measure_page(bench, browser, path, seconds)
                yield figures
        finally:
            browser.close()


def measure_page(bench: Bench, browser: Browser, path: str, seconds: float) -> float:
    """Return the CPU of the gateway while this page is open. Each console is that of another person."""
    contexts = [browser.new_context() for _ in range(CONSOLES)]
    for context in contexts:
        page = context.new_page()
        page.goto(f"{bench.stack.url}/console{path}")
        page.get_by_label("API key").fill(DEVELOPMENT_KEY)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("navigation").wait_for()
    time.sleep(SETTLE_SECONDS)
    used = bench.measure_idle(seconds)["cpu.gateway"]
    for context in contexts:
        context.close()
    return used


SCENARIO = Scenario(measure, {"length": LENGTH, "consoles": CONSOLES}, once=True)
