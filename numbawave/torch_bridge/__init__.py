"""The door to PyTorch: tensors pass through DLPack, gradients through one autograd.Function."""
