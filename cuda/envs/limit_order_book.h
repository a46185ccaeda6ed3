// SPDX-License-Identifier: Apache-2.0
// A limit order book: two queues of resting orders, matched by price, then time.
//
// Orders lie in a pool of fixed size and are linked best first, so that a snapshot is one copy. An incoming order walks
// the other side from its best order for as long as prices cross; a rest of it joins its own side behind all orders of
// the same or a better price. Insertion and search are linear: books hold some hundred orders, and most of what comes
// concerns the best prices.
//
// Messages follow LOBSTER's (https://lobsterdata.com): 1 new order, 2 part of one cancelled, 3 deleted, 4 an execution.
// An execution arrives as an order of the other side that takes what it takes at prices as good as the recorded one, so
// that orders of one's own stand in the queue like others. A cancellation of an order that is not known (from before
// the recording) takes from the oldest order of its price and side instead.
#pragma once

#include <cstdint>

#include "portability.h"

namespace seed {

constexpr int32_t kBuy = 1, kSell = -1;
constexpr int32_t kNewOrder = 1, kCancelPart = 2, kDeleteOrder = 3, kExecution = 4;
constexpr int32_t kOwnOrder = -1;  // the number of the agent's orders

struct OrderMessage {
  int32_t kind, order, size, price, side;  // price in ticks
};

// What an incoming order traded; `own_` counts resting orders of the agent that it hit.
struct Trades {
  int32_t size, own_size;
  int64_t value, own_value;  // sums of size times price
};

class LimitOrderBook {
 public:
  static constexpr int32_t kCapacity = 384;

  struct Order {
    int32_t number, size, price;
    int32_t next;  // index of the next one of its side, or -1
  };

  SEED_HD void clear() {
    heads_[0] = heads_[1] = -1;
    counts_[0] = counts_[1] = 0;
    num_dropped_ = 0;
    for (int32_t i = 0; i < kCapacity; ++i) orders_[i] = {0, 0, 0, i + 1 < kCapacity ? i + 1 : -1};
    free_ = 0;
  }

  // Best order of a side, or nullptr.
  SEED_HD const Order* best(int32_t side) const { return at(heads_[row(side)]); }
  // The order behind `order`, or nullptr.
  SEED_HD const Order* after(const Order& order) const { return at(order.next); }
  SEED_HD int32_t num_orders(int32_t side) const { return counts_[row(side)]; }
  // Orders that did not rest because the pool was full.
  SEED_HD int32_t num_dropped() const { return num_dropped_; }

  // Matches an order that does not rest: at prices as good as `limit`, or at any if `at_any_price`.
  SEED_HD Trades take(int32_t side, int32_t size, int32_t limit, bool at_any_price) {
    Trades trades{};
    int32_t& head = heads_[row(-side)];
    while (size > 0 && head >= 0) {
      Order& resting = orders_[head];
      if (!at_any_price && side * (limit - resting.price) < 0) break;
      const int32_t traded = size < resting.size ? size : resting.size;
      trades.size += traded;
      trades.value += int64_t{traded} * resting.price;
      if (resting.number == kOwnOrder) {
        trades.own_size += traded;
        trades.own_value += int64_t{traded} * resting.price;
      }
      size -= traded;
      resting.size -= traded;
      if (resting.size == 0) unlink(-side, -1, head);
    }
    return trades;
  }

  // A limit order: matches what crosses; the rest of it rests.
  SEED_HD Trades add(int32_t number, int32_t side, int32_t size, int32_t price) {
    const Trades trades = take(side, size, price, false);
    if (size > trades.size) rest(number, side, size - trades.size, price);
    return trades;
  }

  // Takes `size` from an order, all of it if it has no more; returns what was taken, 0 for an unknown order.
  SEED_HD int32_t cancel(int32_t number, int32_t side, int32_t size) {
    int32_t before = -1;
    for (int32_t i = heads_[row(side)]; i >= 0; before = i, i = orders_[i].next)
      if (orders_[i].number == number) return shrink(side, before, i, size);
    return 0;
  }

  // Takes `size` from the oldest orders at a price that are not the agent's; returns what was taken.
  SEED_HD int32_t cancel_at(int32_t side, int32_t price, int32_t size) {
    int32_t taken = 0, before = -1, i = heads_[row(side)];
    while (i >= 0 && taken < size && side * (orders_[i].price - price) >= 0) {
      const int32_t next = orders_[i].next;
      if (orders_[i].price == price && orders_[i].number != kOwnOrder) {
        const int32_t size_before = orders_[i].size;
        const int32_t now = shrink(side, before, i, size - taken);
        taken += now;
        if (now < size_before) before = i;
      } else {
        before = i;
      }
      i = next;
    }
    return taken;
  }

  // Applies a message of a stream.
  SEED_HD Trades apply(const OrderMessage& message) {
    if (message.kind == kNewOrder) return add(message.order, message.side, message.size, message.price);
    if (message.kind == kExecution) return take(-message.side, message.size, message.price, false);
    const int32_t size = message.kind == kDeleteOrder ? INT32_MAX : message.size;
    if (cancel(message.order, message.side, size) == 0) cancel_at(message.side, message.price, message.size);
    return Trades{};
  }

 private:
  SEED_HD static int32_t row(int32_t side) { return side == kBuy ? 0 : 1; }
  SEED_HD const Order* at(int32_t index) const { return index < 0 ? nullptr : &orders_[index]; }

  // Gives a slot back; `before` is the index of the order in front of it, or -1.
  SEED_HD void unlink(int32_t side, int32_t before, int32_t index) {
    const int32_t next = orders_[index].next;
    (before < 0 ? heads_[row(side)] : orders_[before].next) = next;
    orders_[index].next = free_;
    free_ = index;
    --counts_[row(side)];
  }

  SEED_HD int32_t shrink(int32_t side, int32_t before, int32_t index, int32_t size) {
    const int32_t taken = size < orders_[index].size ? size : orders_[index].size;
    orders_[index].size -= taken;
    if (orders_[index].size == 0) unlink(side, before, index);
    return taken;
  }

  SEED_HD void rest(int32_t number, int32_t side, int32_t size, int32_t price) {
    if (free_ < 0) {
      ++num_dropped_;
      return;
    }
    const int32_t slot = free_;
    free_ = orders_[slot].next;
    int32_t before = -1, i = heads_[row(side)];
    for (; i >= 0 && side * (orders_[i].price - price) >= 0; i = orders_[i].next) before = i;
    orders_[slot] = {number, size, price, i};
    (before < 0 ? heads_[row(side)] : orders_[before].next) = slot;
    ++counts_[row(side)];
  }

  int32_t heads_[2];  // of buyers and sellers
  int32_t counts_[2];
  int32_t free_;  // first unused slot
  int32_t num_dropped_;
  Order orders_[kCapacity];
};

}  // namespace seed
