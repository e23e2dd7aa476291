# Writes the weights files that fold-batch-norm-parameters.test reads: a good
# one and damaged ones, from the format's description alone.
import hashlib
import json
import os
import struct
import sys

folder = sys.argv[1]
tensors = {
    "w": struct.pack("<2f", 1.0, 3.0),
    "scale": struct.pack("<2f", 2.0, 4.0),
    "ones": struct.pack("<2f", 1.0, 1.0),
    "zeros": struct.pack("<2f", 0.0, 0.0),
}
shapes = {"w": [2, 1, 1], "scale": [2], "ones": [2], "zeros": [2]}


def header(offsets_of=lambda begin, end: [begin, end], dtype="F32"):
    fields, at = {"__metadata__": {"format": "pt"}}, 0
    for name, data in tensors.items():
        fields[name] = {"dtype": dtype, "shape": shapes[name],
                        "data_offsets": offsets_of(at, at + len(data))}
        at += len(data)
    return json.dumps(fields).encode()


def write(name, text, data=b"".join(tensors.values())):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


write("good.safetensors", header())
write("outside.safetensors", header(lambda begin, end: [begin + 1000, end + 1000]))
write("size.safetensors", header(lambda begin, end: [begin, end - 4]))
write("dtype.safetensors", header(dtype="I32"))
write("json.safetensors", b"{\"w\": ")
write("deep.safetensors", b"[" * 1000000)
with open(os.path.join(folder, "short.safetensors"), "wb") as file:
    file.write(b"\x01\x02")
with open(os.path.join(folder, "long.safetensors"), "wb") as file:
    file.write(struct.pack("<Q", 1 << 40))
os.symlink("good.safetensors", os.path.join(folder, "link.safetensors"))
os.mkdir(os.path.join(folder, "folder.safetensors"))

model = open(os.path.join(folder, "model.mlir")).read()
model = model.replace("HASH", hashlib.sha256(tensors["w"]).hexdigest())
for name in ["good", "outside", "size", "dtype", "json", "deep", "short", "long", "link", "folder", "missing"]:
    with open(os.path.join(folder, name + ".mlir"), "w") as file:
        file.write(model.replace("FILE", name + ".safetensors"))
with open(os.path.join(folder, "hash.mlir"), "w") as file:
    file.write(model.replace("FILE", "good.safetensors").replace(
        hashlib.sha256(tensors["w"]).hexdigest(), "0" * 64))
with open(os.path.join(folder, "key.mlir"), "w") as file:
    file.write(model.replace("FILE", "good.safetensors").replace('key "w"', 'key "v"'))
