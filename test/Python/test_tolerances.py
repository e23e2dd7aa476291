"""docs/tolerances.md says of every compute op and collective how exact it is."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAMILIES = ("UnaryOps", "ActivationOps", "BinaryOps", "SelectOps", "StructuralOps", "NamedOps", "GradientOps",
            "CollectiveOps")
DEFINITION = re.compile(r'^def Fusion_\w+Op\s*:\s*Fusion_\w+<"(\w+)"', re.MULTILINE)
#: Names ranks; computes nothing.
NOT_COMPUTING = {"mesh"}
#: Names in the tables that are attributes of ops.
ATTRIBUTES = {"alpha"}


def operations():
    found = set()
    for family in FAMILIES:
        names = DEFINITION.findall((ROOT / f"include/fusion/IR/{family}.td").read_text())
        assert names, f"no op found in {family}.td"
        found.update(names)
    return found - NOT_COMPUTING


def test_every_op_is_listed():
    listed = set(re.findall(r"`(\w+)`", (ROOT / "docs/tolerances.md").read_text()))
    missing = sorted(operations() - listed)
    assert not missing, f"docs/tolerances.md does not say how exact these are: {', '.join(missing)}"


def test_nothing_else_is_listed_as_an_op():
    """An op that was renamed or removed leaves no line behind."""
    text = (ROOT / "docs/tolerances.md").read_text()
    listed = {name for line in text.splitlines() if line.startswith("| ")
              for name in re.findall(r"`([a-z]\w*)`", line)}
    assert "add" in listed
    unknown = sorted(listed - operations() - ATTRIBUTES)
    assert not unknown, f"docs/tolerances.md lists what is no op: {', '.join(unknown)}"
