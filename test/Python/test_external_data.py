"""External weights stay inside the model's folder: one test for each attack of that kind (T9)."""

import hashlib
import os
import resource
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, model, value
from onnx import TensorProto, helper

from fusion_compiler.errors import FusionError
from fusion_compiler.frontend.onnx.external import ExternalFiles

WEIGHTS = np.arange(12, dtype="<f4")


def external(entries: dict[str, str], dims=(12,)) -> TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=text)
    return tensor


def bytes_of(folder, entries, size=48, use_openat2=True):
    files = ExternalFiles(str(folder), use_openat2)
    return bytes(files.map(external(entries), size, "tensor 'w'"))


@pytest.fixture(params=[True, False], ids=["openat2", "components"])
def refused(request, tmp_path):
    """Asserts that a location or other entries are refused, by both ways to open a path."""
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)

    def check(entries, message: str):
        entries = {"location": entries} if isinstance(entries, str) else entries
        with pytest.raises(FusionError) as error:
            bytes_of(folder, entries, use_openat2=request.param)
        assert error.value.code == 3
        assert message in str(error.value)

    check.folder = folder
    check.outside = tmp_path
    return check


@pytest.mark.parametrize("use_openat2", [True, False])
def test_honest_locations_are_read(use_openat2, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"head" + WEIGHTS.tobytes() + b"tail")
    for location in ("sub/w.bin", "./sub/w.bin", "sub//w.bin"):
        entries = {"location": location, "offset": "4", "length": "48"}
        assert bytes_of(tmp_path, entries, use_openat2=use_openat2) == WEIGHTS.tobytes()
    sha1 = hashlib.sha1((tmp_path / "sub" / "w.bin").read_bytes()).hexdigest()
    assert bytes_of(tmp_path, {"location": "sub/w.bin", "offset": "4", "checksum": sha1}, use_openat2=use_openat2)


def test_parent_folder(refused):
    (refused.outside / "secret").write_bytes(bytes(48))
    for location in ("../secret", "sub/../../secret", "..", "a/.."):
        refused(location, "leaves the model's folder")


def test_absolute_path(refused):
    refused("/etc/passwd", "isn't a path relative to the model's folder")
    refused("C:\\w.bin", "isn't a path relative to the model's folder")
    refused("..\\secret", "isn't a path relative to the model's folder")


def test_symbolic_link_at_the_end(refused):
    (refused.outside / "secret").write_bytes(bytes(48))
    (refused.folder / "w.bin").symlink_to(refused.outside / "secret")
    refused("w.bin", "is reached through a symbolic link")
    (refused.folder / "real.bin").write_bytes(bytes(48))
    (refused.folder / "inside.bin").symlink_to("real.bin")
    refused("inside.bin", "is reached through a symbolic link")


def test_symbolic_link_in_a_component(refused):
    (refused.outside / "other").mkdir()
    (refused.outside / "other" / "w.bin").write_bytes(bytes(48))
    (refused.folder / "sub").symlink_to(refused.outside / "other")
    refused("sub/w.bin", "is reached through a symbolic link")


def test_magic_link_of_proc(refused):
    (refused.outside / "secret").write_bytes(bytes(48))
    with open(refused.outside / "secret", "rb") as file:
        (refused.folder / "w.bin").symlink_to(f"/proc/self/fd/{file.fileno()}")
        refused("w.bin", "is reached through a symbolic link")


def test_hard_link(refused):
    (refused.outside / "secret").write_bytes(bytes(48))
    os.link(refused.outside / "secret", refused.folder / "w.bin")
    refused("w.bin", "has 2 hard links")


def test_fifo_does_not_block(refused):
    os.mkfifo(refused.folder / "w.bin")
    refused("w.bin", "isn't a regular file")


