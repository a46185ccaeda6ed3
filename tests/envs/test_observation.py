# SPDX-License-Identifier: Apache-2.0
"""The area resize, byte for byte: against ale-py, a NumPy statement of the rule, and SIMD against the plain loop."""

import ale_py
import numpy as np
import pytest
from ale_py import roms
from ale_py.vector_env import AtariVectorEnv

from seed_hpc.envs.observation import resize_area
from seed_hpc.errors import UserError

ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)


def record(game: str, num_frames: int, seed: int):
    """Random play on ale-py itself: the actions and both kinds of picture after each frame."""
    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", seed)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(roms.get_rom_path(game))
    ale.reset_game()
    actions = np.random.default_rng(seed).integers(len(ale.getMinimalActionSet()), size=num_frames)
    grays, colours = [], []
    for action in actions:
        ale.act(ale.getMinimalActionSet()[action])
        assert not ale.game_over()
        grays.append(ale.getScreenGrayscale())
        colours.append(ale.getScreenRGB())
    return actions, grays, colours


# Every case of the rule: copy, halving, integer factors, coverage (SIMD and not), growth on one or both sides.
SIZES = [
    (84, 84),
    (42, 42),
    (50, 33),
    (210, 160),
    (105, 80),
    (105, 160),
    (42, 32),
    (100, 90),
    (128, 128),
    (209, 159),
    (1, 1),
    (3, 7),
]
GROWING = [(300, 200), (250, 84), (84, 300), (211, 161)]


@pytest.mark.parametrize("game", ["seaquest", "air_raid"])
@pytest.mark.parametrize("grayscale", [True, False])
def test_equals_the_pictures_of_ale_py(game, grayscale):
    actions, grays, colours = record(game, 40, seed=5)
    for height, width in SIZES + GROWING:
        envs = AtariVectorEnv(
            game, 1, img_height=height, img_width=width, frameskip=1, stack_num=1, noop_max=0,
            use_fire_reset=False, maxpool=False, grayscale=grayscale,
        )  # fmt: skip
        envs.reset(seed=5)
        for frame, action in enumerate(actions):
            observed = envs.step(np.array([action]))[0][0, 0]
            if frame % 13 == 0:
                ours = resize_area((grays if grayscale else colours)[frame], height, width)
                np.testing.assert_array_equal(ours, observed, err_msg=f"{height} x {width}, frame {frame}")
        envs.close()


@pytest.mark.parametrize("source_height", [210, 214, 220, 230, 250])
@pytest.mark.parametrize(
    "size", [(84, 84), (42, 42), (100, 90), (64, 64), (96, 96), (72, 84), (105, 84), (209, 159), (50, 40), (83, 97)]
)
def test_simd_equals_the_plain_loop(source_height, size):
    generator = np.random.default_rng(source_height * 1000 + size[0])
    for values in ([0, 1, 255], [0, 50, 100, 255], np.arange(256)):  # few values make many ties
        picture = generator.choice(np.array(values, dtype=np.uint8), size=(source_height, 160))
        plain = resize_area(picture, *size, use_simd=False)
        np.testing.assert_array_equal(resize_area(picture, *size), plain)


def test_coverage_is_the_rounded_weighted_mean():
    picture = np.random.default_rng(1).integers(0, 256, (210, 160), dtype=np.uint8)

    def shares(source, target):  # share of each source cell in each target cell
        edges = np.arange(target + 1) * source / target
        cells = np.arange(source)
        covered = np.minimum(edges[1:, None], cells + 1) - np.maximum(edges[:-1, None], cells)
        return np.clip(covered, 0, None) * target / source

    exact = shares(210, 84) @ picture.astype(float) @ shares(160, 84).T
    assert np.abs(resize_area(picture, 84, 84) - exact).max() <= 0.5 + 1e-3


def test_bad_sizes_are_user_errors():
    with pytest.raises(UserError, match="side is 0"):
        resize_area(np.zeros((210, 160), np.uint8), 0, 84)
    with pytest.raises(UserError, match="channels is 4"):
        resize_area(np.zeros((210, 160, 4), np.uint8), 84, 84)
