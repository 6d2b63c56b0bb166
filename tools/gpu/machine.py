"""The machine that a GPU tool runs on: where the CUDA libraries lie, and which commit the tool is of."""
import glob
import json
import os
import subprocess
import sys


# A quarter of a GPU's memory and bandwidth, of its file, for virtual stages: the scenarios are of an H200.
QUARTERS = {"h100-80g-sxm": ("dgx-h100", "21GB", "837GB/s", "725GB/s")}


def quarters(kind):
    """The values of a scenario that make its four virtual stages those of this kind of card."""
    if kind not in QUARTERS:
        return []
    cluster, *values = QUARTERS[kind]
    return [f"cluster.use={cluster}"] + [
        f"cluster.gpu.{key}={{value: {value}, source: a quarter, assumed: true}}"
        for key, value in zip(("memory", "memory_bandwidth", "sustained_memory_bandwidth"), values)]


def wheel_folders():
    """Folders of libraries that Python's packages of CUDA and NCCL have brought (nvidia/cu13/lib, nvidia/nccl/lib, ...)."""
    ask = ("import sys, glob, os\n"
           "for p in sys.path:\n"
           "    for f in sorted(glob.glob(os.path.join(p, 'nvidia', '*', 'lib'))): print(f)\n")
    found = []
    for python in dict.fromkeys([sys.executable, "python3"]):
        try:
            r = subprocess.run([python, "-c", ask], capture_output=True, text=True, timeout=30)
            found += r.stdout.split("\n")
        except (OSError, subprocess.TimeoutExpired):
            continue
    return [f for f in dict.fromkeys(found) if f and glob.glob(os.path.join(f, "lib*.so*"))]


def missing(library, environment):
    """Libraries that the loader does not find for a shared object, by name; nothing where nobody can tell."""
    try:
        r = subprocess.run(["ldd", library], capture_output=True, text=True, env=environment, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.split()[0] for line in r.stdout.splitlines() if "not found" in line]


def with_libraries(module, environment):
    """The environment in which the loader finds what the module needs: as it is, or with Python's packages."""
    lacks = missing(module, environment)
    more = wheel_folders() if lacks else []
    if not more:
        return environment
    here = environment.get("LD_LIBRARY_PATH", "")
    wider = dict(environment, LD_LIBRARY_PATH=":".join([*([here] if here else []), *more]))
    still = missing(module, wider)
    print(f"the loader does not find {', '.join(lacks)}; "
          f"{'nor do Python packages have ' + ', '.join(still) if still else 'Python packages have them'}")
    return wider


def commit(root):
    """Of a packed tree, of a clone, or what the environment says."""
    try:
        with open(os.path.join(root, "COMMIT")) as file:
            return file.read().strip()
    except OSError:
        pass
    try:
        r = subprocess.run(["git", "-C", root, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
        if r.returncode == 0:
            return r.stdout.strip()
    except OSError:
        pass
    return os.environ.get("REHEARSAL_COMMIT", "unknown")


def archive(folder, file):
    """All of a folder as one .tar.gz, whole or not at all."""
    import tarfile
    with tarfile.open(file + ".part", "w:gz") as tar:
        tar.add(folder, os.path.basename(folder))
    os.replace(file + ".part", file)


def write_json(file, value):
    with open(file, "w") as out:
        json.dump(value, out, indent=1)
