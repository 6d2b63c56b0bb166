"""python3 -m rehearsal, and the script `rehearse` of a wheel: the program itself, with this process's terminal."""

import os
import pathlib
import shutil
import sys


def main():
    inside = pathlib.Path(__file__).resolve().parent / "program" / "bin" / "rehearse"
    program = str(inside) if inside.exists() else shutil.which("rehearse")
    if not program:
        sys.exit("rehearsal: the program 'rehearse' is not installed")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
