"""Models that embed and rerank texts: one module for each provider."""

import os

# Before the libraries are loaded: ONNX Runtime otherwise reports to its makers, and the model hub's client to its own.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
