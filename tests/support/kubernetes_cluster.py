"""A real Kubernetes of the tests' own: a control plane, and nodes that are hosts with a power switch.

It needs binaries that no Debian package ships today: ``TORCHX_TEST_KUBERNETES`` names a folder with
``kube-apiserver``, ``kube-controller-manager``, ``kube-scheduler``, ``kubelet`` and ``kubectl``. It was seen
with version 1.20, which is the last one whose source Debian has. etcd, containerd, runc and the network
plugins are Debian's.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import docker
from certificates import make_certificates
from daemons import ends
from docker_engine import DockerEngine
from docker_images import PYTHON_IMAGE, SHELL_IMAGE
from hosts import Host, Network, why_no_hosts

from torchx_core.testing import wait_until

__all__ = ["NODES", "KubernetesCluster", "Pod", "why_no_kubernetes"]

NODES = ("n1", "n2")
START_TIMEOUT_S = 300.0
PAUSE_IMAGE = "torchx-test-pause:latest"
NETWORK_PLUGINS = Path("/usr/lib/cni")
BINARIES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
TOOLS = ("etcd", "containerd", "ctr", "runc", "openssl", "iptables")
CONTAINERD = "/run/containerd/containerd.sock"
KERNEL = {"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"}
"""What a kubelet sets for the whole machine. A node sees files that say so already."""
NODE_GONE_S = 8
"""After how much silence a node counts as gone; sooner than Airflow's 10 s for a task, whose retry must not
be sent there."""
_ENV = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}  # a test's own marks are not in it


def _binaries() -> Path:
    return Path(os.environ.get("TORCHX_TEST_KUBERNETES", ""))


def why_no_kubernetes() -> str | None:
    """Return why there can be no cluster here, or None when there can be."""
    if reason := why_no_hosts():
        return reason
    if not os.environ.get("TORCHX_TEST_KUBERNETES"):
        return "TORCHX_TEST_KUBERNETES names no folder with Kubernetes' binaries"
    missing = [name for name in BINARIES if not (_binaries() / name).exists()]
    missing += [tool for tool in TOOLS if shutil.which(tool) is None]
    if not (NETWORK_PLUGINS / "ptp").exists():
        missing.append("containernetworking-plugins")
    return f"not there: {', '.join(missing)}" if missing else None


class Pod(NamedTuple):
    """One pod, as the API server has it."""

    name: str
    node: str
    """Empty as long as it has none."""
    phase: str
    annotations: Mapping[str, str]


class KubernetesCluster:
    """Start it, look at its pods, and do to pods and nodes what an operator or fate does."""

    def __init__(self, home: Path, engine: DockerEngine) -> None:
        """Start nothing yet.

        Args:
            home: Where everything is kept.
            engine: Has the images that the nodes are given.
        """
        self.home = home
        self._engine = engine
        self.network = Network({Network.CENTRE: {}, **{name: self._mounts(name) for name in NODES}})
        self.config = home / "kubeconfig"
        """By which a client reaches it, as an administrator."""

    def _mounts(self, name: str) -> dict[Path, Path | str]:
        own = {Path("/var") / part: self._node(name) / part for part in ("lib", "log")}
        kernel = {}
        for key, value in KERNEL.items():
            file = self._node(name) / "kernel" / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(value + "\n")
            kernel[Path("/proc/sys") / key] = file
        for folder in own.values():
            folder.mkdir(parents=True)
        return {**own, **kernel, Path("/run"): "tmpfs"}

    @property
    def address(self) -> str:
        """Where pods reach what runs beside the control plane."""
        return self.network.address

    # --- start and stop

    def start(self) -> None:
        """Start everything, and wait until each node is ready."""
        self.network.start()
        make_certificates(self.home, self.address)
        self.config.write_text(json.dumps(self._client()))
        self._start_control_plane()
        wait_until(lambda: self.kubectl("get", "--raw=/readyz", check=False) == "ok", START_TIMEOUT_S)
        images = self._save_images()
        for name in NODES:
            self._prepare_node(name)
            self._start_node(name)
            for image in images:
                self._import(name, image)
        wait_until(lambda: all(self.is_ready(name) for name in NODES), START_TIMEOUT_S)

    def stop(self) -> None:
        """Switch everything off, and remove what its containers leave in the kernel."""
        self.network.stop()
        for kept in self.home.glob("nodes/*/lib/containerd/io.containerd.grpc.v1.cri/*/*"):
            for group in Path("/sys/fs/cgroup").glob(f"*/k8s.io/{kept.name}"):
                group.rmdir()
        for group in Path("/sys/fs/cgroup").glob("*/k8s.io"):
            with suppress(OSError):  # somebody else's containers are in it
                group.rmdir()

    def _client(self) -> dict[str, object]:
        cluster = {
            "server": f"https://{self.address}:6443",
            "certificate-authority": str(self.home / "ca.pem"),
        }
        user = {
            "client-certificate": str(self.home / "cert.pem"),
            "client-key": str(self.home / "key.pem"),
        }
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        }

    def _start_control_plane(self) -> None:
        etcd = "http://127.0.0.1:2379"
        here, folder = self.network.centre, self.home
        self._start(
            here,
            "etcd",
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--unsafe-no-fsync",
        )
        self._start(
            here,
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            f"--bind-address={self.address}",
            f"--advertise-address={self.address}",
            f"--client-ca-file={folder / 'ca.pem'}",
            f"--tls-cert-file={folder / 'server-cert.pem'}",
            f"--tls-private-key-file={folder / 'server-key.pem'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder / 'key.pem'}",
            f"--service-account-signing-key-file={folder / 'key.pem'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--disable-admission-plugins=ServiceAccount",
            "--kubelet-preferred-address-types=InternalIP",
        )
        login = f"--kubeconfig={self.config}"
        self._start(
            here,
            "kube-controller-manager",
            login,
            "--controllers=nodelifecycle,podgc",
            "--leader-elect=false",
            f"--node-monitor-grace-period={NODE_GONE_S}s",
            "--node-monitor-period=1s",
        )
        self._start(here, "kube-scheduler", login, "--leader-elect=false")

    def _prepare_node(self, name: str) -> None:
        number = NODES.index(name)
        network = {
            "cniVersion": "0.4.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "ptp",
                    "ipMasq": True,
                    "ipam": {
                        "type": "host-local",
                        "ranges": [[{"subnet": f"10.215.{number}.0/24"}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                }
            ],
        }
        kubelet = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.network.address_of(name),
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},  # its network has no other host than ours
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "evictionHard": {"memory.available": "1Mi"},
            "failSwapOn": False,
            "imageGCHighThresholdPercent": 100,
            "makeIPTablesUtilChains": False,
            "nodeStatusUpdateFrequency": "2s",
            "nodeLeaseDurationSeconds": 4,
            "resolvConf": "",
        }
        containerd = f"""
            version = 2
            [plugins."io.containerd.grpc.v1.cri"]
              sandbox_image = "docker.io/library/{PAUSE_IMAGE}"
              disable_apparmor = true
              restrict_oom_score_adj = true
              [plugins."io.containerd.grpc.v1.cri".cni]
                bin_dir = "{NETWORK_PLUGINS}"
                conf_dir = "{self._node(name)}/network"
        """
        (self._node(name) / "network").mkdir()
        (self._node(name) / "network" / "pods.conflist").write_text(json.dumps(network))
        (self._node(name) / "kubelet.json").write_text(json.dumps(kubelet))
        (self._node(name) / "containerd.toml").write_text(containerd)

    def _start_node(self, name: str) -> None:
        host = self.network[name]
        self._start(host, "containerd", f"--config={self._node(name) / 'containerd.toml'}")
        wait_until(lambda: "Version" in host.run("ctr", "version", check=False), START_TIMEOUT_S)
        self._start(
            host,
            "kubelet",
            f"--config={self._node(name) / 'kubelet.json'}",
            f"--kubeconfig={self.config}",
            f"--hostname-override={name}",
            f"--node-ip={self.network.address_of(name)}",
            "--container-runtime=remote",
            f"--container-runtime-endpoint=unix://{CONTAINERD}",
        )

    def _node(self, name: str) -> Path:
        return self.home / "nodes" / name

    def _start(self, host: Host, program: str, *options: str) -> None:
        log = self.home / f"{program}.{host.name}.log"
        binary = _binaries() / program if program in BINARIES else program
        host.start([str(binary), *options], _ENV, log)

    def _save_images(self) -> list[Path]:
        with closing(docker.DockerClient(base_url=self._engine.url)) as client:
            pause = client.containers.create(SHELL_IMAGE, ["sleep", "2147483647"])
            pause.commit(*PAUSE_IMAGE.split(":"))
            pause.remove()
            files = []
            for name in (PYTHON_IMAGE, PAUSE_IMAGE):
                files.append(self.home / f"{name.partition(':')[0]}.tar")
                with files[-1].open("wb") as file:
                    file.writelines(client.images.get(name).save(named=True))
            return files

    def _import(self, name: str, image: Path) -> None:
        self.network[name].run("ctr", "--namespace=k8s.io", "images", "import", str(image))

    # --- what an operator does, and fate

    def kubectl(self, *words: str, check: bool = True) -> str:
        """Run Kubernetes' own command, to a good end if `check`, and return what it prints."""
        command = [str(_binaries() / "kubectl"), f"--kubeconfig={self.config}", *words]
        return self.network.centre.run(*command, check=check)

    def pods(self) -> list[Pod]:
        """Return all pods that there are."""
        found = json.loads(self.kubectl("get", "pods", "--output=json"))["items"]
        return [
            Pod(
                each["metadata"]["name"],
                each["spec"].get("nodeName", ""),
                each["status"]["phase"],
                each["metadata"].get("annotations", {}),
            )
            for each in found
        ]

    def is_ready(self, node: str) -> bool:
        """Return whether the node takes pods."""
        ready = '--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}'
        return self.kubectl("get", "node", node, ready, check=False) == "True"

    def delete(self, pod: Pod) -> None:
        """Delete a pod, and wait for nothing: it gets SIGTERM, and SIGKILL when its 30 s are over."""
        self.kubectl("delete", "pod", pod.name, "--wait=false")

    def kill(self, pod: Pod) -> None:
        """Kill a pod's first process, as the kernel does when memory is used up, and so all others."""
        of_it = "--output=jsonpath={.status.containerStatuses[0].containerID}"
        container = self.kubectl("get", "pod", pod.name, of_it).removeprefix("containerd://")
        tasks = ("ctr", "--namespace=k8s.io", "tasks")
        self.network[pod.node].run(*tasks, "kill", "--signal=SIGKILL", container)

    def switch_off(self, node: str) -> None:
        """End a node at once with all its pods, as when its power fails."""
        self.network[node].switch_off()

    def restore(self) -> None:
        """Switch on the nodes that are off, and wait until they take pods."""
        for name in NODES:
            if ends(self.network[name].pid, 0):
                self.network.switch_on(name)
                self._start_node(name)
        wait_until(lambda: all(self.is_ready(name) for name in NODES), START_TIMEOUT_S)
