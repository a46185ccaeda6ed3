// SPDX-License-Identifier: Apache-2.0
// `order_book`: sell a parent order by the close in a limit order book, at a better price than a schedule would get.
//
// Between two steps of the agent the market sends `messages` messages: those of a recorded stream that the user passes
// as `data` (seed_hpc/envs/order_data.py reads LOBSTER's files), else generated ones. The generator has no strategy:
// limit orders arrive around the opposite best price, market orders with a direction that persists for a while, and
// every resting order is cancelled at the same rate. Source: E. Smith, J. D. Farmer, L. Gillemot, S. Krishnamurthy,
// "Statistical theory of the continuous double auction", Quantitative Finance 3 (2003).
//
//   action        0 keep, 1 cancel the working order, 2 work a clip at the best ask, 3 work a clip one tick better if
//                 the spread allows, 4 sell a clip at the market, 5 sell two
//   observation   18 numbers, see observe()
//   reward        for what was sold: (price - mid at the start) times its share of the parent order, in ticks; the
//                 return is the average price against the arrival mid: minus the implementation shortfall
//   end           everything is sold, or the close: what is left is sold at the market; what nobody buys is valued ten
//                 ticks below the last price. Source: A. Perold, "The implementation shortfall" (1988)
//   reference     TWAP: a clip at the market as soon as the schedule of equal slices is a clip ahead
//   errors        1: `data` is no array of messages; 2: it holds fewer than an episode needs; 3: an option is out of
//                 range: parent, clip and horizon are at least 1, messages and warm_up at least 0, all below 2^31
#pragma once

#include <cstring>

#include "envs/environment.h"
#include "envs/limit_order_book.h"

namespace seed {

struct OrderBook {
  using Actions = DiscreteActions<6>;
  using Observation = float;
  static constexpr int32_t kObservationShape[] = {18};
  static constexpr int32_t kMaxEpisodeSteps = 0;  // the close is part of the rules
  enum Option { kParent, kClip, kHorizon, kMessages, kWarmUp, kPersistence };
  static constexpr seed_env_option kOptions[] = {
      {"parent", 60.0f, "lots to sell"},
      {"clip", 2.0f, "lots of one order"},
      {"horizon", 60.0f, "steps until the close"},
      {"messages", 10.0f, "messages of the market between two steps"},
      {"warm_up", 5000.0f, "recorded messages replayed before an episode, at most; 0: all from the beginning"},
      {"persistence", 0.98f, "of the direction of generated market orders, 0 to 1"},
  };

  static constexpr int32_t kStartPrice = 10000;  // of generated markets, ticks
  static constexpr int32_t kUnsoldPenalty = 10;  // ticks
  static constexpr int32_t kErrorFormat = 1, kErrorTooShort = 2, kErrorOption = 3;

  LimitOrderBook book;
  int32_t time, sold;                     // steps, lots
  int32_t arrival_mid2, mid2, last_mid2;  // twice the mid price: at the start, now, one step ago
  int32_t last_price;                     // of the last trade
  int32_t working_price;                  // of the agent's order, if there is one
  int32_t next_message;                   // of recorded data
  int32_t next_number;                    // of generated orders
  float flow;                             // direction of generated market orders, -1 .. 1
  float seen_flow;                        // decaying mean of the direction of trades
  int64_t filled_value;                   // of the agent's sales in this step
  int32_t filled;

  // ---- The market ------------------------------------------------------------------------------------------------

  SEED_HD static int32_t whole(const Context& context, Option option) {
    return static_cast<int32_t>(context.options[option] + 0.5f);
  }

  SEED_HD static bool fits(const Context& context, Option option, float least) {
    const float value = context.options[option] + 0.5f;
    return value >= least && value < 2147483648.0f;
  }

  SEED_HD static bool options_fit(const Context& context) {
    return fits(context, kParent, 1.0f) && fits(context, kClip, 1.0f) && fits(context, kHorizon, 1.0f) &&
           fits(context, kMessages, 0.0f) && fits(context, kWarmUp, 0.0f);
  }

