"""The drawing of a layer: to scale, with the instruments' numbers, for eyes, keys and ears."""

import re
import tomllib
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from course_utils import colours
from course_utils.configs import Kernels, ModelConfig, gpt, preset
from course_utils.instruments import count_bytes, count_flops, fake_tensors
from course_utils.reference.fused import rotate
from course_utils.reference.transformer import Block
from course_utils.show import layer_diagram, layer_explorer
from course_utils.show.layer_diagram import facts
from course_utils.show.layer_diagram.drawing import draw
from course_utils.show.layer_diagram.layer import LayerPass, sub_layers
from course_utils.show.layer_diagram.layer_explorer import QUESTION
from course_utils.show.layer_diagram.layout import LONGEST_BAR, SMALLEST_BAR
from course_utils.show.layer_diagram.saved import names_in_order_of_saving, saved_by_name

ROOT = Path(__file__).parents[3]
SIZES = {"num_layers": 1, "hidden_size": 20, "ffn_size": 35, "vocab_size": 7}
MODELS = {
    "Llama-3-8B": preset("Llama-3-8B"),
    "Llama-3.2-1B": preset("Llama-3.2-1B"),
    "GPT-2-124M": preset("GPT-2-124M"),
    "biases, gate, rotary, shared": ModelConfig(
        **SIZES, num_heads=6, num_kv_heads=2, head_dim=8, has_biases=True
    ),
    "no biases, no gate, learned positions, one key head": ModelConfig(
        **SIZES, num_heads=3, num_kv_heads=1, head_dim=4, is_gated=False, num_positions=9
    ),
    "narrow feed-forward": ModelConfig(**SIZES | {"ffn_size": 3}, num_heads=5, head_dim=6),
}
KERNELS = {
    "fused attention": Kernels(),
    "fused gate": Kernels(is_gate_fused=True),
    "every score": Kernels(is_attention_fused=False),
    "every score recomputed": Kernels(is_attention_fused=False, is_attention_recomputed=True),
    "fused attention recomputed": Kernels(is_attention_recomputed=True),
}
SHAPES = [(1, 5), (2, 7), (3, 1)]

every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
every_kernel = pytest.mark.parametrize("kernels", KERNELS.values(), ids=KERNELS)


def operations_of(run):
    return [each for layer in sub_layers(run) for each in layer.operations]


def tensors_of(run):
    return {each.name: each for layer in sub_layers(run) for each in layer.tensors}


def elements(svg, kind):
    """Groups of a drawing by the name of the part."""
    groups = ElementTree.fromstring(svg).iter("g")
    return {each.get("data-name"): each for each in groups if each.get("class") == f"ld-{kind}"}


def bar_heights(svg):
    found = {
        name: group.find("rect[@class='ld-bar']") for name, group in elements(svg, "tensor").items()
    }
    return {name: float(bar.get("height")) for name, bar in found.items()}


# --- The numbers ---------------------------------------------------------------------------------


@every_kernel
@every_model
def test_flops_of_each_operation_are_those_that_run(model, kernels):
    run = LayerPass(model, 2, 7, 4, kernels)
    with fake_tensors():
        block = Block(model, 0, kernels=kernels)
        x = torch.empty(2, 7, model.hidden_size)
        counted = [each.flops for each in count_bytes(lambda: block(x)).operations if each.flops]
        total = count_flops(lambda: block(x)).forward_flops
    drawn = [run.count(each.flops) for each in operations_of(run) if each.flops]
    assert drawn == counted
    assert sum(drawn) == total


@every_model
def test_parameters_of_each_operation_are_those_of_its_module(model):
    run = LayerPass(model, 1, 5, 2)
    block = Block(model, 0, device="meta")
    drawn = {each.name: run.parameters(each) for each in operations_of(run) if each.weights}
    modules = {name: block.get_submodule(name).parameters() for name in drawn}
    assert drawn == {name: sum(p.numel() for p in each) for name, each in modules.items()}
    assert sum(drawn.values()) == sum(p.numel() for p in block.parameters())


@every_kernel
@every_model
@pytest.mark.parametrize("element_bytes", [2, 4])
def test_bytes_of_tensors_are_those_that_the_instrument_finds_kept(model, kernels, element_bytes):
    for num_sequences, seq_len in SHAPES:
        run = LayerPass(model, num_sequences, seq_len, element_bytes, kernels)
        kept, drawn = saved_by_name(run), tensors_of(run)
        assert kept == {name: run.tensor_bytes(drawn[name]) for name in kept}


