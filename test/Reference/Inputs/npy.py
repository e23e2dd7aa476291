"""Writes and shows .npy files with the standard library alone.

    npy.py write FILE DESCR SHAPE VALUE...    SHAPE as 2x3, or - for a scalar
    npy.py pack ARCHIVE FILE...               a compressed .npz of .npy files
    npy.py show FILE...                       shape and values, a line a file
"""
import ast
import os
import struct
import sys
import zipfile

FORMATS = {"<f8": "d", "<f4": "f", "<f2": "e", "<i8": "q", "<i4": "i", "|i1": "b", "|b1": "?"}


def write(path, descr, shape, *values):
    sizes = () if shape == "-" else tuple(int(s) for s in shape.split("x"))
    number = float if descr[1] == "f" else int
    header = repr({"descr": descr, "fortran_order": False, "shape": sizes}) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{len(values)}{FORMATS[descr]}", *map(number, values)))


def pack(archive, *paths):
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in paths:
            file.write(path, os.path.basename(path))


def show(*paths):
    for path in paths:
        with open(path, "rb") as file:
            data = file.read()
        (length,) = struct.unpack("<H", data[8:10])
        header = ast.literal_eval(data[10 : 10 + length].decode())
        code = FORMATS[header["descr"]]
        body = data[10 + length :]
        values = struct.unpack(f"<{len(body) // struct.calcsize('<' + code)}{code}", body)
        print(header["descr"], "x".join(map(str, header["shape"])) or "-", *(f"{v:g}" for v in values))


{"write": write, "pack": pack, "show": show}[sys.argv[1]](*sys.argv[2:])