  SEED_HD void note(const Trades& trades, int32_t direction) {
    filled += trades.own_size;
    filled_value += trades.own_value;
    if (trades.size == 0) return;
    last_price = static_cast<int32_t>(trades.value / trades.size);
    seen_flow += 0.1f * (static_cast<float>(direction) - seen_flow);
  }

  // Geometrically distributed, mean 2.3, at most 12.
  SEED_HD static int32_t depth(Random& random) {
    int32_t k = 0;
    while (k < 12 && random.uniform() < 0.7f) ++k;
    return k;
  }

  SEED_HD void generate_limit_order(Random& random) {
    const int32_t side = random.integer(2) == 0 ? kBuy : kSell;
    const LimitOrderBook::Order* const opposite = book.best(-side);
    const int32_t from = opposite != nullptr ? opposite->price : last_price;
    const int32_t size = 1 + random.integer(5);
    note(book.add(next_number++, side, size, from - side * (1 + depth(random))), side);
  }

  SEED_HD void generate_market_order(Random& random) {
    const int32_t side = random.uniform() < 0.5f + 0.4f * flow ? kBuy : kSell;
    note(book.take(side, 1 + random.integer(6), 0, true), side);
  }

  SEED_HD void generate_cancellation(Random& random, int32_t num_orders) {
    int32_t chosen = random.integer(num_orders);
    int32_t side = kBuy;
    if (chosen >= book.num_orders(kBuy)) {
      chosen -= book.num_orders(kBuy);
      side = kSell;
    }
    const LimitOrderBook::Order* order = book.best(side);
    while (chosen-- > 0) order = book.after(*order);
    if (order->number != kOwnOrder) book.cancel(order->number, side, order->size);
  }

  SEED_HD void generate_message(Context& context) {
    Random& random = context.random;
    const float persistence = context.options[kPersistence];
    flow = clamp(persistence * flow + (1.0f - persistence) * 4.0f * random.uniform(-1.0f, 1.0f), -1.0f, 1.0f);
    const int32_t num_orders = book.num_orders(kBuy) + book.num_orders(kSell);
    // Rates: limit orders 0.55, market orders 0.15, and 0.4 / 80 for the cancellation of each order.
    const float drawn = random.uniform() * (0.7f + 0.005f * static_cast<float>(num_orders));
    if (drawn < 0.55f) return generate_limit_order(random);
    if (drawn < 0.7f || num_orders == 0) return generate_market_order(random);
    generate_cancellation(random, num_orders);
  }

  SEED_HD static int64_t num_recorded(const Context& context) {
    return context.data_bytes / static_cast<int64_t>(sizeof(OrderMessage));
  }

  SEED_HD OrderMessage recorded(const Context& context, int32_t index) const {
    OrderMessage message;
    memcpy(&message, context.data + static_cast<int64_t>(index) * static_cast<int64_t>(sizeof message), sizeof message);
    return message;
  }

  SEED_HD void replay_message(const Context& context) {
    const OrderMessage message = recorded(context, next_message++);
    note(book.apply(message), message.kind == kExecution ? -message.side : message.side);
  }

  SEED_HD void advance_market(Context& context) {
    const int32_t count = whole(context, kMessages);
    // A lane that was not reset or comes from another recording.
    if (context.data_bytes > 0 && next_message + int64_t{count} > num_recorded(context)) {
      context.error = kErrorTooShort;
      return;
    }
    for (int32_t i = 0; i < count; ++i) {
      if (context.data_bytes > 0)
        replay_message(context);
      else
        generate_message(context);
    }
    update_mid();
  }

  SEED_HD void update_mid() {
    const LimitOrderBook::Order *bid = book.best(kBuy), *ask = book.best(kSell);
    last_mid2 = mid2;
    if (bid != nullptr && ask != nullptr) mid2 = bid->price + ask->price;
  }

  // ---- An episode ------------------------------------------------------------------------------------------------

  SEED_HD void reset(Context& context) {
    book.clear();
    time = sold = working_price = next_message = filled = 0;
    filled_value = 0;
    next_number = 1;
    flow = seen_flow = 0.0f;
    last_price = kStartPrice;
    mid2 = 2 * kStartPrice;
    if (!options_fit(context))
      context.error = kErrorOption;
    else if (context.data_bytes > 0)
      begin_recorded(context);
    else
      begin_generated(context);
    update_mid();
    last_mid2 = arrival_mid2 = mid2;
    seen_flow = 0.0f;
  }

