"""See that the engines find the installed integrations."""

from importlib.metadata import entry_points
from pathlib import Path

import airflow_torchx
import prefect_torchx

for package in (airflow_torchx, prefect_torchx):
    folder = Path(str(package.__file__)).parent
    assert folder.parent.name == "site-packages", folder
    assert (folder / "py.typed").is_file()
    for name in package.__all__:
        assert hasattr(package, name), name

providers = entry_points(group="apache_airflow_provider")
[provider] = [entry for entry in providers if entry.module.startswith("airflow_torchx")]
assert provider.load()()["package-name"] == "airflow-provider-torchx"
print("airflow-provider-torchx and prefect-torchx are found")
