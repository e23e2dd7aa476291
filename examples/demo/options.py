"""Fusion's demo: a real network, from its ONNX file to right answers."""

# Needs nothing but Python, so that --help answers on any machine.
import argparse
from pathlib import Path


def parse():
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--bin-dir", type=Path, required=True, help="folder of the tools (./dev gives it)")
    parser.add_argument("--wheel", type=Path, required=True, help="wheel that holds the model (./dev gives it)")
    parser.add_argument("--work-dir", type=Path, required=True, help="folder for all files made (./dev gives it)")
    parser.add_argument("--rounds", type=int, default=5, help="timing rounds (default 5)")
    parser.add_argument("--repeats", type=int, default=100, help="runs a round (default 100)")
    parser.add_argument("--strict", action="store_true", help="too slow is a failure too")
    return parser.parse_args()


if __name__ == "__main__":
    parse()