def by_hand(block, run, x):
    """Values of all tensors that the drawing names, written out once more, without the modules."""
    model, made = run.model, {}

    def norm(number, x, layer):
        if model.has_biases:
            spread = x.var(-1, keepdim=True, unbiased=False) + layer.eps
            made[f"statistics_{number}"] = torch.cat((x.mean(-1, keepdim=True), spread.rsqrt()), -1)
            out = F.layer_norm(x, x.shape[-1:], layer.weight, layer.bias)
        else:
            inverse = (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
            made[f"statistics_{number}"], out = inverse, x * inverse * layer.weight
        made[f"x_{number}"], made[f"normed_{number}"] = x, out
        return out

    def heads(layer, normed):
        return layer(normed).unflatten(-1, (-1, model.head_dim))

    normed, attention = norm(1, x, block.attention_norm), block.attention
    q, k, v = (heads(each, normed) for each in (attention.query, attention.key, attention.value))
    made |= {"q": q, "k": k, "v": v}
    if not model.num_positions:
        q, k = made["q′"], made["k′"] = rotate(q), rotate(k)
    group = model.num_heads // model.num_kv_heads
    k, v = made["k″"], made["v″"] = [each.repeat_interleave(group, dim=2) for each in (k, v)]
    scores = torch.einsum("bsad,btad->bast", q, k) / model.head_dim**0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    scores = scores.masked_fill(future, float("-inf"))
    made |= {"P": scores.softmax(-1), "log_sum_exp": scores.logsumexp(-1)}
    made["o"] = torch.einsum("bast,btad->bsad", made["P"], v)
    x = x + attention.output(made["o"].flatten(-2))
    normed = norm(2, x, block.ffn_norm)
    made["u"] = block.ffn.up(normed)
    if model.is_gated:
        made["g"] = block.ffn.gate(normed)
        made["SiLU(g)"] = F.silu(made["g"])
        made["z"] = made["SiLU(g)"] * made["u"]
    else:
        made["z"] = F.gelu(made["u"])
    return made


def numbers(tensor):
    """All values in order of size: a view or a copy holds them in another order."""
    return tensor.detach().flatten().sort().values


@every_kernel
@pytest.mark.parametrize("model", list(MODELS.values())[3:], ids=list(MODELS)[3:])
def test_what_is_kept_has_the_values_of_the_tensor_of_that_name(model, kernels):
    torch.manual_seed(0)
    run = LayerPass(model, 2, 5, 4, kernels)
    block, kept = Block(model, 0, kernels=kernels), {}
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter)
    owned = {each.untyped_storage().data_ptr() for each in block.parameters()}
    x = torch.randn(2, 5, model.hidden_size, requires_grad=True)

    def keep(tensor):
        kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        out = block(x)
    assert out.requires_grad
    found: dict[str, list[torch.Tensor]] = {}
    tensors = (tensor for storage, tensor in kept.items() if storage not in owned)
    for name, tensor in zip(names_in_order_of_saving(run), tensors, strict=True):
        found.setdefault(name, []).append(tensor)
    wanted = by_hand(block, run, x)
    for name, parts in found.items():
        got = numbers(torch.cat([part.flatten() for part in parts]))
        # fp32 rounds to 6e-8 of a value; a few dozen are added up, in another order
        torch.testing.assert_close(got, numbers(wanted[name]), rtol=1e-4, atol=1e-4, msg=name)


# --- The drawing ---------------------------------------------------------------------------------


@every_kernel
@every_model
def test_bars_are_as_high_as_their_numbers_per_token(model, kernels):
    run = LayerPass(model, 2, 1024, 2, kernels)
    tensors, heights = tensors_of(run), bar_heights(draw(run).svg)
    assert heights.keys() == tensors.keys()
    ordinary = {name: run.width(each) for name, each in tensors.items() if name not in "SP"}
    widest = max(ordinary, key=ordinary.get)
    for name, width in ordinary.items():
        to_scale = heights[widest] * width / ordinary[widest]
        assert heights[name] == pytest.approx(max(to_scale, SMALLEST_BAR), rel=1e-4)  # five digits
    assert max(heights.values()) <= LONGEST_BAR


