"""Kinds of cases that the exercises of unit 05 have for every seed."""

FEATURES = {
    "u05-checkpoint": {
        "one layer": lambda case: case["num_layers"] == 1,
        "a chain": lambda case: case["num_layers"] > 1,
        "several inputs": lambda case: case["kind"] == "three inputs",
        "dropout": lambda case: case["kind"] == "dropout",
        "no gradient wanted": lambda case: case["kind"] == "data alone",
        "a mask": lambda case: case["kind"] == "a mask",
        "frozen numbers": lambda case: case["kind"] == "data and a scale",
        "autocast": lambda case: case["kind"] == "float16",
        "no autocast": lambda case: case["kind"] == "off",
        "autocast in backward alone": lambda case: case["kind"] == "on in backward",
    },
    "u05-segment-peak": {
        "k divides L": lambda c: c["num_layers"] % c["layers_per_segment"] == 0,
        "k does not divide L": lambda c: c["num_layers"] % c["layers_per_segment"] > 0,
        "one layer a segment": lambda c: c["layers_per_segment"] == 1,
        "one segment": lambda c: c["layers_per_segment"] == c["num_layers"],
        "longer than all": lambda c: c["layers_per_segment"] > c["num_layers"],
        "a real model": lambda c: c["boundary_bytes"] == 2 * 4096 * 2048,
    },
    "u05-loss-in-pieces": {
        "one piece": lambda case: case["num_pieces"] == 1,
        "pieces of one length": lambda c: c["num_tokens"] % c["num_pieces"] == 0,
        "pieces of two lengths": lambda c: c["num_tokens"] % c["num_pieces"] > 0,
    },
    "u05-segments": {
        "one layer in each": lambda case: case["layers_per_segment"] == 1,
        "all layers in one": lambda case: case["layers_per_segment"] == case["num_layers"],
        "longer than all": lambda case: case["layers_per_segment"] > case["num_layers"],
        "a shorter last one": lambda case: case["num_layers"] % case["layers_per_segment"] > 0,
        "equal ones": lambda c: c["num_layers"] == 6 and c["layers_per_segment"] == 2,
        "lengths that could be more even": lambda c: list(c.values())[:2] == [7, 3],
    },
    "u05-recomputed-flops": {
        "GPT": lambda c: not c["model"].get("is_gated", True),
        "gated": lambda c: c["model"].get("is_gated", True),
        "shared keys": lambda c: c["model"]["num_heads"] > c["model"]["num_kv_heads"],
        "several sequences": lambda c: c["num_sequences"] > 1,
        "heads of another width": lambda c: "head_dim" in c["model"],
        "a real layer": lambda c: c["model"]["hidden_size"] == 2048,
    },
    "u05-best-segment": {
        "one layer": lambda c: c["num_layers"] == 1,
        "layers that keep their input alone": lambda c: c["boundary_bytes"] == c["layer_bytes"],
        "layers that keep much": lambda c: c["layer_bytes"] >= 10 * c["boundary_bytes"],
        "a real model": lambda c: c["boundary_bytes"] == 134_217_728,
    },
    "u05-policy": {
        "biases": lambda c: c["kind"] == "GPT",
        "no biases": lambda c: c["kind"] == "Llama",
        "fused attention": lambda c: c["attention"] == "fused",
        "attention written out": lambda c: c["attention"] == "written out",
        "shared keys": lambda c: c["num_heads"] > c["num_kv_heads"],
    },
    "u05-plan": {
        "two options": lambda c: len(c["options"]) == 2,
        "four options": lambda c: len(c["options"]) == 4,
        "a whole model": lambda c: (c["num_layers"], len(c["options"])) == (16, 5),
        "equal options": lambda c: (
            len({each["kept_bytes"] for each in c["options"]}) < len(c["options"])
        ),
        "none fits": lambda c: (
            c["num_layers"] * min(each["kept_bytes"] for each in c["options"]) > c["cap_bytes"]
        ),
        "all fit": lambda c: (
            c["num_layers"] * max(each["kept_bytes"] for each in c["options"]) <= c["cap_bytes"]
        ),
    },
}
