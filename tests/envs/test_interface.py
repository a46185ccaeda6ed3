# SPDX-License-Identifier: Apache-2.0
"""ALEInterface: ale-py's methods, results and defaults; its user errors. Play itself is compared in test_parity."""

import copy
import inspect
import pickle
import shutil

import ale_py
import numpy as np
import pytest
from ale_py import roms
from PIL import Image

import seed_hpc
from seed_hpc.envs.interface import ALEState
from seed_hpc.errors import UserError

PONG = roms.get_rom_path("pong")


@pytest.fixture
def pair():
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    sides = ale_py.ALEInterface(), seed_hpc.ALEInterface()
    for side in sides:
        side.setInt("random_seed", 3)
        side.loadROM(PONG)
        side.reset_game()
    return sides


def test_every_method_of_ale_py_exists_but_sound():
    theirs = {name for name in dir(ale_py.ALEInterface) if not name.startswith("_")}
    ours = {name for name, _ in inspect.getmembers(seed_hpc.ALEInterface) if not name.startswith("_")}
    assert theirs - ours == {"getAudio", "getAudioSize"}
    seed_hpc.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)


def test_facts_equal_those_of_ale_py(pair):
    ale, ours = pair
    for name in ("getMinimalActionSet", "getLegalActionSet"):
        assert [a.value for a in getattr(ale, name)()] == [a.value for a in getattr(ours, name)()]
    for name in ("getAvailableModes", "getAvailableDifficulties", "getScreenDims", "getRAMSize", "lives"):
        assert getattr(ale, name)() == getattr(ours, name)()
    for name, value in [("random_seed", 3), ("frame_skip", 1), ("max_num_frames_per_episode", 0)]:
        assert ale.getInt(name) == ours.getInt(name) == value
    assert ale.getFloat("repeat_action_probability") == ours.getFloat("repeat_action_probability") == 0.25


def test_pictures_and_ram_equal_those_of_ale_py_and_fill_buffers(pair):
    ale, ours = pair
    for side in pair:
        for _ in range(30):
            side.act(3)
    for name in ("getRAM", "getScreen", "getScreenRGB", "getScreenGrayscale"):
        expected = getattr(ale, name)()
        np.testing.assert_array_equal(getattr(ours, name)(), expected)
        buffer = np.zeros_like(expected)
        assert getattr(ours, name)(buffer) is None
        np.testing.assert_array_equal(buffer, expected)
        read_only = buffer.copy()
        read_only.flags.writeable = False
        for unusable in (buffer[:-1], buffer.astype(np.int32), read_only, buffer.tolist()):
            with pytest.raises(UserError, match="the buffer must be a writable contiguous uint8 array"):
                getattr(ours, name)(unusable)
        with pytest.raises(TypeError):
            getattr(ale, name)(read_only)


@pytest.mark.parametrize("end", ["load", "delete"])
def test_a_view_of_the_screen_outlives_the_machine(end):
    ours = seed_hpc.ALEInterface()
    ours.loadROM(PONG)
    view = ours.screen_view()
    expected = view.copy()
    if end == "load":
        ours.loadROM(roms.get_rom_path("breakout"))
    else:
        del ours
    later = [seed_hpc.ALEInterface() for _ in range(3)]  # in the memory of the machine, were it freed
    for console in later:
        console.loadROM(roms.get_rom_path("seaquest"))
        console.act(0)
        console.screen_view()
    np.testing.assert_array_equal(view, expected)


def test_a_trace_has_a_byte_for_each_of_the_rom(pair):
    _, ours = pair
    for unusable in (np.zeros(1, np.uint8), np.zeros(2048, np.int32), np.frombuffer(bytes(2048), np.uint8)):
        with (
            pytest.raises(UserError, match=r"the trace must be a writable contiguous uint8 array of shape \(2048,\)"),
            ours.tracing(unusable),
        ):
            ours.act(0)
        assert not unusable.any()


def test_ale_pys_own_action_objects_work(pair):
    ale, ours = pair
    action = ale.getMinimalActionSet()[2]
    assert ale.act(action) == ours.act(action)
    np.testing.assert_array_equal(ale.getRAM(), ours.getRAM())


def test_frame_skip_and_limit_take_effect_at_load():
    histories = []
    for side in (ale_py.ALEInterface(), seed_hpc.ALEInterface()):
        side.setInt("random_seed", 1)
        side.setInt("frame_skip", 3)
        side.setInt("max_num_frames_per_episode", 7)
        side.loadROM(PONG)
        side.setInt("frame_skip", 1)
        side.reset_game()
        history = []
        for _ in range(4):
            side.act(0)
            over = side.game_over(), side.game_over(with_truncation=False), side.game_truncated()
            history.append((side.getEpisodeFrameNumber(), *over))
        histories.append(history)
    assert histories[0] == histories[1]
    assert [entry[0] for entry in histories[0]] == [3, 6, 7, 7]


def test_snapshots(pair):
    _, ours = pair
    state = ours.cloneState(include_rng=True)
    assert state.getFrameNumber() == ours.getFrameNumber()
    assert state == ours.cloneState(include_rng=True)
    assert hash(state) == hash(ours.cloneState(include_rng=True))
    assert pickle.loads(pickle.dumps(state)) == state
    rewards = [ours.act(2 + i % 3) for i in range(200)]
    ram = ours.getRAM()
    ours.restoreState(ALEState(state.serialize()))
    assert [ours.act(2 + i % 3) for i in range(200)] == rewards
    np.testing.assert_array_equal(ours.getRAM(), ram)
    assert ours.cloneSystemState() != state
    ours.restoreSystemState(state)
    assert ours.cloneSystemState().equals(state)
    with pytest.raises(UserError, match="damaged"):
        ours.restoreState(ALEState(state.serialize()[:-1]))
    with pytest.raises(UserError, match="no state of a console"):
        ALEState(b"something else")


