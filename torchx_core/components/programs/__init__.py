"""Programs that built-in components run with ``python -c``: the standard library, and fsspec for URLs."""

__all__: list[str] = []
