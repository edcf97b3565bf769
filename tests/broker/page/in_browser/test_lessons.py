"""A lesson in a real browser: its goals are marked while a client works."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from minibroker import Broker
from minibroker_lab.page.lessons.texts import LESSONS
from tests.broker.page.browser import Window
from tests.broker.page.lesson_answers import answer_to
from tests.broker.page.test_lessons import run
from tests.patience import PATIENCE_S

expect.set_options(timeout=PATIENCE_S * 1000)
FIRST = LESSONS[0]


@pytest.fixture
def lab() -> Iterator[Broker]:
    with Broker(page=True, topics=["orders"]) as broker:
        yield broker


@pytest.mark.torture
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_goals_are_marked_when_they_are_reached(browser: Browser, lab: Broker, scheme: str) -> None:
    window = Window(browser, lab.page_url, scheme=scheme)
    page = window.open("/lessons")
    page.get_by_role("link", name=FIRST.title).click()
    goals = page.get_by_role("region", name="Goals")
    expect(goals.get_by_role("status")).to_have_text("0 of 3 goals are reached.")
    expect(goals.get_by_text("Seen so far: No ApiVersions has come.")).to_have_count(len(FIRST.goals))
    goals.get_by_role("button", name="Hint").first.press("Enter")
    expect(goals).to_contain_text("It sends ApiVersions before anything else.")
    run(answer_to(FIRST, "python"), lab)
    expect(goals.get_by_role("status")).to_have_text("All goals are reached.")
    expect(goals.get_by_role("link", name="Request")).to_have_count(len(FIRST.goals))
    if scheme == "light":
        window.picture("lab-lesson")
    window.check_accessibility()
    goals.get_by_role("button", name="Begin again").click()
    page.get_by_role("link", name="Lesson 2 →").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"2. {LESSONS[1].title}")
    window.close()


@pytest.mark.torture
def test_answers_are_shown_to_teachers_alone(browser: Browser, lab: Broker) -> None:
    window = Window(browser, lab.page_url)
    answer = window.page.get_by_role("region", name="Answer")
    window.open("/lessons/1")
    expect(answer).to_have_count(0)
    window.open("/lessons/1?answers=1")
    expect(answer.get_by_text("import socket")).to_be_visible()
    expect(answer.get_by_text("public class Lesson1")).to_be_hidden()
    answer.get_by_text("Java", exact=True).click()
    expect(answer.get_by_text("public class Lesson1")).to_be_visible()
    window.check_accessibility()
    window.close()


@pytest.mark.torture
def test_the_addresses_of_a_lesson_are_those_of_the_lab(browser: Browser, lab: Broker) -> None:
    window = Window(browser, lab.page_url)
    main = window.open("/lessons/7").get_by_role("main")
    expect(main).to_contain_text(f"connects to {lab.bootstrap_servers}")
    expect(main).to_contain_text(f"curl -sS {lab.page_url}/control/faults")
    main.get_by_role("link", name="Install a fault").click()
    expect(window.page.locator("#field-disconnect")).to_have_value("after")
    window.close()


@pytest.mark.torture
def test_the_last_lesson_is_shown_without_a_next_one(browser: Browser, lab: Broker) -> None:
    window = Window(browser, lab.page_url)
    page = window.open(f"/lessons/{LESSONS[-2].number}")
    page.locator("[rel=next]").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(LESSONS[-1].title)
    expect(page.locator("[rel=next]")).to_have_count(0)
    window.close()
