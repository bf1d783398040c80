"""Kinds of cases that the exercises of unit 06 have for every seed."""

from autograder.exercises.u06.rates import kv_bytes, kv_in_flight, walked


def _needed(case: dict) -> int:
    """Keys and values of the heads in flight."""
    shape = case["shape"]
    return kv_in_flight(shape, case["block_q"], case["gpu"]["processors"]) * kv_bytes(shape)


def _fits(case: dict) -> bool:
    return _needed(case) <= case["gpu"]["l2_bytes"]


def _all_fit(case: dict) -> bool:
    shape = case["shape"]
    heads: int = shape["batch"] * shape["kv_heads"]
    return heads * kv_bytes(shape) <= case["gpu"]["l2_bytes"]


def _needed_by_one_sequence(case: dict) -> int:
    """The same, were only one sequence there."""
    return _needed(case | {"shape": case["shape"] | {"batch": 1}})


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
    "u06-l2": {
        "the cache holds what is in flight": lambda case: _fits(case) and not _all_fit(case),
        "the cache does not": lambda case: not _fits(case),
        "a second sequence in flight decides": lambda case: (
            _needed_by_one_sequence(case) <= case["gpu"]["l2_bytes"] < _needed(case)
        ),
        "just so, with a second sequence in flight": lambda case: (
            _needed_by_one_sequence(case) < _needed(case)
            and 0 <= case["gpu"]["l2_bytes"] - _needed(case) < kv_bytes(case["shape"]) // 2
            and not _all_fit(case)
        ),
        "it holds keys and values, and not queries too": lambda case: (
            _needed(case) < case["gpu"]["l2_bytes"] < 3 * _needed(case) // 2
        ),
        "just so": lambda case: _needed(case) == case["gpu"]["l2_bytes"],
        "a head that has only begun decides, and bytes take the time": lambda case: (
            walked(**case)["l2_rate"] < case["gpu"]["peak"]
            and not _fits(case)
            and _needed(case) - kv_bytes(case["shape"]) < case["gpu"]["l2_bytes"]
            and case["gpu"]["processors"] % -(-case["shape"]["seq"] // case["block_q"])
        ),
        "the first head of a group decides": lambda case: (
            case["shape"]["heads"] > case["shape"]["kv_heads"]
            and walked(**case)["l2_rate"] < case["gpu"]["peak"]
            and _needed(case) - 1 == case["gpu"]["l2_bytes"]
        ),
        "shared keys": lambda case: case["shape"]["heads"] > case["shape"]["kv_heads"],
        "several sequences": lambda case: case["shape"]["batch"] > 1,
        "ragged tiles": lambda case: case["shape"]["seq"] % case["block_q"] > 0,
        "more processors than tiles": lambda case: case["gpu"]["processors"] == 10_000,
        "bound by products": lambda case: walked(**case)["l2_rate"] == case["gpu"]["peak"],
        "bound by bytes": lambda case: walked(**case)["dram_rate"] < case["gpu"]["peak"],
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
