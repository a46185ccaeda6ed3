# SPDX-License-Identifier: Apache-2.0
"""The order book against a slow plain one, on random streams; the environment against its plain twin; LOBSTER files."""

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seed_hpc
from seed_hpc import _native
from seed_hpc.baselines.plain_order_book import BUY, CAPACITY, SELL, PlainOrderBook, PlainOrderBookEnv
from seed_hpc.envs.check import check_environment
from seed_hpc.envs.order_data import MESSAGE, read_messages
from seed_hpc.errors import UserError


class NativeBook:
    """seed/order_book.h."""

    def __init__(self):
        self.library = _native.load()
        self.book, capacity = ctypes.c_void_p(), ctypes.c_int32()
        _native.check(
            self.library, self.library.seed_order_book_create(ctypes.byref(self.book), ctypes.byref(capacity))
        )
        assert capacity.value == CAPACITY

    def apply(self, message):
        """Returns lots and value traded."""
        fields = (ctypes.c_int32 * 5)(*message)
        traded, value = ctypes.c_int32(), ctypes.c_int64()
        _native.check(
            self.library,
            self.library.seed_order_book_apply(
                self.book, ctypes.byref(fields), ctypes.byref(traded), ctypes.byref(value)
            ),
        )
        return traded.value, value.value

    def queue(self, side):
        count = ctypes.c_int32()
        rows = np.empty((3, CAPACITY), np.int32)
        pointers = [ctypes.c_void_p(row.ctypes.data) for row in rows]
        _native.check(self.library, self.library.seed_order_book_queue(self.book, side, ctypes.byref(count), *pointers))
        return [tuple(entry) for entry in rows[:, : count.value].T.tolist()]

    def close(self):
        self.library.seed_order_book_destroy(self.book)


def plain_queue(book, side):
    return [(order.number, order.size, order.price) for order in book.queue(side)]


def follow(messages):
    """Applies messages to both books; all trades and queues must agree after each."""
    native, plain = NativeBook(), PlainOrderBook()
    try:
        for message in messages:
            trades = plain.apply(*message)
            expected = (sum(s for _, s, _ in trades), sum(s * p for _, s, p in trades))
            assert native.apply(message) == expected
            for side in (BUY, SELL):
                assert native.queue(side) == plain_queue(plain, side)
    finally:
        native.close()
    return plain


# Few prices, numbers and sizes, so that orders meet, numbers repeat or are unknown, and parts remain.
messages_st = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.one_of(st.integers(1, 12), st.just(-1)),
        st.integers(1, 6),
        st.integers(97, 103),
        st.sampled_from([BUY, SELL]),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(messages_st)
def test_books_agree_on_any_stream(messages):
    plain = follow(messages)
    bids, asks = plain.queue(BUY), plain.queue(SELL)
    assert not bids or not asks or bids[0].price < asks[0].price


def test_time_decides_among_equal_prices_and_price_before_time():
    book = NativeBook()
    for number, price in ((1, 101), (2, 100), (3, 100)):
        book.apply((1, number, 5, price, SELL))
    assert book.apply((1, 4, 7, 101, BUY)) == (7, 700)
    assert book.queue(SELL) == [(3, 3, 100), (1, 5, 101)]
    assert book.queue(BUY) == []
    book.close()


def test_a_full_book_takes_no_more():
    orders = [(1, i, 1, 100 - i % 50, BUY) for i in range(CAPACITY + 5)]
    assert len(follow(orders).orders) == CAPACITY


@pytest.mark.parametrize("message", [(0, 1, 1, 100, 1), (5, 1, 1, 100, 1), (1, 1, 0, 100, 1), (1, 1, 1, 100, 0)])
def test_bad_messages_are_refused(message):
    book = NativeBook()
    with pytest.raises(UserError, match="it must be"):
        book.apply(message)
    book.close()


# ---- The environment ----------------------------------------------------------------------------------------------


