"""The page for a GPU: its cells on a simulated one, and what it says of recorded ones."""

import ast
import io
import re
from contextlib import redirect_stdout
from types import ModuleType

import pytest
import torch

from autograder import catalogue, progress_file
from autograder.student.work_folder import WorkFolder
from course_utils import instruments
from course_utils.configs import preset
from course_utils.formulas.parameters import parameters
from course_utils.instruments import device_record, rates
from course_utils.records import measured
from course_utils.records.traces import recorded_memory
from tests.gpu.setting import TINY
from tests.notebooks.filling import ROOT, UNITS, released
from tests.simulated_gpu import NAME, simulated_gpu

UNIT = "16_on_a_gpu"
SIZES = {
    "SIDES": (4, 8),
    "TOKEN": (1, 8, 8),
    "COPIES": (64, 128),
    "LENGTHS": (256, 512),
    "NUM_HEADS": 2,
    "HEAD_DIM": 16,
    "TRAINED": {"large": 32, "tiny": 16},
    "BATCHES": (1, 2),
    "OVERLAP_SIDE": 8,
    "OVERLAP_BYTES": 64,
    "preset": lambda _: TINY,
}


def codes():
    return [cell.source for cell in released(UNIT).cells if cell.cell_type == "code"]


def run(code, namespace):
    """Run a cell; what its last expression shows is made, too."""
    *body, last = ast.parse(code).body
    tail = [last]
    if isinstance(last, ast.Expr):
        tail, shown = [], ast.Expression(last.value)
    exec(compile(ast.Module([*body, *tail], []), "cell", "exec"), namespace)
    if isinstance(last, ast.Expr):
        value = eval(compile(shown, "cell", "eval"), namespace)
        return "" if value is None else repr(value)
    return ""


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """Names, texts and work folder after all cells ran on a simulated GPU."""
    progress_file.create(tmp_path)
    monkeypatch.chdir(tmp_path)
    namespace, said = {"__name__": "__main__"}, io.StringIO()
    with simulated_gpu(monkeypatch) as tensors, redirect_stdout(said):
        for code in codes():
            if code.startswith("# Sizes"):
                namespace |= SIZES
            else:
                print(run(code, namespace))
    assert tensors.calls > 0
    return namespace, said.getvalue(), tmp_path


def test_on_a_simulated_gpu_every_section_measures_and_the_record_is_written(ran):
    _, said, folder = ran
    assert f"Every cell below measures this device: {NAME}." in said
    (record,) = measured("on_a_gpu", folder)
    header = {key for key in measured("times")[0] if key != "took_seconds"}
    assert set(record) == header
    assert (record["device"], record["is_from_gpu"]) == (NAME, True)
    kinds = {row["what"] for row in record["results"]}
    assert kinds == {"product", "copy", "attention", "peak", "step", "overlap"}
    recorded_rows = measured("times")[0]["results"]
    for kind in ("product", "copy"):
        forms = [
            {frozenset(row) for row in rows if row["what"] == kind}
            for rows in (record["results"], recorded_rows)
        ]
        assert forms[0] == forms[1]
    assert (folder / "on_a_gpu.pickle").stat().st_size > 0
    assert f"rows in {folder / 'on_a_gpu-h200.json'}" in said


def test_the_simulated_peak_is_that_of_the_trace(ran):
    """The allocator sees the blocks of the very operations that fake tensors go through."""
    namespace, _, _ = ran
    assert namespace["ratios"] == pytest.approx([1], abs=1e-3)


def test_on_a_cpu_the_page_says_so_in_one_line_and_writes_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for code in codes():
        run(code, namespace)
    said = capsys.readouterr().out
    assert len(re.findall(r"^No GPU here: the cells show", said, flags=re.MULTILINE)) == 1
    assert "there is no record to write" in said
    assert list(tmp_path.iterdir()) == []


def text():
    return "\n".join(cell.source for cell in released(UNIT).cells if cell.cell_type == "markdown")


