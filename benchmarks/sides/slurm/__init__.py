"""The two ways to run jobs on a Slurm cluster that are compared; each module has a `create` function."""
