"""The suites by name."""

from typing import Callable

from .seed2 import workloads
from .workload import Workload

SUITES: dict[str, Callable[[], list[Workload]]] = {"seed2": workloads}
