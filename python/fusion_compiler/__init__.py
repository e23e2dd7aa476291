"""The Python side of the Fusion compiler: frontends and the command line.

It works on text and files only and links nothing of the compiler.
"""

__version__ = "0.1.0"
