"""The process that owns one local app: starts, relays, restarts, stops and records its replicas.

It runs by itself (``python -I -S``) and outlives whoever submitted the app. To start fast and stay small it
imports the standard library and itself, nothing else of this project.
"""

__all__: list[str] = []
