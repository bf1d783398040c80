"""One notebook, open in JupyterLab, with the gestures of a student: type, run, save, validate.

Everything goes through the page as a person's hands and eyes would: keys, mouse, what is rendered.
Each gesture returns when its effect is there, never after a fixed time. Cells are found by the id
that they have in the released file, or by a piece of their source.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

# Where the course's stub begins: what comes from there on is for the student to write.
STUB = "    # Write your code here."

STOPPED = '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"]'
ERRORS = (
    STOPPED,
    '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]',
    ".jp-OutputArea-output:has-text('Error displaying widget')",
)

# The indicator of a new notebook says idle before there is a kernel; the status bar names it too.
CONNECTED = "#jp-main-statusbar >> text=/Python.* \\| Idle/"
SAVED = "#jp-main-dock-panel .lm-TabBar-tab.lm-mod-current:not(.jp-mod-dirty)"
FILE_CHANGED = '.jp-Dialog:has-text("has changed on disk")'
OPEN_CODE = ".jp-CodeCell:not(:has(.jp-InputPlaceholder))"
IDLE = "document.querySelector('.jp-Notebook-ExecutionIndicator[data-status=\"idle\"]')"

# The prompt has a number, and another than before: [ ] is not run yet, [*] is running.
RUN_AGAIN = r"/\d/.test(prompt.textContent) && prompt.textContent !== before"
# Asked often enough that nobody waits, and seldom enough that the page is not drawn all the time.
ASK_MILLISECONDS = 25

MAX_LOOKS, LOOK_MILLISECONDS = 50, 200

# JupyterLab leaves cells outside of the window unrendered, and such text reads as empty. While
# others are rendered for the first time they push each other about, so it is scrolled to each time.
RENDERED = """(cell) => {
    cell.scrollIntoView({block: 'center'});
    return [...cell.querySelectorAll('.jp-OutputArea-output')]
        .every((output) => output.checkVisibility({contentVisibilityAuto: true}));
}"""

# Text in outputs whose contrast to what lies behind it is below what WCAG 2 asks: 4.5 to 1 for
# text, 3 to 1 for a mark of one character.
FAINT_TEXT = """() => {
    const channels = (colour) => (colour.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
    const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const behind = (element) => {
        for (; element; element = element.parentElement) {
            const [r, g, b, alpha = 1] = channels(getComputedStyle(element).backgroundColor);
            if (alpha === 1) return [r, g, b];
        }
        return [255, 255, 255];
    };
    const faint = [];
    for (const output of document.querySelectorAll('.jp-Notebook .jp-OutputArea-output')) {
        const walker = document.createTreeWalker(output, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
            const text = walker.currentNode.textContent.trim();
            const element = walker.currentNode.parentElement;
            if (!text || element.closest('style, script')) continue;
            const [a, b] = [light(channels(getComputedStyle(element).color)),
                            light(behind(element))];
            const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            if (ratio < (text.length === 1 ? 3 : 4.5))
                faint.push(`${ratio.toFixed(2)}: ${text.slice(0, 60)}`);
        }
    }
    return faint;
}"""

# Parts of outputs that reach beyond the right edge of their cell, where they cannot be seen, and
# names of controls that are longer than their room.
CUT_OFF = """() => {
    const beyond = [];
    for (const output of document.querySelectorAll('.jp-Notebook .jp-OutputArea-output')) {
        const edge = output.closest('.jp-Cell').getBoundingClientRect().right;
        for (const part of output.querySelectorAll('img, svg, table, figcaption, pre, div'))
            if (part.getBoundingClientRect().right > edge + 1)
                beyond.push(`${part.tagName}: ${(part.alt || part.textContent).slice(0, 60)}`);
        for (const label of output.querySelectorAll('.widget-label'))
            if (label.scrollWidth > label.clientWidth) beyond.push(`label: ${label.textContent}`);
    }
    return beyond;
}"""

# Pixels from the first cell to the last one, each of which has been rendered.
HEIGHT = """async () => {
    const cells = [...document.querySelectorAll('.jp-Notebook .jp-Cell')];
    for (const cell of cells) {
        cell.scrollIntoView({block: 'center'});
        await new Promise(requestAnimationFrame);
    }
    cells[0].scrollIntoView();
    return cells.reduce((sum, cell) => sum + cell.getBoundingClientRect().height, 0);
}"""


class Cell(NamedTuple):
    """A cell as it was released."""

    index: int
    id: str
    kind: str
    source: str


class LabPage:
    """One notebook in one browser window.

    Attributes:
        page: The window.
        path: The file that is open in it.
        released: Its cells as they came.
        complaints: Errors that the browser's console showed, and uncaught exceptions.
        addresses: Every address that the page asked for.
    """

    def __init__(self, page: Page, path: Path, pictures: Path) -> None:
        self.page = page
        self.path = path
        self.pictures = pictures
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        self.released = [
            Cell(index, cell["id"], cell["cell_type"], "".join(cell["source"]))
            for index, cell in enumerate(cells)
        ]
        self.complaints: list[str] = []
        self.addresses: list[str] = []
        self._listen()
        page.add_locator_handler(page.locator(FILE_CHANGED), self._overwrite)

    def _overwrite(self, dialog: Locator) -> None:
        """On a slow machine JupyterLab takes its own last save for somebody else's."""
        dialog.get_by_role("button", name="Overwrite").click()

    def _listen(self) -> None:
        self.page.on("request", lambda request: self.addresses.append(request.url))
        self.page.on("websocket", lambda socket: self.addresses.append(socket.url))
        self.page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        self.page.on(
            "console",
            lambda line: line.type == "error" and self.complaints.append(line.text),
        )

    # --- The notebook as a whole ----------------------------------------------------------------

    def open(self, address: str) -> None:
        """Open the notebook and wait for its kernel."""
        self.page.goto(address)
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        self.page.wait_for_selector(CONNECTED)

    def menu(self, *labels: str) -> None:
        """Choose from the menu bar: the menu, perhaps a submenu, and the entry."""
        self.page.click(f'.lm-MenuBar-itemLabel:text-is("{labels[0]}")')
        for label in labels[1:]:
            self.page.click(f'.lm-Menu-itemLabel:text-is("{label}")')

    def run_all(self) -> None:
        """Run All Cells; back when the last cell has run or an error has stopped the run."""
        prompts = ".jp-CodeCell .jp-InputPrompt"
        before = self.page.locator(prompts).last.text_content()
        self.menu("Run", "Run All Cells")
        self.page.wait_for_function(  # the cell may be drawn anew meanwhile
            f"""([prompts, before, stopped]) => {{
                const prompt = [...document.querySelectorAll(prompts)].at(-1);
                return {IDLE} && ({RUN_AGAIN} || document.querySelector(stopped));
            }}""",
            arg=[prompts, before, STOPPED],
            polling=ASK_MILLISECONDS,
        )

    def prompts(self) -> list[str]:
        """What stands before each code cell that is not folded: ``[3]:`` when it has run."""
        return self.page.locator(f"{OPEN_CODE} .jp-InputPrompt").all_text_contents()

    def errors(self) -> list[str]:
        """Outputs that are errors, go to stderr or are widgets that could not be shown."""
        return self.page.locator(", ".join(ERRORS)).all_text_contents()

    def save(self) -> None:
        """Ctrl-S, until the tab says that nothing is unsaved."""
        self.page.keyboard.press("ControlOrMeta+s")
        self.page.wait_for_selector(f"{FILE_CHANGED}, {SAVED}", state="attached")
        for dialog in self.page.locator(FILE_CHANGED).all():
            self._overwrite(dialog)
        self.page.wait_for_selector(SAVED, state="attached")

    def saved_source(self, name: str) -> str:
        """Source of a cell in the file."""
        cells = json.loads(self.path.read_text(encoding="utf-8"))["cells"]
        return next("".join(cell["source"]) for cell in cells if cell["id"] == name)

    def validate(self, picture: str) -> str:
        """Save, press Validate, keep a picture, dismiss the dialog; its text."""
        self.save()
        self.page.click('.jp-NotebookPanel-toolbar >> text="Validate"')
        message = self.page.locator(".jp-Dialog .jp-Dialog-body")
        message.wait_for()
        text = message.inner_text()
        self.screenshot(picture)
        self.page.click(".jp-Dialog button.jp-mod-accept")
        message.wait_for(state="detached")
        return text

    def use_theme(self, name: str) -> None:
        """Choose a theme, ``Light`` or ``Dark``, from the settings."""
        is_light = "true" if name == "Light" else "false"
        self.menu("Settings", "Theme", f"JupyterLab {name}")
        self.page.wait_for_selector(f'body[data-jp-theme-light="{is_light}"]', state="attached")

    def faint_text(self) -> list[str]:
        """Text in outputs that is hard to read on what lies behind it, with its contrast."""
        return self.page.evaluate(FAINT_TEXT)

    def cut_off(self) -> list[str]:
        """Parts of outputs that do not fit into the width of the window."""
        return self.page.evaluate(CUT_OFF)

    def height(self) -> float:
        """Pixels that one scrolls through from the first cell to the end of the last one."""
        return self.page.evaluate(HEIGHT)

    def screenshot(self, name: str) -> None:
        """Keep what the window shows."""
        path = self.pictures / f"{name}.png"
        self.page.screenshot(path=path, caret="initial")  # to hide it lays the page out twice

    # --- One cell -------------------------------------------------------------------------------

    def find(self, name: str) -> Cell:
        """The released cell of that id, or else the first code cell that holds that text."""
        by_id = [cell for cell in self.released if cell.id == name]
        by_text = [cell for cell in self.released if cell.kind == "code" and name in cell.source]
        assert by_id or by_text, f"no cell of {self.path.name} is called {name!r} or holds it"
        return (by_id or by_text)[0]

    def cell(self, name: str) -> Locator:
        """That cell in the page."""
        return self.page.locator(f'.jp-Cell[data-windowed-list-index="{self.find(name).index}"]')

    def show(self, name: str) -> None:
        """Bring the beginning of a cell to the upper end of the window."""
        self.cell(name).evaluate("cell => cell.scrollIntoView({block: 'start'})")

    def source(self, name: str) -> str:
        """What stands in the editor of a cell."""
        return "\n".join(self.cell(name).locator(".cm-line").all_text_contents())

    def outputs(self, name: str) -> str:
        """The outputs of a cell as they can be read in the page."""
        areas = self.cell(name).locator(".jp-OutputArea-output")
        for _ in range(MAX_LOOKS):  # boxes are there before their words, and may be pushed away
            self.page.wait_for_function(RENDERED, arg=self.cell(name).element_handle())
            texts = areas.all_inner_texts()
            if not texts or any(map(str.strip, texts)) or areas.locator("img").count():
                break
            self.page.wait_for_timeout(LOOK_MILLISECONDS)
        return "\n".join(texts)

    def run(self, name: str) -> str:
        """Select a cell, run it with Ctrl-Enter and read its outputs."""
        prompt = self.cell(name).locator(".jp-InputPrompt")
        before = prompt.text_content()
        prompt.click()
        self.page.keyboard.press("Control+Enter")
        self.page.wait_for_function(
            f"([prompt, before]) => {RUN_AGAIN} && {IDLE}",
            arg=[prompt.element_handle(), before],
            polling=ASK_MILLISECONDS,
        )
        return self.outputs(name)

    def has_one_stub(self, name: str) -> bool:
        """Whether all that a cell leaves to write is the body of one function."""
        source = self.find(name).source
        return source.count(STUB.strip()) == source.count(f"\n{STUB}\n") == 1

    def type_answer(self, name: str, body: str) -> None:
        """Put the cell back to its stub and type the body over it, key by key.

        The editor indents new lines and closes brackets and quotes by itself, as for a student.
        """
        given = self.find(name).source.partition(STUB)[0]
        self.write(name, given + STUB.strip().rjust(len(STUB)))
        self.page.keyboard.press("Shift+Home")
        for number, line in enumerate(body.splitlines()):
            if number:
                self.page.keyboard.press("Enter")
            self.page.keyboard.type(line)
        wanted = given + "\n".join("    " + line for line in body.splitlines())
        assert self.source(name) == wanted

    def type_text(self, name: str, text: str) -> None:
        """Open a text cell by a double click, type into it and run it."""
        cell = self.cell(name)
        if cell.locator(".jp-MarkdownOutput").is_visible():
            cell.locator(".jp-MarkdownOutput").dblclick()
        self.write(name, "")
        self.page.keyboard.type(text)
        self.page.keyboard.press("Control+Enter")
        cell.locator(".jp-MarkdownOutput", has_text=text).wait_for()

    def write(self, name: str, text: str) -> None:
        """Everything in the editor of a cell by one paste; the cursor stands at its end."""
        self.cell(name).locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+a")
        if text:
            self.page.keyboard.insert_text(text)
        else:
            self.page.keyboard.press("Delete")
        assert self.source(name) == text
