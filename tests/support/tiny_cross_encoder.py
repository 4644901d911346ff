"""A real cross-encoder of a few hundred bytes, in fastembed's cache under the default model's name.

Its logit is 2 × (words of WORDS that question and text share) − 3, counted among the first MOST_TOKENS tokens of both.
"""

from __future__ import annotations

import json
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from memsync.settings.settings_list import RERANK_MODEL

WORDS = ("heron", "tern", "alder", "harbour", "ketch", "rope", "nest", "herring", "dives", "storm")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
MOST_TOKENS = 64
RELEVANCE = (0.04742587317756678, 0.2689414213699951, 0.7310585786300049, 0.9525741268224334)
"""The relevance of a text that shares 0, 1, 2 or 3 of the words with the question."""


def put_in_cache(folder: Path, name: str = RERANK_MODEL) -> Path:
    """Write the model into `folder` as fastembed keeps what it has fetched; return the folder of its files."""
    model = folder / f"models--{name.replace('/', '--')}"
    files = model / "snapshots" / "1"
    (files / "onnx").mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("1")
    (files / "onnx" / "model.onnx").write_bytes(_graph().SerializeToString())
    (files / "tokenizer.json").write_text(json.dumps(_tokenizer()))
    (files / "tokenizer_config.json").write_text(json.dumps({"model_max_length": MOST_TOKENS, "pad_token": "[PAD]"}))
    (files / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    return files


def _graph() -> onnx.ModelProto:
    """Return the model: each token of the question is compared with each of the text, special ones aside."""

    def constant(name: str, values: list[float], kind: int = TensorProto.INT64) -> onnx.TensorProto:
        return helper.make_tensor(name, kind, [len(values)], values)

    nodes = [
        helper.make_node("Greater", ["input_ids", "last_special"], ["is_word"]),
        helper.make_node("Equal", ["token_type_ids", "zero"], ["is_first"]),
        helper.make_node("Equal", ["token_type_ids", "one"], ["is_second"]),
        helper.make_node("And", ["is_word", "is_first"], ["asked"]),
        helper.make_node("And", ["is_word", "is_second"], ["read"]),
        helper.make_node("Unsqueeze", ["asked", "two"], ["asked_column"]),
        helper.make_node("Unsqueeze", ["read", "one"], ["read_row"]),
        helper.make_node("Unsqueeze", ["input_ids", "two"], ["ids_column"]),
        helper.make_node("Unsqueeze", ["input_ids", "one"], ["ids_row"]),
        helper.make_node("Equal", ["ids_column", "ids_row"], ["equal"]),
        helper.make_node("And", ["asked_column", "read_row"], ["both"]),
        helper.make_node("And", ["equal", "both"], ["shared"]),
        helper.make_node("Cast", ["shared"], ["shared_numbers"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["shared_numbers", "two"], ["of_each_word"], keepdims=0),
        helper.make_node("ReduceSum", ["of_each_word", "one"], ["count"], keepdims=1),
        helper.make_node("Mul", ["count", "factor"], ["scaled"]),
        helper.make_node("Sub", ["scaled", "base"], ["logits"]),
    ]
    shape = ["batch", "tokens"]
    graph = helper.make_graph(
        nodes,
        "shared words",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("input_ids", "token_type_ids")],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])],
        [
            constant("last_special", [len(SPECIAL) - 1]),
            constant("zero", [0]),
            constant("one", [1]),
            constant("two", [2]),
            constant("factor", [2.0], TensorProto.FLOAT),
            constant("base", [3.0], TensorProto.FLOAT),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    return model


def _tokenizer() -> dict[str, object]:
    def one(token: str, of: int) -> dict[str, object]:
        return {"SpecialToken": {"id": token, "type_id": of}}

    def text(name: str, of: int) -> dict[str, object]:
        return {"Sequence": {"id": name, "type_id": of}}

    numbers = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}
            for number, token in enumerate(SPECIAL)
        ],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [one("[CLS]", 0), text("A", 0), one("[SEP]", 0)],
            "pair": [one("[CLS]", 0), text("A", 0), one("[SEP]", 0), text("B", 1), one("[SEP]", 1)],
            "special_tokens": {
                token: {"id": token, "ids": [numbers[token]], "tokens": [token]} for token in ("[CLS]", "[SEP]")
            },
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": numbers, "unk_token": "[UNK]"},
    }  # fmt: skip
