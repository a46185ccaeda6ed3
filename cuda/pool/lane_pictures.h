// SPDX-License-Identifier: Apache-2.0
// The pictures behind a lane's observations, drawn only when somebody looks and kept by no lane in the usual case.
//
// A machine has two picture buffers, and a frame that ends early leaves the rows below as they were two frames ago. To
// keep 70 KB of pixels a lane for that would be most of its memory, and drawing every frame most of its time. Instead a
// lane keeps how its last two frames began (FrameStart). Frames that are shown are drawn into buffers of the thread. As
// long as every frame draws all rows, any earlier picture can be drawn again from its start. When a frame does not, the
// pictures that matter are drawn again into buffers of the lane (StoredPictures), which then keep every frame until the
// last two are whole again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "envs/atari_lane.h"
#include "observation/plane_resizer.h"

namespace seed {

// What all lanes of a pool share.
struct PictureFormat {
  PictureFormat(const Display& display, int img_height, int img_width, bool grayscale, SimdLevel simd)
      : display(display),
        resizer(display.height, kScreenWidth, img_height, img_width, simd),
        num_channels(grayscale ? 1 : 3) {}

  size_t picture_bytes() const { return size_t{display.height} * kScreenWidth; }
  size_t plane_bytes() const { return size_t(resizer.plan().height) * resizer.plan().width; }
  size_t shown_bytes() const { return plane_bytes() * num_channels; }  // one picture of an observation
  // One gray channel can be drawn at once.
  const uint8_t* shades() const { return num_channels == 1 ? channels[0] : nullptr; }

  Display display;
  PlaneResizer resizer;
  int num_channels;
  uint8_t channels[3][256];    // what a pixel value is in each channel: gray, or red, green, blue
  bool keep_pictures = false;  // every lane has StoredPictures, always
};

// Full-size pictures of one lane.
struct StoredPictures {
  explicit StoredPictures(const PictureFormat& format)
      : buffers{std::vector<uint8_t>(format.picture_bytes()), std::vector<uint8_t>(format.picture_bytes())},
        shown(format.picture_bytes() * size_t(format.num_channels)) {}

  std::vector<uint8_t> buffers[2];  // the machine's, palette indices
  std::vector<uint8_t> shown;       // what the last observation shows, channel after channel
};

// The small part: how pictures began.
struct PictureStarts {
  FrameStart frames[2];  // of the last frame in each buffer
  FrameStart shown[2];   // of the frames that the last observation shows
  Shown what_was_shown;  // kLastFrame or kLastTwoFrames
  uint8_t shown_buffer;  // the buffer of the later one
};

struct LanePictures {
  PictureStarts starts;
  std::unique_ptr<StoredPictures> stored;  // null in the usual case

  bool are_whole() const { return starts.frames[0].whole && starts.frames[1].whole; }
};

// One thread's tools: draws, pools and resizes for one lane after the other.
class Painter {
 public:
  Painter(const PictureFormat& format, const Rom& rom)
      : format_(format),
        rom_(rom),
        resize_scratch_(format.resizer.make_scratch()),
        shown_(format.picture_bytes() * size_t(format.num_channels) + kResizePadding),
        plane_(format.num_channels == 1 ? 0 : format.plane_bytes()) {
    for (std::vector<uint8_t>& buffer : buffers_) buffer.resize(format.picture_bytes() + kResizePadding);
  }

  size_t memory_bytes() const {
    return buffers_[0].size() * 2 + first_.size() + shown_.size() + plane_.size() +
           resize_scratch_.column_sums.size() * 2 + resize_scratch_.sums.size() * 4;
  }

  // ---- Resets ----

  // Runs `reset(screen)`; when its last pictures are not whole, takes the lane back and runs it again with pixels.
  template <class Reset>
  void reset(Lane& lane, LanePictures& pictures, Reset&& reset) {
    FrameStart* const starts = pictures.starts.frames;
    pictures.stored.reset();
    if (!format_.keep_pictures) {
      const Lane before = lane;
      reset(Screen{{nullptr, nullptr}, {&starts[0], &starts[1]}});
      if (pictures.are_whole()) return;
      lane = before;
    }
    pictures.stored = std::make_unique<StoredPictures>(format_);
    reset(stored_screen(pictures));
  }

