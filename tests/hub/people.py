"""People of a course in a browser window of their own: their hands and eyes on a JupyterHub."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.browser.fixtures import LAPTOP, PICTURES
from tests.browser.lab_page import LabPage
from tests.hub.machine import Account, RunningHub

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

# One gesture on a busy machine; nobody waits this long when all is well.
PATIENCE_SECONDS = 90
LOOK_MILLISECONDS = 200
TOLD = "#success-modal, #error-modal"


class Person:
    """Somebody who has logged in, and whose server runs.

    Attributes:
        account: Who it is.
        page: Their window.
    """

    def __init__(self, browser: Any, hub: RunningHub, account: Account) -> None:
        self.account = account
        self.address = f"{hub.origin}/user/{account.name}"
        self.page: Page = browser.new_context(viewport=LAPTOP).new_page()
        self.page.set_default_timeout(PATIENCE_SECONDS * 1000)
        self.page.goto(f"{hub.origin}/hub/login?next=/hub/spawn")
        self.page.fill("#username_input", account.name)
        self.page.fill("#password_input", hub.password)
        self.page.click("#login_submit")
        self.page.wait_for_url(f"{self.address}/**")
        self.lab()

    def picture(self, name: str) -> None:
        """Keep what the window shows."""
        self.page.screenshot(path=PICTURES / f"hub {name}.png")

    def menu(self, *labels: str) -> None:
        """Choose from the menu bar of JupyterLab."""
        self.page.click(f'.lm-MenuBar-itemLabel:text-is("{labels[0]}")')
        for label in labels[1:]:
            self.page.click(f'.lm-Menu-itemLabel:text-is("{label}")')

    def lab(self) -> None:
        """JupyterLab as after the first login, with nothing open."""
        self.page.goto(f"{self.address}/lab?reset")
        self.page.wait_for_selector(".jp-Launcher")

    def terminal(self, command: str) -> tuple[int, str]:
        """Type a command into a terminal; its exit code and what it printed."""
        said, code = self.account.home / "said.txt", self.account.home / "code.txt"
        code.unlink(missing_ok=True)
        self.lab()
        self.page.click('.jp-LauncherCard[title="Start a new terminal session"]')
        self.page.wait_for_selector(".jp-Terminal .xterm-helper-textarea", state="attached")
        self.page.click(".jp-Terminal .xterm-screen")
        self.page.keyboard.type(f"{command} > {said} 2>&1; echo $? > {code}\n")
        for _ in range(PATIENCE_SECONDS * 1000 // LOOK_MILLISECONDS):
            if code.exists() and code.read_text().strip():
                return int(code.read_text()), said.read_text()
            self.page.wait_for_timeout(LOOK_MILLISECONDS)
        raise AssertionError(f"no end of {command}")


class Student(Person):
    """A student, with *Assignment List* and notebooks."""

    def list(self) -> Locator:
        """Open *Assignment List* anew."""
        self.lab()
        self.menu("Nbgrader", "Assignment List")
        self.page.wait_for_selector("#assignments .list_item")
        return self.page.locator("#assignments")

    def press(self, unit: str, button: str, then: str) -> None:
        """Press a button of a unit in the list; back when that text is there."""
        self.list().locator(".list_item", has_text=unit).get_by_role("button", name=button).click()
        self.page.locator("#assignments", has_text=then).wait_for()

    def fetch(self, unit: str) -> Path:
        """Fetch a unit; its notebook."""
        self.list().locator(".list_item", has_text=unit).get_by_role("button", name="Fetch").click()
        self.page.locator("#fetched_assignments_list .list_item", has_text=unit).first.wait_for()
        self.picture(f"{self.account.name[:3]} has fetched")
        return self.account.home / "work" / unit / f"{unit}.ipynb"

    def submit(self, unit: str) -> None:
        """Hand a unit in."""
        fetched = self.list().locator("#fetched_assignments_list .list_item", has_text=unit).first
        fetched.get_by_role("button", name="Submit").click()
        self.page.locator("#submitted_assignments_list .list_item", has_text=unit).first.wait_for()
        self.picture(f"{self.account.name[:3]} has submitted")

    def feedback(self, unit: str) -> str:
        """Fetch the feedback of a unit; its page as text."""
        submitted = self.list().locator("#submitted_assignments_list .list_item", has_text=unit)
        submitted.get_by_role("button", name="Fetch Feedback").first.click()
        self.page.locator("#submitted_assignments_list", has_text="view feedback").wait_for()
        self.picture(f"{self.account.name[:3]} has feedback")
        (page,) = (self.account.home / "work" / unit / "feedback").glob(f"*/{unit}.html")
        window = self.page.context.new_page()
        window.goto(f"{self.address}/files/{page.relative_to(self.account.home / 'work')}")
        window.screenshot(path=PICTURES / f"hub feedback of {self.account.name[:3]}.png")
        return html.unescape(window.inner_text("body"))

    def notebook(self, path: Path) -> LabPage:
        """A notebook of theirs, open."""
        opened = LabPage(self.page, path, PICTURES)
        opened.open(f"{self.address}/lab/tree/{path.parent.name}/{path.name}?reset")
        return opened


class Grader(Person):
    """Who grades, with formgrader and a terminal."""

    def press(self, unit: str, action: str) -> str:
        """Press a button of a unit in formgrader; what the window about it says."""
        self.page.goto(f"{self.address}/formgrader/manage_assignments")
        row = self.page.locator("tr", has=self.page.locator(f'td.name:has-text("{unit}")'))
        row.locator(f".{action} a").click()
        told = self.page.locator(TOLD)
        told.wait_for()
        self.picture(action)
        text: str = told.inner_text()
        assert re.search(r"Successfully|^.*Success", text), text
        return text
