"""multilingual-e5-small, for a hundred languages.

`tools/build_multilingual.py`, which a wheel has beside this module, makes its files of published weights, once, in the
user's cache folder. memsync checks the SHA-256 of each of them.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

from memsync.embed.fastembed import FastembedEmbedder, checked_content
from memsync.errors import EmbedderError
from memsync.model.query import EmbeddingSpace
from memsync.system.extras import how_to_install
from memsync.system.user_folders import cache_folder

WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
LAYOUT = 3
"""Increase it when the conversion of the same weights changes, because the vectors then change, too."""
DIGESTS = "digests.json"
"""The file with the SHA-256 of all others, by name. It is written last, so a folder without it has no model."""
_BUILD = "memsync.embed.build_multilingual"  # where a wheel has the tool
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
    """Return the multilingual embedder; it checks its files at the first use. Raises EmbedderError without them."""
    folder = model_folder()
    if not (folder / DIGESTS).is_file():
        raise EmbedderError("the multilingual model is not made yet", hint=_how_to_make())
    return FastembedEmbedder(SPACE, _NAME, folder=folder, check=prepare)


def _how_to_make() -> str:
    command = f"{sys.executable} -m {_BUILD}" if find_spec(_BUILD) else "python tools/build_multilingual.py"
    return f"{how_to_install('multilingual')}\nThen run {command}, or use minilm."


def model_folder() -> Path:
    """Return the folder for the model's files; it may not exist yet."""
    return Path(cache_folder()) / "models" / f"{SPACE.model}-{SPACE.revision}"


def prepare() -> None:
    """Check the model's files, and register the model with fastembed. Raises EmbedderError."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    folder, how_to_make = model_folder(), _how_to_make()
    try:
        digests: dict[str, str] = json.loads((folder / DIGESTS).read_bytes())
    except (OSError, ValueError) as error:
        raise EmbedderError(f"the multilingual model's {folder / DIGESTS} cannot be read", hint=how_to_make) from error
    for name, digest in digests.items():
        checked_content(folder / name, digest, model="multilingual model", hint=how_to_make)
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
