// SPDX-License-Identifier: Apache-2.0
// Persistent threads that work off a queue of tasks in the order in which they were posted.
//
// A task is one number. Each is claimed by one compare-and-swap and marked when it is done, so the queue needs no lock.
// A thread without work spins for some microseconds, for the next step is usually near, and then sleeps. The thread
// that waits for results works as well.
//
//   Workers workers(2, -1, 64, [&](int thread, int task) { ... });
//   for (int lane = 0; lane < 64; ++lane) workers.post(lane);
//   workers.wake();
//   workers.wait(64);  // until the oldest 64 tasks are done
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace seed {

class Workers {
 public:
  // Args:
  //   num_threads: threads besides the one that calls wait().
  //   affinity_offset: thread i is bound to processor offset + i; negative: not bound.
  //   capacity: tasks that may be posted and not yet taken back by wait().
  //   run: carries out a task; `thread` is 0 .. num_threads, the last one for the caller of wait().
  Workers(int num_threads, int affinity_offset, int capacity, std::function<void(int thread, int task)> run);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int num_threads() const { return int(threads_.size()); }

  // Appends a task; it may start at once.
  void post(int task);

  // Sees to it that sleeping threads notice what was posted.
  void wake();

  // Returns when the oldest `count` tasks are done, and takes them out of the queue.
  void wait(int count);

  // Tasks that were posted and not yet taken back.
  int num_outstanding() const { return int(posted_.load(std::memory_order_relaxed) - taken_back_); }

  // The task at `position` of the queue, 0 = oldest.
  int task_at(int position) const { return slots_[(taken_back_ + uint64_t(position)) % capacity_].task; }

 private:
  struct alignas(64) Slot {
    int task;
    std::atomic<uint64_t> done{0};  // 1 + number of the task that was done here
  };

  static constexpr int kSpins = 4000;  // about 50 microseconds

  bool claim(uint64_t& number);
  void run_claimed(int thread, uint64_t number);
  bool is_done(uint64_t number) const {
    return slots_[number % capacity_].done.load(std::memory_order_seq_cst) == number + 1;
  }
  void work(int thread);
  void bind(int thread, int affinity_offset);
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  const uint64_t capacity_;
  const std::function<void(int, int)> run_;
  const std::unique_ptr<Slot[]> slots_;
  int spins_;

  alignas(64) std::atomic<uint64_t> posted_{0};
  alignas(64) std::atomic<uint64_t> claimed_{0};
  uint64_t taken_back_ = 0;

  std::mutex mutex_;
  std::condition_variable work_arrived_, work_done_;
  std::atomic<int> num_sleepers_{0};
  std::atomic<bool> waiter_sleeps_{false}, stop_{false};
  std::vector<std::thread> threads_;
};

inline Workers::Workers(int num_threads, int affinity_offset, int capacity, std::function<void(int, int)> run)
    : capacity_(uint64_t(capacity)), run_(std::move(run)), slots_(new Slot[size_t(capacity)]) {
  const unsigned processors = std::thread::hardware_concurrency();
  // Spinning only helps when nobody else needs the processor.
  spins_ = processors > unsigned(num_threads) ? kSpins : 0;
  threads_.reserve(size_t(num_threads));
  try {
    for (int i = 0; i < num_threads; ++i) {
      threads_.emplace_back([this, i] { work(i); });
      if (affinity_offset >= 0) bind(i, affinity_offset);
    }
  } catch (...) {  // too many threads: end those that run
    stop_ = true;
    wake();
    for (std::thread& thread : threads_) thread.join();
    throw;
  }
}

inline Workers::~Workers() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  work_arrived_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

inline void Workers::bind(int thread, int affinity_offset) {
#if defined(__linux__)
  const unsigned processors = std::thread::hardware_concurrency();
  if (processors == 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((unsigned(affinity_offset) + unsigned(thread)) % processors, &set);
  pthread_setaffinity_np(threads_[size_t(thread)].native_handle(), sizeof set, &set);  // a wish, not a condition
#else
  (void)thread, (void)affinity_offset;
#endif
}

inline void Workers::post(int task) {
  const uint64_t number = posted_.load(std::memory_order_relaxed);
  slots_[number % capacity_].task = task;
  posted_.store(number + 1, std::memory_order_seq_cst);
}

inline void Workers::wake() {
  if (num_sleepers_.load(std::memory_order_seq_cst) == 0) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
  }
  work_arrived_.notify_all();
}

inline bool Workers::claim(uint64_t& number) {
  number = claimed_.load(std::memory_order_relaxed);
  while (number < posted_.load(std::memory_order_seq_cst)) {
    if (claimed_.compare_exchange_weak(number, number + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

inline void Workers::run_claimed(int thread, uint64_t number) {
  Slot& slot = slots_[number % capacity_];
  run_(thread, slot.task);
  slot.done.store(number + 1, std::memory_order_seq_cst);
  if (waiter_sleeps_.load(std::memory_order_seq_cst)) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
    }
    work_done_.notify_one();
  }
}

inline void Workers::work(int thread) {
  uint64_t number;
  for (int idle = 0;;) {
    if (claim(number)) {
      run_claimed(thread, number);
      idle = 0;
    } else if (++idle <= spins_) {
      if (stop_.load(std::memory_order_relaxed)) return;
      relax();
    } else {
      std::unique_lock<std::mutex> lock(mutex_);
      num_sleepers_.fetch_add(1, std::memory_order_seq_cst);
      work_arrived_.wait(lock, [&] { return stop_ || claimed_.load() < posted_.load(std::memory_order_seq_cst); });
      num_sleepers_.fetch_sub(1, std::memory_order_seq_cst);
      if (stop_) return;
      idle = 0;
    }
  }
}

inline void Workers::wait(int count) {
  const uint64_t end = taken_back_ + uint64_t(count);
  uint64_t number;
  while (claimed_.load(std::memory_order_relaxed) < end && claim(number)) run_claimed(num_threads(), number);
  for (uint64_t next = taken_back_; next < end; ++next) {
    for (int spin = 0; spin < spins_ && !is_done(next); ++spin) relax();
    if (is_done(next)) continue;
    std::unique_lock<std::mutex> lock(mutex_);
    waiter_sleeps_.store(true, std::memory_order_seq_cst);
    work_done_.wait(lock, [&] { return is_done(next); });
    waiter_sleeps_.store(false, std::memory_order_seq_cst);
  }
  taken_back_ = end;
}

}  // namespace seed