  // ---- Steps: the object `pictures` of lane_step() ----

  void begin_step(LanePictures& pictures) {
    pictures_ = &pictures;
    num_shown_ = 0;
    has_first_ = false;
    PictureStarts& starts = pictures.starts;
    if (!pictures.stored) std::memcpy(starts.shown, starts.frames, sizeof starts.shown);
  }

  Screen begin_frame(const Console& console, bool shown) {
    num_shown_ += shown;
    if (pictures_->stored) return stored_screen(*pictures_);
    FrameStart* const starts = pictures_->starts.frames;
    replaced_ = starts[(console.current_buffer ^ 1) & 1];
    Screen screen = shown ? own_screen() : Screen{{nullptr, nullptr}};
    screen.starts[0] = &starts[0], screen.starts[1] = &starts[1];
    return screen;
  }

  void end_frame(const Console& console) {
    const int now = console.current_buffer & 1;
    if (!pictures_->stored && !pictures_->starts.frames[now].whole) store_pictures(console);
    // The next call may go on with the same frame, in the same buffer.
    if (pictures_->stored && num_shown_ == 1) {
      first_ = pictures_->stored->buffers[now];
      has_first_ = true;
    }
  }

  // ---- Observations ----

  // Resizes what a reset or step shows into `target` (shown_bytes()); false for kNothingNew, which leaves it alone.
  bool paint(const Console& console, LanePictures& pictures, Shown shown, bool after_reset, uint8_t* target);

 private:
  Screen stored_screen(LanePictures& pictures) const {
    StoredPictures& stored = *pictures.stored;
    FrameStart* const starts = pictures.starts.frames;
    return Screen{{stored.buffers[0].data(), stored.buffers[1].data()}, {&starts[0], &starts[1]}};
  }

  // Buffers of the thread: shades of gray where there is one channel, else pixel values.
  Screen own_screen() { return Screen{{buffers_[0].data(), buffers_[1].data()}, {}, format_.shades()}; }

  void draw_again(const FrameStart& start, Screen screen) const {
    console_draw_again(start, rom_, format_.display, screen);
  }

  void store_pictures(const Console& console);
  void show(const uint8_t* picture, bool is_shaded, uint8_t* out) const;
  void show_too(const uint8_t* picture, const uint8_t* shown, bool is_shaded, uint8_t* out) const;
  void show_previous(const PictureStarts& starts, uint8_t* out);
  void resize_shown(uint8_t* target);

