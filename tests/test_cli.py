# SPDX-License-Identifier: Apache-2.0
"""The command line's frame: version, help, exit codes."""

import subprocess
import sys

import pytest

from seed_hpc import cli


def test_no_command_is_wrong_usage(capsys):
    assert cli.main([]) == 2
    assert "COMMAND" in capsys.readouterr().err


def test_unknown_command_exits_2():
    with pytest.raises(SystemExit) as stop:
        cli.main(["dance"])
    assert stop.value.code == 2


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--help"])
    assert stop.value.code == 0
    assert "usage" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_is_wrong_usage(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert cli.main(["topology", "--device", "cpu", "--json", str(tmp_path / "file" / "x.json")]) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("file cannot be used (File exists)")


def test_a_reader_that_has_gone_leaves_no_traceback():
    command = [sys.executable, "-m", "seed_hpc.cli", "kernels", "list"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141
