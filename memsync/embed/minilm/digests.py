"""SHA-256 of each file that the built-in model is loaded from. Written by tools/build_minilm.py."""

SHA256 = {
    "model.onnx": "027077e164c1da83d871d8c277a7919d47e54b6384beafd0fa6666078bf38b25",
    "tokenizer.json": "b2671b6b396976e3f5aef2c69ea482aa60a2a571933664ab36f352d655ecea29",
    "tokenizer_config.json": "f9b74c7874b52c43e2a5734b567813e3684c6785e2d88061a0bf6ab3328b2b8c",
    "special_tokens_map.json": "88bbdf754dd64c44fff9e61b2c7d4380ded1bdf5c6d386be827ee28d79596cb9",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
}
