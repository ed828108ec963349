"""The ways to run a command from Prefect that are compared; each module has a `create` function."""
