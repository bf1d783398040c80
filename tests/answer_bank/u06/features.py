"""Kinds of cases that the exercises of unit 06 have for every seed."""

FEATURES = {
    "u06-online": {
        "one block": lambda case: len(case["block_lengths"]) == 1,
        "unequal blocks": lambda case: len({*case["block_lengths"]}) > 2,
        "an empty row": lambda case: case["kind"] == "an empty row",
        "an empty first block": lambda case: case["kind"] == "an empty first block",
        "an empty block later": lambda case: case["kind"] == "an empty block later",
        "all very low": lambda case: case["kind"] == "all very low",
        "the largest first": lambda case: case["kind"] == "largest first",
        "rows far apart": lambda case: case["kind"] == "rows far apart",
    },
    "u06-forward": {
        "whole tiles": lambda case: (
            case["num_queries"] % case["block_q"] == 0 == case["num_keys"] % case["block_k"]
        ),
        "ragged queries": lambda case: case["num_queries"] % case["block_q"] > 0,
        "ragged keys": lambda case: case["num_keys"] % case["block_k"] > 0,
        "tall tiles": lambda case: case["block_q"] > case["block_k"],
        "wide tiles": lambda case: case["block_q"] < case["block_k"],
        "one query, many keys": lambda case: case["block_q"] == 1 and case["block_k"] > 10,
        "very low": lambda case: case["kind"] == "every score very low",
        "loud": lambda case: case["kind"] == "scores of every size",
        "ragged, traffic counted": lambda case: (
            case["scenario"] == "traffic" and case["num_queries"] % case["block_q"] > 0
        ),
    },
    "u06-backward": {
        "ragged": lambda case: case["seq_len"] % case["block"] > 0,
        "whole tiles": lambda case: case["seq_len"] % case["block"] == 0,
        "one tile": lambda case: case["block"] > case["seq_len"],
        "tiles of one": lambda case: case["block"] == 1,
        "several sequences": lambda case: len(case["heads"]) == 2,
        "parts of one tensor": lambda case: case["kind"] == "parts of one tensor",
        "frozen values": lambda case: case["kind"] == "values without a gradient",
    },
    "u06-traffic": {
        "ragged queries": lambda case: case["num_queries"] % case["block_q"] > 0,
        "ragged keys": lambda case: case["num_keys"] % case["block_k"] > 0,
        "one tile": lambda case: (
            case["num_queries"] <= case["block_q"] and case["num_keys"] <= case["block_k"]
        ),
        "beyond a float": lambda case: case["num_keys"] > 2**29,
        "more keys": lambda case: case["num_keys"] > case["num_queries"],
        "more queries": lambda case: case["num_keys"] < case["num_queries"],
    },
    "u06-merge": {
        "more keys first": lambda case: case["first_keys"] > case["other_keys"],
        "more keys later": lambda case: case["first_keys"] < case["other_keys"],
        "high": lambda case: case["kind"] == "high",
        "low": lambda case: case["kind"] == "low",
        "no key at all": lambda case: case["kind"] == "no key at all",
        "no key in the first": lambda case: case["kind"] == "no key in the first",
    },
    "u06-blocks": {
        "all fit": lambda case: (
            (case["capacity"] - case["block_k"] * case["head_dim"])
            // (2 * case["head_dim"] + case["block_k"] + 3)
            >= case["num_queries"]
        ),
        "some fit": lambda case: (
            (case["capacity"] - case["block_k"] * case["head_dim"])
            // (2 * case["head_dim"] + case["block_k"] + 3)
            < case["num_queries"]
        ),
    },
    "u06-backward-traffic": {
        "ragged keys": lambda case: case["num_keys"] % case["block_k"] > 0,
        "beyond a float": lambda case: case["num_keys"] > 2**29,
        "more queries": lambda case: case["num_keys"] < case["num_queries"],
    },
    "u06-causal-tiles": {
        "as many keys": lambda case: case["num_queries"] == case["num_keys"],
        "more keys": lambda case: case["num_queries"] < case["num_keys"],
        "square tiles": lambda case: case["block_q"] == case["block_k"],
        "tall tiles": lambda case: case["block_q"] > case["block_k"],
        "wide tiles": lambda case: case["block_q"] < case["block_k"],
        "one query": lambda case: case["num_queries"] == 1,
        "ragged": lambda case: case["num_queries"] % case["block_q"] > 0,
    },
    "u06-document-tiles": {
        "one document": lambda case: len(case["document_lengths"]) == 1,
        "several documents": lambda case: len(case["document_lengths"]) > 2,
        "shorter than a tile": lambda case: min(case["document_lengths"]) < case["block"],
        "ragged": lambda case: sum(case["document_lengths"]) % case["block"] > 0,
    },
}