def test_scores_too_high_for_the_drawing_are_cut_and_said_to_be():
    every_score = Kernels(is_attention_fused=False)
    short, long = (
        layer_diagram(preset("Llama-3-8B"), seq_len=s, kernels=every_score) for s in (256, 8192)
    )
    assert bar_heights(long.svg)["S"] == LONGEST_BAR > bar_heights(short.svg)["S"]
    assert long.caption.endswith("The bars of S and P are cut.")
    assert "cut" not in short.caption


def test_every_operation_carries_its_number():
    carried = {}
    for show in ("flops", "bytes", "parameters"):
        shown = elements(layer_diagram(gpt(48, 3), 2, 5, show=show).svg, "operation")
        carried[show] = {name: group.findall("text")[1].text for name, group in shown.items()}
    # 2 × 10 tokens × 48 × 192, and 4 × 2 × 3 heads × 5² × 16; 48 × 192 + 192; 2 bytes each
    assert carried["flops"]["ffn.up"] == "184 k"
    assert carried["flops"]["core"] == "9.6 k"
    assert carried["parameters"]["ffn.up"] == "9.41 k"
    assert carried["bytes"]["ffn.up"] == "18.38 KiB"
    assert carried["flops"]["gelu"] == carried["bytes"]["gelu"] == "0"


def test_a_step_of_decoding_carries_the_bytes_of_its_cache():
    step = layer_diagram(preset("Llama-3-8B"), 3, 1, show="bytes", num_cached=8191)
    shown = elements(step.svg, "operation")
    small = {name: [each.text for each in group.findall("text")] for name, group in shown.items()}
    # keys and values of 8,192 tokens, 8 heads of 128, 2 bytes: 32 MiB for each sequence
    assert small["core"] == ["attention", "96 MiB", "of cache"]
    assert small["attention.key"][1:] == ["8 MiB"]
    assert step.caption.startswith(
        "One layer 4,096 wide, 3 × 1 tokens, 8,191 cached for each sequence: "
    )
    assert step.caption.endswith("436,224,000 bytes of weights and 100,663,296 of cache.")
    assert "log_sum_exp" not in elements(step.svg, "tensor")


@every_model
def test_a_step_of_decoding_computes_and_reads_what_the_instruments_count(model):
    run = LayerPass(model, 3, 1, 2, num_cached=9)
    with fake_tensors():
        new, cached = (
            torch.empty(3, heads, tokens, model.head_dim, dtype=torch.bfloat16)
            for heads, tokens in ((model.num_heads, 1), (model.num_kv_heads, 10))
        )
        k, v = torch.empty_like(cached), torch.empty_like(cached)

        def step():
            return F.scaled_dot_product_attention(new, k, v, enable_gqa=True)

        flops, moved = count_flops(step).forward_flops, count_bytes(step, cache=[k, v])
    core = next(each for each in operations_of(run) if each.name == "core")
    assert run.count(core.flops) == flops
    assert run.cache_bytes(core) == moved.of("cache").read_bytes


def test_every_query_of_a_step_of_decoding_meets_all_cached_keys():
    run = LayerPass(gpt(48, 3), 2, 1, 2, num_cached=99)
    core = next(each for each in operations_of(run) if each.name == "core")
    assert facts.of_operation(run, core) == (
        "attention: 4·b·s·t·a·d = 38,400 FLOPs forward; "
        "2·b·t·a_kv·d = 19,200 cached numbers, 37.5 KiB."
    )


def test_one_key_head_is_called_one():
    model = replace(preset("Llama-3-8B"), num_heads=4, num_kv_heads=1)
    assert "sharing 1 key-value head," in layer_diagram(model).caption


def test_with_bytes_every_tensor_carries_its_own():
    shown = elements(layer_diagram(gpt(48, 3), 2, 5, show="bytes").svg, "tensor")
    small = {name: group.findall("text")[-1].text for name, group in shown.items()}
    assert (small["u"], small["log_sum_exp"]) == ("3.75 KiB", "120 B")


@pytest.mark.parametrize(
    ("number", "count", "size"),
    [
        (0, "0", "0 B"),
        (999, "999", "999 B"),
        (1023, "1.02 k", "1023 B"),
        (999_500, "1 M", "976.1 KiB"),
        (2**40, "1.1 T", "1 TiB"),
        (10**15, "1 P", "909.5 TiB"),
    ],
)
def test_short_numbers(number, count, size):
    assert (facts.short_count(number), facts.short_bytes(number)) == (count, size)


