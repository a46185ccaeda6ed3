# SPDX-License-Identifier: Apache-2.0
"""The replay against a slow plain-Python one, and its statistics, numbers, checkpoints and messages."""

from __future__ import annotations

import io
import math
import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from replay.reference import ReferenceReplay, Timeline

from seed_hpc.errors import UserError
from seed_hpc.replay import PrioritizedReplay, SequenceReplay

DISCOUNT, EXPONENT, EPSILON = 0.9, 0.7, 1e-3


def collect(timelines: list[Timeline], num_steps: int) -> tuple[list[list[dict]], dict[str, torch.Tensor]]:
    """Steps all lanes; returns the entries by lane, and the arrays (T, B, ...) that `append` takes."""
    entries = [[timeline.step() for _ in range(num_steps)] for timeline in timelines]
    arrays = {}
    for name, suffix in {
        "obs": "TBX",
        **dict.fromkeys(("action", "reward", "first", "last", "terminated"), "TB"),
    }.items():
        stacked = np.stack([np.stack([step[name] for step in lane]) for lane in entries], axis=1)
        arrays[f"{name}_{suffix}"] = torch.from_numpy(stacked.astype(np.float32) if name == "reward" else stacked)
    return entries, arrays


class Pair:
    """A replay and the reference for it, fed the same."""

    def __init__(self, rng: np.random.Generator, kind: str, *, lanes=2, capacity=50, stack_num=3, frame_shape=(5,),
                 period=1, reach=3, mean_length=6.0, state_size=0, burn_in=0, seed=0, num_threads=1):  # fmt: skip
        shape = (stack_num, *frame_shape) if stack_num > 1 else frame_shape
        options = {
            "num_envs": lanes,
            "observation_shape": shape,
            "capacity": capacity,
            "stack_num": stack_num,
            "priority_exponent": EXPONENT,
            "priority_epsilon": EPSILON,
            "seed": seed,
            "num_threads": num_threads,
        }
        if kind == "transitions":
            self.replay = PrioritizedReplay(n_steps=reach, discount=DISCOUNT, **options)
        else:
            self.replay = SequenceReplay(
                burn_in=burn_in, length=reach - burn_in, period=period, state_size=state_size, **options
            )
        self.rng, self.state_size, self.period = rng, state_size, period
        self.reference = ReferenceReplay(
            kind, lanes, self.replay.capacity // lanes, stack_num, period, reach, DISCOUNT, EXPONENT, EPSILON
        )
        self.timelines = [Timeline(rng, frame_shape, stack_num, mean_length) for _ in range(lanes)]
        self.states: dict[tuple[int, int], np.ndarray] = {}

    def append(self, num_steps: int, with_priorities: bool = False) -> None:
        head = len(self.reference.lanes[0])
        entries, arrays = collect(self.timelines, num_steps)
        completed, begun = self.replay.num_completed(num_steps)
        priorities = None
        if with_priorities:
            priorities = self.rng.exponential(size=(completed, len(self.timelines))).astype(np.float32)
            arrays["priority_MB"] = torch.from_numpy(priorities)
        if self.state_size:
            states = self.rng.normal(size=(begun, len(self.timelines), self.state_size)).astype(np.float32)
            arrays["state_KBS"] = torch.from_numpy(states)
            item = -(-head // self.period)
            for k in range(begun):
                for lane in range(len(self.timelines)):
                    self.states[lane, item + k] = states[k, lane]
        self.replay.append(**arrays)
        self.reference.append(entries, None if priorities is None else priorities.tolist())

    def check(self, batch_size: int = 16) -> None:
        """Compares the leaves with their definition, and every field of a drawn batch."""
        expected = self.reference.leaves()
        assert len(self.replay) == np.count_nonzero(expected)
        np.testing.assert_allclose(self.replay.leaves.numpy(), expected, rtol=1e-14)
        assert self.replay.total == pytest.approx(math.fsum(expected), rel=1e-14)
        if not expected.any():
            with pytest.raises(UserError, match="nothing to draw"):
                self.replay.sample(batch_size)
            return
        self.check_batch(self.replay.sample(batch_size, importance_exponent=0.5))

    def check_batch(self, batch) -> None:
        names = self.reference.names()
        leaf = self.replay.leaves.numpy()[batch.index_N.numpy()]
        np.testing.assert_allclose(batch.weight_N.numpy(), (leaf.min() / leaf) ** 0.5, rtol=1e-6)
        assert int(batch.index_N.max()) < self.replay.num_items
        for i, name in enumerate(zip(batch.index_N.tolist(), batch.generation_N.tolist(), strict=True)):
            assert name in names, f"{name} cannot be drawn"
            lane, item = names[name]
            if self.reference.kind == "transitions":
                expected = self.reference.transition(lane, item)
                steps = expected["steps"]
                assert batch.action_N[i] == expected["action"]
                assert batch.reward_N[i] == np.float32(expected["reward"])
                assert batch.discount_N[i] == np.float32(expected["discount"])
            else:
                start = item * self.period
                steps = range(start, start + self.reference.reach + 1)
                if self.state_size:
                    np.testing.assert_array_equal(batch.state_NS[i].numpy(), self.states[lane, item])
            for u, step in enumerate(steps):
                entry = self.reference.lanes[lane][step]
                np.testing.assert_array_equal(batch.obs_UNX[u, i].numpy(), entry["obs"])
                assert batch.first_UN[u, i] == entry["first"]
                action, reward = self.reference.arrival(lane, step)
                assert batch.previous_action_UN[u, i] == action
                assert batch.previous_reward_UN[u, i] == np.float32(reward)
                if self.reference.kind == "sequences":
                    assert batch.last_UN[u, i] == entry["last"]
                    if u < len(steps) - 1:
                        assert batch.terminated_VN[u, i] == entry["terminated"]

    def update(self, batch) -> None:
        """Gives new priorities to a batch, some of them twice."""
        order = self.rng.integers(len(batch.index_N), size=len(batch.index_N) + 3)
        index, generation = batch.index_N.numpy()[order], batch.generation_N.numpy()[order]
        priority = self.rng.exponential(size=len(order)).astype(np.float32)
        applied = self.replay.update(index, generation, priority)
        names = list(zip(index.tolist(), generation.tolist(), strict=True))
        assert applied == self.reference.update(names, priority.tolist())


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    lanes=st.integers(1, 3),
    capacity=st.integers(1, 90),
    stack_num=st.integers(1, 5),
    n_steps=st.integers(1, 5),
    frame_shape=st.sampled_from([(1,), (3,), (8,), (2, 3, 3)]),
    mean_length=st.sampled_from([1.0, 2.0, 8.0, 1000.0]),
    appends=st.lists(st.integers(1, 12), min_size=1, max_size=25),
)
def test_transitions_equal_the_reference(seed, lanes, capacity, stack_num, n_steps, frame_shape, mean_length, appends):
    rng = np.random.default_rng(seed)
    capacity = max(capacity, lanes * (n_steps + max(stack_num - 1, 1) + 1))
    pair = Pair(rng, "transitions", lanes=lanes, capacity=capacity, stack_num=stack_num, frame_shape=frame_shape,
                reach=n_steps, mean_length=mean_length, seed=seed)  # fmt: skip
    old = None
    for num_steps in appends:
        if rng.random() < 0.1:
            pair.timelines[rng.integers(lanes)].restart()
        pair.append(min(num_steps, pair.reference.steps_per_lane), with_priorities=bool(rng.integers(2)))
        pair.check()
        if old is not None:  # of before the append: some of it is gone
            pair.update(old)
            pair.check()
        old = pair.replay.sample(8) if len(pair.replay) else None


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    lanes=st.integers(1, 3),
    capacity=st.integers(1, 150),
    stack_num=st.integers(1, 4),
    burn_in=st.integers(0, 4),
    length=st.integers(1, 6),
    period=st.integers(1, 7),
    state_size=st.integers(0, 3),
    mean_length=st.sampled_from([1.0, 3.0, 10.0, 1000.0]),
    appends=st.lists(st.integers(1, 20), min_size=1, max_size=20),
)
def test_sequences_equal_the_reference(
    seed, lanes, capacity, stack_num, burn_in, length, period, state_size, mean_length, appends
):
    rng = np.random.default_rng(seed)
    capacity = max(capacity, lanes * (burn_in + length + max(stack_num - 1, 1) + period))
    pair = Pair(rng, "sequences", lanes=lanes, capacity=capacity, stack_num=stack_num, reach=burn_in + length,
                burn_in=burn_in, period=period, state_size=state_size, mean_length=mean_length, seed=seed)  # fmt: skip
    old = None
    for num_steps in appends:
        if rng.random() < 0.1:
            pair.timelines[rng.integers(lanes)].restart()
        pair.append(min(num_steps, pair.reference.steps_per_lane), with_priorities=bool(rng.integers(2)))
        pair.check()
        if old is not None:
            pair.update(old)
            pair.check()
        old = pair.replay.sample(8) if len(pair.replay) else None


