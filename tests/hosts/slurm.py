#!/usr/bin/env python3
"""Three hosts as the nodes of a Slurm of their own (slurmctld on the first, slurmd on each): ranks that srun starts meet by
PMIx and measure over the links; an srun that tells MPI nothing is refused in one sentence. A sweep into one folder, by four
ranks of srun or an array of eight tasks, says what one process says, and a job that depends on it reads it.
Skipped, with the reason, without Slurm, munge, or the right to make hosts."""
import json
import os
import pathlib
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
BINARY = os.path.abspath(sys.argv[1])
SCENARIO = str(HERE / "three-hosts.yaml")
NAME = f"slurm-{os.getpid()}"
HOSTS = ["node0", "node1", "node2"]
MEASURE = [BINARY, "measure", SCENARIO, "--backend", "mpi", "--compute", "timed", "--warmup", "0", "--iterations", "1",
           "--format", "json"]
CONFIGURATION = """\
ClusterName=rehearsal
SlurmctldHost=node0(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldPort=16817
SlurmdPort=16818
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=node0 NodeAddr=10.77.0.1 CPUs=4 RealMemory=1000 State=UNKNOWN
NodeName=node1 NodeAddr=10.77.0.2 CPUs=4 RealMemory=1000 State=UNKNOWN
NodeName=node2 NodeAddr=10.77.0.3 CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=node[0-2] Default=YES MaxTime=INFINITE State=UP
"""


SCENARIO_SWEPT = """\
version: 1
parallelism: {pipeline: 4}
batch: {microbatches: 8}
costs: {forward: 10ms, backward: 10ms, weight: 10ms, transfer: 1ms}
"""
SWEEP = [BINARY, "sweep", "swept.yaml", "--vary", "batch.microbatches=" + ",".join(map(str, range(4, 104))), "--format", "csv",
         "--jobs", "1", "--progress", "plain", "--store"]


def sweeps(folder):
    """A step of four ranks, and an array of eight tasks with a job that waits for it, against one process."""
    (folder / "swept.yaml").write_text(SCENARIO_SWEPT)

    def run(*words):
        ran = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=folder)
        assert ran.returncode == 0, ran
        return ran.stdout

    one, read = run(*SWEEP, "one.sqlite"), run(BINARY, "compare", "one.sqlite", "--format", "csv")
    assert one.count("\n") == 101, one
    assert run(*on("node0", "srun", "-N", "3", "-n", "4", "--mpi=none", *SWEEP, "step/")) == one

    def batch(name, command, *options):
        (folder / name).write_text("#!/bin/sh\n" + shlex.join(command) + "\n")
        return run(*on("node0", "sbatch", "--parsable", f"--chdir={folder}", f"--output={name}-%a.out",
                       f"--error={name}-%a.err", *options, name)).strip()

    array = batch("task", [*SWEEP, "array/"], "--array=0-7")
    batch("read", [BINARY, "compare", "array/", "--format", "csv"], f"--dependency=afterok:{array}", "--wait")
    assert (folder / "task-0.out").read_text() == one
    assert not any((folder / f"task-{k}.out").read_text() for k in range(1, 8))
    said = [(folder / f"task-{k}.err").read_text() for k in range(8)]
    computed = [int(text.split(" rows: ")[1].split(" computed")[0]) for text in said]
    assert sum(computed) == 100, said
    [reader] = folder.glob("read-*.out")
    assert reader.read_text() == read
    print("sweeps: four ranks of srun, and an array of eight that computed", computed)


def on(host, *words):
    return [BINARY, "hosts", "enter", NAME, host, *words]


def main():
    missing = [tool for tool in ("slurmctld", "slurmd", "srun", "sinfo", "munged") if not shutil.which(tool)]
    if missing:
        print("skipped: this machine lacks", ", ".join(missing))
        return 77
    made = subprocess.run([BINARY, "hosts", "up", SCENARIO, "--name", NAME], capture_output=True, text=True)
    if made.returncode != 0:
        print("skipped:", made.stderr.strip())
        return 77
    daemons = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)  # munged wants no one else to write on the way to its socket, and everybody to read
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder))
        for name in ["state"] + [f"tmp-{host}" for host in HOSTS]:  # PMIx keeps a folder of one name on each host
            (folder / name).mkdir()
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
        # All hosts share one file system, and so one munged.
        start = [["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}",
                  f"--log-file={folder}/munged.log", f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/seed"],
                 on("node0", "slurmctld", "-D")]
        start += [on(host, "slurmd", "-D", "-N", host) for host in HOSTS]
        try:
            for command in start:
                daemons.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            for attempt in range(100):
                idle = subprocess.run(on("node0", "sinfo", "-h", "-o", "%D-%t"), capture_output=True, text=True).stdout
                if idle.strip() == "3-idle":
                    break
                time.sleep(0.3)
            else:
                raise AssertionError((idle, [log.read_text()[-2000:] for log in folder.glob("*.log")]))

            sweeps(folder)

            def srun(*words):
                return subprocess.run(on("node0", "srun", "-N", "3", "-n", "3", *words), capture_output=True, text=True,
                                      timeout=120)

            plain = srun("--mpi=none", *MEASURE)
            assert plain.returncode == 2 and "srun --mpi=pmix" in plain.stderr, plain
            listed = srun("--mpi=list", "true")
            if "pmix" not in listed.stdout + listed.stderr:
                print("this Slurm has no pmix:", listed.stderr)
                return 0
            network = "--export=ALL,OMPI_MCA_btl_tcp_if_include=10.77.0.0/16,OMPI_MCA_pml=ob1"
            ran = srun("--mpi=pmix", network, *MEASURE)
            assert ran.returncode == 0, (ran, [log.read_text()[-2000:] for log in folder.glob("slurmd*.log")])
            answer = json.loads(ran.stdout)
            print(f"srun --mpi=pmix: a step of {answer['iteration_s']:.3f} s on three hosts")
            # 28 MB of gradients leave each NIC at 47.5 MB/s.
            assert answer["iteration_s"] > 0.57, answer["iteration_s"]
        finally:
            for one in reversed(daemons):
                one.terminate()
            subprocess.run([BINARY, "hosts", "down", "--name", NAME], check=True, stdout=subprocess.DEVNULL)
            for one in daemons:
                one.wait(timeout=10)
    return 0


sys.exit(main())