def text_boxes(svg):
    """What each text may cover: a character is at most 0.62 of the font's size wide."""
    for each in ElementTree.fromstring(svg).iter("text"):
        words, size = "".join(each.itertext()), float(each.get("font-size", 13))
        if words:
            half, x, y = 0.31 * size * len(words), float(each.get("x")), float(each.get("y"))
            yield words, (x - half, x + half, y - 0.75 * size, y + 0.2 * size)


def shapes(svg):
    """What the shape of each operation covers."""
    for name, group in elements(svg, "operation").items():
        x, y, width, height = (
            float(group.find("rect").get(side)) for side in ("x", "y", "width", "height")
        )
        yield name, (x, x + width, y, y + height)


def are_apart(one, other):
    return one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]


def is_inside(one, other):
    return other[0] <= one[0] and one[1] <= other[1] and other[2] <= one[2] and one[3] <= other[3]


@pytest.mark.parametrize("show", ["flops", "bytes", "parameters", None])
@every_kernel
@every_model
def test_no_text_covers_another_or_is_cut_off(model, kernels, show):
    assert_texts_are_apart(layer_diagram(model, 2, 4096, show=show, kernels=kernels).svg)


@every_model
def test_no_text_covers_another_in_a_step_of_decoding(model):
    assert_texts_are_apart(layer_diagram(model, 64, 1, show="bytes", num_cached=8191).svg)


def assert_texts_are_apart(svg):
    *_, width, height = map(float, re.search(r'viewBox="([^"]+)"', svg)[1].split())
    boxes = list(text_boxes(svg))
    for one, (left, right, top, bottom) in boxes:
        assert left >= 0 and top >= 0 and right <= width and bottom <= height, one
    for (one, first), (other, second) in combinations(boxes, 2):
        assert are_apart(first, second), f"{one} covers {other}"
    for (one, text), (name, box) in product(boxes, shapes(svg)):
        assert are_apart(text, box) or is_inside(text, box), f"{one} reaches into {name}"


def test_two_drawings_on_a_page_share_no_id():
    html = "".join(layer_diagram(each)._repr_html_() for each in (gpt(48, 3), gpt(48, 3)))
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"url\(#([^)]+)\)|href=", html)) <= set(ids)


def test_the_drawing_takes_the_colours_of_the_page_and_of_the_course():
    svg = layer_diagram(preset("Llama-3-8B")).svg
    assert "fill: var(--jp-ui-font-color1, currentColor)" in svg
    used = set(re.findall(r"#[0-9a-f]{6}\b", svg))
    assert used <= {value for name, value in vars(colours).items() if name.isupper()}
    assert "http" not in svg


def test_a_still_drawing_is_one_image_with_a_text_alternative():
    diagram = layer_diagram(preset("GPT-2-124M"), seq_len=1024, show="parameters")
    root = ElementTree.fromstring(diagram.svg)
    assert (root.get("role"), root.get("aria-label")) == ("img", diagram.caption)
    assert "tabindex" not in diagram.svg
    assert repr(diagram) == (
        "Layer diagram: One layer 768 wide, 1 × 1,024 tokens: LayerNorm, 12 heads of 64; "
        "LayerNorm, feed-forward 3,072 wide. 7,087,872 parameters."
    )
    assert diagram.caption in diagram._repr_html_()


def test_facts_of_an_operation_and_a_tensor():
    run = LayerPass(gpt(48, 3), 2, 5, 2)
    up = next(each for each in operations_of(run) if each.name == "ffn.up")
    assert facts.of_operation(run, up) == (
        "W_up: 2·b·s·h·f = 184,320 FLOPs forward; h·f + f = 9,408 parameters, 18.38 KiB."
    )
    assert facts.of_tensor(run, tensors_of(run)["q"]) == (
        "q: b × s × a × d = 2 × 5 × 3 × 16 numbers of 2 bytes, 960 B."
    )


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (preset("DeepSeek-V3"), {}, "no latent attention"),
        (preset("Mixtral-8x7B"), {}, "no latent attention, experts"),
        (
            gpt(8, 2),
            {"kernels": Kernels(is_attention_fused=False, dropout_fraction=0.1)},
            "dropout",
        ),
        (gpt(8, 2), {"seq_len": 0}, "seq_len must be above zero"),
        (gpt(8, 2), {"element_bytes": 1}, "element_bytes must be 2 or 4"),
        (gpt(8, 2), {"show": "time"}, "show must be one of"),
        (gpt(8, 2), {"num_cached": -1}, "num_cached must be zero or above"),
        (
            gpt(8, 2),
            {"num_cached": 1, "kernels": Kernels(is_attention_fused=False)},
            "a cache only for fused attention",
        ),
    ],
)
def test_what_is_not_drawn_is_refused(model, options, words):
    with pytest.raises(ValueError, match=words):
        layer_diagram(model, **options)


