# ===- presets.py - Models by name ----------------------------------------=== #
#
# Sizes of well-known models. Flags given beside a preset win over it.
#
# ===----------------------------------------------------------------------=== #
"""Named sizes."""

from __future__ import annotations

from .convnet import ConvNet
from .mlp import Mlp
from .model import Model
from .transformer import Gpt, Llama

MODELS: dict[str, type[Model]] = {"mlp": Mlp, "convnet": ConvNet, "gpt": Gpt, "llama": Llama}


def _gpt(layers: int, hidden: int, heads: int) -> tuple[str, dict]:
    return "gpt", {"layers": layers, "hidden": hidden, "heads": heads, "seq": 1024, "vocab": 50257, "tied": True,
                   "batch": 8}


def _llama(layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, vocab: int, theta: float) -> tuple[str, dict]:
    return "llama", {"layers": layers, "hidden": hidden, "heads": heads, "kv_heads": kv_heads, "ffn": ffn,
                     "vocab": vocab, "theta": theta, "seq": 2048, "batch": 1}


PRESETS: dict[str, tuple[str, dict]] = {
    "convnet-cifar": ("convnet", {"layers": 3, "hidden": 64, "image": 32, "batch": 128}),
    "gpt-124m": _gpt(12, 768, 12),
    "gpt-355m": _gpt(24, 1024, 16),
    "gpt-774m": _gpt(36, 1280, 20),
    "gpt-1558m": _gpt(48, 1600, 25),
    "llama-7b": _llama(32, 4096, 32, 32, 11008, 32000, 10000.0),
    "llama3-8b": _llama(32, 4096, 32, 8, 14336, 128256, 500000.0),
    "llama3-70b": _llama(80, 8192, 64, 8, 28672, 128256, 500000.0),
}
