# SPDX-License-Identifier: Apache-2.0
"""Checkpoints are whole or absent, whatever happens while they are written."""

import json
import subprocess
import sys
import time

import pytest
import torch

from seed_hpc.errors import RunFailedError, UserError
from seed_hpc.training import checkpoint as checkpoint_module
from seed_hpc.training.checkpoint import CheckpointStore, load_checkpoint


def test_newest_is_found_and_old_ones_go(tmp_path):
    store = CheckpointStore(tmp_path / "c", keep=2)
    assert store.latest() is None
    for frames in (10, 200, 3000):
        store.save({"x": torch.full((3,), float(frames))}, frames=frames)
    assert load_checkpoint(store.latest())["x"].tolist() == [3000.0] * 3
    assert sorted(path.name for path in store.folder.glob("*.pt")) == [
        "checkpoint_000000000000200.pt",
        "checkpoint_000000000003000.pt",
    ]


def test_a_run_resumed_from_an_older_checkpoint_leaves_the_later_ones_behind(tmp_path):
    store = CheckpointStore(tmp_path / "c", keep=2)
    for frames in (10, 20, 30, 5, 15):
        store.save({"x": frames}, frames=frames)
        assert load_checkpoint(store.latest())["x"] == frames
    assert len(list(store.folder.glob("*.pt"))) == 2


def test_a_failure_leaves_the_checkpoint_before_in_charge(tmp_path, monkeypatch):
    store = CheckpointStore(tmp_path / "c")
    store.save({"x": 1}, frames=1)

    save = torch.save

    class FullDisk:
        written = 0

        def write(self, data):
            self.written += len(data)
            if self.written > 5000:
                raise OSError(28, "No space left on device")
            return len(data)

    monkeypatch.setattr(checkpoint_module.torch, "save", lambda state, file: save(state, FullDisk()))
    with pytest.raises(RunFailedError, match=r"No space left on device.*free space, then resume"):
        store.save({"x": torch.zeros(10_000)}, frames=2)
    monkeypatch.undo()
    assert load_checkpoint(store.latest())["x"] == 1


WRITER = """
import sys, torch
from pathlib import Path
from seed_hpc.training.checkpoint import CheckpointStore
torch.set_num_threads(1)
store = CheckpointStore(Path(sys.argv[1]))
for i in range(10**9):
    store.save({"i": i, "x": torch.full((200_000,), float(i))}, frames=i)
    print("saved", flush=True)
"""


def test_killed_at_random_moments_the_latest_is_always_whole(tmp_path):
    newest = -1
    for attempt in range(5):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "c")], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(0.05 + 0.037 * attempt)
            process.kill()
        state = load_checkpoint(CheckpointStore(tmp_path / "c").latest())
        assert (state["x"] == float(state["i"])).all()
        newest = max(newest, state["i"])
    assert newest > 0


@pytest.mark.parametrize("content", [b"", b"garbage", None])
def test_damaged_files_are_user_errors(tmp_path, content):
    path = tmp_path / "checkpoint_1.pt"
    if content is None:
        torch.save({"format": 99}, path)
    else:
        path.write_bytes(content)
    with pytest.raises(UserError, match=str(path.name)):
        load_checkpoint(path)


def test_without_checkpoints_latest_json_does_not_matter(tmp_path):
    store = CheckpointStore(tmp_path)
    for text in ("", "[]", json.dumps({"file": "gone.pt"})):
        (tmp_path / "latest.json").write_text(text)
        assert store.latest() is None


def test_checkpoints_are_not_passed_over_when_latest_json_is_lost(tmp_path):
    store = CheckpointStore(tmp_path)
    for frames in (1, 2):
        store.save({"x": frames}, frames=frames)
    index = tmp_path / "latest.json"
    newest = store.latest()
    for text, reason in (("", "is damaged"), ("[]", "is damaged"), (json.dumps({"file": "gone.pt"}), "names gone.pt")):
        index.write_text(text)
        with pytest.raises(UserError, match=reason):
            store.latest()
    index.unlink()
    with pytest.raises(UserError, match="is missing") as caught:
        store.latest()
    index.write_text(str(caught.value).split("write ")[1].split(" into")[0])  # what the sentence says
    assert store.latest() == newest


def test_a_first_checkpoint_that_was_not_committed_does_not_count(tmp_path):
    store = CheckpointStore(tmp_path)
    store.write({"x": 1}, frames=1)
    assert store.latest() is None
