/* SPDX-License-Identifier: Apache-2.0 */
/* The limit order book of the environment `order_book` by itself: messages in, trades and queues out. */
#ifndef SEED_ORDER_BOOK_H
#define SEED_ORDER_BOOK_H

#include "seed/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SEED_SIDE_BUY 1
#define SEED_SIDE_SELL (-1)

typedef struct seed_order_message {
  int32_t kind;  /* 1 new order, 2 part cancelled, 3 deleted, 4 execution of a resting order: LOBSTER's types. */
  int32_t order; /* Its number. */
  int32_t size;  /* >= 1 */
  int32_t price; /* Ticks. */
  int32_t side;  /* SEED_SIDE_*; of an execution, that of the resting order. */
} seed_order_message;

typedef struct seed_order_book seed_order_book;

/* An empty book; it holds at most `capacity` orders, further ones do not rest. */
SEED_API seed_status seed_order_book_create(seed_order_book** book, int32_t* capacity);
SEED_API seed_status seed_order_book_destroy(seed_order_book* book);

/* Applies one message. `traded`: lots that changed hands; `value`: the sum of lots times price. */
SEED_API seed_status seed_order_book_apply(seed_order_book* book, const seed_order_message* message, int32_t* traded,
                                           int64_t* value);

/* The orders of a side in the order in which they will be hit: number, size and price; each array has room for
 * `capacity` entries. */
SEED_API seed_status seed_order_book_queue(const seed_order_book* book, int32_t side, int32_t* count, int32_t* numbers,
                                           int32_t* sizes, int32_t* prices);

#ifdef __cplusplus
}
#endif
#endif
