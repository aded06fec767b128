"""Shots spread over ranks give the gradient of one process, and an error of one rank is one of all."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.parallel.scatter_gather import gather

import numbawave
from numbawave.apps import ddp
from numbawave.apps import ranks as ranks_module
from numbawave.apps.fwi import run
from numbawave.apps.job import QUICK
from numbawave.apps.job_file import read_job
from numbawave.errors import InvalidTypeError, InvalidValueError
from tests.unit.apps import killed_rank, rank_worker
from tests.unit.torch_bridge.small import small

ROOT = Path(__file__).parents[3]
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-13}
"""Of the norm. Ranks add the same terms in another order, 7 shots times 8 steps: errors of half an epsilon in each of 56
sums grow with the root of their number where they are independent, to 4.5e-7 in float32 and 8e-16 in float64."""

JOB = {**QUICK, "shots": 3, "batch_shots": 1, "nt": 200, "stages": [[8.0, 3]], "dtype": "float64", "device": "cpu"}
DISTRIBUTED = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without distributed")


ENVIRONMENT = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}

ERRORS = {
    "max_vel": r"InvalidValueError: max_vel on rank {last} = 2\.5: must be the same .* is 2\.0 on 0",
    "dt": r"InvalidValueError: dt on rank {last} = 0\.1: .* is 0\.15 on 0",
    "pml_freq": r"InvalidValueError: pml_freq on rank {last} = 0\.3: .* is 0\.4 on 0",
    "history": r"InvalidValueError: history on rank {last} = 'interior': .* is 'full' on 0",
    "accuracy": r"InvalidValueError: accuracy on rank {last} = 3: ",
    "foreign": r"RankError: work on rank {last} = KeyError: 'lost': no rank goes on",
    "job": r"InvalidValueError: seed on rank {last} = '5': .* is '4' on 0",
    "broken": r"StorageError: storage_mode on rank {last} = disk: the disk is full",
    "file": r"StorageError: output = .*: this folder cannot be made",
    "device": r"InvalidValueError: device = cuda:0: {ranks} ranks of this machine need a device each",
}
"""What the last rank does wrong, or the first one, or all; and what each of the others then says."""

OWN = {
    "accuracy": r"InvalidValueError: accuracy = 3: ",
    "foreign": r"KeyError: 'lost'",
    "broken": r"StorageError: storage_mode = disk: the disk is full",
}
"""What the last rank says itself, where that is something else."""


def write_job(folder: Path, output: Path) -> Path:
    path = folder / "job.toml"
    keys = {**JOB, "output": str(output)}
    path.write_text("\n".join(f"{key} = {value!r}" for key, value in keys.items()))
    return path


def launch(n_ranks: int, folder: Path) -> list[dict[str, Any]]:
    """What each rank found."""
    words = [rank_worker.__file__, str(folder / "meeting"), str(folder / "found"), str(write_job(folder, folder / "out"))]
    processes = []
    for rank in range(n_ranks):
        own = {"RANK": rank, "WORLD_SIZE": n_ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": n_ranks}
        environment = os.environ | ENVIRONMENT | {name: str(value) for name, value in own.items()}
        processes.append(subprocess.Popen([sys.executable, *words], env=environment))
    assert [process.wait(timeout=200) for process in processes] == [0] * n_ranks
    return [torch.load(folder / f"found.{rank}") for rank in range(n_ranks)]


@DISTRIBUTED
@pytest.mark.parametrize("n_ranks", [2, 3])
def test_ranks_give_the_gradient_of_one_process_and_one_error(n_ranks: int, tmp_path: Path) -> None:
    found = launch(n_ranks, tmp_path)
    for case in rank_worker.CASES:
        assert_gradient([rank["gradients"][case] for rank in found], *case[1:])
    for case, message in ERRORS.items():
        for rank, said in enumerate(found):
            named = OWN.get(case, message) if rank == n_ranks - 1 else message
            named = named.replace("{last}", str(n_ranks - 1)).replace("{ranks}", str(n_ranks))
            assert re.match(named, said["errors"][case]), said["errors"][case]


def assert_gradient(gradients: list[torch.Tensor], shots: int, dtype: torch.dtype) -> None:
    """All ranks have the same bits, and those but for rounding of one process with all the shots."""
    call = rank_worker.survey(shots, dtype)
    call["v"].requires_grad_()
    numbawave.scalar(**call).receiver_amplitudes.square().sum().backward()
    expected = call["v"].grad
    assert expected.norm() > 0
    assert all(torch.equal(gradient, gradients[0]) for gradient in gradients)
    assert (gradients[0] - expected).norm() <= TOLERANCE[dtype] * expected.norm()


@DISTRIBUTED
@pytest.mark.usefixtures("no_picture")
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL, which Windows lacks")
def test_an_inversion_under_torchrun_survives_a_killed_rank_bit_for_bit(tmp_path: Path) -> None:
    job, outputs = str(write_job(tmp_path, tmp_path / "out")), [str(tmp_path / name) for name in ("killed", "whole")]
    alone = run(read_job(job), progress=False)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]

    ended = subprocess.run(
        [sys.executable, *torchrun, killed_rank.__file__, job, *outputs],
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("on 2 ranks (cpu)") == 3  # before the kill, after it, and of the run without one
    assert ended.stdout.count("1 of 3 iterations done") == 1
    assert ended.stdout.count("model error:") == 2
    killed, whole = ((Path(output) / "result.npz").read_bytes() for output in outputs)
    assert killed == whole
    losses = np.load(Path(outputs[1]) / "result.npz")["losses"]
    assert losses[-1] < losses[0]
    # three iterations of lbfgs enlarge the rounding of a gradient, but not by as much as is left of double precision
    assert losses == pytest.approx(alone.losses[0], rel=1e-9)


@pytest.mark.parametrize("n_shots", [0, 1, 5, 7, 12])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_shares_are_every_shot_once_and_nearly_equal(n_shots: int, size: int) -> None:
    shares = [range(n_shots)[ddp.rank_shots(n_shots, rank, size)] for rank in range(size)]
    assert [shot for share in shares for shot in share] == list(range(n_shots))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(
    ("arguments", "named"), [((-1, 0, 1), "n_shots = -1"), ((4, 2, 2), "rank = 2"), ((4, -1, 2), "rank")]
)
def test_a_share_that_cannot_be_is_refused(arguments: tuple[int, int, int], named: str) -> None:
    with pytest.raises(InvalidValueError, match=named):
        ddp.rank_shots(*arguments)


def test_the_odd_rank_is_named_and_a_rank_without_shots_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [{"dt": "3"}, None, {"dt": "2"}, {"dt": "2"}]
    monkeypatch.setattr(ranks_module, "gathered", lambda value: said)
    with pytest.raises(InvalidValueError, match=r"dt on rank 0 = 3: must be the same on all ranks, and is 2 on 2, 3"):
        ddp.agree({"dt": 3})
    said[0] = None
    ddp.agree(None)


def test_a_process_alone_needs_no_group_and_no_wrapping() -> None:
    call = small()
    model = numbawave.Scalar(call.pop("v"), call.pop("grid_spacing"), v_requires_grad=True)
    with ddp.process_group() as ranks:
        assert ranks == ddp.Ranks() == ddp.ranks()
        wave = ddp.spread(ddp.Records(model))
        wave(**call).square().sum().backward()
        gradient = model.v.grad.clone()
        ddp.all_reduce_gradients(model.parameters())
    assert torch.equal(model.v.grad, gradient)
    assert gradient.any()
    assert not torch.distributed.is_initialized()


def test_no_shots_give_no_records_and_a_gradient_of_zero() -> None:
    call = small()
    model = numbawave.Scalar(call.pop("v"), call.pop("grid_spacing"), v_requires_grad=True)
    none = {name: call[name][:0] for name in rank_worker.SHARED}
    records = ddp.Records(model)(**(call | none))
    assert records.shape == (0, 3, 8)
    records.square().sum().backward()
    assert torch.equal(model.v.grad, torch.zeros_like(model.v))


def test_nothing_to_sum_is_refused() -> None:
    call = small()
    with pytest.raises(InvalidValueError, match="v_requires_grad=True"):
        ddp.spread(ddp.Records(numbawave.Scalar(call["v"], call["grid_spacing"])))
    with pytest.raises(InvalidTypeError, match="is a leaf that requires a gradient"):
        ddp.all_reduce_gradients([call["v"]])


def test_dataparallel_without_gpus_is_the_module() -> None:
    call = small()
    records = ddp.Records(numbawave.Scalar(call.pop("v"), call.pop("grid_spacing"), v_requires_grad=True))
    if torch.cuda.is_available():
        pytest.skip("looks at a machine without")
    assert torch.equal(torch.nn.DataParallel(records)(**call), records(**call))


def test_joining_whole_results_says_what_to_wrap() -> None:
    out = numbawave.scalar(**small())
    with pytest.raises(InvalidTypeError, match=r"DataParallel\(numbawave.apps.ddp.Records\(module\)\)"):
        gather([out, out], "cpu")


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two devices")
def test_dataparallel_splits_shots_over_devices() -> None:
    call = small(shots=7, dtype=torch.float64)
    expected = call["v"].clone().requires_grad_()
    numbawave.scalar(expected, **{name: value for name, value in call.items() if name != "v"})[-1].square().sum().backward()
    call = {name: value.cuda() if isinstance(value, torch.Tensor) else value for name, value in call.items()}
    model = numbawave.Scalar(call.pop("v"), call.pop("grid_spacing"), v_requires_grad=True)
    call["backend"] = "cuda"
    torch.nn.DataParallel(ddp.Records(model), device_ids=[0, 1])(**call).square().sum().backward()
    torch.testing.assert_close(model.v.grad.cpu(), expected.grad, rtol=1e-12, atol=1e-12)