  SEED_HD void begin_generated(Context& context) {
    for (int32_t distance = 1; distance <= 10; ++distance)
      for (int32_t i = 0; i < 4; ++i) {
        const int32_t side = i % 2 == 0 ? kBuy : kSell;
        book.add(next_number++, side, 1 + context.random.integer(5), kStartPrice - side * distance);
      }
    for (int32_t i = 0; i < 200; ++i) generate_message(context);
  }

  // Starts somewhere in the stream and replays what comes before it.
  SEED_HD void begin_recorded(Context& context) {
    const int64_t count = num_recorded(context);
    const int64_t needed = static_cast<int64_t>(whole(context, kHorizon)) * whole(context, kMessages);
    if (context.data_bytes % static_cast<int64_t>(sizeof(OrderMessage)) != 0) {
      context.error = kErrorFormat;
    } else if (count <= needed) {
      context.error = kErrorTooShort;
    }
    if (context.error != 0) return;
    const int32_t start = 1 + context.random.integer(static_cast<int32_t>(count - needed));
    const int32_t warm_up = whole(context, kWarmUp);
    next_message = warm_up > 0 && start > warm_up ? start - warm_up : 0;
    while (next_message < start) replay_message(context);
  }

  SEED_HD int32_t remaining(const Context& context) const { return whole(context, kParent) - sold; }

  SEED_HD Outcome step(int32_t action, Context& context) {
    filled = 0;
    filled_value = 0;
    trade(action, context);
    advance_market(context);
    sold += filled;
    time += 1;
    if (filled > 0 && book_own_size() == 0) working_price = 0;
    const bool closed = time >= whole(context, kHorizon);
    if (closed && remaining(context) > 0) sell_the_rest(context);
    const float parent = static_cast<float>(whole(context, kParent));
    // Exact as an integer before it is rounded once: twice the gain against the arrival mid.
    const int64_t gain2 = 2 * filled_value - static_cast<int64_t>(arrival_mid2) * filled;
    return {0.5f * static_cast<float>(gain2) / parent, closed || remaining(context) <= 0};
  }

  SEED_HD int32_t book_own_size() const {
    for (const LimitOrderBook::Order* order = book.best(kSell); order != nullptr; order = book.after(*order))
      if (order->number == kOwnOrder) return order->size;
    return 0;
  }

  SEED_HD void cancel_working() {
    if (working_price != 0) book.cancel(kOwnOrder, kSell, INT32_MAX);
    working_price = 0;
  }

  SEED_HD void sell_at_market(int32_t size) {
    const Trades trades = book.take(kSell, size, 0, true);
    filled += trades.size;
    filled_value += trades.value;
    note(Trades{trades.size, 0, trades.value, 0}, kSell);
  }

  SEED_HD void trade(int32_t action, const Context& context) {
    const int32_t clip = whole(context, kClip), left = remaining(context);
    if (action == 1) cancel_working();
    if (action == 2 || action == 3) work(left < clip ? left : clip, action == 3);
    if (action >= 4) {
      const int64_t wanted = action == 4 ? clip : int64_t{2} * clip;
      const int32_t free = left - book_own_size();  // never more than the parent order in all
      if (wanted > free) cancel_working();
      sell_at_market(wanted < left ? static_cast<int32_t>(wanted) : left);
    }
  }

  // Keeps an order that stands at the wanted price already: it keeps its place in the queue.
  SEED_HD void work(int32_t size, bool improve) {
    const LimitOrderBook::Order *bid = book.best(kBuy), *ask = book.best(kSell);
    int32_t price = ask != nullptr ? ask->price : last_price + 1;
    const bool is_own_best = ask != nullptr && ask->number == kOwnOrder;
    if (improve && !is_own_best && (bid == nullptr || bid->price < price - 1)) price -= 1;
    if (working_price == price && book_own_size() > 0) return;
    cancel_working();
    if (bid != nullptr && bid->price >= price) price = bid->price + 1;
    book.add(kOwnOrder, kSell, size, price);
    working_price = price;
  }

