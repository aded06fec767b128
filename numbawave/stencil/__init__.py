"""The stencil calculus: linear forms, their tracing, and what is derived from them."""