def random_stream(count, seed):
    """A stream of new orders, cancellations and executions around a price."""
    generator = np.random.default_rng(seed)
    stream = np.zeros(count, MESSAGE)
    stream["kind"] = generator.choice([1, 2, 3, 4], count, p=[0.55, 0.05, 0.15, 0.25])
    stream["order"] = np.arange(1, count + 1)
    earlier = stream["kind"] != 1
    stream["order"][earlier] = generator.integers(1, np.flatnonzero(earlier) + 2)
    stream["size"] = generator.integers(1, 8, count)
    stream["side"] = generator.choice([BUY, SELL], count)
    stream["price"] = 1000 - stream["side"] * generator.integers(-1, 6, count)
    return stream


@pytest.mark.parametrize("seed", range(6))
def test_the_environment_equals_its_plain_twin(seed):
    """A stream of one message more than needed leaves one place to start."""
    stream = random_stream(30 * 8 + 1, seed)
    arguments = {"parent": 25, "clip": 3, "horizon": 30}
    envs = seed_hpc.make_vec("order_book", 1, data=stream, messages=8, **arguments)
    plain = PlainOrderBookEnv(stream, num_messages=8, **arguments)
    generator = np.random.default_rng(seed)
    observation, _ = envs.reset(seed=seed)
    expected, _ = plain.reset()
    np.testing.assert_allclose(observation[0], expected, atol=1e-5)
    for _ in range(30):
        action = int(generator.choice(6, p=[0.3, 0.1, 0.25, 0.2, 0.1, 0.05]))
        observation, reward, terminated, *_ = envs.step(np.array([action]))
        expected, expected_reward, closed, _, _ = plain.step(action)
        np.testing.assert_allclose(observation[0], expected, atol=1e-5)
        assert reward[0] == pytest.approx(expected_reward, rel=1e-6)
        assert bool(terminated[0]) == closed
        if closed:
            break
    assert closed
    envs.close()


def play(policy, num_envs=400, **options):
    """Returns each lane's return and lots sold in one episode."""
    envs = seed_hpc.make_vec("order_book", num_envs, **options)
    observation, _ = envs.reset(seed=0)
    total, running = np.zeros(num_envs), np.ones(num_envs, bool)
    left = np.ones(num_envs)
    while running.any():
        observation, rewards, terminations, *_ = envs.step(policy(envs, observation))
        total += rewards * running
        left[running] = observation[running, 0]
        running &= ~terminations
    envs.close()
    return total, left


@pytest.mark.parametrize("action", range(6))
def test_the_parent_order_is_sold_in_full_whatever_is_done(action):
    _, left = play(lambda envs, _: np.full(envs.num_envs, action), num_envs=50)
    np.testing.assert_allclose(left, 0, atol=1e-6)


def test_twap_pays_the_spread_and_working_orders_earn_some_of_it():
    twap, _ = play(lambda envs, _: envs.reference_actions())
    patient, _ = play(lambda envs, o: np.where(o[:, 2] > 0.5, 4, 2))
    assert -3 < twap.mean() < -0.5
    assert (patient - twap).mean() > 1.96 * (patient - twap).std() / 20


def test_generated_markets_stay_alive_and_two_sided():
    envs = seed_hpc.make_vec("order_book", 32, horizon=500, parent=500)
    envs.reset(seed=1)
    idle = np.zeros(32, np.int64)
    history = np.array([envs.step(idle)[0].copy() for _ in range(400)])
    assert history[..., 16].mean() > 0.99
    assert 0.2 < history[..., 3].mean() < 1.5  # a spread of 1 to 7 ticks
    assert 0.5 < history[..., 10].mean() < 5.0
    envs.close()


def test_the_contract_holds_on_recorded_data():
    check_environment("order_book", data=random_stream(2000, 1), horizon=20, messages=5)


def test_data_that_does_not_fit():
    for data, error in ((random_stream(50, 0), 2), (b"123", 1)):
        assert_fails(error, data=data)


@pytest.mark.parametrize(
    "options",
    [
        *({name: value} for name in ("parent", "clip", "horizon") for value in (0, -1, 3e9)),
        *({name: value} for name in ("messages", "warm_up") for value in (-1, -200000, 3e9)),
    ],
)
def test_options_that_do_not_fit(options):
    assert_fails(3, **options)
    assert_fails(3, data=random_stream(50, 0), **options)