def test_a_state_from_bytes_knows_its_numbers_as_in_ale_py():
    numbers = []
    for side in (ale_py.ALEInterface(), seed_hpc.ALEInterface()):
        side.setInt("random_seed", 3)
        side.loadROM(roms.get_rom_path("space_invaders"))
        side.setMode(4)
        side.setDifficulty(1)
        side.reset_game()
        for _ in range(5):
            side.act(0)
        first, second = side.cloneState(), side.cloneState()
        assert first == second
        state = type(first)(first.serialize())
        assert state == first
        numbers.append(
            (state.getFrameNumber(), state.getEpisodeFrameNumber(), state.getCurrentMode(), state.getDifficulty())
        )
    assert numbers[0] == numbers[1]
    assert numbers[0][2:] == (4, 1)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_console_cannot_be_copied(pair, duplicate):
    for side in pair:
        with pytest.raises(TypeError, match="cannot"):
            duplicate(side)


def test_saves_a_picture(pair, tmp_path):
    _, ours = pair
    ours.saveScreenPNG(tmp_path / "pong.png")
    np.testing.assert_array_equal(np.array(Image.open(tmp_path / "pong.png")), ours.getScreenRGB())
    with pytest.raises(UserError, match="cannot be written"):
        ours.saveScreenPNG(tmp_path / "nowhere" / "pong.png")


def test_recognises_roms(tmp_path):
    assert seed_hpc.ALEInterface.isSupportedROM(PONG) == "pong"
    (tmp_path / "pong.bin").write_bytes(b"\0" * 2048)
    assert seed_hpc.ALEInterface.isSupportedROM(tmp_path / "pong.bin") is None
    assert seed_hpc.ALEInterface.isSupportedROM(tmp_path / "combat.bin") is None


def test_a_rom_is_known_by_its_contents(tmp_path):
    copied, named_otherwise = str(shutil.copy(PONG, tmp_path / "foo.bin")), shutil.copy(PONG, tmp_path / "breakout.bin")
    assert seed_hpc.ALEInterface.isSupportedROM(named_otherwise) == "pong"
    for side in (ale_py.ALEInterface(), seed_hpc.ALEInterface()):
        assert side.isSupportedROM(copied) == "pong"
        assert side.getString("rom_file") == ""
        side.loadROM(copied)
        assert side.getString("rom_file") == copied
        assert [action.value for action in side.getMinimalActionSet()] == [0, 1, 3, 4, 11, 12]


def test_user_errors(pair, tmp_path):
    _, ours = pair
    empty = seed_hpc.ALEInterface()
    for name in ("pong.bin", "pogn.bin"):
        (tmp_path / name).write_bytes(b"\0" * 2048)
    for call, message in [
        (lambda: empty.act(0), "call loadROM first"),
        (lambda: empty.getRAM(), "call loadROM first"),
        (lambda: empty.getScreenDims(), "call loadROM first"),
        (lambda: empty.loadROM("/nowhere/pong.bin"), "cannot be read"),
        (lambda: empty.loadROM(tmp_path / "pogn.bin"), "did you mean 'pong'"),
        (lambda: empty.loadROM(tmp_path / "pong.bin"), "MD5"),
        (lambda: ours.act(18), "the action is 18"),
        (lambda: ours.act(-1), "the action is -1"),
        (lambda: ours.act(1.9), "the action is 1.9, it must be an integer from 0 to 17"),
        (lambda: ours.act("3"), "the action is '3'"),
        (lambda: ours.act(2**32), "the action is 4294967296"),
        (lambda: ours.setMode(7), "pong has no mode 7"),
        (lambda: ours.setMode(2**32), "mode is 4294967296"),
        (lambda: ours.setMode(0.0), "mode is 0.0, it must be an integer"),
        (lambda: ours.setDifficulty(4), "pong has no difficulty 4"),
        (lambda: ours.setDifficulty(2**32 + 1), "difficulty is 4294967297"),
        (lambda: ours.setRAM(128, 0), "RAM index 128"),
        (lambda: ours.setRAM(2**32 + 5, 7), "RAM index is 4294967301"),
        (lambda: ours.setRAM(1.9, 3), "RAM index is 1.9"),
        (lambda: ours.setRAM(0, 256), "RAM value is 256"),
        (lambda: ours.setRAM(0, 1.5), "RAM value is 1.5"),
        (lambda: ours.setInt("frame_skip", 1.7), "frame_skip is 1.7, it must be an integer"),
        (lambda: ours.setInt("max_num_frames_per_episode", 2**32 + 5), "is 4294967301, it must be an integer of at"),
        (lambda: ours.setInt("random_sed", 1), "did you mean 'random_seed'"),
        (lambda: ours.setInt("repeat_action_probability", 1), "is a float, not a int"),
        (lambda: ours.setBool("sound", True), "cannot be changed"),
        (lambda: ours.setBool("color_averaging", True), "cannot be changed"),
        (lambda: ours.setString("rom_file", "pong.bin"), "cannot be changed"),
        (lambda: seed_hpc.ALEInterface(rng="dice"), "rng is 'dice'"),
    ]:
        with pytest.raises(UserError, match=message):
            call()