def test_what_the_text_says_of_recorded_devices_is_in_the_records(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for code in codes():
        run(code, names)
    seconds = names["product_seconds"]
    attention, steps, tiles = names["attention_of"], names["steps"], names["tiles"]
    full, causal = (1e6 * attention[2048, is_causal, "fwd"] for is_causal in (False, True))
    each = (full - causal) / (tiles[False] - tiles[True])
    gathers = [e for e in names["communicating"](names["shown"]) if "AllGather" in e["name"]]
    starts = [
        min(e["start_ns"] for e in names["communicating"](names[trace]))
        for trace in ("before", "shown")
    ]
    is_near = [abs(ratio - 1) < 1e-3 for ratio in names["ratios"]]
    memory = [
        (seconds, sum(live.values()), live) for seconds, live in recorded_memory("bf16 autocast")
    ]
    _, peak, at_peak = max(memory, key=lambda moment: moment[1])
    before_update = [each for each in memory if "optimizer temporaries" not in each[2]]
    when, second, _ = max(before_update, key=lambda moment: moment[1])
    kept = at_peak["weights + old gradients + AdamW moments"]
    least = kept + at_peak["gradients"]
    beside = {length: names["beside_the_tiles"](length) for length in (2048, 16384)}
    shares = [beside[n] / attention[n, True, "fwd"] for n in beside]
    tile_flops = names["attention_flops"](2048, "fwd") * 2 / tiles[False]
    wanted = [
        f"{1e6 * 2 * 4096**2 / names['bandwidth']:.1f} µs",
        f"The H200's clock says {1e6 * seconds('bf16', (1, 4096, 4096)):.1f} µs",
        f"takes {1e6 * names['gemm']['H200', 1]['latency_seconds']:.1f} µs here",
        f"take {1e6 * seconds('bf16', (512,) * 3):.0f} and "
        f"{1e6 * seconds('bf16', (1024,) * 3):.0f} µs",
        f"of {tiles[False]} tiles of 128 by 128 the mask leaves {tiles[True]}",
        f"the ratio is {tiles[False] / tiles[True]:.2f}, not 2",
        f"{full:.0f} and {causal:.0f} µs",
        f"are {each:.2f} µs a tile (of all heads) and {1e6 * beside[2048]:.0f} µs beside",
        f"grows to {1e6 * beside[16384]:.0f} µs at 16,384 tokens",
        f"from {100 * shares[0]:.0f} to {100 * shares[1]:.0f} %",
        f"would be {tile_flops / each / 1e6:.0f} TFLOP/s",
        f"are {kept / 2**30:.1f} of the {peak / 2**30:.1f} GiB at the peak",
        f"By {(peak - second) / 2**30:.1f} GiB: behind",
        f"{second / 2**30:.1f} GiB at {1e3 * when:.0f} ms",
        f"up to {(peak - least) / 2**30:.1f} GiB",
        f"{sum(is_near)} of {len(is_near)} configurations lie within 0.1 %",
        f"up to {max(names['ratios']) - 1:.0%} more".replace("%", " %"),
        f"takes {1e3 * steps[1]:.1f} ms with one sequence",
        f"take {steps[16] / steps[1]:.1f} times as long",
        *in_the_calibration(names),
        f"spends {1e3 * names['busy_seconds'](names['communicating'](names['before'])):.2f} ms",
        f"of which {1e3 * names['exposed_seconds'](names['before']):.2f} are exposed",
        f"would have left {names['computed']:.2f} exposed",
        f"starts {(starts[0] - starts[1]) / 1e6:.1f} ms earlier",
        f"take {1e-6 * sum(e['end_ns'] - e['start_ns'] for e in gathers):.1f} of the 5.3 ms",
    ]
    assert [each for each in wanted if each not in text()] == []


def in_the_calibration(names):
    """What section 4 says of constants and of what is paid once a step."""
    steps, machine, own = names["steps"], names["machine"], names["own"]
    errors = {
        batch: 100 * (names["seconds_of"](batch, machine) / steps[batch] - 1) for batch in steps
    }
    error = names["seconds_of"](16, names["calibrated"]) / steps[16] - 1
    constants = [names["fitted"](batch).elementwise for batch in steps]
    naive = [names["fitted"](batch, machine) for batch in (1, 16)]
    parts = names["costs_of"]("Llama-3.2-1B", 1, naive[0]).seconds_by_part(names["Plan"]())
    calibrated = names["costs_of"]("Llama-3.2-1B", 1, names["calibrated"])
    update = calibrated.seconds_by_part(names["Plan"]())["update"]
    more = steps[4] - steps[1]
    num_params = sum(parameters(preset("Llama-3.2-1B")).values())
    moved = 40 * num_params / names["bandwidth"]
    assert parts["launches"] > 0 and moved > parts["update"]
    return [
        f"are {errors[16]:.0f} to {errors[1]:.0f} % too slow",
        f"the planner is {-100 * error:.1f} % too fast",
        f"({machine.attention:.1f} times as long as at the peak; {own.attention:.1f} in section 2)",
        f"only {100 * (names['seconds_of'](16, naive[0]) / steps[16] - 1):.1f} % off",
        f"put {1e3 * (parts['work'] + parts['launches']):.0f} ms under",
        f"at {1e3 * parts['update']:.1f} ms, and `elementwise` comes out as",
        f"as {naive[0].elementwise:.2f}: kernels",
        f"it is {naive[1].elementwise:.2f}.",
        ", ".join(f"{each:.2f}" for each in constants),
        f"take {1e3 * more:.0f} ms more, {1e3 * more / 3:.1f} each, which leaves "
        f"{1e3 * (steps[1] - more / 3):.1f} of",
        f"gives the update {1e3 * update:.1f}",
        f"40 bytes a parameter, {1e3 * moved:.1f} ms",
    ]


def test_the_page_is_a_unit_without_exercises():
    unit = next(each for each in catalogue.units() if each.folder == UNIT)
    assert unit.exercises == ()
    assert UNITS[-1] == UNIT


def test_the_page_can_be_handed_in_though_nothing_of_it_is_graded(tmp_path, capsys):
    folder = WorkFolder(ROOT, tmp_path)
    folder.fresh("16")
    path = folder.submit("16")
    assert path.name == f"{UNIT}.ipynb"
    assert capsys.readouterr().out == ""


def cuda_helpers():
    """Public functions and classes of the instruments whose module asks for CUDA."""
    offered = {name: getattr(instruments, name) for name in vars(instruments)}
    found = set()
    for name, each in offered.items():
        module = getattr(each, "__module__", "")
        if isinstance(each, ModuleType) or name.startswith("_") or not callable(each):
            continue
        source = (ROOT / f"{module.replace('.', '/')}.py").read_text("utf-8")
        if "torch.cuda" in source and not isinstance(each, type):
            found.add(name)
    for module in (rates, device_record):
        found |= {
            name
            for name, each in vars(module).items()
            if getattr(each, "__module__", "") == module.__name__
            and not name.startswith("_")
            and not isinstance(each, type)
        }
    return sorted(found - {"driver_version"})  # which `empty_record` calls


@pytest.mark.parametrize("name", cuda_helpers())
def test_every_cuda_helper_is_called_by_the_page_or_a_unit(name):
    calls = re.compile(rf"\b{name}\(")
    texts = ("\n".join(c.source for c in released(u).cells if c.cell_type == "code") for u in UNITS)
    assert any(calls.search(code) for code in texts)
