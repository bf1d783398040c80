"""A notebook depends on the modules that it uses, and on no others."""

import subprocess
import sys

import pytest

from autograder.authoring import master
from autograder.authoring.dependencies import Dependencies
from tests.notebooks.filling import ROOT

FILES = {
    "course_utils/__init__.py": "",
    "course_utils/show/__init__.py": "from course_utils.show.bars import bars\n"
    "from course_utils.show.lines import lines\n"
    "from course_utils.show.map import map\n",
    "course_utils/show/bars.py": "from course_utils.colours import BLUE\ndef bars(): return BLUE\n",
    "course_utils/show/lines.py": "def lines(): return 1\n",
    "course_utils/show/map/__init__.py": "from course_utils.show.map.drawing import map\n",
    "course_utils/show/map/drawing.py": "def map(): return 1\n",
    "course_utils/show/map/click.js": "export default {}\n",
    "course_utils/show/map/click.css": "",
    "course_utils/colours.py": "BLUE = 1\n",
    "course_utils/records/__init__.py": "def measured(): return 1\n",
    "course_utils/records/gpu.json": "[]",
    "course_utils/records/rates/__init__.py": "def rates(): return 1\n",
    "course_utils/records/rates/h100.csv": "",
    "course_utils/process.py": "WORKER = 'course_utils.worker'\n",
    "course_utils/worker.py": "import torch\n",
}


@pytest.fixture
def course(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def used(course, code, *modules):
    found = Dependencies(course).of(code, modules)
    return {path.relative_to(course / "course_utils").as_posix() for path in found}


MAP = {"show/map/drawing.py", "show/map/click.js", "show/map/click.css"}
USES = {
    "from course_utils.show import bars": {"show/bars.py", "colours.py"},
    "from course_utils import show\nshow.lines()": {"show/lines.py"},
    "from course_utils.show import lines": {"show/lines.py"},
    "from course_utils.show import map\nmap()": MAP,
    "import course_utils.show.map.drawing": MAP,
    "import course_utils.process": {"process.py", "worker.py"},
    "from course_utils.records import measured": {"records/__init__.py", "records/gpu.json"},
    "from course_utils.records.rates import rates": {
        "records/rates/__init__.py",
        "records/rates/h100.csv",
    },
    "import torch": set(),
}


@pytest.mark.parametrize("code", USES)
def test_a_front_is_followed_to_what_it_stands_for(course, code):
    assert used(course, code) == USES[code]


def test_modules_that_are_loaded_by_name_count(course):
    assert used(course, "", "course_utils.show.bars") == {"show/bars.py", "colours.py"}


def test_the_fingerprint_follows_what_is_used(course):
    code = "from course_utils.show import bars"
    before = Dependencies(course).fingerprint(code)
    (course / "course_utils" / "show" / "lines.py").write_text("def lines(): return 2\n")
    assert Dependencies(course).fingerprint(code) == before
    (course / "course_utils" / "colours.py").write_text("BLUE = 2\n")
    assert Dependencies(course).fingerprint(code) != before


@pytest.mark.parametrize("name", ["click.js", "click.css"])
def test_the_fingerprint_follows_the_script_and_the_style_of_a_widget(course, name):
    code = "from course_utils.show import map"
    before = Dependencies(course).fingerprint(code)
    (course / "course_utils" / "show" / "map" / name).write_text("/* new */")
    assert Dependencies(course).fingerprint(code) != before


WATCH = """
import ast, importlib, sys
code = ast.parse(sys.stdin.read())
imports = [node for node in code.body if isinstance(node, ast.Import | ast.ImportFrom)]
exec(compile(ast.Module(imports, []), "imports", "exec"), {})
for name in sys.argv[1:]:
    importlib.import_module(name)
files = set()
def note(frame, event, arg):
    if event == "call":
        files.add(frame.f_code.co_filename)
sys.setprofile(note)
exec(compile(code, "notebook", "exec"), {"__name__": "__main__"})
sys.setprofile(None)
print("\\n".join(sorted(files)))
"""


def test_what_a_notebook_runs_is_among_what_it_depends_on():
    """The imports say it; an interpreter that notes every call agrees."""
    read = master.read(ROOT / "solutions" / "00_start_here" / "00_start_here.py")
    code = "\n".join(cell.source for cell in read.notebook.cells if cell.cell_type == "code")
    checks = sorted({item.check_module for item in read.unit.exercises if not item.manual})
    depends_on = {str(path) for path in Dependencies(ROOT).of(code, tuple(checks))}
    done = subprocess.run(
        [sys.executable, "-c", WATCH, *checks],
        input=code,
        capture_output=True,
        text=True,
        check=True,
    )
    packages = (str(ROOT / "autograder"), str(ROOT / "course_utils"))
    ran = {line for line in done.stdout.splitlines() if line.startswith(packages)}
    assert len(ran) > 10
    assert ran <= depends_on
