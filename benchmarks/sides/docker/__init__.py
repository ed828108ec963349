"""The four ways to run containers that are compared; each module has a `create` function."""
