"""A platform's download becomes submissions; a problem with one of them stops no other."""

import io
import itertools
import os
import random
import stat
import struct
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import MagicMock

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell

from autograder.commands import CommandError
from autograder.grading.intake import archives, find, folder, lms
from autograder.grading.intake.archives import BadArchive
from autograder.grading.intake.lms import Replacing, main, unpack
from autograder.grading.intake.roster import by_their_names, roster
from tests.autograder.grading.handed_in import FRESH, OTHER, UNIT, text

NAME = f"{UNIT}.ipynb"
NOTEBOOK = text().encode()
LATER = NOTEBOOK.replace(b"def ", b"def  ")
NOON = (2026, 1, 2, 12, 0, 0)
EVENING = (2026, 1, 2, 18, 30, 0)
NIGHT = (2026, 1, 2, 23, 0, 0)
ODD_FIELD = struct.pack("<HH3s", 0xCAFE, 3, b"odd")
CANVAS = "{}_123_456_" + NAME
MOODLE = "{}_77_assignsubmission_file_/" + NAME


@pytest.fixture
def submitted(tmp_path):
    return tmp_path / "submitted"


def zipped(files, when=NOON, compression=zipfile.ZIP_DEFLATED, utc=None):
    """A zip of files by their names; a name may come with the mode of what it is.

    Their time is one for all, or a list; `utc` is what stands beside it, a number of seconds.
    """
    made = io.BytesIO()
    times = itertools.cycle(when if isinstance(when, list) else [when])
    with zipfile.ZipFile(made, "w", compression) as archive:
        for (name, content), time in zip(files, times, strict=False):
            info = zipfile.ZipInfo(name if isinstance(name, str) else name[0], time)
            if utc is not None:
                info.extra = ODD_FIELD + struct.pack("<HHBi", 0x5455, 5, 1, utc)
            info.compress_type = compression
            if not isinstance(name, str):
                info.external_attr = name[1] << 16
            archive.writestr(info, content)
    return made.getvalue()


def tarred(files, mode="w:gz", **marks):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for mark, value in marks.items():
                setattr(info, mark, value)
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def by_name(who):
    return None if who.isdecimal() else who


def collect(submitted, files, students=by_name, when=NOON, replacing=None):
    archive = submitted.parent / "download.zip"
    archive.write_bytes(files if isinstance(files, bytes) else zipped(files.items(), when))
    return unpack(archive, submitted, UNIT, students, replacing)


def lies_at(submitted, student, raw=NOTEBOOK, stamp="2026-01-02 12:00:00.000000 UTC"):
    folder = submitted / student / UNIT
    assert (folder / NAME).read_bytes() == raw
    assert (folder / "timestamp.txt").read_text() == stamp
    return sorted(each.name for each in folder.iterdir())


def nothing_outside(submitted, *students):
    """Only these students have a folder, and nothing was written anywhere else."""
    made = {path.relative_to(submitted.parent).parts[:2] for path in submitted.parent.rglob("*")}
    folders = {("submitted",)} if students else set()
    assert made == {("download.zip",), *folders, *(("submitted", name) for name in students)}


# The two platforms


@pytest.mark.parametrize(
    ("name", "student"),
    [
        (f"lovelaceada_123_456_{NAME}", "lovelaceada"),
        (f"lovelaceada_123_456_{UNIT}-1.ipynb", "lovelaceada"),
        (f"de_la_cruz_1_2_{NAME}", "de_la_cruz"),
        (f"Ada Lovelace_77_assignsubmission_file_/{NAME}", "Ada Lovelace"),
        (f"Ada Lovelace_77_assignsubmission_file/{NAME}", "Ada Lovelace"),
        (f"Ada Lovelace_77_assignsubmission_file_{NAME}", "Ada Lovelace"),
        (f"Zoë O'Neil-Ng_7_assignsubmission_file_/a/b/{NAME}", "Zoë O'Neil-Ng"),
    ],
)
def test_whose_file_it_is_stands_in_its_name(submitted, name, student):
    collected = collect(submitted, {name: NOTEBOOK})
    assert (collected.students, collected.refused, collected.remarks) == ((student,), (), ())
    assert lies_at(submitted, student) == [NAME, "timestamp.txt"]
    assert find(submitted / student / UNIT, UNIT).raw == NOTEBOOK


def test_late_is_told(submitted):
    name = f"lovelaceada_LATE_123_456_{NAME}"
    collected = collect(submitted, {name: NOTEBOOK, CANVAS.format("bob"): NOTEBOOK})
    assert collected.remarks == ("lovelaceada: LATE, says the platform.",)
    assert collected.students == ("bob", "lovelaceada")


