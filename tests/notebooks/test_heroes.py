"""The pictures at the head of the units: their numbers are those of the course's formulas."""

import re
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from course_utils.configs import FORMATS, Kernels, RunConfig, device, precision, preset
from course_utils.distributed import ClusterRun, Comm, Link, Network, VirtualCluster
from course_utils.formulas.batch_size import configuration
from course_utils.formulas.calibration import calibrate
from course_utils.formulas.flops import forward_flops
from course_utils.formulas.number_formats import largest, rounded
from course_utils.formulas.parameters import parameters
from course_utils.formulas.recomputation import kept_bytes, recomputed_flops
from course_utils.formulas.roofline import decode_bytes, decode_flops, step_bytes
from course_utils.formulas.serving import cache_bytes
from course_utils.formulas.sharding import sharded_state_bytes
from course_utils.instruments import (
    count_saved_bytes,
    fake_tensors,
    numbers_of,
    simulate_pipeline,
)
from course_utils.planner.calibrated import row_of_run, work_of_run
from course_utils.records import measured, one_node_runs
from course_utils.reference import Block, Transformer, token_loss
from course_utils.reference.batch_experiment import (
    Problem,
    new_network,
    noise_scale,
    per_sample_gradients,
)
from course_utils.reference.bucketing import backward_in_buckets
from course_utils.reference.pipeline_schedules import gpipe
from course_utils.reference.recomputation import save_products
from course_utils.show.memory_budget import memory_parts
from course_utils.show.tensor_parallel import layer_milliseconds
from tests.notebooks.filling import ROOT


def drawn(unit: str, picture: str = "hero") -> str:
    return (ROOT / "solutions" / unit / f"{picture}.svg").read_text("utf-8")


def numbers(picture: str) -> list[int]:
    return [int(number) for number in re.findall(r">(\d+)</text>", picture)]


def widths(picture: str) -> list[float]:
    return [float(width) for width in re.findall(r'class="part".*? width="([\d.]+)"', picture)]


def test_work_of_four_stages_and_their_first_actions():
    picture = drawn("12_pipeline_parallelism")
    run = simulate_pipeline(gpipe(4, 8), 8)
    last = run.of(3)
    seconds = sum(each.end - each.start for each in last)
    assert f"{seconds} seconds of work" in picture
    for kind in "FB":
        wanted = [each.end - each.start for each in last if each.action[0] == kind]
        assert [width for _, width in drawn_seconds(picture, kind)] == wanted
    first = [run.of(stage)[0] for stage in run.stages]
    assert drawn_seconds(picture, "first") == [
        (each.start, each.end - each.start) for each in first
    ]
    waits = [(0, each.start) for each in first if each.start]
    assert drawn_seconds(picture, "idle") == waits


def drawn_seconds(picture: str, kind: str) -> list[tuple[float, float]]:
    """Start and length of each bar, twenty units for a second."""
    found = re.findall(rf'class="{kind}" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', picture)
    return [((float(x) - 150) / 20, float(width) / 20) for x, width in found]


def test_a_token_of_a_1b_model_on_an_a100():
    picture = drawn("14_utilisation_and_configuration")
    rows = {run: row_of_run(run) for run in one_node_runs("A100-80")}
    run = next(each for each in rows if each.name == "1b at 4,096")
    constants = calibrate([row for each, row in rows.items() if each.model != run.model])
    fixed, attention, elementwise, measured = rows[run]
    products = float(work_of_run(run).products[0]) / (run.micro_batch_sequences * run.seq_len)
    parts = [
        products,
        fixed - products,
        constants["attention"] * attention,
        constants["elementwise"] * elementwise,
    ]
    wanted = [round(1e6 * each, 1) for each in (*parts, measured)]
    assert [round(each / 13.5, 1) for each in widths(picture)] == wanted
    assert f">{1e6 * sum(parts):.1f}</text>" in picture
    assert f">{1e6 * measured:.1f}</text>" in picture
    assert "3.1 times" in picture and "3.0 times" in picture
    assert [round(each, 1) for each in constants.values()] == [3.1, 3.0]


def test_memory_of_training_llama_3_8b():
    picture = drawn("03_memory_accounting")
    run = RunConfig(seq_len=8192, precision=precision("bf16"), kernels=Kernels(), is_loss_fp32=True)
    parts = memory_parts("Llama-3-8B", run)
    parts["activations"] += parts.pop("loss")
    assert f"takes about {sum(parts.values()) / 1e9:.0f} GB" in picture
    assert numbers(picture) == [round(part / 1e9) for part in parts.values()]
    assert widths(picture) == pytest.approx([5 * part / 1e9 for part in parts.values()], abs=0.3)


