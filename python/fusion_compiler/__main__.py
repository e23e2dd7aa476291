"""`python -m fusion_compiler`."""

import sys

from .cli import handle_signals, main

if __name__ == "__main__":
    handle_signals()
    sys.exit(main())