@pytest.mark.parametrize("name", ["victim_1_2_x.ipynb", "victim_1_assignsubmission_file_x.ipynb"])
@pytest.mark.parametrize("form", ["ada_123_456_{}", "ada_77_assignsubmission_file_/{}"])
def test_name_of_a_students_own_file_says_nothing(submitted, name, form):
    assert collect(submitted, {form.format(name): NOTEBOOK}).students == ("ada",)


def test_lasting_numbers_come_before_names_and_moodles_do_not_last(submitted):
    students = {"123": "by number", "ada": "by name", "77": "somebody else"}.get
    assert collect(submitted, {CANVAS.format("ada"): NOTEBOOK}, students).students == ("by number",)
    assert collect(submitted, {MOODLE.format("ada"): NOTEBOOK}, students).students == ("by name",)


def test_of_several_files_the_notebook_of_the_unit_is_taken(submitted):
    form = "Ada_7_assignsubmission_file_/{}"
    files = {"notes.txt": b"x", "z.ipynb": text(OTHER).encode(), "b.ipynb": NOTEBOOK}
    collected = collect(submitted, {form.format(name): raw for name, raw in files.items()})
    lies_at(submitted, "Ada")
    assert collected.remarks == (
        f"Ada: The notebook is called 'b.ipynb' instead of {NAME}.",
        "Ada: Of 2 notebooks 'b.ipynb' was taken, and not 'z.ipynb'.",
    )


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("work.zip", zipped),
        ("work.tar", lambda files: tarred(files, "w")),
        ("work.tar.gz", tarred),
        ("work.tgz", tarred),
        ("work.tar.bz2", lambda files: tarred(files, "w:bz2")),
        ("WORK.TAR.XZ", lambda files: tarred(files, "w:xz")),
    ],
)
def test_students_own_archives_are_opened(submitted, name, pack):
    files = [("unit/.ipynb_checkpoints/" + NAME, b"old"), (f"unit/{NAME}", NOTEBOOK)]
    collected = collect(submitted, {f"Ada_7_assignsubmission_file_/{name}": pack(files)})
    assert collected.students == ("Ada",)
    assert collected.remarks == ()
    lies_at(submitted, "Ada")


def test_time_inside_of_a_students_archive_does_not_count(submitted):
    early = zipped([(NAME, NOTEBOOK)], when=(1999, 1, 1, 0, 0, 0))
    collect(submitted, {"Ada_7_assignsubmission_file_/work.zip": early})
    lies_at(submitted, "Ada")


def test_time_that_is_none_is_told(submitted):
    raw = zipped([(CANVAS.format("ada"), NOTEBOOK)], when=(2026, 0, 0, 12, 0, 0))
    collected = collect(submitted, raw)
    assert collected.remarks == (
        "ada: The time in the download is none, so when it came is unknown.",
    )
    assert not (submitted / "ada" / UNIT / "timestamp.txt").exists()
    assert collect(submitted, raw).unchanged == ("ada",)


def test_time_in_utc_comes_before_the_local_one(submitted):
    when = datetime(2026, 1, 2, 9, 30, 1, tzinfo=UTC)
    raw = zipped([(CANVAS.format("ada"), NOTEBOOK)], NOON, utc=int(when.timestamp()))
    assert collect(submitted, raw).about_times == ""
    lies_at(submitted, "ada", NOTEBOOK, "2026-01-02 09:30:01.000000 UTC")


def test_zone_that_is_unknown_is_told(submitted):
    collected = collect(submitted, {CANVAS.format("ada"): NOTEBOOK})
    assert collected.about_times == "The times of this zip name no time zone: they count as UTC."


@pytest.mark.parametrize("extra", [b"UT", struct.pack("<HH", 0x5455, 0), ODD_FIELD * 5000])
def test_extra_fields_that_say_nothing_are_passed_over(submitted, extra):
    raw = zipped([(CANVAS.format("ada"), NOTEBOOK)], utc=0)
    field = ODD_FIELD + struct.pack("<HHBi", 0x5455, 5, 1, 0)
    assert archives._unix_time(field) == 0
    assert archives._unix_time(extra) is None
    assert archives._unix_time(struct.pack("<HHBi", 0x5455, 5, 0, 7)) is None
    assert collect(submitted, raw).students == ("ada",)
    lies_at(submitted, "ada", NOTEBOOK, "1970-01-01 00:00:00.000000 UTC")


