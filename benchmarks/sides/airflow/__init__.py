"""The ways to run a command from Airflow that are compared; each module has a `create` function."""