# --- The widget ----------------------------------------------------------------------------------


def test_every_part_to_click_can_be_reached_by_key_and_has_a_label():
    explorer = layer_explorer(preset("Llama-3-8B"))
    tensors, operations = (elements(explorer.svg, kind) for kind in ("tensor", "operation"))
    for group in (*tensors.values(), *operations.values()):
        assert (group.get("tabindex"), group.get("role")) == ("0", "button")
        assert group.get("aria-label") == group.find("title").text
    assert all(group.get("aria-pressed") == "false" for group in tensors.values())
    assert ElementTree.fromstring(explorer.svg).get("role") == "group"  # an image has no buttons


def test_the_explorer_shows_the_still_drawing_where_there_are_no_widgets():
    explorer, diagram = (show(gpt(48, 3), 2, 5) for show in (layer_explorer, layer_diagram))
    data, _ = explorer._repr_mimebundle_()
    assert data["text/html"] == diagram._repr_html_()
    assert data["text/plain"] == repr(explorer)
    assert repr(explorer) == f"A layer to click on: run this cell. {diagram.caption}"
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == explorer.model_id


def test_marks_are_counted_and_judged_by_the_instrument():
    explorer = layer_explorer(gpt(48, 3), 2, 5)
    assert (explorer.message, explorer.verdicts) == (QUESTION, {})
    explorer.marked = ["x_1", "u", "y_1"]
    assert explorer.message == "3 marked: 5.625 KiB."  # 2 × 10 tokens × (48 + 192 + 48)
    explorer.asked += 1
    told = explorer.verdicts
    assert {name for name, verdict in told.items() if verdict == "right"} == {"x_1", "u"}
    assert {name for name, verdict in told.items() if verdict == "extra"} == {"y_1"}
    missed = {name for name, verdict in told.items() if verdict == "missed"}
    assert missed == set(saved_by_name(LayerPass(gpt(48, 3), 2, 5, 2))) - {"x_1", "u"}
    # 2 × 10 × (8 × 48 + 2 × 192 + 2 × 2) + 4 × 10 × 3 = 15,560 bytes
    assert explorer.message == (
        "✓ 2 of 13 right, ! 11 missed, ✗ 1 too many. Your bytes: 5.625 KiB; "
        "the instrument's: 15.2 KiB."
    )


def test_a_new_mark_takes_the_verdicts_away():
    explorer = layer_explorer(gpt(48, 3), 2, 5)
    explorer.asked += 1
    assert set(explorer.verdicts.values()) == {"missed"}
    assert explorer.reasons
    explorer.marked = ["x_1"]
    assert (explorer.verdicts, explorer.reasons) == ({}, [])
    explorer.marked = []
    assert explorer.message == QUESTION


@every_kernel
@every_model
def test_who_marks_what_is_kept_is_right(model, kernels):
    explorer = layer_explorer(model, 2, 7, kernels=kernels)
    explorer.marked = list(saved_by_name(LayerPass(model, 2, 7, 2, kernels)))
    explorer.asked += 1
    assert set(explorer.verdicts.values()) == {"right"}
    told = {name for each in explorer.reasons for name in each.partition(": ")[0].split(", ")}
    tensors = (each for layer in sub_layers(explorer._run) for each in layer.tensors)
    assert told >= {each.label.split(", ")[0] for each in tensors if each.name in explorer.marked}
    yours, instruments = re.findall(r": ([\d.]+ \w+)", explorer.message)
    assert yours == instruments


def test_the_script_and_the_style_are_packaged_small_and_fetch_nothing():
    folder = Path(layer_diagram.__code__.co_filename).parent
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["course_utils"]
    for name in ("layer_explorer.js", "layer_explorer.css"):
        text = (folder / name).read_text("utf-8")
        assert len(text.splitlines()) < 100
        assert not re.search(r"https?:|import\b|fetch\(", text)
        path = (folder / name).relative_to(ROOT / "course_utils")
        assert any(path.match(pattern) for pattern in patterns)