@pytest.mark.parametrize("utc", [None, 1_767_355_200])
@pytest.mark.parametrize("form", [CANVAS, MOODLE])
def test_one_time_for_all_is_that_of_the_download(submitted, form, utc):
    files = {form.format(name): NOTEBOOK for name in ("ada", "bob")}
    collected = collect(submitted, zipped(files.items(), utc=utc))
    assert collected.students == ("ada", "bob")
    assert "When each was handed in is unknown" in collected.about_times
    for student in collected.students:
        folder = submitted / student / UNIT
        assert sorted(each.name for each in folder.iterdir()) == [NAME, "downloaded.txt"]
    assert collect(submitted, files).unchanged == ("ada", "bob")
    later = {name: LATER for name in files}
    assert collect(submitted, later, when=EVENING).students == ("ada", "bob")
    assert len(collect(submitted, files, when=NIGHT).students) == 2
    assert "is not newer" in collect(submitted, later, when=EVENING).refused[0]
    collect(submitted, later, when=[(2026, 1, 3, 1, 0, 0), (2026, 1, 3, 9, 0, 0)])
    stamp = "2026-01-03 01:00:00.000000 UTC"
    assert lies_at(submitted, "ada", LATER, stamp) == [NAME, "before", "timestamp.txt"]


def test_canvas_takes_minutes_to_make_a_download(submitted):
    files = {CANVAS.format(name): NOTEBOOK for name in ("ada", "bob")}
    times = [NOON, (2026, 1, 2, 12, 4, 0)]
    assert "unknown" in collect(submitted, files, when=times).about_times
    files = {MOODLE.format(name): NOTEBOOK for name in ("ada", "bob")}
    assert "unknown" not in collect(submitted, files, when=times).about_times


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ([f"anon_Ab1xZ_4567_{NAME}", f"LATE_anon_Ab1xZ_4568_{NAME}"], "'anon_Ab1xZ'"),
        ([f"Participant_{n}_assignsubmission_file_/{NAME}" for n in (1, 1)], "'Participant 1'"),
    ],
)
def test_anonymous_files_are_listed_and_are_nobodys(submitted, names, shown):
    files = dict.fromkeys(names, NOTEBOOK) | {MOODLE.format("bob"): NOTEBOOK}
    students = {"bob": "bob", "anon": "x", "Participant": "x"}.get
    collected = collect(submitted, files, students)
    assert collected.students == ("bob",)
    assert collected.refused == (
        f"Not collected, since the platform hides whose they are: {shown}. Let it show names, "
        "and download again.",
    )
    nothing_outside(submitted, "bob")


def test_moodles_number_is_a_students_where_the_list_has_it(submitted):
    name = f"Participant_12_assignsubmission_file_/{NAME}"
    assert collect(submitted, {name: NOTEBOOK}, {"Participant 12": "al1"}.get).students == ("al1",)
    assert by_their_names("Participant 12") is None
    assert by_their_names("Participant Smith") == "Participant Smith"


# Nobody's and everybody's


def test_problems_of_some_stop_nobody(submitted):
    files = {
        "README.txt": b"x",
        "__MACOSX/._x": b"x",
        CANVAS.format("bob"): NOTEBOOK,
        CANVAS.format("empty").replace(".ipynb", ".txt"): b"x",
        CANVAS.format("stranger"): NOTEBOOK,
        CANVAS.format("zoe"): NOTEBOOK,
        "bad_1_2_work.zip": b"PK no zip",
    }
    collected = collect(submitted, files, lambda who: None if who == "stranger" else by_name(who))
    assert collected.students == ("bob", "zoe")
    assert [line.split(".")[0] for line in collected.refused] == [
        "Of no student, by their names: 'README",
        "'stranger': not collected, no student is known by this name",
        "bad: not collected",
        "empty: not collected",
    ]
    assert "'work.zip' was not opened" in collected.refused[2]
    nothing_outside(submitted, "bob", "zoe")


def test_two_people_are_never_taken_for_one(submitted):
    files = {f"ada_{number}_5_{NAME}": NOTEBOOK for number in (1, 2)}
    collected = collect(submitted, files | {CANVAS.format("bob"): NOTEBOOK})
    assert collected.students == ("bob",)
    assert len(collected.refused) == 2
    assert "2 people of the download are taken for ada" in collected.refused[0]
    nothing_outside(submitted, "bob")


