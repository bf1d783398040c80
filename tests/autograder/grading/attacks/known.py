"""Every attack and accident that is known to mislead nbgrader, and the tests that cover it.

nbgrader's own engine was tried with 78 submissions, and with 8 archives and ids of students. Here
they are 88 lines: one for each input, even if several were tried together, and one for the search
of memory (23), which is possible only where processes are forked. With `ALL_ATTACKS=1` all of the
tests run; without it, every fourth hostile cell of the bank.
"""

from dataclasses import dataclass

HERE = "tests/autograder/grading/attacks"
GRADING = "tests/autograder/grading"


@dataclass(frozen=True)
class Known:
    """One line: what is done, and the ids of the tests that show that our grader withstands it."""

    number: int
    what: str
    tests: tuple[str, ...]


def attack(*names: str) -> list[str]:
    """Hostile cells of the bank."""
    return [f"{HERE}/test_attacks.py::test_attack[{name}]" for name in names]


def hostile(name: str) -> list[str]:
    """A hostile submission in a class, whose code would read or harm without a sandbox."""
    tests = ("hostile_gain_nothing", "hostile_read_nothing")
    told = [f"{HERE}/test_class.py::test_the_{test}[{name}]" for test in tests]
    return [*told, f"{HERE}/test_class.py::test_without_a_sandbox_it_would_have_worked[{name}]"]


def harmful(name: str) -> list[str]:
    """A hostile submission in a class, and the honest ones before and after it."""
    return [*hostile(name), *honest("a_honest", "z_honest")]


def marked(*names: str) -> list[str]:
    """A submission in a class whose cells are marked to its advantage."""
    return [f"{HERE}/test_class.py::test_the_hostile_gain_nothing[{name}]" for name in names]


def honest(*students: str) -> list[str]:
    """A student in a class who keeps every point."""
    return [f"{HERE}/test_class.py::test_the_honest_keep_every_point[{name}]" for name in students]


def whole(*names: str) -> list[str]:
    """A file that is graded whole."""
    test = "test_a_file_that_editors_and_accidents_make_is_graded_whole"
    return [f"{HERE}/test_honest.py::{test}[{name}]" for name in names]


def alone(*names: str) -> list[str]:
    """Code that costs its own exercise, while the others keep their points."""
    test = "test_an_answer_that_ends_its_process_costs_itself_alone"
    return [*attack(*names), *(f"{HERE}/test_honest.py::{test}[{name}]" for name in names)]


def warns(*names: str) -> list[str]:
    """A right answer that warns."""
    test = "test_a_right_answer_that_warns_keeps_its_points"
    return [f"{HERE}/test_honest.py::{test}[{name}]" for name in names]


def merge(*tests: str) -> list[str]:
    """How the bytes of a file are merged."""
    return [f"{GRADING}/test_intake_merge.py::test_{test}" for test in tests]


def refused(*names: str) -> list[str]:
    """A file that is left to a person."""
    return merge(*(f"what_is_no_notebook_is_left_to_a_person[{name}]" for name in names))


def find(*tests: str) -> list[str]:
    """How the files in a folder are found."""
    return [f"{GRADING}/test_intake_find.py::test_{test}" for test in tests]


def lms(*tests: str) -> list[str]:
    """How a download is collected."""
    return [f"{GRADING}/test_intake_lms.py::test_{test}" for test in tests]


def led_out(*names: str) -> list[str]:
    """Names in archives that lead elsewhere."""
    return lms(*(f"names_that_lead_out_lead_nowhere[{name}]" for name in names))


def run(*tests: str) -> list[str]:
    """What a whole run does."""
    return [f"{GRADING}/test_run.py::test_{test}" for test in tests]


PERSON = f"{HERE}/test_class.py::test_what_a_person_reads_waits_for_a_person"
AS_TEST, AS_OPEN = (f"a person's exercise marked as {what} test" for what in ("a", "an open"))
HOOK = "given to the hook of the display by the answer"

