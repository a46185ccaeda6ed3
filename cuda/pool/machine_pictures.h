// SPDX-License-Identifier: Apache-2.0
// The two pictures of a single machine, drawn when somebody looks.
//
// A frame runs without pixels and leaves how it began (FrameStart); looking at its picture runs it again with pixels.
// Where somebody looks every n frames, the n-th is drawn at once.
//
// A frame that ends early leaves the rows below as they were two frames ago. When one does, both pictures are drawn,
// and from then on every frame, until two in a row are whole again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "machine/console.h"

// -DSEED_DRAW_ON_DEMAND=0 draws every frame, with the same results.
#if !defined(SEED_DRAW_ON_DEMAND)
#define SEED_DRAW_ON_DEMAND 1
#endif

namespace seed {

class MachinePictures {
 public:
  explicit MachinePictures(const Display& display)
      : display_(display), pixels_(2 * size_t{display.height} * kScreenWidth) {}

  // Both pictures, one after the other. They are valid after draw_all(), and may be written before replaced().
  std::vector<uint8_t>& pixels() { return pixels_; }

  void draw_all(const Rom& rom) {
    draw(0, rom);
    draw(1, rom);
  }

  // The pixels have come from elsewhere.
  void replaced() {
    for (FrameStart& start : starts_) start.whole = false;
    drawn_[0] = drawn_[1] = true;
    on_demand_ = false;
  }

  // The picture of the frame that ran last.
  const uint8_t* look(const Console& console, const Rom& rom) {
    if (num_unseen_ > 0) {
      gaps_[1] = std::exchange(gaps_[0], num_unseen_);
      num_unseen_ = 0;
    }
    return draw(console.current_buffer & 1, rom);
  }

  // Emulates many frames by `run(screen)`; takes `state` back and does it again with pixels when those are needed.
  template <class State, class Run>
  void run_many(State& state, Run&& run) {
    replaced();
    if (SEED_DRAW_ON_DEMAND) {
      const State before = state;
      run(Screen{{nullptr, nullptr}, {&starts_[0], &starts_[1]}});
      if (starts_[0].whole && starts_[1].whole) {
        drawn_[0] = drawn_[1] = false;
        on_demand_ = true;
        return;
      }
      state = before;
      replaced();
    }
    run(Screen{{buffer(0), buffer(1)}, {&starts_[0], &starts_[1]}});
  }

  // Emulates one frame by `run(screen)`.
  template <class Run>
  void run_frame(const Console& console, const Rom& rom, Run&& run) {
    num_unseen_ += num_unseen_ < kMaxUnseen;
    if (!on_demand_) {
      run(Screen{{buffer(0), buffer(1)}, {&starts_[0], &starts_[1]}});
      on_demand_ = SEED_DRAW_ON_DEMAND && starts_[0].whole && starts_[1].whole;
      return;
    }
    const bool draws = num_unseen_ == gaps_[0] || num_unseen_ == gaps_[1];
    const int next = (console.current_buffer ^ 1) & 1;
    replaced_ = starts_[next];
    run(draws ? Screen{{buffer(0), buffer(1)}, {&starts_[0], &starts_[1]}}
              : Screen{{nullptr, nullptr}, {&starts_[0], &starts_[1]}});
    drawn_[next] = draws;
    if (starts_[next].whole) return;
    draw(next ^ 1, rom);
    draw_again(replaced_, rom);  // the rows that this frame has not reached
    draw_again(starts_[next], rom);
    drawn_[next] = true;
    on_demand_ = false;
  }

 private:
  static constexpr int kMaxUnseen = 1 << 20;

  uint8_t* buffer(int index) { return pixels_.data() + (index != 0 ? pixels_.size() / 2 : 0); }

  void draw_again(const FrameStart& start, const Rom& rom) {
    console_draw_again(start, rom, display_, Screen{{buffer(0), buffer(1)}});
  }

  const uint8_t* draw(int index, const Rom& rom) {
    if (!std::exchange(drawn_[index], true)) draw_again(starts_[index], rom);
    return buffer(index);
  }

  Display display_;
  std::vector<uint8_t> pixels_;
  FrameStart starts_[2] = {};  // of the frame in each buffer
  FrameStart replaced_ = {};   // of the frame that the present one replaces
  bool drawn_[2] = {true, true};
  bool on_demand_ = false;  // both starts are of whole frames: their pictures can be drawn at any time
  int num_unseen_ = 0;      // frames since somebody looked
  int gaps_[2] = {};        // frames between the last looks
};

}  // namespace seed