@pytest.mark.parametrize(
    "student",
    [
        "..",
        ".",
        ".git",
        "a/b",
        "a\\b",
        "/etc",
        "a[b]c",
        "a*",
        "?",
        "a\nb",
        "a\0",
        " a",
        "x" * 101,
        "",
    ],
)
def test_student_whose_id_is_no_plain_name_is_left_to_a_person(submitted, student):
    collected = collect(submitted, {CANVAS.format("ada"): NOTEBOOK}, lambda who: student)
    assert collected.students == ()
    assert len(collected.refused) == 1
    assert collected.refused[0].startswith("'ada': not collected")
    nothing_outside(submitted)


@pytest.mark.parametrize("student", ["x+y", "o'neil", "{x}", "sp ace", "Zoë", "-x", "1234567"])
def test_other_ids_are_fine(submitted, student):
    assert collect(submitted, {CANVAS.format("a"): NOTEBOOK}, lambda who: student).refused == ()
    lies_at(submitted, student)


# Hostile archives


OUTSIDE = {
    "above": f"../evil_1_2_{NAME}",
    "from the root": f"/evil_1_2_{NAME}",
    "above its folder": f"eve_7_assignsubmission_file_/../../../{NAME}",
    "beside its folder": f"eve_7_assignsubmission_file_/../bob/{NAME}",
    "above by backslashes": f"eve_1_2_..\\..\\{NAME}",
    "of a drive": f"C:\\eve_1_2_{NAME}",
}


@pytest.mark.parametrize("pack", [zipped, tarred])
@pytest.mark.parametrize("place", OUTSIDE)
def test_names_that_lead_out_lead_nowhere(submitted, place, pack):
    files = [(OUTSIDE[place], LATER), (CANVAS.format("bob"), NOTEBOOK)]
    collected = collect(submitted, pack(files))
    assert collected.students == ("bob",)
    assert len(collected.refused) == 1
    nothing_outside(submitted, "bob")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_devices_in_a_zip_are_not_read(submitted, kind):
    files = [((CANVAS.format("eve"), kind | 0o777), b"/etc/shadow")]
    collected = collect(submitted, zipped([*files, (CANVAS.format("bob"), NOTEBOOK)]))
    assert collected.students == ("bob",)
    assert "it is a link or a device" in collected.refused[0]