MARKS = [
    (
        "tests tagged so that they do not run",
        [*merge("tags_have_no_effect[skip-execution]"), *marked("tests tagged to be skipped")],
    ),
    ("errors of a cell swallowed", attack("errors swallowed")),
    (
        "errors swallowed, and the result of the cell replaced",
        attack(
            "result of a cell replaced",
            "errors swallowed and the result of a cell that waits replaced",
        ),
    ),
    (
        "assertions stripped from the code of tests",
        attack("calls and assertions stripped from later cells"),
    ),
    ("source of tests blanked before it runs", attack("later cells blanked")),
    ("comparisons of torch always true", attack("comparisons of torch replaced")),
    ("object equal to everything", attack("equal to everything")),
    ("object that passes every order and difference", attack("passes every comparison")),
    ("tensor that answers the functions of torch", attack("tensor that answers for itself")),
    ("wanted values read from the caller's code", attack("constants of the caller read")),
    (
        "a library replaced in the names of the callers",
        attack("names of the caller replaced", "names of all callers replaced"),
    ),
    (
        "kernel that replies well whatever happened",
        attack("kernel replies by itself", "request handled by oneself"),
    ),
    (
        "points displayed before the test fails",
        attack("points displayed", f"a word {HOOK}", f"points {HOOK}"),
    ),
    ("NaN displayed as points", attack("no number displayed", f"no number {HOOK}")),
    ("1e9 displayed as points", attack("a fortune displayed", f"a fortune {HOOK}")),
    (
        "exercise for a person marked as a test",
        [
            *merge("marks_of_grading_have_no_effect[{'solution': False}]"),
            *marked(AS_TEST),
            f"{PERSON}[{AS_TEST}]",
        ],
    ),
    (
        "the same, and unlocked",
        [
            *merge("marks_of_grading_have_no_effect[{'solution': False, 'locked': False}]"),
            *marked(AS_OPEN),
            f"{PERSON}[{AS_OPEN}]",
        ],
    ),
    (
        "instructor's notebook read and run",
        [*attack("instructor's notebook read"), *hostile("solutions read and run")],
    ),
    (
        "reference imported",
        attack(
            "formula imported",
            "formula imported under a hidden name",
            "reference of the exercise used by its code",
        ),
    ),
    (
        "notebook that is a link to another student's",
        [
            *find("link_to_another_students_notebook_is_not_followed"),
            f"{HERE}/test_class.py::test_a_link_to_the_work_of_another_earns_nothing_and_is_told",
            f"{HERE}/test_class.py::test_nothing_behind_a_link_is_copied[m_linked]",
        ],
    ),
    ("outputs cleared after every cell", attack("outputs of every cell cleared")),
    ("test jumped over with a trace", attack("jumped with a trace")),
    ("right answers searched in memory", attack("code objects searched in memory")),
    ("points of a test raised", merge("marks_of_grading_have_no_effect[{'points': 1000}]")),
    ("test marked as an answer", merge("test_marked_as_solution_is_no_solution")),
    ("test turned into text", merge("test_turned_into_markdown_is_a_test")),
    ("tests deleted", merge("deleted_cells_come_back")),
    (
        "another kernel named",
        [*merge("marks_of_the_file_do_not_count[kernel]"), *whole("another kernel")],
    ),
]

SECRETS = [
    (
        "source of a test shown by the function that it calls",
        attack("sources of the checks in the history of the notebook"),
    ),
    ("gradebook read", hostile("gradebook read")),
    (
        "another student's work read",
        [*attack("files of the machine"), *hostile("work of another read")],
    ),
    ("passwords of the machine read", attack("files of the machine")),
    (
        "link to the machine's passwords beside the notebook",
        [
            *find("links_beside_the_notebook_are_told"),
            f"{HERE}/test_class.py::test_nothing_behind_a_link_is_copied[d_link]",
            *honest("d_link"),
        ],
    ),
    ("a server on this machine called", attack("network")),
    ("a page fetched", attack("network", "pages of a server")),
]

AVAILABILITY = [
    (
        "answer copied by accident",
        [
            *merge("first_written_of_copied_cells_counts"),
            *whole("answer copied"),
            *honest("e_copied", "z_honest"),
        ],
    ),
    ("test copied by accident", [*merge("copied_test_counts_once"), *whole("test copied")]),
    (
        "marks of a version to come",
        [*merge("schema_version_does_not_count[99]"), *whole("version 99 of the marks")],
    ),
    (
        "marks of an old version",
        [*merge("schema_version_does_not_count[1]"), *whole("version 1 of the marks")],
    ),
    (
        "parent killed",
        [
            *attack("kills its parent", "kills everyone"),
            f"{GRADING}/end_to_end/test_killed.py::test_killed_at_random_moments_and_resumed",
        ],
    ),
    ("parent stopped", attack("stops its parent")),
    (
        "gradebook locked by a process that stays",
        [*harmful("gradebook locked"), *run("a_gradebook_that_another_process_holds")],
    ),
    ("gradebook deleted", harmful("gradebook deleted")),
    ("points written into the gradebook", harmful("points written")),
    (
        "points written after the run by a process that stays",
        harmful("points written later by a process that stays"),
    ),
    (
        "work of others deleted",
        [*attack("files of others deleted"), *harmful("work of others deleted")],
    ),
    ("file that every later shell would run", attack("files for the next one")),
    ("loop without end", [*attack("endless loop"), *alone("endless answer")]),
    ("sleep that no interrupt ends", alone("deaf sleep", "endless and deaf")),
    ("signals ignored", alone("signals ignored")),
    ("memory of the machine filled", alone("memory")),
    ("processes without end, in sessions of their own", attack("fork bomb", "children that stay")),
    ("60 lines of a megabyte", alone("lines of megabytes")),
    ("300,000 lines", alone("many lines")),
    ("100 MB of HTML", alone("pages of 100 megabytes")),
    ("one function leaves Python at once", alone("leaves in the answer")),
    (
        "one function crashes",
        alone("segmentation fault", "segmentation fault when called"),
    ),
    ("one function calls exit", alone("exit when called")),
    ("one function raises SystemExit", alone("leaves when called")),
    ("right answer that warns", warns("by warnings", "by print", "under Python")),
    (
        "right answer about which torch warns",
        [*warns("by torch"), f"{HERE}/test_honest.py::test_torch_does_warn"],
    ),
]

