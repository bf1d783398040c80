"""The drawing of the rooms is made from imports, and shows each arrow once."""

import pytest

from autograder.authoring import import_diagram
from autograder.authoring.dependencies import Dependencies
from autograder.authoring.errors import BuildError


@pytest.fixture
def course(tmp_path):
    files = {
        "course_utils/configs/sizes.py": "",
        "course_utils/formulas/flops.py": "from course_utils.configs import sizes",
        "course_utils/show/figure.py": "from course_utils.configs import sizes\n"
        "import course_utils.formulas.flops",
        "autograder/checking/check.py": "from course_utils.formulas import flops",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / "__init__.py").touch()
    return tmp_path


def test_who_imports_whom(course):
    assert import_diagram.imports_between_rooms(course, Dependencies(course)) == {
        ("course_utils.formulas", "course_utils.configs"),
        ("course_utils.show", "course_utils.configs"),
        ("course_utils.show", "course_utils.formulas"),
        ("autograder.checking", "course_utils.formulas"),
    }


def test_an_arrow_that_follows_from_others_is_left_out(course):
    lines = [
        line.strip() for line in import_diagram.diagram(course, Dependencies(course)).splitlines()
    ]
    assert [line for line in lines if "-->" in line] == [
        "course_utils.formulas --> course_utils.configs",
        "course_utils.show --> course_utils.formulas",
        "autograder.checking --> course_utils",
    ]


def test_the_drawing_takes_the_place_of_the_old_one(course):
    page = f"# Map\n{import_diagram.BEGIN}\nold\n{import_diagram.END}\nMore.\n"
    drawn = import_diagram.with_diagram(page, course, Dependencies(course))
    assert "old" not in drawn
    assert import_diagram.with_diagram(drawn, course, Dependencies(course)) == drawn
    with pytest.raises(BuildError, match="needs the marks"):
        import_diagram.with_diagram("# Map\n", course, Dependencies(course))
