// SPDX-License-Identifier: Apache-2.0
// The limit order book behind seed/order_book.h.
#include <new>

#include "envs/limit_order_book.h"
#include "error.h"
#include "seed/order_book.h"

struct seed_order_book {
  seed::LimitOrderBook book;
};

using seed::fail;

extern "C" {

seed_status seed_order_book_create(seed_order_book** book, int32_t* capacity) {
  if (book == nullptr) return fail(SEED_INVALID_ARGUMENT, "book is NULL");
  *book = new (std::nothrow) seed_order_book;
  if (*book == nullptr) return fail(SEED_OUT_OF_MEMORY, "not enough memory for an order book");
  (*book)->book.clear();
  if (capacity != nullptr) *capacity = seed::LimitOrderBook::kCapacity;
  return SEED_OK;
}

seed_status seed_order_book_destroy(seed_order_book* book) {
  delete book;
  return SEED_OK;
}

seed_status seed_order_book_apply(seed_order_book* book, const seed_order_message* message, int32_t* traded,
                                  int64_t* value) {
  if (book == nullptr || message == nullptr) return fail(SEED_INVALID_ARGUMENT, "book or message is NULL");
  if (message->kind < seed::kNewOrder || message->kind > seed::kExecution)
    return fail(SEED_INVALID_ARGUMENT, "the message's kind is %d, it must be 1 to 4", message->kind);
  if (message->size < 1)
    return fail(SEED_INVALID_ARGUMENT, "the message's size is %d, it must be at least 1", message->size);
  if (message->side != SEED_SIDE_BUY && message->side != SEED_SIDE_SELL)
    return fail(SEED_INVALID_ARGUMENT, "the message's side is %d, it must be 1 or -1", message->side);
  const seed::Trades trades =
      book->book.apply({message->kind, message->order, message->size, message->price, message->side});
  if (traded != nullptr) *traded = trades.size;
  if (value != nullptr) *value = trades.value;
  return SEED_OK;
}

seed_status seed_order_book_queue(const seed_order_book* book, int32_t side, int32_t* count, int32_t* numbers,
                                  int32_t* sizes, int32_t* prices) {
  if (book == nullptr || count == nullptr || numbers == nullptr || sizes == nullptr || prices == nullptr)
    return fail(SEED_INVALID_ARGUMENT, "an argument is NULL");
  *count = 0;
  for (const seed::LimitOrderBook::Order* order = book->book.best(side); order != nullptr;
       order = book->book.after(*order)) {
    numbers[*count] = order->number;
    sizes[*count] = order->size;
    prices[*count] = order->price;
    ++*count;
  }
  return SEED_OK;
}
}
