"""The three ways to run a job that are compared; each module has a `create` function."""
