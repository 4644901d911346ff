"""SHA-256 of each file that the built-in model is loaded from. Written by tools/build_minilm.py."""

SHA256 = {
    "model.onnx": "587422eb2fbba08890f1ace054f46df13c1ab11bead42fff6e310d3456626fae",
    "tokenizer.json": "b2671b6b396976e3f5aef2c69ea482aa60a2a571933664ab36f352d655ecea29",
}
