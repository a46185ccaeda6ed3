# SPDX-License-Identifier: Apache-2.0
"""Ranks, hosts and rendezvous address from the launchers' variables."""

import os
import subprocess

import pytest

from seed_hpc.distributed import launch
from seed_hpc.distributed.launch import Launch, detect, expand_hostlist
from seed_hpc.errors import UserError

SLURM = {
    "SLURM_JOB_ID": "71",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_TASKS_PER_NODE": "2,1",
    "SLURM_STEP_NODELIST": "localhost,other",
}


@pytest.fixture
def names(monkeypatch):
    """A resolver with known answers."""
    table = {"gpu1": "10.1.0.1", "gpu2": "10.1.0.2", "loop": "127.0.1.1"}

    def getaddrinfo(name, *_, **__):
        address = table.get(name, name if name[0].isdigit() else None)
        if address is None:
            raise OSError(-2, "Name or service not known")
        return [(2, 1, 6, "", (address, 0))]

    monkeypatch.setattr(launch.socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(launch.shutil, "which", lambda name: None)
    return table


@pytest.mark.parametrize(
    ("hostlist", "expected"),
    [
        ("n1", ["n1"]),
        ("gpu[001-003,007],login1", ["gpu001", "gpu002", "gpu003", "gpu007", "login1"]),
        ("r[1-2]c[09-10]", ["r1c09", "r1c10", "r2c09", "r2c10"]),
        ("a-b[5].example", ["a-b5.example"]),
    ],
)
def test_hostlist(hostlist, expected):
    assert list(expand_hostlist(hostlist)) == expected


@pytest.mark.parametrize("hostlist", ["", "n[1-2", ","])
def test_broken_hostlist(hostlist):
    with pytest.raises(UserError, match="list of nodes"):
        expand_hostlist(hostlist)


def test_no_launcher_is_a_single_process():
    assert detect({}) == Launch()
    # A batch script is no srun task, although Slurm sets its rank.
    assert detect({"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}) == Launch()


def test_slurm(names):
    found = detect({**SLURM, "SLURM_STEP_NODELIST": "gpu[1-2]"})
    assert (found.launcher, found.rank, found.world_size, found.local_rank) == ("slurm", 2, 3, 0)
    assert (found.local_world_size, found.num_nodes, found.hosts) == (1, 2, ("gpu1", "gpu2"))
    assert found.address == "gpu1"
    again = detect({**SLURM, "SLURM_STEP_NODELIST": "gpu[1-2]", "SLURM_PROCID": "0", "SLURM_NODEID": "0"})
    assert (again.port, again.local_world_size) == (found.port, 2)
    other_job = detect({**SLURM, "SLURM_STEP_NODELIST": "gpu[1-2]", "SLURM_JOB_ID": "72"})
    assert other_job.port != found.port


def test_jobs_one_after_the_other_get_ports_of_their_own(names):
    """Job ids that differ in their digits' order, too: jobs that share a node are seldom far apart."""
    ports = {
        detect({**SLURM, "SLURM_STEP_NODELIST": "gpu[1-2]", "SLURM_JOB_ID": str(job)}).port
        for job in range(9990, 10090)
    }
    assert len(ports) > 95


def test_slurm_asks_the_controller_when_the_variables_were_stripped(names, monkeypatch):
    environment = {key: value for key, value in SLURM.items() if key != "SLURM_STEP_NODELIST"}
    monkeypatch.setattr(launch.shutil, "which", lambda name: f"/usr/bin/{name}")

    def answer(command, **_):
        assert command[0] == "squeue"
        assert "71" in command
        return subprocess.CompletedProcess(command, 0, "gpu[1-2]\n", "")

    monkeypatch.setattr(launch.subprocess, "run", answer)
    assert detect(environment).hosts == ("gpu1", "gpu2")


def test_slurm_takes_the_controllers_address_of_a_name_that_does_not_resolve(names, monkeypatch):
    monkeypatch.setattr(launch.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(
        launch.subprocess,
        "run",
        lambda command, **_: subprocess.CompletedProcess(command, 0, "NodeName=x9 NodeAddr=10.1.0.9 Port=6818", ""),
    )
    assert detect({**SLURM, "SLURM_STEP_NODELIST": "x[9-10]"}).address == "10.1.0.9"


def test_never_localhost_on_more_than_one_node(names):
    with pytest.raises(UserError, match="'x1', has no address"):
        detect({**SLURM, "SLURM_STEP_NODELIST": "x[1-2]"})
    with pytest.raises(UserError, match=r"is unknown.*MASTER_ADDR"):
        detect({key: value for key, value in SLURM.items() if key not in ("SLURM_STEP_NODELIST", "SLURM_JOB_ID")})
    with pytest.raises(UserError, match="loopback"):
        detect({**SLURM, "SLURM_STEP_NODELIST": "loop,gpu2"})
    with pytest.raises(UserError, match="loopback"):
        detect({**SLURM, "SLURM_STEP_NODELIST": "gpu[1-2]", "MASTER_ADDR": "127.0.0.1"})
    with pytest.raises(UserError, match="cannot be resolved"):
        detect({**SLURM, "SLURM_STEP_NODELIST": "gpu[1-2]", "MASTER_ADDR": "nowhere"})


def test_one_node_needs_no_name(names):
    alone = {**SLURM, "SLURM_STEP_NUM_NODES": "1", "SLURM_NODEID": "0", "SLURM_STEP_NODELIST": "x1"}
    assert detect(alone).address == "127.0.0.1"


def test_torchrun_wins_over_slurm(names):
    torchrun = {
        "TORCHELASTIC_RUN_ID": "r",
        "RANK": "5",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "4",
        "GROUP_RANK": "1",
        "MASTER_ADDR": "gpu1",
        "MASTER_PORT": "29500",
    }
    found = detect({**SLURM, **torchrun})
    assert (found.launcher, found.rank, found.num_nodes, found.address, found.port) == (
        "torchrun",
        5,
        2,
        "gpu1",
        29500,
    )


def test_open_mpi_and_hydra(names, monkeypatch):
    monkeypatch.setattr(launch, "_mpi_rendezvous", lambda: None)
    open_mpi = {
        "OMPI_COMM_WORLD_RANK": "3",
        "OMPI_COMM_WORLD_SIZE": "4",
        "OMPI_COMM_WORLD_LOCAL_RANK": "1",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    }
    found = detect({**open_mpi, "MASTER_ADDR": "gpu1"})
    assert (found.launcher, found.rank, found.world_size, found.local_rank, found.num_nodes) == ("mpi", 3, 4, 1, 2)
    with pytest.raises(UserError, match="mpi4py"):
        detect(open_mpi)
    hydra = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
    assert detect(hydra).address == "127.0.0.1"
    # srun --mpi=pmi2 sets PMI_RANK too, but is no mpirun.
    assert detect({**SLURM, "PMI_RANK": "2", "PMI_SIZE": "3", "MASTER_ADDR": "gpu1"}).launcher == "slurm"


def test_mpi4py_rendezvous_is_used(names, monkeypatch):
    monkeypatch.setattr(launch, "_mpi_rendezvous", lambda: (("gpu1", "gpu2"), "10.1.0.1", 4242))
    found = detect({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"})
    assert (found.address, found.port, found.hosts, found.num_nodes) == ("10.1.0.1", 4242, ("gpu1", "gpu2"), 2)


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"TORCHELASTIC_RUN_ID": "r", "RANK": "0", "WORLD_SIZE": "two", "LOCAL_RANK": "0"}, "WORLD_SIZE"),
        ({**SLURM, "SLURM_PROCID": "-1"}, "SLURM_PROCID"),
        ({**SLURM, "MASTER_ADDR": "gpu1", "MASTER_PORT": "http"}, "MASTER_PORT"),
    ],
)
def test_a_variable_that_is_no_number_is_named(names, variables, name):
    with pytest.raises(UserError, match=f"variable {name} is '"):
        detect(variables)


def test_cuda_without_a_device_is_a_user_error(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    place = Launch(rank=1, world_size=2, local_rank=1, local_world_size=2, address="127.0.0.1", port=1)
    with pytest.raises(UserError, match="torch sees no CUDA device"), launch.process_group(place, device="cuda"):
        pass
    assert os.environ.get("RANK") != "1"  # nothing of the group is left behind


def test_rank_beyond_the_world():
    with pytest.raises(UserError, match="rank 4"):
        Launch(rank=4, world_size=4)


def test_interface_of_loopback_is_none():
    assert launch.interface_to("127.0.0.1") is None
