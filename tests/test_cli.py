# SPDX-License-Identifier: Apache-2.0
"""The command line's frame: version, help, exit codes."""

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