MALFORMED = [
    ("damaged JSON", refused("text", "cut off")),
    ("empty file", refused("empty")),
    (
        "format 99",
        [*merge("marks_of_the_file_do_not_count[unknown format]"), *whole("format 99")],
    ),
    ("200,000 brackets", refused("deep lists")),
    ("folder in place of the notebook", find("folder_with_the_name_of_a_notebook")),
    ("notebook of another name", find("other_names_are_told[homework.ipynb]")),
    ("UTF-16", [*merge("every_unicode_is_read[utf-16]"), *whole("UTF-16")]),
    (
        "mark of order before UTF-8",
        [*merge("every_unicode_is_read[utf-8-sig]"), *whole("mark of order")],
    ),
    ("Latin-1", [*merge("latin_1_is_read_and_told"), *whole("Latin-1")]),
    ("format 3", [*merge("old_formats_are_converted[3]"), *whole("format 3")]),
    ("notebook that never ran", whole("never run")),
    (
        "state of widgets",
        [*merge("marks_of_the_file_do_not_count[widgets]"), *whole("state of widgets")],
    ),
    (
        "broken state of widgets",
        [
            *merge("marks_of_the_file_do_not_count[broken widgets]"),
            *whole("broken state of widgets"),
        ],
    ),
    (
        "cells without outputs",
        [*merge("cells_need_no_outputs_and_no_metadata_of_their_own"), *whole("no outputs")],
    ),
    (
        "outputs of 100 MB",
        [
            *merge("stored_outputs_are_dropped"),
            *whole("outputs of 100 megabytes"),
            *find("too_big_a_file_is_not_read"),
        ],
    ),
    ("marks that are a list", merge("grading_marks_of_wrong_types_do_not_count[[]]")),
    ("pipe in the folder", [*find("pipe_and_socket_do_not_hang"), *honest("b_pipe")]),
    ("time that is none", honest("c_time")),
    (
        "blank notebook",
        [
            *merge("blank_release_stays_blank"),
            f"{HERE}/test_class.py::test_a_blank_notebook_earns_nothing_and_needs_nobody",
        ],
    ),
    (
        "id of a student that is a pattern",
        [
            *honest("a[b]c"),
            f"{GRADING}/test_plugin.py::test_a_pattern_then_others_then_nobody_then_again",
        ],
    ),
    (
        "zip whose names lead upwards",
        led_out("above-zipped", "above its folder-zipped", "beside its folder-zipped"),
    ),
    (
        "tar whose names lead upwards",
        led_out("above-tarred", "above its folder-tarred", "beside its folder-tarred"),
    ),
    (
        "archive whose names begin at the root",
        led_out("from the root-zipped", "from the root-tarred", "of a drive-zipped"),
    ),
    (
        "archive that is none",
        lms(
            "download_that_is_no_archive_is_one_sentence[no archive]",
            "problems_of_some_stop_nobody",
        ),
    ),
    (
        "links in a tar",
        lms(
            "links_and_devices_in_a_tar_are_not_read[link]",
            "links_and_devices_in_a_tar_are_not_read[hard link]",
        ),
    ),
    ("way through a link in a tar", lms("way_through_a_link_in_a_tar_is_not_gone")),
    (
        "`..` taken for the id of a student",
        lms("student_whose_id_is_no_plain_name_is_left_to_a_person[..]"),
    ),
]

KNOWN = tuple(
    Known(number, what, tuple(tests))
    for number, (what, tests) in enumerate([*MARKS, *SECRETS, *AVAILABILITY, *MALFORMED], start=1)
)
