"""`python -m fusion_compiler.models`."""

import sys

from ..cli import handle_signals, main

if __name__ == "__main__":
    handle_signals()
    sys.exit(main(["models", *sys.argv[1:]]))