def test_stacks_are_those_of_the_atari_vector_environment():
    from ale_py.vector_env import AtariVectorEnv

    envs = AtariVectorEnv("breakout", num_envs=2, episodic_life=True, img_height=20, img_width=16)
    replay = PrioritizedReplay(num_envs=2, observation_shape=(4, 20, 16), stack_num=4, capacity=600, n_steps=2)
    rng = np.random.default_rng(3)
    obs, _ = envs.reset(seed=3)
    first, last = np.ones(2, bool), np.zeros(2, bool)
    seen: list[np.ndarray] = []
    for _ in range(280):
        action = rng.integers(4, size=2)
        following, reward, terminated, truncated, _ = envs.step(action)
        flags = {"first_TB": first[None], "last_TB": last[None], "terminated_TB": terminated[None]}
        replay.append(obs_TBX=obs[None], action_TB=action[None], reward_TB=reward[None].astype(np.float32), **flags)
        seen.append(obs.copy())
        obs, first, last = following, last, terminated | truncated
    envs.close()
    assert sum(replay.sample(200).first_UN.sum() for _ in range(4)) > 5  # starts of episodes are among them
    batch = replay.sample(500)
    for i, index in enumerate(batch.index_N.tolist()):
        lane, step = divmod(index, replay.num_items // 2)
        np.testing.assert_array_equal(batch.obs_UNX[0, i].numpy(), seen[step][lane])


def hand_made(capacity: int = 40, **options) -> PrioritizedReplay:
    """One lane with rewards 1, 2, 4, ... whose episode is cut off after three transitions; then a new one."""
    replay = PrioritizedReplay(num_envs=1, observation_shape=(1,), capacity=capacity, discount=0.5, **options)
    last = torch.tensor([0, 0, 0, 1, 0, 0, 0, 0], dtype=torch.bool)
    first = torch.tensor([1, 0, 0, 0, 1, 0, 0, 0], dtype=torch.bool)
    replay.append(
        obs_TBX=torch.arange(10, 18, dtype=torch.uint8).view(8, 1, 1),
        action_TB=torch.arange(8).view(8, 1),
        reward_TB=torch.tensor([1.0, 2.0, 4.0, 0.0, 8.0, 16.0, 32.0, 64.0]).view(8, 1),
        first_TB=first.view(8, 1),
        last_TB=last.view(8, 1),
        terminated_TB=torch.zeros(8, 1, dtype=torch.bool),
    )
    return replay


def test_a_truncated_episode_bootstraps_from_its_final_observation_by_hand():
    replay = hand_made(n_steps=2)
    batch = replay.sample(64)
    found = {
        index: (obs, action, reward, discount, following)
        for index, obs, action, reward, discount, following in zip(
            batch.index_N.tolist(),
            batch.obs_UNX[0, :, 0].tolist(),
            batch.action_N.tolist(),
            batch.reward_N.tolist(),
            batch.discount_N.tolist(),
            batch.obs_UNX[1, :, 0].tolist(),
            strict=True,
        )
    }
    assert found == {
        0: (10, 0, 1.0 + 0.5 * 2.0, 0.25, 12),
        1: (11, 1, 2.0 + 0.5 * 4.0, 0.25, 13),
        2: (12, 2, 4.0, 0.5, 13),  # 13 is the final observation; the transition from it (index 3) is void
        4: (14, 4, 8.0 + 0.5 * 16.0, 0.25, 16),
        5: (15, 5, 16.0 + 0.5 * 32.0, 0.25, 17),
    }


@pytest.mark.parametrize("num_items", [7, 257, 5000])
def test_items_are_drawn_in_proportion_to_their_priority(num_items):
    """Chi-square test of 40,000 independent draws; the probability of a false alarm is 1e-4 a case, the seed fixed."""
    replay = uniform_replay(num_items, priority_exponent=0.6, seed=11)
    rng = np.random.default_rng(1)
    live = np.flatnonzero(replay.leaves.numpy())
    priority = rng.exponential(size=len(live)).astype(np.float32)
    priority[::5] = 0.0  # nearly never drawn
    replay.update(live, live // replay.num_items, priority)
    probability = (priority.astype(np.float64) + 1e-6) ** 0.6
    probability /= probability.sum()
    draws = 40_000
    counts = np.zeros(replay.num_items)
    one = replay.sample(1)
    for _ in range(draws):
        counts[int(replay.sample(1, out=one).index_N)] += 1
    assert counts.sum() == counts[live].sum() == draws
    expected = probability * draws
    common = expected >= 5  # the usual rule; the rest is one class
    observed = np.append(counts[live][common], counts[live][~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    keep = expected > 0
    statistic = ((observed[keep] - expected[keep]) ** 2 / expected[keep]).sum()
    freedom = torch.tensor((keep.sum() - 1) / 2.0, dtype=torch.float64)
    p_value = float(torch.special.gammaincc(freedom, torch.tensor(statistic / 2.0, dtype=torch.float64)))
    assert p_value > 1e-4


def uniform_replay(num_items: int, **options) -> PrioritizedReplay:
    """One lane with at least `num_items` items that can be drawn."""
    replay = PrioritizedReplay(num_envs=1, observation_shape=(1,), capacity=num_items + 2, n_steps=1, **options)
    left = num_items + 2
    while left:
        steps = min(left, 500)
        flags = torch.zeros(steps, 1, dtype=torch.bool)
        zeros = torch.zeros(steps, 1)
        obs = torch.zeros(steps, 1, 1, dtype=torch.uint8)
        replay.append(
            obs_TBX=obs, action_TB=zeros.long(), reward_TB=zeros, first_TB=flags, last_TB=flags, terminated_TB=flags
        )
        left -= steps
    return replay


def test_every_stratum_gives_one_draw():
    replay = uniform_replay(300, seed=5)
    live = np.flatnonzero(replay.leaves.numpy())
    rng = np.random.default_rng(2)
    replay.update(live, live * 0, rng.exponential(size=len(live)).astype(np.float32))
    leaves = replay.leaves.numpy()
    high = np.cumsum(leaves) / leaves.sum()
    for batch_size in (1, 10, 333, 5000):
        index = replay.sample(batch_size).index_N.numpy()
        stratum = np.arange(batch_size)
        slack = 1e-9  # the tree adds in another order
        assert (high[index] >= stratum / batch_size - slack).all()
        assert (high[index] - leaves[index] / leaves.sum() <= (stratum + 1) / batch_size + slack).all()


def test_sums_do_not_drift():
    """After 200,000 updates of all magnitudes the total is the sum of the leaves to the last bits."""
    replay = uniform_replay(1000, priority_exponent=1.0)
    live = np.flatnonzero(replay.leaves.numpy())
    rng = np.random.default_rng(4)
    for _ in range(200):
        index = rng.choice(live, size=1000)
        priority = (10.0 ** rng.uniform(-6, 12, size=1000)).astype(np.float32)
        replay.update(index, index * 0, priority)
    replay.update(live, live * 0, np.full(len(live), 1e-3, np.float32))
    assert replay.total == pytest.approx(math.fsum(replay.leaves.tolist()), rel=1e-15)
    assert replay.total == pytest.approx(len(live) * (np.float64(np.float32(1e-3)) + 1e-6), rel=1e-12)


@pytest.mark.parametrize("capacity", [3, 15, 16, 17, 255, 256, 257, 4095, 4097, 70_001])
def test_any_capacity(capacity):
    replay = uniform_replay(capacity - 2)
    assert replay.num_items == capacity
    batch = replay.sample(2000)
    assert int(batch.index_N.min()) >= 0
    assert int(batch.index_N.max()) < capacity
    assert replay.total == pytest.approx(float(replay.leaves.sum()), rel=1e-12)


def test_of_several_priorities_the_largest_counts_in_any_order():
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        replay = hand_made(n_steps=1, priority_exponent=1.0)
        priority = torch.tensor([3.0, 7.0, 5.0])[order]
        assert replay.update(torch.tensor([2, 2, 2]), torch.zeros(3), priority) == 3
        assert float(replay.leaves[2]) == 7.0 + 1e-6


def test_an_item_that_was_overwritten_keeps_the_priority_of_its_successor():
    pair = Pair(np.random.default_rng(0), "transitions", lanes=1, capacity=20, mean_length=1e9)
    pair.append(10)
    old = pair.replay.sample(1)
    pair.append(20)
    before = pair.replay.leaves.clone()
    assert pair.replay.update(old.index_N, old.generation_N, torch.tensor([1e6])) == 0
    assert torch.equal(pair.replay.leaves, before)


def test_new_items_get_the_largest_priority_seen():
    pair = Pair(np.random.default_rng(0), "transitions", lanes=1, capacity=40, mean_length=1e9)
    pair.append(10)
    batch = pair.replay.sample(1)
    pair.replay.update(batch.index_N, batch.generation_N, torch.tensor([123.0]))
    pair.append(5)
    assert float(pair.replay.leaves.max()) == pytest.approx((123.0 + EPSILON) ** EXPONENT)
    assert int((pair.replay.leaves > 20).sum()) == 6


def test_batches_that_are_copied_to_a_device_are_the_same():
    """The CPU takes the device's place: batches are drawn in the host's memory and copied."""
    direct, staged = (
        Pair(np.random.default_rng(3), "sequences", reach=5, burn_in=1, period=2, state_size=2) for _ in range(2)
    )
    staged.replay._is_staged = True
    for pair in (direct, staged):
        pair.append(20)
        pair.append(20)
    earlier = None
    for batch_size in (8, 8, 5):
        expected, found = (pair.replay.sample(batch_size) for pair in (direct, staged))
        for name, tensor in expected.tensors().items():
            assert torch.equal(tensor, found.tensors()[name]), name
        if earlier is not None:
            assert torch.equal(earlier[0], earlier[1].index_N), "a batch that was handed out has changed"
        earlier = (found.index_N.clone(), found)


def test_threads_and_reused_memory_change_nothing():
    pairs = [
        Pair(
            np.random.default_rng(1), "transitions", capacity=2000, frame_shape=(700,), mean_length=30.0, num_threads=n
        )
        for n in (1, 4)
    ]
    for pair in pairs:
        pair.append(500)
    one, four = (pair.replay.sample(400) for pair in pairs)
    again = pairs[1].replay.sample(400, out=four)
    assert again is four
    fresh = pairs[0].replay.sample(400)
    for name, tensor in fresh.tensors().items():
        assert torch.equal(tensor, again.tensors()[name]), name
    assert not torch.equal(one.index_N, fresh.index_N)  # each batch has random numbers of its own
    with pytest.raises(UserError, match="out is a batch of 400"):
        pairs[1].replay.sample(401, out=four)


@pytest.mark.parametrize("kind", ["transitions", "sequences"])
@pytest.mark.parametrize("num_steps", [13, 95])
def test_a_checkpoint_continues_with_the_same_draws(kind, num_steps):
    options = {"period": 5, "reach": 6, "state_size": 2} if kind == "sequences" else {}
    pair = Pair(np.random.default_rng(7), kind, capacity=80, **options)
    for _ in range(num_steps):
        pair.append(1)
    batch = pair.replay.sample(10)
    pair.update(batch)
    file = io.BytesIO()
    torch.save(pair.replay.state_dict(), file)
    file.seek(0)
    other = Pair(np.random.default_rng(8), kind, capacity=80, **options)
    other.append(40)  # whatever was there before is gone
    other.replay.load_state_dict(torch.load(file, weights_only=True))
    assert len(other.replay) == len(pair.replay)
    assert other.replay.total == pair.replay.total
    for _ in range(3):
        expected, found = pair.replay.sample(32).tensors(), other.replay.sample(32).tensors()
        for name, tensor in expected.items():
            assert torch.equal(tensor, found[name]), name
    _, arrays = collect(pair.timelines, 20)
    if kind == "sequences":
        arrays["state_KBS"] = torch.zeros(pair.replay.num_completed(20)[1], 2, 2)
    for replay in (pair.replay, other.replay):
        replay.append(**arrays)
    assert torch.equal(pair.replay.sample(32).obs_UNX, other.replay.sample(32).obs_UNX)


def test_a_checkpoint_holds_only_the_frames_that_exist():
    replay = PrioritizedReplay(num_envs=2, observation_shape=(1000,), capacity=2000)
    flags = torch.zeros(10, 2, dtype=torch.bool)
    replay.append(
        obs_TBX=torch.ones(10, 2, 1000, dtype=torch.uint8),
        action_TB=torch.zeros(10, 2, dtype=torch.int64),
        reward_TB=torch.zeros(10, 2),
        first_TB=flags,
        last_TB=flags,
        terminated_TB=flags,
    )
    file = io.BytesIO()
    torch.save(replay.state_dict(), file)
    assert 20_000 < file.tell() < 120_000


def test_a_checkpoint_of_other_options_is_refused():
    state = hand_made(n_steps=2).state_dict()
    with pytest.raises(UserError, match="reach=2, this one 3"):
        hand_made(n_steps=3).load_state_dict(state)


def test_an_actor_and_a_learner_thread_need_no_lock():
    """Each frame tells its step and lane; whatever is drawn while the actor goes on must be consistent."""
    lanes, total, chunk = 2, 30_000, 10
    replay = PrioritizedReplay(num_envs=lanes, observation_shape=(64,), dtype=torch.int32, capacity=300, n_steps=3)
    flags = torch.zeros(chunk, lanes, dtype=torch.bool)

    def act() -> None:
        for start in range(0, total, chunk):
            number_TB = torch.arange(start, start + chunk).view(chunk, 1) * lanes + torch.arange(lanes)
            replay.append(
                obs_TBX=number_TB.to(torch.int32).unsqueeze(-1).expand(chunk, lanes, 64).contiguous(),
                action_TB=number_TB,
                reward_TB=torch.zeros(chunk, lanes),
                first_TB=flags,
                last_TB=flags,
                terminated_TB=flags,
            )

    actor = threading.Thread(target=act)
    actor.start()
    batches = 0
    while actor.is_alive():
        if len(replay) == 0:
            continue
        batch = replay.sample(16)
        number_N = batch.action_N
        assert (batch.obs_UNX[0] == number_N.unsqueeze(-1)).all()
        assert (batch.obs_UNX[1] == number_N.unsqueeze(-1) + 3 * lanes).all()
        replay.update(batch.index_N, batch.generation_N, torch.rand(16))
        batches += 1
    actor.join()
    assert batches > 10
    assert replay.num_steps == total


BAD_OPTIONS = [
    ({"num_envs": 0}, "num_envs=0"),
    ({"capacity": 0}, "capacity=0"),
    ({"capacity": 5}, "raise the capacity"),
    ({"stack_num": 4}, "no stacks of 4 frames"),
    ({"stack_num": 65, "observation_shape": (65, 2)}, "stack_num is 65"),
    ({"n_steps": 0}, "is 0: use 1 to 4096"),
    ({"discount": 1.5}, "discount is 1.5"),
    ({"discount": float("nan")}, "discount is nan"),
    ({"priority_exponent": -1.0}, "priority_exponent is -1"),
    ({"priority_epsilon": 0.0}, "priority_epsilon is 0"),
    ({"capacity": 2**62, "observation_shape": (2**20,)}, "lower the capacity"),
    ({"num_threads": -1}, "num_threads=-1"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
def test_options_that_are_not_allowed(options, message):
    with pytest.raises(UserError, match=message):
        PrioritizedReplay(**{"num_envs": 2, "observation_shape": (3,), "capacity": 100, **options})


def test_more_memory_than_there_is():
    with pytest.raises(MemoryError, match="lower its capacity"):
        PrioritizedReplay(num_envs=1, observation_shape=(1 << 30,), capacity=1 << 22)


def test_calls_that_are_not_allowed_change_nothing():
    pair = Pair(np.random.default_rng(0), "sequences", capacity=60, period=5, reach=6, state_size=2)
    pair.append(30)
    replay, before = pair.replay, pair.replay.leaves.clone()
    _, arrays = collect(pair.timelines, 5)
    arrays["state_KBS"] = torch.zeros(1, 2, 2)
    for change, message in [
        ({"reward_TB": torch.full((5, 2), torch.nan)}, "rewards must be finite"),
        ({"reward_TB": torch.zeros(4, 2)}, r"reward_TB has shape \(4, 2\), it must have \(5, 2\)"),
        ({"action_TB": torch.full((5, 2), 2**40)}, "does not fit 32 bits"),
        ({"obs_TBX": torch.zeros(5, 2, 3, 4, dtype=torch.uint8)}, "the replay takes"),
        ({"obs_TBX": torch.zeros(5, 2, 3, 5)}, "the replay takes"),
        ({"obs_TBX": torch.zeros(5)}, "give \\(steps, environments"),
        ({"state_KBS": None}, "give the 1 that begin items"),
        ({"state_KBS": torch.zeros(2, 2, 2)}, "state_KBS has shape"),
        ({"priority_MB": torch.full((1, 2), -1.0)}, "finite and at least 0"),
    ]:
        with pytest.raises(UserError, match=message):
            replay.append(**{**arrays, **change})
    index = torch.tensor([0, replay.num_items])
    for call, message in [
        (lambda: replay.update(index, torch.zeros(2), torch.ones(2)), "outside the replay: use 0 to"),
        (lambda: replay.update(-index, torch.zeros(2), torch.ones(2)), "outside the replay"),
        (lambda: replay.update(index[:1], torch.zeros(1), torch.tensor([torch.nan])), "priority 0 is nan"),
        (lambda: replay.update(index[:1], torch.zeros(1), torch.tensor([torch.inf])), "priority 0 is inf"),
        (lambda: replay.update(index[:1], torch.zeros(2), torch.ones(1)), "generation_N has shape"),
        (lambda: replay.sample(0), "batch_size=0"),
        (lambda: replay.sample(4, importance_exponent=-1.0), "importance_exponent is -1"),
    ]:
        with pytest.raises(UserError, match=message):
            call()
    assert replay.num_steps == 30
    assert torch.equal(replay.leaves, before)
    pair.check()


def test_observations_that_are_no_stacks_are_refused():
    replay = PrioritizedReplay(num_envs=1, observation_shape=(4, 6), stack_num=4, capacity=100)
    flags = torch.zeros(3, 1, dtype=torch.bool)
    with pytest.raises(UserError, match="stack_num=1"):
        replay.append(
            obs_TBX=torch.randint(256, (3, 1, 4, 6), dtype=torch.uint8),
            action_TB=torch.zeros(3, 1, dtype=torch.int64),
            reward_TB=torch.zeros(3, 1),
            first_TB=flags,
            last_TB=flags,
            terminated_TB=flags,
        )


def test_batches_as_numpy_share_memory():
    batch = hand_made(n_steps=1).sample(4)
    arrays = batch.to_numpy()
    assert arrays["obs_UNX"].dtype == np.uint8
    assert arrays["obs_UNX"].__array_interface__["data"][0] == batch.obs_UNX.data_ptr()