  const PictureFormat& format_;
  const Rom& rom_;
  ResizeScratch resize_scratch_;
  std::vector<uint8_t> buffers_[2];
  std::vector<uint8_t> shown_;  // all channels of what an observation shows, full size
  std::vector<uint8_t> plane_;  // one resized channel of a colour picture
  std::vector<uint8_t> first_;  // the first of two pictures that a step shows
  LanePictures* pictures_ = nullptr;
  int num_shown_ = 0;  // frames of the step that are shown and have begun
  bool has_first_ = false;
  FrameStart replaced_;  // start of the picture that the present frame draws over
};

// The frame that has just run is not whole: from here on the lane keeps its pictures.
inline void Painter::store_pictures(const Console& console) {
  const PictureStarts& starts = pictures_->starts;
  auto stored = std::make_unique<StoredPictures>(format_);
  show_previous(starts, stored->shown.data());
  const int now = console.current_buffer & 1;
  const Screen screen{{stored->buffers[0].data(), stored->buffers[1].data()}};
  draw_again(starts.frames[now ^ 1], screen);
  draw_again(replaced_, screen);
  draw_again(starts.frames[now], screen);
  pictures_->stored = std::move(stored);
}

// Writes a picture's channels to `out`.
inline void Painter::show(const uint8_t* picture, bool is_shaded, uint8_t* out) const {
  const size_t bytes = format_.picture_bytes();
  if (is_shaded) return void(std::memcpy(out, picture, bytes));
  for (int channel = 0; channel < format_.num_channels; ++channel, out += bytes) {
    const uint8_t* const map = format_.channels[channel];
    for (size_t i = 0; i < bytes; ++i) out[i] = map[picture[i]];
  }
}

// Raises `out` to the maximum with another picture's channels. `shown`: a picture that `out` contains already, or null;
// most of the other one looks the same and is passed over, eight pixels at a time.
inline void Painter::show_too(const uint8_t* picture, const uint8_t* shown, bool is_shaded, uint8_t* out) const {
  const size_t bytes = format_.picture_bytes();
  for (size_t begin = 0; begin < bytes; begin += 8) {
    if (shown != nullptr && std::memcmp(picture + begin, shown + begin, 8) == 0) continue;
    for (int channel = 0; channel < format_.num_channels; ++channel) {
      uint8_t* const target = out + size_t(channel) * bytes;
      for (size_t i = begin; i < begin + 8; ++i) {
        const uint8_t value = is_shaded ? picture[i] : format_.channels[channel][picture[i]];
        target[i] = std::max(target[i], value);
      }
    }
  }
}

// What the last observation shows, drawn again. Uses the thread's buffers.
inline void Painter::show_previous(const PictureStarts& starts, uint8_t* out) {
  const bool is_shaded = format_.shades() != nullptr;
  const int later = starts.shown_buffer;
  draw_again(starts.shown[later], own_screen());
  show(buffers_[later].data(), is_shaded, out);
  if (starts.what_was_shown == Shown::kLastFrame) return;
  draw_again(starts.shown[later ^ 1], own_screen());
  show_too(buffers_[later ^ 1].data(), buffers_[later].data(), is_shaded, out);
}

inline void Painter::resize_shown(uint8_t* target) {
  if (format_.num_channels == 1) return format_.resizer.run(shown_.data(), nullptr, target, resize_scratch_);
  for (size_t channel = 0; channel < 3; ++channel) {
    format_.resizer.run(shown_.data() + channel * format_.picture_bytes(), nullptr, plane_.data(), resize_scratch_);
    for (size_t i = 0; i < plane_.size(); ++i) target[3 * i + channel] = plane_[i];
  }
}

inline bool Painter::paint(const Console& console, LanePictures& pictures, Shown shown, bool after_reset,
                           uint8_t* target) {
  if (shown == Shown::kNothingNew) return false;
  const int now = console.current_buffer & 1;
  PictureStarts& starts = pictures.starts;
  StoredPictures* const stored = pictures.stored.get();
  const bool is_shaded = stored == nullptr && format_.shades() != nullptr;
  if (after_reset && stored == nullptr) draw_again(starts.frames[now], own_screen());
  std::vector<uint8_t>* const buffers = stored != nullptr ? stored->buffers : buffers_;
  const uint8_t* const last = buffers[now].data();
  const uint8_t* const other = has_first_ && !after_reset ? first_.data() : buffers[now ^ 1].data();
  if (is_shaded && shown != Shown::kPreviousAndFirst) {
    format_.resizer.run(last, shown == Shown::kLastTwoFrames ? other : nullptr, target, resize_scratch_);
  } else if (shown == Shown::kPreviousAndFirst) {
    if (other != first_.data()) first_.assign(other, other + format_.picture_bytes());
    if (stored != nullptr) {
      std::memcpy(shown_.data(), stored->shown.data(), stored->shown.size());
    } else {
      show_previous(starts, shown_.data());  // draws over the buffers
    }
    show_too(first_.data(), nullptr, is_shaded, shown_.data());
    resize_shown(target);
  } else {
    show(last, is_shaded, shown_.data());
    if (shown == Shown::kLastTwoFrames) show_too(other, last, is_shaded, shown_.data());
    resize_shown(target);
  }
  if (shown == Shown::kPreviousAndFirst) return true;  // the episode has ended: nothing will build on it
  starts.what_was_shown = shown;
  starts.shown_buffer = uint8_t(now);
  if (stored == nullptr) return true;
  std::memcpy(stored->shown.data(), shown_.data(), stored->shown.size());
  if (pictures.are_whole() && !format_.keep_pictures) pictures.stored.reset();
  return true;
}

}  // namespace seed