  SEED_HD void sell_the_rest(const Context& context) {
    cancel_working();
    const int32_t before = filled;
    sell_at_market(remaining(context));
    sold += filled - before;
    const int32_t unsold = remaining(context);
    filled += unsold;
    filled_value += static_cast<int64_t>(unsold) * (last_price - kUnsoldPenalty);
    sold += unsold;
  }

  SEED_HD void act(int32_t& action, const Context& context) const {
    const int32_t horizon = whole(context, kHorizon), clip = whole(context, kClip);
    if (horizon < 1) return;  // reset has failed, and a GPU's pool does not know it yet
    const int32_t scheduled =
        static_cast<int32_t>(static_cast<int64_t>(whole(context, kParent)) * (time + 1) / horizon);
    const int32_t behind = scheduled - sold;
    action = behind >= int64_t{2} * clip ? 5 : behind >= clip ? 4 : 0;
  }

  // ---- What the agent sees ---------------------------------------------------------------------------------------

  // Lots at the best price, and within three ticks of it.
  SEED_HD void depth_of(int32_t side, float& at_best, float& near) const {
    at_best = near = 0.0f;
    const LimitOrderBook::Order* const first = book.best(side);
    for (const LimitOrderBook::Order* order = first; order != nullptr; order = book.after(*order)) {
      const int32_t distance = side * (first->price - order->price);
      if (distance > 3) return;
      if (distance == 0) at_best += static_cast<float>(order->size);
      near += static_cast<float>(order->size);
    }
  }

  // Lots in front of the agent's order.
  SEED_HD float queue_ahead() const {
    float ahead = 0.0f;
    for (const LimitOrderBook::Order* order = book.best(kSell); order != nullptr; order = book.after(*order)) {
      if (order->number == kOwnOrder) return ahead;
      ahead += static_cast<float>(order->size);
    }
    return ahead;
  }

  SEED_HD static float imbalance(float bids, float asks) { return (bids - asks) / maximum(bids + asks, 1.0f); }

  SEED_HD void observe(float* observation, const Context& context) const {
    const LimitOrderBook::Order *bid = book.best(kBuy), *ask = book.best(kSell);
    const float parent = static_cast<float>(whole(context, kParent)), horizon = context.options[kHorizon];
    const bool two_sided = bid != nullptr && ask != nullptr;
    const float spread = two_sided ? static_cast<float>(ask->price - bid->price) : 10.0f;
    const float own = static_cast<float>(book_own_size());
    float bid_best, bid_near, ask_best, ask_near;
    depth_of(kBuy, bid_best, bid_near);
    depth_of(kSell, ask_best, ask_near);
    const float share_left = static_cast<float>(remaining(context)) / parent;
    const float time_left = 1.0f - static_cast<float>(time) / horizon;
    observation[0] = share_left;
    observation[1] = time_left;
    observation[2] = 4.0f * (share_left - time_left);  // above 0: behind the schedule
    observation[3] = minimum(spread, 10.0f) / 5.0f;
    observation[4] = clamp(0.05f * static_cast<float>(mid2 - arrival_mid2), -5.0f, 5.0f);
    observation[5] = clamp(0.25f * static_cast<float>(mid2 - last_mid2), -5.0f, 5.0f);
    observation[6] = imbalance(bid_best, ask_best);
    observation[7] = imbalance(bid_near, ask_near);
    observation[8] = minimum(0.1f * bid_best, 5.0f);
    observation[9] = minimum(0.1f * ask_best, 5.0f);
    observation[10] = minimum(0.05f * bid_near, 5.0f);
    observation[11] = minimum(0.05f * ask_near, 5.0f);
    observation[12] = seen_flow;
    observation[13] = own / maximum(context.options[kClip], 1.0f);
    observation[14] = own > 0.0f && ask != nullptr ? clamp(0.5f * (working_price - ask->price), 0.0f, 5.0f) : -1.0f;
    observation[15] = own > 0.0f ? minimum(0.1f * queue_ahead(), 5.0f) : -1.0f;
    observation[16] = two_sided ? 1.0f : 0.0f;
    observation[17] = 0.1f * static_cast<float>(filled);
  }
};

SEED_REGISTER_ENVIRONMENT(OrderBook, "order_book")

}  // namespace seed
