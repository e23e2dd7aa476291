"""The Python side of the Fusion compiler: frontends and the command line.

The frontends work on text and files only; `compiler` and `runtime` bind the two C
interfaces when they are used.
"""

__version__ = "0.1.0"
