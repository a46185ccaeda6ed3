# SPDX-License-Identifier: Apache-2.0
"""Records an episode as a GIF, in the colours and size of the screen.

The agent plays in the environment it was trained in; a twin with colour frames, the same seed and the same actions
repeats the episode beside it, since environments are functions of seed and actions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from seed_hpc.config import Experiment
from seed_hpc.files import write_atomically
from seed_hpc.training.environments import make_environments
from seed_hpc.training.evaluate import WHOLE_GAMES, Episodes, load_policy, play_episodes

FRAME_MILLISECONDS = 60  # 15 steps a second are 67 ms; GIF counts in hundredths


def record_episode(
    experiment: Experiment, checkpoint: Path, path: Path, *, max_frames: int, device: torch.device
) -> Episodes:
    """Plays one episode and writes it.

    Args:
        experiment: Environments and section `evaluation`.
        checkpoint: File of the parameters.
        path: The GIF.
        max_frames: Pictures at most; a longer episode is shown faster.
        device: Where to run.

    Returns:
        The one episode.
    """
    seed = experiment.evaluation.seed
    envs = make_environments(experiment.env, num_envs=1, device=device, **WHOLE_GAMES)
    twin = make_environments(
        experiment.env,
        num_envs=1,
        device=device,
        **WHOLE_GAMES,
        grayscale=False,
        stack_num=1,
        img_height=210,
        img_width=160,
    )
    policy, _ = load_policy(experiment, checkpoint, envs, device)
    pictures = _Thinned(max_frames)
    obs, _ = twin.reset(seed=seed)
    pictures.append(obs)

    def repeat(actions: Tensor) -> None:
        pictures.append(twin.step(actions)[0])

    episodes = play_episodes(envs, policy, seed=seed, clip_rewards=experiment.env.reward_clipping, on_step=repeat)
    envs.close()
    twin.close()
    write_gif(path, pictures.kept)
    return episodes


class _Thinned:
    """Keeps every k-th picture; k doubles when there are too many, so memory is bounded."""

    def __init__(self, limit: int) -> None:
        self.limit, self.stride, self.count = limit, 1, 0
        self.kept: list[Image.Image] = []

    def append(self, obs: Tensor) -> None:
        """Adds the newest frame of (1, 1, H, W, 3)."""
        if self.count % self.stride == 0:
            self.kept.append(Image.fromarray(obs[0, -1].cpu().numpy().copy()))
            if len(self.kept) > self.limit:
                self.kept, self.stride = self.kept[::2], 2 * self.stride
        self.count += 1


def write_gif(path: Path, pictures: list[Image.Image]) -> None:
    """Writes RGB pictures as a looping GIF with one palette; a console shows at most 128 colours."""
    palette = _common_palette(pictures)
    frames = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]

    def save(file: Any) -> None:
        frames[0].save(
            file,
            format="GIF",
            save_all=True,
            append_images=frames[1:],
            duration=FRAME_MILLISECONDS,
            loop=0,
            optimize=False,
        )

    write_atomically(path, save)


def _common_palette(pictures: list[Image.Image]) -> Image.Image:
    """A palette of all pictures' colours: those of sixteen of them, at even distances."""
    sample = pictures[:: max(1, len(pictures) // 16)][:17]
    width, height = sample[0].size
    sheet = Image.new("RGB", (width, height * len(sample)))
    for row, picture in enumerate(sample):
        sheet.paste(picture, (0, row * height))
    return sheet.quantize(128, method=Image.Quantize.MEDIANCUT)