def test_state_of_llama_3_8b_on_eight_devices():
    picture = drawn("10_sharding")
    num_params = sum(parameters(preset("Llama-3-8B")).values())
    stages = [sharded_state_bytes(num_params, 8, stage, "bf16") for stage in range(4)]
    totals = [round(sum(each.values()) / 1e9) for each in stages]
    assert numbers(picture) == totals
    assert f"{totals[0]} GB of state on each, or {totals[3]}<" in picture
    bars = [5.2 * part / 1e9 for stage in stages for part in stage.values()]
    assert widths(picture) == pytest.approx(bars, abs=0.1)


def test_flops_of_training_llama_3_8b():
    picture = drawn("01_transformer_flops")
    parts = forward_flops(preset("Llama-3-8B"), 1, 4096)
    names = ("feed_forward", "projections", "attention", "head")
    per_token = [3 * parts[name] / 4096 for name in names]
    total = sum(per_token)
    assert f"{total / 1e9:.0f} billion FLOPs" in picture
    assert numbers(picture) == [round(flops / 1e9) for flops in per_token]
    assert widths(picture) == pytest.approx([17 * flops / 1e9 for flops in per_token], abs=0.3)
    of_run = 15e12 * total
    assert f"{of_run / 1e23:.1f}·10²³" in picture
    rate = 0.4 * device("A100-80").dense_flops_per_second("bf16")
    assert f"{of_run / rate / 86_400:,.0f}"[:4] in picture  # 71,6


def test_a_prompt_and_the_next_token_of_llama_3_8b():
    """In prefill the head reads the last position alone."""
    picture, model, h100 = drawn("02_profiling_and_roofline"), preset("Llama-3-8B"), "H100-SXM"
    peak = device(h100).dense_flops_per_second("bf16")
    bandwidth = device(h100).bandwidth_bytes_per_second
    parts = forward_flops(model, 1, 1024)
    seconds = [
        (sum(parts.values()) - parts["head"] * 1023 / 1024) / peak,
        sum(step_bytes(model, 1, 1024, "prefill").values()) / bandwidth,
        decode_flops(model, 1, 1024) / peak,
        decode_bytes(model, 1, 1024) / bandwidth,
    ]
    assert widths(picture) == pytest.approx([36_000 * each for each in seconds], abs=0.1)
    said = [float(ms) for ms in re.findall(r">([\d.]+) ms of", picture)]
    assert said == pytest.approx([1000 * each for each in seconds], abs=0.05)


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16"])
def test_bits_of_three_formats_and_what_they_lose(name):
    picture, shape = drawn("07_mixed_precision"), FORMATS[name]
    widths_in_bits = (shape.num_exponent_bits, shape.num_mantissa_bits)
    fields = ("sign", "exponent", "mantissa")
    counted = [picture.count(f'class="{name} {field}"') for field in fields]
    assert counted == [1, *widths_in_bits]
    texts = re.findall(rf'class="{name}" .*?>([^<]+)</text>', picture)
    step, small = rounded(1 + 0.001, *widths_in_bits), rounded(1e-8, *widths_in_bits)
    end = "65,504" if name == "fp16" else "3.4·10³⁸"
    assert texts == [end, f"{step:.4g}", "10⁻⁸" if small else "0"]
    assert f"{largest(shape):,.0f}" == end or f"{largest(shape):.1e}" == "3.4e+38"
    assert small == pytest.approx(1e-8, rel=0.01) or not small


def test_numbers_of_eight_bits_on_a_line():
    picture = drawn("07_mixed_precision", "numbers")
    places = [float(x) for x in re.findall(r'class="number" d="M([\d.]+) ', picture)]
    every = {each for each in numbers_of(torch.float8_e5m2) if 1 / 32 <= each <= 8}
    assert places == pytest.approx([40 + 112 * each for each in sorted(every)], abs=0.01)


def step_of_llama_1b(comm: Comm, bucket_bytes: int) -> None:
    model = Transformer(preset("Llama-3.2-1B"), "meta", torch.bfloat16)
    tokens = torch.empty(1, 4096, dtype=torch.long, device="meta")
    backward_in_buckets(comm, model, token_loss(model(tokens), tokens), bucket_bytes)


def parts_of_step(run: ClusterRun) -> list[float]:
    """Milliseconds of forward, of backward, and of what is exposed after it."""
    passes = (run.spans(0, "compute", name) for name in ("forward", "backward"))
    computed = [1e3 * sum(end - start for start, end in spans) for spans in passes]
    return [*computed, 1e3 * run.exposed_seconds()]