def test_device(refused):
    try:
        os.mknod(refused.folder / "w.bin", 0o20666, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("device nodes need root")
    refused("w.bin", "isn't a regular file")


def test_folder_and_missing_file(refused):
    (refused.folder / "sub").mkdir()
    refused("sub", "isn't a regular file")
    refused(".", "isn't a regular file" if os.uname().sysname != "Linux" else "external file '.'")
    refused("missing.bin", "doesn't exist")


def test_nul_in_the_name(refused):
    (refused.folder / "w.bin").write_bytes(bytes(48))
    refused("w.bin\0.png", "has a NUL in its name")


def test_name_that_is_too_long_or_empty(refused):
    refused("a" * 5000, "has a name of more than 4096 bytes")
    refused("", "without a location")
    refused({"offset": "0"}, "without a location")


def test_unknown_and_repeated_keys(refused):
    (refused.folder / "w.bin").write_bytes(bytes(48))
    refused({"location": "w.bin", "Location": "v.bin"}, "the unknown key 'Location'")
    refused({"location": "w.bin", "basepath": "/"}, "the unknown key 'basepath'")
    tensor = external({"location": "w.bin"})
    tensor.external_data.add(key="location", value="v.bin")
    with pytest.raises(FusionError, match="the key 'location' twice"):
        ExternalFiles(str(refused.folder)).map(tensor, 48, "tensor 'w'")


@pytest.mark.parametrize("number", ["-1", "0x10", "1e3", " 4", "4_0", "٣", "9" * 19, "9" * 30, ""])
@pytest.mark.parametrize("key", ["offset", "length"])
def test_numbers_that_are_none(key, number, tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(48))
    with pytest.raises(FusionError, match=f"external data with the {key} .*, not a number in"):
        bytes_of(tmp_path, {"location": "w.bin", key: number})


def test_offset_and_length_past_the_end(refused):
    (refused.folder / "w.bin").write_bytes(bytes(48))
    refused({"location": "w.bin", "offset": "49"}, "has 48 bytes, the offset is 49")
    refused({"location": "w.bin", "offset": "4"}, "has 44 bytes from offset 4 on, the tensor's shape needs 48")
    refused({"location": "w.bin", "length": "52"}, "has 48 bytes from offset 0 on, the length is 52")
    refused({"location": "w.bin", "length": "44"}, "the length is 44 bytes, the tensor's shape needs 48")
    refused({"location": "w.bin", "offset": str(2**63 - 1), "length": "48"}, "has 48 bytes, the offset is")


def test_checksum(refused):
    (refused.folder / "w.bin").write_bytes(bytes(48))
    refused({"location": "w.bin", "checksum": "0" * 40}, "has SHA-1 ")


def test_a_file_changed_for_a_link_after_the_check(tmp_path):
    """The path is resolved once and the descriptor kept: a swap afterwards changes nothing."""
    (tmp_path / "w.bin").write_bytes(WEIGHTS.tobytes())
    files = ExternalFiles(str(tmp_path))
    first = files.map(external({"location": "w.bin"}), 48, "tensor 'w'")
    (tmp_path / "w.bin").unlink()
    (tmp_path / "w.bin").symlink_to("/etc/passwd")
    assert bytes(files.map(external({"location": "w.bin"}), 48, "tensor 'w'")) == bytes(first) == WEIGHTS.tobytes()


def test_data_in_the_model_and_in_a_file(run_import, tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(48))
    weights = external({"location": "w.bin"})
    weights.raw_data = bytes(48)
    source = model([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [12])], [value("y", None)], [weights])
    imported = run_import(source)
    assert imported.code == 3 and "has data both in the model and in another file" in imported.error


def test_tensors_share_a_file(run_import, tmp_path):
    (tmp_path / "w.bin").write_bytes(np.arange(200, dtype="<f4").tobytes())
    weights = []
    for index in range(2):
        weights.append(external({"location": "w.bin", "offset": str(400 * index), "length": "400"}, (100,)))
        weights[-1].name = f"w{index}"
    nodes = [helper.make_node("Add", ["x", "w0"], ["t"]), helper.make_node("Add", ["t", "w1"], ["y"])]
    imported = run_import(model(nodes, [value("x", [100])], [value("y", None)], weights))
    assert imported.code == 0
    from safetensors import safe_open

    with safe_open(imported.output.with_suffix(".safetensors"), "np") as file:
        assert file.get_tensor("w0").tolist() == list(range(100))
        assert file.get_tensor("w1").tolist() == list(range(100, 200))


def test_more_than_2_gib_without_a_copy(tmp_path):
    """A sparse file of 2.2 GB, imported by a process that may allocate 400 MB."""
    columns = 550_000
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(1000 * columns * 4)
        file.seek(4)
        file.write(np.array([3], "<f4").tobytes())
    weights = external({"location": "w.bin"}, (1000, columns))
    source = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", [1, 1000])], [value("y", None)], [weights])
    (tmp_path / "m.onnx").write_bytes(source.SerializeToString())

    def limited():
        resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, 400 << 20))

    done = subprocess.run([sys.executable, "-m", "fusion_compiler", "import", "m.onnx", "-o", "o.mlir"], cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "OPENBLAS_NUM_THREADS": "1"},
                          capture_output=True, text=True, preexec_fn=limited, timeout=300)
    assert done.returncode == 0, done.stderr
    output = tmp_path / "o.safetensors"
    assert output.stat().st_size > 1000 * columns * 4
    assert output.stat().st_blocks * 512 < 100 << 20  # what is zero takes no disk
    with open(output, "rb") as file:
        header = int.from_bytes(file.read(8), "little")
        file.seek(8 + header)
        assert np.frombuffer(file.read(12), "<f4").tolist() == [0.0, 3.0, 0.0]
