#!/usr/bin/env python3
"""Runs isamap's worker in a Linux guest on Bochs, whose processor has AMX: for `isamap … --emulator`.

    tests/bochs/run.py FOLDER python -I -S worker.py

FOLDER is what `build` made. The command behind it is not run as it stands: its last word is the script, which
the guest's own Python runs. Input, exit code, errors, the shared file and the pipe for the answer are those
of the script; what it prints is ignored.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

# The numbers under which `guest-init` opens what the job shares and what it answers on.
SHARED, ANSWER = 8, 9
MARK = b"\nISAMAP RESULT\n"
SETTINGS = """\
cpu: model=sapphire_rapids, count=1, ips=100000000, reset_on_triple_fault=0
megs: 1536
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.stdvga.bin
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path={folder}/disc.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev={folder}/console
port_e9_hack: enabled=1
display_library: nogui
clock: sync=none, time0=local
log: {folder}/log
panic: action=fatal
error: action=ignore
info: action=ignore
"""


def main() -> int:
    if len(sys.argv) < 4 or not Path(sys.argv[1], "bochs").exists():
        print("run.py: needs the folder that `build` made, and a command", file=sys.stderr)
        return 2
    built, worker = Path(sys.argv[1]).resolve(), Path(sys.argv[-1])
    job = json.load(sys.stdin.buffer)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_disc(folder, built, worker, job)
        found = boot(folder, built)
    shared = found["shared"]
    written = 0
    while written < len(shared):
        written += os.pwrite(job["file"], shared[written:], written)
    with os.fdopen(job["answer"], "wb") as answer:
        answer.write(found["answer"])
    sys.stderr.buffer.write(found["errors"])
    return int(found["code"])


def make_disc(folder: Path, built: Path, worker: Path, job: dict[str, object]) -> None:
    """A disc with the kernel, the guest's files, the job, and the libraries under their own paths."""
    extra = folder / "extra"
    (extra / "job").mkdir(parents=True)
    shutil.copy(worker, extra / "job" / "worker.py")
    (extra / "job" / "request").write_text(json.dumps({**job, "file": SHARED, "answer": ANSWER}))
    shutil.copy(Path(__file__).with_name("guest-init"), extra / "init")
    with open(f"/proc/self/fd/{job['file']}", "rb") as source, (extra / "job" / "shared").open("wb") as to:
        shutil.copyfileobj(source, to)
    for key in ("library", "pool"):
        if key in job:
            library = Path(str(job[key]))
            (extra / library.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, extra / library.relative_to("/"))
    names = "\n".join(str(path.relative_to(extra)) for path in sorted(extra.rglob("*")))
    cpio = ["cpio", "--create", "--format=newc", "--quiet"]
    packed = subprocess.run(cpio, cwd=extra, input=names.encode(), stdout=subprocess.PIPE, check=True).stdout
    disc = folder / "disc"
    shutil.copytree(built / "disc", disc)
    (disc / "initrd").write_bytes((built / "guest.cpio").read_bytes() + packed)
    words = ["xorriso", "-as", "mkisofs", "-quiet", "-o", str(folder / "disc.iso"), "-b", "isolinux.bin"]
    words += ["-c", "boot.cat", "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", str(disc)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def boot(folder: Path, built: Path) -> dict[str, bytes]:
    """Return what the guest handed over: files by name. Raises: SystemExit when it did not."""
    (folder / "settings").write_text(SETTINGS.format(folder=folder))
    words = [str(built / "bochs"), "-q", "-f", str(folder / "settings")]
    # Bochs ends with 1 also where the guest asks it to end.
    quiet = subprocess.DEVNULL
    done = subprocess.run(words, check=False, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet)
    _, mark, archive = done.stdout.partition(MARK)
    if not mark:
        console = (folder / "console").read_text(errors="replace")[-500:]
        sys.exit(f"run.py: the guest handed nothing over; its console: {console}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = {member.name: tar.extractfile(member) for member in tar}
        return {name: file.read() for name, file in files.items() if file is not None}


if __name__ == "__main__":
    sys.exit(main())