def test_a_step_of_llama_1b_on_eight_devices():
    picture = drawn("09_data_parallelism")
    cluster, at_the_end = VirtualCluster(8), 2**40
    runs = [cluster.run(step_of_llama_1b, each) for each in (at_the_end, 25 * 2**20)]
    steps = [f"{1e3 * run.step_seconds:.0f}" for run in runs]
    assert f"One step on eight devices: {steps[0]} ms. With gradients in buckets: {steps[1]}." in (
        picture
    )
    parts = [part for run in runs for part in parts_of_step(run)]
    assert numbers(picture) == [round(parts[2])]
    assert widths(picture) == pytest.approx([6 * part for part in parts], abs=0.3)
    assert picture.count('class="call"') == sum(len(run.communications()) for run in runs)


def test_activations_of_llama_3_8b_kept_or_computed_again():
    picture = drawn("05_activation_recomputation")
    llama, run = preset("Llama-3-8B"), RunConfig(seq_len=8192)
    kept, fewest = (kept_bytes(llama, run, how) for how in ("none", "full"))
    assert numbers(picture) == [round(each / 1e9) for each in (kept, fewest)]
    assert widths(picture) == pytest.approx([8 * each / 1e9 for each in (kept, fewest)], abs=0.3)
    parts = forward_flops(llama, 1, 8192)
    assert recomputed_flops(llama, run, "full") == sum(parts.values()) - parts["head"]
    passes = [float(width) for width in re.findall(r'width="(\d+)".*? stroke="#fff"', picture)]
    assert passes == [70, 140, 70, 140, 70]  # forward, backward; and forward again
    recap = next(ROOT.glob("solutions/05_*/05_*.py")).read_text("utf-8")
    every = [f"{each / 1e9:.0f}" for each in (kept, kept_beside_products(), fewest)]
    assert "keep {} GB, {} or {}".format(*every) in recap


def kept_beside_products() -> int:
    """Bytes that the layers of Llama-3-8B keep where only products do not run again."""
    with fake_tensors():
        layer = Block(preset("Llama-3-8B"), 0, dtype=torch.bfloat16)
        x = torch.ones(1, 8192, 4096, dtype=torch.bfloat16, requires_grad=True)
        contexts = partial(create_selective_checkpoint_contexts, save_products)
        again = partial(checkpoint, layer, x, use_reentrant=False, context_fn=contexts)
        saved = count_saved_bytes(again, layer)
    return 32 * (saved.total_bytes + saved.unseen_bytes)


def test_one_step_of_four_million_tokens():
    picture = drawn("08_batch_size")
    plan = configuration(2**22, 8192, 8, 1)
    assert f"{plan['num_micro_batches']} passes on each of 8 devices" in picture
    assert f"{plan['tokens_per_step'] / 1e6:.0f} million tokens" in picture
    paths = re.findall(r'class="sequences (\S+)" .*? d="(.*?)"', picture)
    squares = {state: path.count("M") for state, path in paths}
    assert squares["now"] == 8 * plan["micro_batch_size"]
    assert sum(squares.values()) == plan["tokens_per_step"] // 8192
    assert f"all {sum(squares.values())} of them" in picture


def test_noise_of_batches():
    picture = (ROOT / "solutions" / "08_batch_size" / "noise.svg").read_text("utf-8")
    problem = Problem()
    gradients = per_sample_gradients(new_network(), problem.inputs, problem.labels)
    sizes = [int(size) for size in re.findall(r">batches of (\d+)<", picture)]
    over_gradient = [(noise_scale(gradients) / size) ** 0.5 for size in sizes]
    assert over_gradient == pytest.approx([2, 1, 1 / 4], rel=0.01)


def test_the_worst_moment_of_training_llama_3_8b():
    picture = drawn("04_memory_profiling")
    model = preset("Llama-3-8B")
    run = RunConfig(seq_len=8192, precision=precision("bf16"), kernels=Kernels(), is_loss_fp32=True)
    parts = memory_parts("Llama-3-8B", run)
    at_rest = parts["weights"] + parts["optimizer states"]
    gradient_of_logits = 4 * 8192 * model.vocab_size
    marks = [
        at_rest,
        at_rest + parts["activations"] + parts["loss"] + 2 * gradient_of_logits,
        at_rest + parts["gradients"],
    ]
    assert numbers(picture) == [round(mark / 1e9) for mark in marks]
    assert f"holds {marks[1] / 1e9:.0f} GB" in picture
    assert f"{sum(parts.values()) / 1e9:.0f} counted" in picture
    for num_bytes in (*marks, sum(parts.values()), 80e9):
        assert re.search(rf"[ ,]{340 - 1.32 * num_bytes / 1e9:.1f}(?!\d)", picture)


