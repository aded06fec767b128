"""What runs programs: NumPy as the oracle, Numba on the CPU."""
