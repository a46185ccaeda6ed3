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
    with pytest.raises(SystemExit, match="2"):
        cli.main(["topology", "--device", "cpu", "--json", str(tmp_path / "file" / "x.json")])
    assert capsys.readouterr().err.endswith("file is no folder, name another file\n")


@pytest.mark.parametrize(
    "command",
    [
        "bench env",
        "bench loop --agent ppo",
        "bench replay",
        "bench sampler",
        "bench scaling --config pong_ppo",
        "parity",
    ],
)
def test_a_long_measurement_refuses_a_bad_file_before_it_begins(command, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main([*command.split(), "--json", str(tmp_path)])
    assert capsys.readouterr().err.endswith(f"{tmp_path} is a folder: name a file\n")


def test_what_does_not_fit_into_memory_is_one_sentence(capsys):
    command = ["bench", "replay", "--observations", "numbers", "--entries", "99999999999999999", "--against", "numpy"]
    assert cli.main(command) == 2
    assert "lower its capacity" in capsys.readouterr().err


def test_a_reader_that_has_gone_leaves_no_traceback():
    command = [sys.executable, "-m", "seed_hpc.cli", "kernels", "list"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141