def assert_fails(error, **arguments):
    """No call goes on with lanes that could not be reset."""
    envs = seed_hpc.make_vec("order_book", 2, **arguments)
    for call in (lambda: envs.reset(seed=0), lambda: envs.step(np.array([0, 4])), envs.reference_actions):
        with pytest.raises(UserError, match=f"reported error {error} in lane 0"):
            call()
    envs.close()


def test_the_least_options_and_large_ones():
    for options in ({"clip": 1, "horizon": 1, "messages": 0, "warm_up": 0, "parent": 1}, {"clip": 2e9, "parent": 2e9}):
        envs = seed_hpc.make_vec("order_book", 2, **options)
        envs.reset(seed=0)
        for action in (5, 2, 4):
            observations, rewards, *_ = envs.step(np.full(2, action))
            assert np.isfinite(observations).all()
            assert np.isfinite(rewards).all()
            assert envs.reference_actions().shape == (2,)
        envs.close()


def test_a_lane_of_another_recording_ends_with_an_error():
    options = {"horizon": 3, "messages": 10, "warm_up": 0}
    long, short = (seed_hpc.make_vec("order_book", 1, data=random_stream(size, 0), **options) for size in (10**6, 31))
    long.reset(seed=0)
    short.restore_lanes(long.clone_lanes())
    with pytest.raises(UserError, match="reported error 2"):
        short.step(np.array([0]))
    short.reset(seed=0)
    short.step(np.array([0]))
    for envs in (long, short):
        envs.close()


# ---- Files -------------------------------------------------------------------------------------------------------

MESSAGES = """34200.01,1,16113575,18,5853300,1
34200.02,1,16113584,18,5853500,-1
34200.03,3,16113575,18,5853300,1
34200.04,5,0,5,5853400,1
34200.05,4,16113584,7,5853500,-1
34200.06,2,999,3,5853600,-1
34200.07,7,0,0,-1,-1
"""
ORDERBOOK = "5853600,10,5853200,20,9999999999,0,-9999999999,0\n5853600,10,5853300,18,5853700,1,5853200,20\n"


def test_lobster_files(tmp_path):
    path = tmp_path / "AAPL_message_1.csv"
    path.write_text(MESSAGES)
    alone = read_messages(path)
    assert alone.tolist() == [
        (1, 1, 18, 58533, 1),
        (1, 2, 18, 58535, -1),
        (3, 1, 18, 58533, 1),
        (4, 2, 7, 58535, -1),
        (2, 3, 3, 58536, -1),
    ]
    (tmp_path / "AAPL_orderbook_1.csv").write_text(ORDERBOOK)
    complete = read_messages(path)
    assert complete[:2].tolist() == [(1, 1, 10, 58536, -1), (1, 2, 20, 58532, 1)]
    assert complete["order"][2:].tolist() == (alone["order"] + 2).tolist()
    plain = follow(complete.tolist())
    # The execution took 7 of 18, and the cancellation of an unknown order 3 of the 10 that rested before.
    assert plain_queue(plain, SELL) == [(4, 11, 58535), (1, 7, 58536)]
    assert plain_queue(plain, BUY) == [(2, 20, 58532)]
    envs = seed_hpc.make_vec("order_book", 2, data=path, horizon=2, messages=2, parent=4)
    envs.reset(seed=0)
    envs.step(np.array([4, 2]))
    envs.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("34200.0,1,5,18,585,0\n", "line 1: sizes are at least 1"),
        ("34200.0,1,5,18,585,1\n34200.0,9,5,18,585,1\n", "line 2: the type is 9"),
        ("a,b\n", "is no LOBSTER file"),
        ("", "is empty|is no LOBSTER file"),
    ],
)
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_files_that_are_none(tmp_path, text, message):
    path = tmp_path / "x_message.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_messages(path)
    with pytest.raises(UserError, match="cannot be read"):
        read_messages(tmp_path / "nothing.csv")