@pytest.mark.parametrize(
    "marks",
    [
        {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd", "size": 0},
        {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd", "size": 0},
        {"type": tarfile.FIFOTYPE, "size": 0},
        {"type": tarfile.CHRTYPE, "size": 0},
    ],
    ids=["link", "hard link", "pipe", "device"],
)
def test_links_and_devices_in_a_tar_are_not_read(submitted, marks):
    raw = tarred([(NAME, b"")], **marks)
    collected = collect(
        submitted, {"eve_1_2_work.tgz": raw, CANVAS.format("bob"): NOTEBOOK}, by_name
    )
    assert collected.students == ("bob",)
    assert "it is a link or a device" in collected.refused[0]


def test_way_through_a_link_in_a_tar_is_not_gone(submitted, tmp_path):
    """The first member is a link to a folder, the second would lie in it."""
    elsewhere = tmp_path / "submitted" / "bob" / UNIT
    elsewhere.mkdir(parents=True)
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        link, file = tarfile.TarInfo("link"), tarfile.TarInfo(f"link/{NAME}")
        link.type, link.linkname = tarfile.SYMTYPE, str(elsewhere)
        file.size = len(LATER)
        archive.addfile(link)
        archive.addfile(file, io.BytesIO(LATER))
    assert collect(submitted, {"eve_1_2_work.tgz": made.getvalue()}).students == ("eve",)
    assert list(elsewhere.iterdir()) == []
    assert (submitted / "eve" / UNIT / NAME).read_bytes() == LATER


def test_names_in_a_students_archive_lead_nowhere(submitted):
    names = [f"../../bob/{UNIT}/{NAME}", f"/tmp/{NAME}"]
    for pack in (zipped, tarred):
        raw = pack([(name, LATER) for name in names])
        collected = collect(submitted, {"eve_1_2_work.zip": raw})
        assert collected.students == ()
        assert collected.refused[0].count("its name leads out of the archive") == 2
    nothing_outside(submitted)


def test_bombs_do_not_go_off(submitted, monkeypatch):
    """Limits and bombs a fifteenth as large as those of a course are made in seconds."""
    assert lms.PERSON_BYTES == 2 * folder.MAX_BYTES == 240 * 2**20
    monkeypatch.setattr(folder, "MAX_BYTES", 8 * 2**20)
    monkeypatch.setattr(lms, "PERSON_BYTES", 16 * 2**20)
    zeros = bytes(folder.MAX_BYTES + 1)
    files = {
        CANVAS.format("big"): zeros,
        CANVAS.format("dense"): zeros[: 4 * 2**20],
        "inside_1_2_work.zip": zipped([(NAME, zeros)]),
        "tar_1_2_work.tar.bz2": tarred([(f"{k}.txt", zeros) for k in range(5)], "w:bz2"),
        CANVAS.format("zoe"): NOTEBOOK,
    }
    collected = collect(submitted, files)
    assert collected.students == ("zoe",)
    reasons = [
        "at most 8 are taken",
        "packed more than 200 times",
        "at most 8",
        "of one person 16 MiB are taken in all",
    ]
    for line, reason in zip(collected.refused, reasons, strict=True):
        assert reason in line


def test_size_that_is_a_lie_is_found_out(submitted):
    raw = bytearray(zipped([(CANVAS.format("eve"), bytes(10**6)), (CANVAS.format("z"), NOTEBOOK)]))
    size = (10**6).to_bytes(4, "little")
    while size in raw:
        raw[raw.index(size) : raw.index(size) + 4] = (1000).to_bytes(4, "little")
    collected = collect(submitted, bytes(raw))
    assert collected.students == ("z",)
    assert "damaged" in collected.refused[0]


def test_what_one_person_uses_up_is_missing_to_nobody_else(submitted, monkeypatch):
    monkeypatch.setattr(lms, "PERSON_BYTES", 3 * len(NOTEBOOK))
    greedy = {f"eve_1_{n}_{n}.ipynb": NOTEBOOK for n in range(5)}
    packed = {f"mallory_2_{n}_{n}.tar.gz": tarred([(NAME, NOTEBOOK)]) for n in range(5)}
    files = greedy | packed | {CANVAS.format(name): NOTEBOOK for name in ("a", "z")}
    collected = collect(submitted, files)
    assert collected.students == ("a", "eve", "mallory", "z")
    said = [line for line in collected.remarks if "of one person 0 MiB are taken" in line]
    assert [line.split("'")[:2] for line in said] == [
        ["eve: ", "3.ipynb"],
        ["eve: ", "4.ipynb"],
        *[["mallory: ", f"{n}.tar.gz"] for n in (1, 2, 3, 4)],
    ]


def test_archives_that_grow_too_much_are_unpacked_once(submitted):
    bomb, budget = tarred([("x", bytes(10**6))], "w:bz2"), archives.Budget(10**5)
    with pytest.raises(BadArchive, match="of one person 0 MiB"):
        archives.inside(bomb, budget)
    assert budget.left == 0
    sizes_that_go_backwards = -512
    budget.spend(sizes_that_go_backwards)
    assert budget.left == 0


def test_names_without_an_end_are_refused(submitted):
    """Those of a tar may be as long as the tar."""
    files = {
        "eve_1_2_work.tgz": tarred([("(1)" * 500_000 + ".ipynb", NOTEBOOK)]),
        CANVAS.format("bob"): NOTEBOOK,
    }
    collected = collect(submitted, files)
    assert collected.students == ("bob",)


def test_tables_of_contents_without_an_end_are_not_read(submitted, monkeypatch):
    monkeypatch.setattr(zipfile, "ZipInfo", None)  # the reader makes one of each entry
    with pytest.raises(BadArchive, match="more than 20,000 files"):
        archives.inside(b"PK" + archives.ENTRY * 20_001, archives.Budget(100))


def test_too_many_files_are_not_counted_out(submitted, monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBERS", 10)
    crowd = [(f"{number}.ipynb", b"{}") for number in range(50)]
    for pack in (zipped, tarred):
        files = {"eve_1_2_work.zip": pack(crowd), CANVAS.format("bob"): NOTEBOOK}
        collected = collect(submitted, files, when=[EVENING, NOON])
        assert "more than 10 files" in collected.refused[0]
    lies_at(submitted, "bob")


def test_tar_whose_sizes_go_backwards_ends(submitted):
    header = bytearray(tarfile.TarInfo(NAME).tobuf())
    header[124:136] = (2**96 - 512).to_bytes(12, "big")  # minus one block
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    collect(submitted, {"eve_1_2_work.tar": bytes(header) * 3})
    assert find(submitted / "eve" / UNIT, UNIT).raw == b""


@pytest.mark.parametrize("seed", range(60))
def test_any_damage_of_a_download_ends_and_stays_inside(submitted, seed):
    chance = random.Random(seed)
    files = {CANVAS.format("ada"): NOTEBOOK, "eve_1_2_w.tar": tarred([(NAME, NOTEBOOK)], "w")}
    raw = bytearray(zipped(files.items(), compression=zipfile.ZIP_STORED))
    for _ in range(chance.randint(1, 20)):
        raw[chance.randrange(len(raw))] = chance.randrange(256)
    collected = collect(submitted, bytes(raw[: chance.randint(len(raw) // 2, 3 * len(raw))]))
    for student in collected.students:
        assert (submitted / student / UNIT / NAME).is_file()
    nothing_outside(submitted, *collected.students)


def test_damaged_and_locked_members_are_told(submitted):
    files = [(CANVAS.format(name), NOTEBOOK) for name in ("eve", "zoe", "bob")]
    raw = bytearray(zipped(files, compression=zipfile.ZIP_STORED))
    first, second = (raw.index(NOTEBOOK, start) for start in (0, raw.index(NOTEBOOK) + 1))
    raw[first + 100] ^= 1
    locked = raw.index(b"PK\x01\x02", second)
    flags = raw.index(b"PK\x01\x02", locked + 1) + 8
    raw[flags] |= 1
    collected = collect(submitted, bytes(raw))
    assert collected.students == ("bob",)
    assert [line.split(":")[0] for line in collected.refused] == ["eve", "zoe"]
    assert all("it is damaged or locked" in line for line in collected.refused)


@pytest.mark.parametrize("raw", [b"", b"no archive", b"PK\x05\x06", b"\x1f\x8b\x08", b"BZh9"])
def test_download_that_is_no_archive_is_one_sentence(submitted, raw):
    collected = collect(submitted, raw)
    assert len(collected.refused) == 1
    assert (
        "download.zip' is not collected: it cannot be read as a zip or tar" in collected.refused[0]
    )


def test_download_that_is_not_there_is_one_sentence(submitted):
    collected = unpack(submitted / "none.zip", submitted, UNIT, by_name)
    assert "No such file" in collected.refused[0]


# What lies there already


def test_same_download_again_changes_nothing(submitted):
    files = {CANVAS.format("ada"): NOTEBOOK}
    collect(submitted, files)
    before = (submitted / "ada" / UNIT / NAME).stat()
    again = collect(submitted, files)
    assert (again.students, again.unchanged, again.refused) == ((), ("ada",), ())
    assert (submitted / "ada" / UNIT / NAME).stat() == before


def test_later_notebook_takes_the_place_and_the_old_one_is_kept(submitted):
    collect(submitted, {CANVAS.format("ada"): NOTEBOOK})
    collect(submitted, {CANVAS.format("ada"): LATER}, when=EVENING)
    lies_at(submitted, "ada", LATER, "2026-01-02 18:30:00.000000 UTC")
    kept = submitted / "ada" / UNIT / "before" / f"{UNIT}-20260102-120000.ipynb"
    assert kept.read_bytes() == NOTEBOOK
    assert find(submitted / "ada" / UNIT, UNIT).raw == LATER


def test_earlier_notebook_takes_no_place(submitted):
    collect(submitted, {CANVAS.format("ada"): LATER}, when=EVENING)
    for when in (NOON, EVENING):
        collected = collect(submitted, {CANVAS.format("ada"): NOTEBOOK}, when=when)
        assert collected.refused == (
            "ada: not collected, since the file in the download is not newer than the one that "
            "lies there, of 2026-01-02 18:30 UTC; ARGS=--replace takes it.",
        )
    lies_at(submitted, "ada", LATER, "2026-01-02 18:30:00.000000 UTC")
    asked = []
    replacing = Replacing(lambda question: not asked.append(question))
    collect(submitted, {CANVAS.format("ada"): NOTEBOOK}, replacing=replacing)
    assert asked == [
        "ada: the file in the download is not newer than the one that lies there, of "
        "2026-01-02 18:30 UTC."
    ]
    lies_at(submitted, "ada")


BLANK = nbformat.writes(FRESH).encode()
RUN = BLANK.replace(b'"outputs": []', b'"outputs": [], "x": 1')


def with_a_cell(raw):
    notebook = nbformat.reads(raw.decode(), 4)
    notebook.cells.append(new_markdown_cell("My answer stands here."))
    return nbformat.writes(notebook).encode()


@pytest.mark.parametrize("there", [NOTEBOOK, with_a_cell(BLANK)])
@pytest.mark.parametrize("blank", [BLANK, RUN, b"{}", b"", BLANK.replace(b"\n", b"\r\n")])
def test_blank_notebook_replaces_no_work_unless_a_person_says_so(submitted, there, blank):
    releases = (nbformat.writes(FRESH),)
    collect(submitted, {CANVAS.format("ada"): there})
    again = {CANVAS.format("ada"): blank}
    collected = collect(submitted, again, when=EVENING, replacing=Replacing(releases=releases))
    assert collected.students == ()
    assert "has no written answer" in collected.refused[0]
    lies_at(submitted, "ada", there)
    replacing = Replacing(lambda question: "no written answer" in question, releases)
    collect(submitted, again, when=EVENING, replacing=replacing)
    lies_at(submitted, "ada", blank, "2026-01-02 18:30:00.000000 UTC")
    early = collect(submitted, {CANVAS.format("ada"): there}, replacing=Replacing((), releases))
    assert early.students == ("ada",), "nothing lies there that could be lost"


def test_solved_notebook_counts_before_an_untouched_one_of_the_same_upload(submitted):
    second = MOODLE.format("ada").replace(".ipynb", " (1).ipynb")
    download = {MOODLE.format("ada"): BLANK, second: NOTEBOOK}
    replacing = Replacing(releases=(nbformat.writes(FRESH),))
    collected = collect(submitted, download, replacing=replacing)
    lies_at(submitted, "ada", NOTEBOOK)
    assert "(1).ipynb' was taken, and not" in " ".join(collected.remarks)


def test_work_replaces_work_in_silence(submitted):
    replacing = Replacing(releases=(nbformat.writes(FRESH),))
    collect(submitted, {CANVAS.format("ada"): NOTEBOOK}, replacing=replacing)
    collected = collect(submitted, {CANVAS.format("ada"): LATER}, when=EVENING, replacing=replacing)
    assert (collected.students, collected.refused) == (("ada",), ())


@pytest.mark.parametrize("stamp", [None, "the day before yesterday", "\udcff"])
def test_notebook_without_a_time_is_kept_beside(submitted, stamp):
    folder = submitted / "ada" / UNIT
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(LATER)
    (folder / "before").mkdir()
    (folder / "before" / f"{UNIT}-undated.ipynb").write_bytes(b"older still")
    if stamp:
        (folder / "timestamp.txt").write_bytes(os.fsencode(stamp))
    files = {CANVAS.format("ada"): NOTEBOOK}
    assert "may be older" in collect(submitted, files).refused[0]
    collect(submitted, files, replacing=Replacing(lambda question: True))
    lies_at(submitted, "ada")
    assert (folder / "before" / f"{UNIT}-undated.ipynb").read_bytes() == b"older still"
    assert (folder / "before" / f"{UNIT}-undated-2.ipynb").read_bytes() == LATER


@pytest.mark.parametrize("last", ["timestamp.txt", NAME])
def test_full_disk_loses_nothing_and_stops_nobody(submitted, monkeypatch, last):
    collect(submitted, {CANVAS.format("ada"): NOTEBOOK})
    replace = Path.replace

    def full(self, target):
        if target == submitted / "ada" / UNIT / last:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    files = {CANVAS.format("ada"): LATER, CANVAS.format("bob"): NOTEBOOK}
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        collected = collect(submitted, files, when=[EVENING, NOON])
    assert collected.refused == ("ada: not collected: No space left on device.",)
    assert collected.students == ("bob",)
    again = collect(submitted, files, when=[EVENING, NOON])
    assert (again.students, again.unchanged) == (("ada",), ("bob",))
    lies_at(submitted, "ada", LATER, "2026-01-02 18:30:00.000000 UTC")
    (kept,) = (submitted / "ada" / UNIT / "before").iterdir()
    assert kept.read_bytes() == NOTEBOOK


def test_what_lies_in_the_way_is_not_followed(submitted, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (submitted / "bob").mkdir(parents=True)
    (submitted / "ada").symlink_to(elsewhere)
    (submitted / "bob" / UNIT).symlink_to(elsewhere)
    folder = submitted / "eve" / UNIT
    folder.mkdir(parents=True)
    for name in (NAME, f".{NAME}.writing", "timestamp.txt"):
        (folder / name).symlink_to(elsewhere / name)
    (submitted / "zoe").write_text("a file")
    files = {CANVAS.format(name): NOTEBOOK for name in ("ada", "bob", "eve", "zoe")}
    collected = collect(submitted, files, when=[EVENING, EVENING, NOON, EVENING])
    assert [line.split(":")[0] for line in collected.refused] == ["ada", "bob", "zoe"]
    assert collected.students == ("eve",)
    lies_at(submitted, "eve")
    assert list(elsewhere.iterdir()) == []


# The list of students, and the command


LIST = "id,first_name,last_name,email,lms_user_id\n"
ROWS = "al1,Ada,Lovelace,a@x,123\nzo2,Zoë,O'Neil,,\nx1,Eve,Smith,,\nx2,Eve,Smith,,\n"


def test_students_are_known_by_number_and_name(tmp_path):
    file = tmp_path / "students.csv"
    file.write_text(LIST + ROWS, encoding="utf-8-sig")
    students = roster(file)
    for who in ("123", "lovelaceada", "Ada Lovelace", "al1", "AL1"):
        assert students(who) == "al1", who
    assert students("oneilzoë") == students("Zoe\u0308 O'Neil") == "zo2"
    for who in ("Eve Smith", "124", "None", "nobody", "", "ada"):
        assert students(who) is None, who


def test_blanks_after_commas_are_no_part_of_a_name(tmp_path):
    file = tmp_path / "students.csv"
    rows = 'al1, "Ada",  Lovelace , a@x, 123\nzo2 , Zoe, O Neil, , Participant 12\n, , , ,\n'
    file.write_text(LIST.replace(",", ", ") + rows)
    students = roster(file)
    assert [students(who) for who in ("123", "lovelaceada", "al1")] == ["al1"] * 3
    assert [students(who) for who in ("Zoe ONeil", "Participant 12", "zo2")] == ["zo2"] * 3


@pytest.mark.parametrize("raw", [b"name\nada\n", b"id\n\xff\n", b"first_name,id\nada\n"])
def test_list_that_is_none_is_one_sentence(tmp_path, raw):
    file = tmp_path / "students.csv"
    file.write_bytes(raw)
    with pytest.raises(CommandError, match="is no list of students"):
        roster(file)


@pytest.fixture
def course(tmp_path):
    (tmp_path / "notebooks" / UNIT).mkdir(parents=True)
    (tmp_path / "students.csv").write_text(LIST + ROWS)
    return tmp_path


def test_command_tells_problems_and_a_summary(course, capsys):
    archive = course / "download.zip"
    files = {f"lovelaceada_123_4_{NAME}": NOTEBOOK, f"smitheve_9_4_{NAME}": NOTEBOOK}
    archive.write_bytes(zipped(files.items(), [NOON, EVENING]))
    assert main(["0", str(archive)], course) == 1
    assert capsys.readouterr().out.splitlines() == [
        "'smitheve': not collected, no student is known by this name.",
        "The times of this zip name no time zone: they count as UTC.",
        "1 collected, 0 lay there already, 1 refused.",
    ]
    lies_at(course / "submitted", "al1")
    archive.write_bytes(zipped([(f"lovelaceada_123_4_{NAME}", NOTEBOOK)]))
    assert main(["00", str(archive)], course) == 0
    assert capsys.readouterr().out.splitlines() == [
        "The times of this zip name no time zone: they count as UTC.",
        "0 collected, 1 lay there already, 0 refused.",
    ]


@pytest.mark.parametrize(
    ("options", "typed", "is_taken"),
    [
        ([], None, False),
        (["--replace"], None, True),
        (["--keep"], "y", False),
        ([], "y", True),
        ([], "", False),
        ([], EOFError, False),
    ],
)
def test_person_or_option_decides_on_a_blank_notebook(
    course, monkeypatch, options, typed, is_taken
):
    (course / "notebooks" / UNIT / NAME).write_bytes(BLANK)
    monkeypatch.setattr("sys.stdin", MagicMock(isatty=lambda: typed is not None))
    monkeypatch.setattr("builtins.input", MagicMock(side_effect=[typed]))
    for raw, when in ((NOTEBOOK, NOON), (BLANK, EVENING)):
        name = f"lovelaceada_123_4_{NAME}"
        (course / "download.zip").write_bytes(zipped([(name, raw)], when))
        main(["00", str(course / "download.zip"), *options], course)
    lies = (course / "submitted" / "al1" / UNIT / NAME).read_bytes()
    assert lies == (BLANK if is_taken else NOTEBOOK)


def test_command_without_a_list_takes_the_names_as_ids(course, capsys):
    (course / "students.csv").unlink()
    (course / "download.zip").write_bytes(zipped([(CANVAS.format("ada"), NOTEBOOK)]))
    assert main([UNIT, str(course / "download.zip")], course) == 0
    lies_at(course / "submitted", "ada")


def test_command_refuses_an_unknown_unit_and_list(course, capsys):
    assert main(["17", "x.zip"], course) == 1
    assert main(["00", "x.zip", "--students", str(course / "none.csv")], course) == 1
    said = capsys.readouterr().err.splitlines()
    assert "There is no unit `17`" in said[0]
    assert "is no list of students" in said[1]
    assert main(["00", str(course / "none.zip")], course) == 1
    assert "No such file" in capsys.readouterr().out