def test_activations_of_llama_3_8b_with_scores_and_without():
    picture = drawn("06_flash_attention")
    both = [
        kept_bytes(
            preset("Llama-3-8B"),
            RunConfig(seq_len=8192, kernels=Kernels(is_attention_fused=is_fused)),
            "none",
        )
        for is_fused in (False, True)
    ]
    assert numbers(picture) == [round(each / 1e9) for each in both]
    assert widths(picture) == pytest.approx([2 * each / 1e9 for each in both], abs=0.3)


def test_a_layer_of_llama_3_8b_on_one_to_eight_devices_and_an_open_question():
    picture = drawn("11_tensor_and_context_parallelism")
    milliseconds = re.findall(r">(\d+\.\d)</text>", picture)
    parts = layer_milliseconds(8192, 400, 50)
    assert milliseconds == [f"{sum(parts[t]):.1f}" for t in (1, 2, 4, 8)]
    assert numbers(picture) == [1, 2, 4, 8, 16]
    assert picture.count(">?</text>") == 1


def test_caches_of_three_designs_and_the_size_of_a_fourth():
    picture = drawn("13_efficient_designs_and_inference")
    llama, deepseek = preset("Llama-3-8B"), preset("DeepSeek-V3")
    own, shared = (replace(llama, num_kv_heads=each) for each in (32, 1))
    caches = [cache_bytes(each, 1, 8192, 2) / 1e9 for each in (own, llama, shared)]
    assert widths(picture) == pytest.approx([130 * each for each in caches], abs=0.1)
    assert re.findall(r">(\d\.\d\d)</text>", picture) == [f"{each:.2f}" for each in caches]
    times = sum(parameters(deepseek).values()) / sum(parameters(llama).values())
    assert f"{times:.0f} times as large" in picture


def wait_in_each_hook(comm: Comm, model: torch.nn.Module) -> None:
    loss = model(torch.ones(64, 64)).sum()
    for each in model.parameters():
        each.register_post_accumulate_grad_hook(lambda ready: comm.all_reduce(ready.grad))
    loss.backward()


def test_a_step_of_four_layers_that_waits_in_each_hook():
    """A product of 64 x 64 matrices takes 1 ms, and the exchange of a gradient 2 ms."""
    picture = drawn("15_bug_clinic")
    link = Link(latency_seconds=0, bandwidth_bytes_per_second=4 * 64**2 / 2e-3)
    cluster = VirtualCluster(2, network=Network(inside=link), flops_per_second=2 * 64**3 / 1e-3)
    layers = [torch.nn.Linear(64, 64, bias=False) for _ in range(4)]
    run = cluster.run(wait_in_each_hook, torch.nn.Sequential(*layers))
    forward, backward = (run.spans(0, "compute", name) for name in ("forward", "backward"))
    exposed = run.exposed_spans(0)
    wanted = [1e3 * (end - start) for start, end in sorted([*forward, *backward, *exposed])]
    assert [width / 40 for width in widths(picture)] == pytest.approx(wanted)
    calls = re.findall(r'class="call" x="([\d.]+)" .*? width="([\d.]+)"', picture)
    drawn_starts = [(float(x) - 190) / 40 for x, _ in calls]
    drawn_lengths = [float(width) / 40 for _, width in calls]
    sent = run.communications()
    starts = [1e3 * each.start_seconds for each in sent]
    lengths = [1e3 * (each.end_seconds - each.start_seconds) for each in sent]
    assert drawn_starts == pytest.approx(starts)
    assert drawn_lengths == pytest.approx(lengths)
    assert f"the step takes {1e3 * run.step_seconds:.0f} ms" in picture
    seconds = run.compute_seconds(), run.communication_seconds()
    computed, exchanged = (f"{1e3 * each:.0f} ms" for each in seconds)
    assert f"{computed} of computing, {exchanged} of exchange" in picture


def test_one_token_on_an_h200_by_its_bandwidth_and_a_question_of_its_clock():
    picture = drawn("16_on_a_gpu")
    (record,) = (each for each in measured("times") if each["device"] == "NVIDIA H200")
    rows = record["results"]
    bandwidth = max(row["bytes_per_second"] for row in rows if row["what"] == "copy")
    moved = 2 * (4096 + 4096**2 + 4096)
    seconds = moved / bandwidth
    assert widths(picture) == pytest.approx([24e6 * seconds], abs=0.05)
    assert re.findall(r">([\d.]+) µs</text>", picture) == [f"{1e6 * seconds:.1f}"]
    assert f"{moved / 1e6:.1f} MB in bf16 at {bandwidth / 1e12:.2f} TB/s" in picture
