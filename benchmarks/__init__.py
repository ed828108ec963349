"""Measures this project beside TorchX and beside what the operating system allows."""
