"""Axes of the grid and finite-difference weights."""
