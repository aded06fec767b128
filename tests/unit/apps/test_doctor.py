"""The doctor: each check in each of its states, and this machine as it is."""

import configparser
import ctypes
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import numbawave
from numbawave.apps import cli, doctor
from numbawave.errors import BackendError

CUDA13 = {
    "numba-cuda": "0.30.4",
    "cuda-bindings": "13.0.3",
    "nvidia-nvvm": "13.0.88",
    "nvidia-cuda-nvrtc": "13.0.88",
    "nvidia-nvjitlink": "13.0.88",
    "nvidia-cuda-runtime": "13.0.96",
}


class Driver:
    """A driver library with as many GPUs as the test wants."""

    def __init__(self, cuda: int = 13000, gpus: int = 1, error: int = 0) -> None:
        self.cuda, self.gpus, self.error = cuda, gpus, error

    def cuDriverGetVersion(self, found) -> int:  # noqa: N802
        found._obj.value = self.cuda
        return 0

    def cuInit(self, flags) -> int:  # noqa: N802
        return self.error

    def cuDeviceGetCount(self, found) -> int:  # noqa: N802
        found._obj.value = self.gpus
        return 0


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The distributions that checks find: this machine's, then the test's; "" for one that is absent."""
    versions: dict[str, str] = {}
    true = metadata.version

    def version(name: str) -> str:
        found = versions.get(name)
        if found == "":
            raise metadata.PackageNotFoundError(name)
        return found or true(name)

    monkeypatch.setattr(metadata, "version", version)
    return versions


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A machine by its driver, torch's CUDA and the GPUs that torch can use; as it stands, without an NVIDIA driver."""

    true = ctypes.CDLL

    def become(driver: Driver | None = None, build: str | None = None, seen: int = 0) -> None:
        def load(name, *arguments, **options):
            if name not in ("libcuda.so.1", "nvcuda.dll"):
                return true(name, *arguments, **options)
            if driver is None:
                raise OSError(name)
            return driver

        monkeypatch.setattr(ctypes, "CDLL", load)
        monkeypatch.setattr(torch.version, "cuda", build)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: seen > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: seen)

    become()
    return become


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What becomes of the process that loads CUDA."""

    def end(status: int, said: str = "") -> None:
        ended = subprocess.CompletedProcess([], status, stdout="", stderr=said)
        monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: ended)

    end(0)
    return end


def finding(title: str) -> doctor.Finding:
    return doctor._examined(title, doctor.CHECKS[title])


def test_wanted_versions_are_those_of_the_installation() -> None:
    options = configparser.ConfigParser()
    options.read(Path(__file__).parents[3] / "setup.cfg", encoding="utf-8")
    required = options["options"]["install_requires"].split()
    named = {name: versions for name, versions in doctor.WANTED.items() if versions and name != "Python"}
    assert {f"{name}{versions}" for name, versions in named.items()} <= set(required)
    assert set(doctor.WANTED["Python"].split(",")) == set(options["options"]["python_requires"].split(","))


@pytest.mark.parametrize(
    ("title", "version", "state", "remedy"),
    [
        ("numpy", "1.26.0", "OK", ""),
        ("numpy", "2.4.6", "OK", ""),
        ("numpy", "1.25.2", "MEND", 'pip install "numpy>=1.26,<2.5"'),
        ("numpy", "2.5.0", "MEND", 'pip install "numpy>=1.26,<2.5"'),
        ("numba", "0.61.0rc1", "OK", ""),
        ("numba", "0.60.0", "MEND", 'pip install "numba>=0.61"'),
        ("numba", "", "MEND", 'pip install "numba>=0.61"'),
        ("torch", "2.13.0+cpu", "OK", ""),
        ("torch", "2.3.1", "MEND", 'pip install "torch>=2.4"'),
        ("blosc2", "4.1.0", "OK", ""),
        ("blosc2", "", "MEND", 'pip install "blosc2>=2.6"'),
    ],
)
@pytest.mark.usefixtures("machine")
def test_packages_are_there_in_the_wanted_versions(title, version, state, remedy, installed) -> None:
    installed[title] = version
    found = finding(title)
    assert (found.state, found.remedy) == (state, remedy)
    assert (version or "absent") in found.found


@pytest.mark.parametrize(
    ("version", "state"), [("3.10.14", "MEND"), ("3.11.0", "OK"), ("3.13.2", "OK"), ("3.14.0", "MEND")]
)
def test_python_is_of_a_wanted_version(version, state, monkeypatch) -> None:
    monkeypatch.setattr(sys, "version", f"{version} (main)")
    assert finding("Python").state == state


def test_a_package_that_does_not_load_is_installed_anew(monkeypatch, machine) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    found = finding("torch")
    assert found.state == "MEND"
    assert found.remedy == 'pip install --force-reinstall "torch>=2.4"'
    assert doctor._torch_cuda() == ("", 0)


@pytest.mark.parametrize(
    ("driver", "state", "found"),
    [
        (None, "--", "none here"),
        (Driver(12080, 2), "OK", "up to 12.8, GPUs: 2"),
        (Driver(12080, error=doctor.NO_DEVICE), "--", "up to 12.8, GPUs: 0"),
        (Driver(11080), "MEND", "up to 11.8"),
        (Driver(error=803), "MEND", "error 803"),
    ],
)
def test_the_driver_speaks_for_itself(driver, state, found, machine) -> None:
    machine(driver)
    assert finding("NVIDIA driver").state == state
    assert found in finding("NVIDIA driver").found


@pytest.mark.parametrize(
    ("driver", "build", "seen", "state", "remedy"),
    [
        (None, None, 0, "OK", ""),
        (None, "13.0", 0, "OK", ""),
        (Driver(13000), "12.8", 1, "OK", ""),
        (Driver(12040), "12.8", 1, "OK", ""),
        (Driver(12080), "13.0", 0, "MEND", "update the NVIDIA driver to one that runs CUDA 13.0"),
        (Driver(13000), "13.0", 0, "MEND", "update the NVIDIA driver to one that runs CUDA 13.0"),
        (Driver(12080), None, 0, "MEND", "install a torch built for CUDA 12.8"),
    ],
)
def test_torch_can_use_the_gpus_that_the_driver_shows(driver, build, seen, state, remedy, machine) -> None:
    machine(driver, build, seen)
    found = finding("torch")
    assert (found.state, found.remedy) == (state, remedy)
    assert (f"CUDA {build}" if build else "the CPU") in found.found


def test_numba_cuda_is_not_needed_without_a_gpu(machine, installed) -> None:
    installed["numba-cuda"] = ""
    found = finding("numba-cuda")
    assert found.state == "--"
    assert "no GPU here" in found.found


def test_numba_cuda_with_its_toolkit_is_in_order(machine, installed, loads) -> None:
    machine(Driver(), "13.0", 1)
    installed.update(CUDA13)
    found = finding("numba-cuda")
    assert (found.state, found.found) == ("OK", "0.30.4, cuda-bindings 13.0.3")


@pytest.mark.parametrize(
    ("changed", "driver", "build", "named", "extra"),
    [
        ({"numba-cuda": ""}, 13000, "13.0", "absent", "cuda13"),
        ({"numba-cuda": ""}, 13000, "12.8", "absent", "cuda12"),
        ({"cuda-bindings": ""}, 13000, "13.0", "cuda-bindings absent", "cuda13"),
        ({}, 12080, "13.0", "up to 12.8", "cuda12"),
        ({"nvidia-nvvm": ""}, 13000, None, "no wheel of nvidia-nvvm: no libNVVM", "cuda13"),
        ({"nvidia-nvjitlink": "12.8.93"}, 13000, "13.0", "no wheel of nvidia-nvjitlink: no libNVVM", "cuda13"),
    ],
)
def test_what_numba_cuda_lacks_is_installed_for_torch_and_driver(
    changed, driver, build, named, extra, machine, installed, loads
) -> None:
    machine(Driver(driver), build, 1)
    installed.update(CUDA13 | changed)
    loads(1, "Traceback\nno libNVVM\n")
    found = finding("numba-cuda")
    assert (found.state, found.remedy) == ("MEND", f'pip install "numbawave[{extra}]"')
    assert named in found.found


def test_a_toolkit_without_wheels_will_do(machine, installed, loads) -> None:
    machine(Driver(), "13.0", 1)
    installed.update(CUDA13 | {"nvidia-nvvm": ""})
    assert finding("numba-cuda").state == "OK"


def test_a_process_that_dies_without_a_word_is_a_finding(machine, installed, loads) -> None:
    machine(Driver(), "13.0", 1)
    installed.update(CUDA13)
    loads(-11)
    assert "exit status -11" in finding("numba-cuda").found


def test_the_cache_folder_is_tried_and_nothing_stays(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("NUMBAWAVE_CACHE_DIR", str(tmp_path / "new" / "folder"))
    assert finding("cache folder").found == f"{tmp_path / 'new' / 'folder'}, can be made"
    monkeypatch.setenv("NUMBAWAVE_CACHE_DIR", str(tmp_path))
    assert finding("cache folder") == doctor.Finding("cache folder", "OK", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_cache_folder_that_cannot_be_written_is_to_mend(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBAWAVE_CACHE_DIR", str(tmp_path / "file" / "folder"))
    found = finding("cache folder")
    assert found.state == "MEND"
    assert "NUMBAWAVE_CACHE_DIR=" in found.remedy
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(("capability", "state"), [((7, 0), "MEND"), ((7, 5), "OK"), ((9, 0), "OK")])
def test_each_gpu_has_a_line_and_a_self_test(capability, state, machine, monkeypatch) -> None:
    machine(Driver(gpus=2), "13.0", 2)
    card = SimpleNamespace(name="A card", total_memory=8 * 2**30, major=capability[0], minor=capability[1])
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: card)
    table = doctor._gpu_checks()
    assert list(table) == ["GPU cuda:0", "self-test cuda:0", "GPU cuda:1", "self-test cuda:1"]
    found = table["GPU cuda:1"]("GPU cuda:1")
    assert found.state == state
    assert "A card, 8 GiB, compute capability" in found.found


def test_a_gpu_is_tested_against_the_cpu(machine, monkeypatch) -> None:
    machine(Driver(), "13.0", 1)
    asked = []

    def propagate(device: str, backend: str) -> list[torch.Tensor]:
        asked.append((device, backend))
        return [torch.ones(3), torch.ones(3)]

    monkeypatch.setattr(doctor, "_propagate", propagate)
    assert doctor._gpu_checks()["self-test cuda:0"]("self-test cuda:0").state == "OK"
    assert asked == [("cuda:0", "cuda"), ("cpu", "cpu")]


@pytest.mark.parametrize("wrong", [1.0 + 1e-9, float("nan")])
def test_a_result_that_differs_is_to_mend(wrong, monkeypatch) -> None:
    right = torch.ones(3, dtype=torch.float64)
    results = iter([[right, wrong * right], [right, right]])
    monkeypatch.setattr(doctor, "_propagate", lambda device, backend: next(results))
    found = finding("self-test cpu")
    assert found.state == "MEND"
    assert "delete" in found.remedy


@pytest.mark.parametrize(
    ("error", "found", "remedy"),
    [
        (
            BackendError("backend", "cuda", "there is none", "leave it out"),
            "backend = cuda: there is none.",
            "leave it out",
        ),
        (ImportError("needs another\nNumPy"), "needs another NumPy", 'pip install --force-reinstall "numba>=0.61"'),
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero", "report this line"),
    ],
)
def test_an_exception_is_one_line_to_mend(error, found, remedy, monkeypatch) -> None:
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(numbawave, "scalar", fail)
    line = str(finding("self-test cpu"))
    assert line.startswith("MEND  self-test cpu")
    assert found in line
    assert line.endswith(f"; to mend: {remedy}")
    assert "\n" not in line


def test_a_machine_without_a_gpu_is_in_order(machine, installed, capsys) -> None:
    assert cli.main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "everything is in order"
    assert {line.split()[0] for line in lines[:-1]} == {"OK", "--"}
    assert len(lines) == len(doctor.CHECKS) + 2


def test_things_to_mend_are_counted_and_set_the_status(machine, installed, capsys, monkeypatch) -> None:
    monkeypatch.setattr(doctor, "CHECKS", dict.fromkeys(("numpy", "numba"), doctor._package))
    installed["numpy"] = "3.0"
    assert cli.main(["doctor"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 thing to mend"
    installed["numba"] = ""
    assert cli.main(["doctor"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "2 things to mend"


@pytest.mark.gpu
def test_a_machine_with_a_gpu_is_in_order(capsys) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    assert cli.main(["doctor"]) == 0
    assert "OK    self-test cuda:0" in capsys.readouterr().out
