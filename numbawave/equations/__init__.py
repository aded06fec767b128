"""The wave equations, one small file each, and their registry."""

from numbawave.equations.equation import Equation, Model
from numbawave.equations.scalar import SCALAR

EQUATIONS: dict[str, Equation] = {equation.name: equation for equation in sorted((SCALAR,), key=lambda e: e.name)}

__all__ = ["EQUATIONS", "SCALAR", "Equation", "Model"]
