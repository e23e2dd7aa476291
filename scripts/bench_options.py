"""./dev bench: times the demo network against onnxruntime, and the compiler."""

# Needs nothing but Python, so that --help answers on any machine.
import argparse
from pathlib import Path


def parse():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("--bin-dir", type=Path, required=True, help="folder of the tools (./dev gives it)")
    parser.add_argument("--wheel", type=Path, required=True, help="wheel that holds the model (./dev gives it)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement")
    parser.add_argument("--repeats", type=int, default=100, help="runs a round")
    parser.add_argument("--json", type=Path, help="write the numbers to a file")
    return parser.parse_args()


if __name__ == "__main__":
    parse()
