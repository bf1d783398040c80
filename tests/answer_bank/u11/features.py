"""Kinds of cases that the exercises of unit 11 have for every seed."""

FEATURES = {
    "u11-f-and-g": {
        "one rank": lambda case: case["num_ranks"] == 1,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "a transposed gradient": lambda case: case["kind"] == "transposed",
        "an expanded gradient": lambda case: case["kind"] == "expanded gradient",
        "x used twice": lambda case: case["kind"] == "input used twice",
        "f": lambda case: case["scenario"] == "f",
        "g": lambda case: case["scenario"] == "g",
    },
    "u11-mlp": {
        "one rank": lambda case: case["num_ranks"] == 1,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "a rest": lambda case: case["ffn_size"] % case["num_ranks"] > 0,
        "nine on four": lambda case: (case["ffn_size"], case["num_ranks"]) == (9, 4),
    },
    "u11-keep-shard": {
        "one rank": lambda case: case["num_ranks"] == 1,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "a transposed gradient": lambda case: case["kind"] == "transposed gradient",
        "kept": lambda case: case["scenario"] == "kept",
        "overlapped": lambda case: case["scenario"] == "overlapped",
    },
    "u11-volume": {
        "one rank": lambda case: case["num_ranks"] == 1,
        "eight ranks": lambda case: case["num_ranks"] == 8,
        "beyond a float": lambda case: case["num_tokens"] * case["hidden_size"] > 2**53,
        "four bytes": lambda case: case["element_bytes"] == 4,
        "odd width": lambda case: case["hidden_size"] % 2 > 0,
    },
    "u11-ring": {
        "one rank": lambda case: case["num_ranks"] == 1,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "early and late": lambda case: case["layout"] == "early and late",
        "side by side": lambda case: case["layout"] == "side by side",
        "large scores": lambda case: case["scenario"] == "extreme",
    },
    "u11-attention": {
        "one rank": lambda case: case["num_ranks"] == 1,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "a group": lambda case: case["num_heads"] > case["num_kv_heads"] > case["num_ranks"] - 1,
        "a key head a rank": lambda case: case["num_kv_heads"] >= case["num_ranks"],
        "h is not a d": lambda case: case["hidden_size"] != case["num_heads"] * case["head_dim"],
    },
    "u11-zigzag": {
        "one rank": lambda case: case["num_ranks"] == 1,
        "eight ranks": lambda case: case["num_ranks"] == 8,
        "pieces of one": lambda case: case["seq_len"] == 2 * case["num_ranks"],
        "an odd number of ranks": lambda case: case["num_ranks"] in (3, 5, 7),
    },
    "u11-replicated": {
        "one rank": lambda case: case["num_ranks"] == 1,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "biases": lambda case: case["has_biases"],
        "a norm without a gradient": lambda case: case["without_gradient"] == "norm2",
    },
    "u11-combine": {
        "one rank": lambda case: case["num_ranks"] == 1,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "ranks far apart": lambda case: case["kind"] == "ranks far apart",
        "a row without keys": lambda case: case["kind"] == "a row without keys",
    },
}
